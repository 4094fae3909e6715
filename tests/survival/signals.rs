//! Signals that come in the middle of a hook, at any instruction, and allocate, or never come back.

use super::{program, traced};
use heapwire_tests::build::{compile, recorder};
use heapwire_tests::raw::Raw;
use heapwire_tests::run::{Run, command, list, number, report};
use heapwire_tests::scratch::Scratch;
use std::fs;
use std::path::{Path, PathBuf};

/// The recorder, and below it an allocator that a handler may enter at any instruction.
fn stack(scratch: &Scratch) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("survival/programs/reentrant.c");
    let below = scratch.join("reentrant.so");
    compile(&source, &below, &["-shared", "-fPIC"]);
    format!("{}:{}", recorder(scratch).display(), below.display())
}

/// Every number from the first to the last is there, but for those that `void` slots may have taken.
fn missing(raw: &Raw) -> usize {
    let numbers = raw.streams.values().next().unwrap();
    let (first, last) = (
        numbers.keys().next().unwrap(),
        numbers.keys().last().unwrap(),
    );
    (last - first + 1) as usize - numbers.len()
}

fn run(program: &Path, libraries: &str, out: &str, arguments: &[&str]) -> (Run, u64) {
    let mut command = traced(program, Path::new(libraries), out);
    let run = Run::of(command.args(arguments));
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let handled = run
        .stdout
        .split_whitespace()
        .nth(1)
        .unwrap_or("0")
        .parse()
        .unwrap_or(0);
    (run, handled)
}

fn count(raw: &Raw, op: u8, size: u64) -> u64 {
    raw.records()
        .filter(|record| record.op == op && record.size == size)
        .count() as u64
}

#[test]
fn a_handler_between_any_two_instructions_loses_nothing() {
    let scratch = Scratch::new("single-step");
    let (program, libraries) = (program(&scratch, "single_step"), stack(&scratch));
    let pattern = scratch.join("%p.hwt");
    let (_, handled) = run(
        &program,
        &libraries,
        pattern.to_str().unwrap(),
        &["20", "4"],
    );
    assert!(handled > 100, "{handled}");
    let traces = fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let traces = traces.filter(|path| path.extension().is_some_and(|kind| kind == "hwt"));
    let raws: Vec<_> = traces.map(|path| Raw::read(&path)).collect();
    let child = raws.iter().find(|raw| count(raw, 1, 301) > 0).unwrap();
    assert_eq!((child.contradictions.len(), missing(child)), (0, 0));
    assert_eq!(count(child, 1, 301), handled);
    assert_eq!(
        [
            count(child, 1, 100),
            count(child, 4, 200),
            count(child, 1, 110)
        ],
        [4; 3]
    );
}

#[test]
fn timers_in_four_threads_lose_nothing_that_is_not_counted() {
    let scratch = Scratch::new("timers");
    let (program, libraries) = (program(&scratch, "timers"), stack(&scratch));
    let trace: PathBuf = scratch.join("t.hwt");
    let (_, handled) = run(&program, &libraries, trace.to_str().unwrap(), &["100000"]);
    let raw = Raw::read(&trace);
    assert_eq!((raw.contradictions.len(), missing(&raw)), (0, 0));
    assert_eq!(count(&raw, 1, 100), 400_000);
    assert_eq!(count(&raw, 1, 301), handled);
}

#[test]
fn longjmp_out_of_hooks_leaves_holes_and_no_more() {
    let scratch = Scratch::new("jumps");
    let (program, libraries) = (program(&scratch, "jumps"), stack(&scratch));
    let trace = scratch.join("t.hwt");
    run(&program, &libraries, trace.to_str().unwrap(), &[]);
    let raw = Raw::read(&trace);
    assert_eq!(
        count(&raw, 1, 555),
        30_000,
        "recording goes on after the jumps"
    );
    assert_eq!(count(&raw, 1, 70001), 1);
    // A jump leaves at most one number without a record.
    assert!(missing(&raw) <= 2000, "{}", missing(&raw));
    let report = report(&trace);
    assert_eq!(
        number(&report["trace"]["lost_records"]),
        missing(&raw) as u64
    );
}

/// The caller of a function that a jump has left is not blamed for what others allocate.
#[test]
fn a_jump_out_of_a_helping_function_leaves_no_caller_behind() {
    let scratch = Scratch::new("jump-out");
    let program = program(&scratch, "jump_out");
    let trace = scratch.join("t.hwt");
    let run = Run::of(&mut traced(
        &program,
        &recorder(&scratch),
        trace.to_str().unwrap(),
    ));
    assert_eq!((run.status, run.stdout.as_str()), (0, "done\n"));
    let text = fs::read_to_string(super::source("jump_out.c")).unwrap();
    let line = text
        .lines()
        .position(|line| line.contains("/* getline */"))
        .unwrap() as u64
        + 1;
    let report = report(&trace);
    let at_getline: Vec<_> = list(&report["processes"][0]["leaks"])
        .iter()
        .filter(|leak| leak["stack"][0]["line"] == line)
        .map(|leak| number(&leak["bytes"]))
        .collect();
    // The line's own buffer, which the jump has left; nothing of the file that was opened later.
    assert_eq!(at_getline, [120]);
}

/// While a frame waits for its reader the program's handlers run, above locks that other threads need.
#[test]
fn a_jump_out_of_a_wait_for_the_reader_stops_nobody_and_loses_nothing() {
    let scratch = Scratch::new("leave-wait");
    let (program, libraries) = (program(&scratch, "leave_wait"), stack(&scratch));
    for output in ["pipe", "socket", "terminal"] {
        for jump in ["out", "within"] {
            let trace = scratch.join(&format!("{output}-{jump}.hwt"));
            let name = trace.to_str().unwrap();
            let (said, _) = run(&program, &libraries, "fd:9", &[output, name, jump]);
            assert_eq!(said.stdout, "done\n", "{output} {jump}");
            let report = report(&trace);
            assert_eq!(
                report["trace"]["complete"], true,
                "{output} {jump}: {}",
                report["warnings"]
            );
            let process = &report["processes"][0];
            assert_eq!(process["end"], "normal");
            assert_eq!(list(&process["errors"]).len(), 0, "{}", process["errors"]);
            let kept = list(&process["leaks"]).iter();
            assert_eq!(kept.filter(|leak| leak["bytes"] == 70001).count(), 1);
            let frames = if output == "terminal" {
                in_frames(&trace, &scratch)
            } else {
                trace
            };
            let sizes = Raw::read(&frames);
            assert!(count(&sizes, 1, 300) == 20_000, "{output} {jump}");
        }
    }
}

/// The trace that came as lines over a terminal.
fn in_frames(log: &Path, scratch: &Scratch) -> PathBuf {
    let frames = scratch.join("frames.hwt");
    let split = Run::of(command().arg("split").arg(log).arg("-o").arg(&frames));
    assert_eq!(split.status, 0, "{split:?}");
    frames
}
