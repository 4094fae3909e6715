//! What a report says of when.

use heapwire_tests::build::{Sample, compile};
use heapwire_tests::run::{
    Run, command, json, list, live_blocks, number, on, prose, record, report,
};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{Record, Writer};
use serde_json::Value;
use std::path::PathBuf;

/// What `samples/c/pause.c` sleeps, in nanoseconds.
const PAUSE: u64 = 200_000_000;

#[test]
fn a_call_after_a_pause_claims_no_time_that_nobody_read() {
    let scratch = Scratch::new("pause");
    let sample = Sample::build("c/pause.c", &scratch);
    let recording = record(&sample.program, &[], &scratch);
    let seen = report(&recording.trace);
    let whole = seen["trace"]["duration_ns"].as_u64().unwrap();
    assert!(whole >= PAUSE, "the end was seen from outside: {whole}");
    // A busy machine may have had the clock read anew just after the pause.
    let error = &seen["processes"][0]["errors"][0];
    let time = error["time_ns"].as_u64().unwrap();
    assert_eq!(
        error["time_is_lower_bound"] == true,
        time < PAUSE,
        "{error:#}"
    );
    let text = on(&["report"], &recording.trace).stdout;
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with("freed "))
        .unwrap();
    assert_eq!(line.contains("≥"), time < PAUSE, "{line}");
    assert_eq!(text.contains("≥ then or later"), time < PAUSE, "{text}");
    // Nor is the block left out where those of after the pause are asked for.
    let later = on(&["blocks", "--live", "--from", "150ms"], &recording.trace).stdout;
    assert!(later.contains(" 25 B"), "{later}");
    // What is taken for earlier than a moment in the pause may have been later, and that is said, as of ages and steps.
    let said = |arguments: &[&str], what: &str| {
        let run = on(arguments, &recording.trace);
        let all = prose(&(run.stdout + &run.stderr));
        assert_eq!(all.contains(what), time < PAUSE, "{arguments:?}: {all}");
    };
    let later = "may have been later";
    said(&["blocks", "--at", "100ms"], later);
    said(&["report", "--until", "100ms"], later);
    said(&["blocks", "--live", "--min-age", "1ms"], "may not fit");
    said(&["report", "--to", "150ms"], "may not fit");
    said(
        &["timeline", "--step", "50ms"],
        "another one of the steps marked",
    );
    let whole = prose(&on(&["blocks", "--at", "1h"], &recording.trace).stdout);
    assert!(!whole.contains(later), "{whole}");
    assert!(whole.contains("1 program had ended by then"), "{whole}");
    let marked = on(&["timeline", "--csv", "--step", "50ms"], &recording.trace).stdout;
    let rows = marked.lines().skip(1);
    let marks: Vec<&str> = rows.filter_map(|row| row.rsplit(',').next()).collect();
    assert_eq!(marks.contains(&"1"), time < PAUSE, "{marked}");
    // What is live when a signal ends a program is no leak, and that is said.
    let checked = on(&["check"], &recording.trace).stderr;
    assert!(
        checked.contains("1 block") && checked.contains("did not end"),
        "{checked}"
    );
}

/// A reading of the clock after the pause tells that the call was before.
#[test]
fn a_call_in_a_pause_is_of_no_time_after_it() {
    const READ: u8 = 1 << 5;
    let scratch = Scratch::new("paused");
    let mut writer = Writer::new();
    for (number, (flags, time)) in (1..).zip([(READ, 0), (0, 0), (READ, 1000), (READ, 2000)]) {
        writer.record(Record {
            op: 0x01,
            flags,
            time,
            ptr: number << 12,
            size: number,
            ..Record::default()
        });
    }
    let path = scratch.write("paused.hwt", writer.end().bytes());
    let sizes = |from: &str| -> Vec<u64> {
        let words = ["blocks", "--format", "json", "--live", "--from", from];
        let found = json(&on(&words, &path));
        let blocks = list(&found["processes"][0]["blocks"]).iter();
        blocks.map(|block| number(&block["size"])).collect()
    };
    assert_eq!(sizes("0s"), [1, 2, 3, 4]);
    assert_eq!(sizes("900ms"), [2, 3, 4]);
    assert_eq!(sizes("1200ms"), [4]);
    let before = prose(&on(&["report", "--to", "1500ms"], &path).stdout);
    assert!(!before.contains("may not fit"), "{before}");
    let during = prose(&on(&["report", "--to", "500ms"], &path).stdout);
    assert!(during.contains("1 block may not fit"), "{during}");
}

