//! Traces that came over a terminal as printable lines: every verb reads them out of its log, and `split` gives the rest back.

use heapwire_tests::armour::armoured;
use heapwire_tests::build::Sample;
use heapwire_tests::packed::twin;
use heapwire_tests::run::{Run, command, json, list, number, on, prose};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::Writer;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Frames that a made-up trace has.
const FRAMES: usize = 12;

/// Blocks that come and go, some that stay, in packed frames.
fn trace() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.flush();
    for frame in 1..FRAMES as u64 - 1 {
        for block in 0..20 {
            let address = frame * 0x10_0000 + block * 0x40;
            writer.site(frame).malloc(address, 24).free(address);
        }
        writer.malloc(frame * 0x10_0000, 1000 + frame).flush();
    }
    twin(&writer.end().bytes())
}

/// A log of `trace`, and the text in it as the program wrote it.
fn log(trace: &[u8], columns: usize) -> (Vec<u8>, Vec<u8>) {
    let mut log = Vec::new();
    let mut text = Vec::new();
    let mut say = |log: &mut Vec<u8>, words: &str| {
        log.extend(words.bytes());
        text.extend(words.bytes());
    };
    say(&mut log, "login: root\n# ./sensord\n");
    for (index, line) in armoured(trace, columns).iter().enumerate() {
        log.extend(line);
        if index % 3 == 0 {
            say(&mut log, &format!("reading {index} … "));
        }
        if index % 7 == 0 {
            say(&mut log, "done\n");
        }
    }
    say(&mut log, "# exit\n");
    (log, text)
}

fn with_line_feeds(log: &[u8], by: &[u8]) -> Vec<u8> {
    log.split(|byte| *byte == b'\n')
        .collect::<Vec<_>>()
        .join(by)
}

/// A report without what says where it is from.
fn findings(path: &Path) -> Value {
    let mut report = json(&on(&["report", "--format", "json"], path));
    for field in ["files", "foreign_bytes"] {
        report["trace"][field] = Value::Null;
    }
    report
}

#[test]
fn what_an_echo_leaves_of_lines_is_told_from_what_is_lost() {
    let scratch = Scratch::new("scraps");
    let lines = armoured(&trace(), 76);
    let said = |log: &[Vec<u8>]| {
        let path = scratch.write("log", log.concat());
        let report = json(&on(&["report", "--format", "json"], &path));
        let mut warnings = list(&report["warnings"]).iter();
        let changed = warnings.find(|it| it["kind"] == "changed-lines").unwrap();
        let says_so = changed["text"]
            .as_str()
            .unwrap()
            .contains("no frame is known to be missing");
        (
            says_so,
            report["trace"]["complete"] == true,
            on(&["verify"], &path).status,
        )
    };
    // An echo changes a line whose other copy is whole.
    let mut broken = lines[9].clone();
    broken[30] ^= 1;
    let mut echoed = lines.clone();
    echoed.insert(10, broken.clone());
    assert_eq!(said(&echoed), (true, true, 0));
    let mut lost = lines;
    lost[9] = broken;
    let (says_so, is_complete, status) = said(&lost);
    assert!(!says_so && !is_complete && status != 0);
}

/// Frames that did not come whole are between others of the same thread, or before them: their numbers are known.
#[test]
fn what_did_not_come_of_a_process_that_ended_is_an_exact_number() {
    let scratch = Scratch::new("exact");
    let lines = armoured(&trace(), 76);
    let of = |lines: &[Vec<u8>]| {
        let path = scratch.write("log", lines.concat());
        let report = json(&on(&["report", "--format", "json"], &path));
        let trace = &report["trace"];
        let all = number(&trace["records"]) + number(&trace["lost_records"]);
        (all, trace["lost_is_lower_bound"] == false)
    };
    let (all, _) = of(&lines);
    for begin in 1..lines.len() / 2 {
        assert_eq!(of(&lines[begin..]), (all, true), "from line {begin}");
        let without = [&lines[..begin], &lines[begin + 1..]].concat();
        assert_eq!(of(&without), (all, true), "without line {begin}");
    }
    assert!(!of(&lines[..lines.len() - 1]).1, "the end did not come");
    let mut changed = lines.clone();
    changed[9][30] ^= 1;
    assert!(!of(&changed).1, "nobody knows whose line it was");
}

#[test]
fn reports_on_logs_are_those_on_the_trace() {
    let scratch = Scratch::new("armour");
    let trace = trace();
    let expected = findings(&scratch.write("trace.hwt", &trace));
    assert_eq!(expected["trace"]["complete"], true);
    let header = "Script started on 2026-01-05 10:00:00+00:00 [TERM=\"xterm\"]\n";
    for columns in [76, 252] {
        let (log, text) = log(&trace, columns);
        let with_header = [header.as_bytes(), &log].concat();
        let ways = [
            log.clone(),
            with_line_feeds(&log, b"\r\n"),
            with_line_feeds(&log, b"\r\0\n"),
            with_line_feeds(&with_header, b"\r\r\n"),
        ];
        for (way, bytes) in ways.iter().enumerate() {
            let path = scratch.write("session.log", bytes);
            assert_eq!(findings(&path), expected, "way {way}");
            let of_pipe = Run::with_input(
                command().args(["report", "--format", "json", "-"]),
                bytes.clone(),
            );
            assert_eq!(json(&of_pipe)["processes"], expected["processes"]);
            let run = on(&["verify"], &path);
            assert_eq!(run.status, 0, "{run:?}");
        }
        let report = json(&on(
            &["report", "--format", "json"],
            &scratch.write("l", &log),
        ));
        assert_eq!(number(&report["trace"]["foreign_bytes"]), text.len() as u64);
    }
}

