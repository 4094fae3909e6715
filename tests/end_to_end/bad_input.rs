//! What is no trace is refused: one line on stderr, status 3, and never a word about leaks.

use heapwire_tests::run::{Run, command, on, prose};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{Frame, Writer};
use std::path::Path;

/// Every verb that reads a trace, with the options it needs.
const VERBS: &[&[&str]] = &[
    &["report"],
    &["report", "--format", "json"],
    &["check"],
    &["blocks", "--live"],
    &["dump"],
];

fn refused(input: &Path, about: &str) {
    for verb in VERBS {
        let run = Run::of(command().args(*verb).arg(input));
        let shown = format!("{verb:?} on {about}: {run:?}");
        assert_eq!(run.status, 3, "{shown}");
        assert_eq!(run.stderr.lines().count(), 1, "{shown}");
        assert!(run.stderr.starts_with("heapwire: "), "{shown}");
        assert_eq!(run.stdout, "", "{shown}");
    }
}

/// A trace that can be read but says nothing still gives an object and says why.
fn says_nothing(input: &Path, about: &str) {
    for verb in VERBS {
        let run = Run::of(command().args(*verb).arg(input));
        let shown = format!("{verb:?} on {about}: {run:?}");
        assert_eq!(run.status, 3, "{shown}");
        assert_ne!(run.stderr, "", "{shown}");
        let words = run.stdout.to_lowercase();
        assert!(!prose(&words).contains("no leaks"), "{shown}");
    }
    let json = on(&["report", "--format", "json"], input);
    let report: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_ne!(
        report["warnings"].as_array().unwrap().len(),
        0,
        "{report:#}"
    );
}

#[test]
fn a_missing_file() {
    let scratch = Scratch::new("missing");
    refused(&scratch.join("nothing.hwt"), "a missing file");
    let run = on(&["report"], &scratch.join("nothing.hwt"));
    assert!(
        run.stderr.contains("nothing.hwt"),
        "the line says which file: {run:?}"
    );
    assert!(
        prose(&run.stderr).contains("No such file"),
        "the line says why: {run:?}"
    );
}

#[test]
fn an_empty_file() {
    let scratch = Scratch::new("empty");
    refused(&scratch.write("empty.hwt", b""), "an empty file");
}

#[test]
fn a_folder() {
    let scratch = Scratch::new("folder");
    refused(scratch.path(), "a folder");
}

#[test]
fn bytes_that_mean_nothing() {
    let scratch = Scratch::new("noise");
    let mut state = 1_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_le_bytes()[3]
    })
    .take(100_000)
    .collect();
    refused(&scratch.write("noise.hwt", noise), "random bytes");
    refused(
        &scratch.write("text.hwt", "some text\n".repeat(1000)),
        "text",
    );
    refused(&scratch.write("zeros.hwt", [0; 8192]), "zeros");
    refused(
        &scratch.write("elf.hwt", b"\x7fELF\x02\x01\x01 and so on"),
        "an executable",
    );
}

#[test]
fn a_newer_major_version() {
    let scratch = Scratch::new("major");
    let mut writer = Writer::new();
    writer.frame.version = (2, 0);
    let bytes = writer.malloc(0x1000, 8).end().bytes();
    let trace = scratch.write("newer.hwt", bytes);
    refused(&trace, "a newer major version");
    let run = on(&["report"], &trace);
    assert!(
        run.stderr.contains('2'),
        "the line says which version: {run:?}"
    );
}

#[test]
fn a_trace_without_a_recorded_call() {
    let scratch = Scratch::new("calls");
    says_nothing(
        &scratch.write("idle.hwt", Writer::new().end().bytes()),
        "a process without calls",
    );
    let lanes = Frame {
        kind: 3,
        sum_kind: 0,
        first: 0,
        ..Frame::default()
    };
    says_nothing(
        &scratch.write("lanes.hwt", lanes.bytes(&[0; 8192])),
        "unused lanes",
    );
}

#[test]
fn a_trace_cut_in_its_first_frame() {
    let scratch = Scratch::new("cut");
    let bytes = Writer::new().malloc(0x1000, 8).end().bytes();
    for length in [1, 8, 40, 79] {
        let cut = scratch.write("cut.hwt", &bytes[..length]);
        refused(&cut, &format!("the first {length} bytes of a trace"));
    }
}

#[test]
fn one_bad_input_among_good_ones() {
    let scratch = Scratch::new("among");
    let good = scratch.write("good.hwt", Writer::new().malloc(0x1000, 8).end().bytes());
    let run = Run::of(
        command()
            .arg("report")
            .args([good, scratch.join("none.hwt")]),
    );
    assert_eq!(run.status, 3, "{run:?}");
    assert!(run.stderr.contains("none.hwt"), "{run:?}");
}