/// The frame that a thread's end writes comes long after its last calls.
#[test]
fn nor_does_the_last_call_of_a_thread() {
    let scratch = Scratch::new("pause");
    let sample = Sample::build("c/pause_in_thread.c", &scratch);
    let recording = record(&sample.program, &[], &scratch);
    let live = live_blocks(&recording.trace);
    let blocks = list(&live["processes"][0]["blocks"]);
    let block = blocks.iter().find(|block| block["size"] == 25).unwrap();
    let time = block["time_ns"].as_u64().unwrap();
    assert_eq!(
        block["time_is_lower_bound"] == true,
        time < PAUSE,
        "{block:#}"
    );
    // It came before the end, which was seen; without the observer's word, not long after it at most.
    let lists = |from: &str| -> usize {
        let words = ["blocks", "--format", "json", "--live", "--from", from];
        let found = json(&on(&words, &recording.trace));
        let blocks = list(&found["processes"][0]["blocks"]).iter();
        blocks.filter(|block| block["size"] == 25).count()
    };
    assert_eq!(lists("1ms"), 1);
    assert_eq!(lists("1h"), 0);
    if block["time_is_lower_bound"] == true {
        let end = number(&report(&recording.trace)["trace"]["duration_ns"]);
        let latest = number(&block["latest_ns"]);
        assert!(latest >= PAUSE && latest <= end + 1000, "{latest} of {end}");
    }
}

/// What is live stays so until the program ends, whether it says so or is seen to, and as long as it is looked at.
#[test]
fn what_a_program_holds_is_shown_until_it_ends() {
    let scratch = Scratch::new("until-end");
    let text = "#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main(int count, char **words) {\n    (void)words;\n    void *volatile block = malloc(1000000);\n    usleep(400000);\n    return block && count > 1 ? raise(SIGKILL) : 0;\n}\n";
    let source = scratch.write("main.c", text);
    let program = scratch.join("prog");
    compile(&source, &program, &["-O0", "-g", "-fno-builtin"]);
    for arguments in [&[][..], &[PathBuf::from("killed")]] {
        let recorded = record(&program, arguments, &scratch);
        let bytes = |until: &[&str]| {
            let words = [&["report", "--format", "json"], until].concat();
            let timeline = &json(&on(&words, &recorded.trace))["processes"][0]["timeline"];
            let bytes = list(&timeline["bytes"]).iter().map(number);
            (number(&timeline["step_ns"]), bytes.collect::<Vec<_>>())
        };
        let (step, whole) = bytes(&[]);
        assert!(step * whole.len() as u64 >= 2 * PAUSE, "{whole:?}");
        assert_eq!(whole.last(), Some(&1_000_000), "{arguments:?}");
        let (step, half) = bytes(&["--until", "200ms"]);
        assert_eq!(half.len() as u64, PAUSE / step + 1, "{arguments:?}");
        let shown = on(&["timeline", "--step", "50ms"], &recorded.trace).stdout;
        assert!(prose(&shown).contains(" 0.400"), "{shown}");
    }
}

#[test]
fn nothing_is_live_before_a_process_begins() {
    let scratch = Scratch::new("begins");
    let sample = Sample::build("c/leak_loop.c", &scratch);
    let script = format!("sleep 0.3; {}; true", sample.program.display());
    let trace = scratch.join("trace.hwt");
    let arguments = [
        "record",
        "-o",
        trace.to_str().unwrap(),
        "--",
        "/bin/bash",
        "-c",
        &script,
    ];
    assert_eq!(Run::of(command().args(arguments)).status, 0);
    let seen = report(&trace);
    let program = Value::from(sample.program.to_str());
    let mut processes = list(&seen["processes"]).iter();
    let process = processes.find(|process| process["exe"] == program).unwrap();
    let pid = process["pid"].to_string();
    let csv = on(&["timeline", "--csv", "--step", "100ms"], &trace).stdout;
    let rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (before, after): (Vec<_>, Vec<_>) = rows
        .filter(|row| row[0] == pid)
        .partition(|row| row[1].parse::<u64>().unwrap() < 200_000_000);
    assert!(before.iter().all(|row| row[2] == "0"), "{before:?}");
    assert!(after.iter().any(|row| row[2] != "0"), "{csv}");
}

/// Whatever was released in a pause may have been live at a moment in it.
#[test]
fn of_a_moment_in_a_pause_no_block_is_said_to_be_released() {
    let scratch = Scratch::new("moment");
    let text = "#include <stdlib.h>\n#include <unistd.h>\nint main(void) {\n    void *block = malloc(1000000);\n    usleep(300000);\n    free(block);\n    usleep(300000);\n    return 0;\n}\n";
    let source = scratch.write("main.c", text);
    let program = scratch.join("prog");
    compile(&source, &program, &["-O0", "-g", "-fno-builtin"]);
    let recorded = record(&program, &[], &scratch);
    let at = |arguments: &[&str]| prose(&on(arguments, &recorded.trace).stdout);
    // A busy machine may have been slow to begin.
    let records = on(&["dump"], &recorded.trace).stdout;
    let handed_out = records.lines().find(|line| line.contains(" size=1000000 "));
    let words = handed_out.unwrap().split(' ');
    let time = words
        .filter_map(|word| word.strip_prefix("time_ns="))
        .next();
    let moment = time.unwrap().parse::<u64>().unwrap() + 150_000_000;
    let moment = format!("{moment}ns");
    let until = at(&["report", "--until", &moment]);
    let blocks = at(&["blocks", "--at", &moment]);
    if until.contains("may have been later") {
        assert!(!until.contains("no leaks"), "{until}");
        assert!(!blocks.contains("no recorded block"), "{blocks}");
    } else {
        assert!(blocks.contains("976.6 KiB"), "{blocks}");
    }
    assert!(at(&["report"]).contains("no leaks"));
}