#[test]
fn split_gives_the_text_and_the_trace_back() {
    let scratch = Scratch::new("split");
    let trace = trace();
    let (log, expected) = log(&trace, 76);
    for by in [&b"\n"[..], b"\r\n", b"\r\r\n", b"\n\n"] {
        let path = scratch.write("session.log", with_line_feeds(&log, by));
        let (text, frames) = (scratch.join("text"), scratch.join("frames.hwt"));
        let both = [&text, &frames];
        let run = Run::of(
            command()
                .arg("split")
                .arg(&path)
                .arg("--text")
                .arg(both[0])
                .arg("-o")
                .arg(both[1]),
        );
        assert_eq!((run.status, run.stdout.as_str()), (0, ""), "{run:?}");
        let lines = armoured(&trace, 76).len();
        assert!(
            run.stderr
                .contains(&format!("in {lines} lines; 0 came again, 0 damaged")),
            "{run:?}"
        );
        assert!(fs::read(&text).unwrap() == expected);
        assert!(fs::read(&frames).unwrap() == trace);
        let input = fs::read(&path).unwrap();
        let piped = Run::with_input(command().args(["split", "-", "--text", "-"]), input);
        assert_eq!(piped.stdout.as_bytes(), expected);
    }
}

#[test]
fn split_touches_nothing_that_it_should_not() {
    let scratch = Scratch::new("split");
    let (log, _) = log(&trace(), 76);
    let log = scratch.write("session.log", log);
    let notes = scratch.write("notes.txt", "~home is not a trace\n");
    let split = |from: &Path, option: &str, to: &Path| {
        Run::of(command().arg("split").arg(from).arg(option).arg(to))
    };
    let refused = split(&log, "-o", &notes);
    assert_eq!(refused.status, 3, "{refused:?}");
    assert_eq!(fs::read(&notes).unwrap(), b"~home is not a trace\n");
    for option in ["--text", "-o"] {
        let refused = split(&log, option, &log);
        assert!(refused.status == 3 && refused.stderr.contains("is the input itself"));
    }
    let nothing = split(&notes, "--text", &scratch.join("out"));
    assert_eq!(nothing.status, 3);
    assert!(nothing.stderr.contains("no line of"), "{nothing:?}");
}

#[test]
fn lost_lines_cost_their_frames_and_these_are_named() {
    let scratch = Scratch::new("lost");
    let trace = trace();
    let lines = armoured(&trace, 76);
    let per_frame: Vec<usize> = frames_of(&lines);
    let log: Vec<u8> = lines
        .iter()
        .zip(&per_frame)
        .enumerate()
        .filter(|(index, (_, frame))| {
            let is_first_of_its_frame = *index == 0 || per_frame[*index - 1] != **frame;
            !([4, 5, 8].contains(frame) && is_first_of_its_frame)
        })
        .flat_map(|(_, (line, _))| line.clone())
        .collect();
    let path = scratch.write("session.log", log);
    let report = json(&on(&["report", "--format", "json"], &path));
    let processes = list(&report["processes"]);
    assert_eq!(number(&processes[0]["totals"]["allocations"]), 210 - 3 * 21);
    assert_eq!(number(&report["trace"]["lost_records"]), 3 * 41);
    assert_eq!(number(&report["trace"]["lost_by_recorder"]), 0);
    let text = prose(&on(&["report", "--width", "100"], &path).stdout);
    let named =
        "3 frames did not arrive whole: numbers 4 to 5 of process 4711, number 8 of process 4711.";
    assert!(text.contains(named), "{text}");
    assert!(
        text.contains("123 records were made but not in the trace"),
        "{text}"
    );
    assert_eq!(on(&["verify"], &path).status, 1);
}

/// The frame that each line is of: its last line has no line that follows.
fn frames_of(lines: &[Vec<u8>]) -> Vec<usize> {
    let mut frame = 0;
    let numbers = lines.iter().map(|line| {
        let of = frame;
        // Symbols 4 and 5 hold the fourth byte.
        frame += usize::from(line[6] == b'A' && line[7] <= b'P' && line[7] >= b'A');
        of
    });
    numbers.collect()
}

#[test]
fn what_is_recorded_as_lines_is_found_by_who_recorded_it() {
    let scratch = Scratch::new("armour");
    let sample = Sample::build("c/leak_loop.c", &scratch);
    let trace = scratch.join("lines.hwt");
    for round in ["a new file", "an old one"] {
        let mut record = command();
        record.env("HEAPWIRE_ARMOUR", "1").args(["record", "-o"]);
        let run = Run::of(record.arg(&trace).arg("--").arg(&sample.program));
        assert!(run.stderr.contains("leaked"), "{round}: {}", run.stderr);
    }
}
