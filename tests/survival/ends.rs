//! Every way to end: what was recorded is in the file, and the report says how it ended.

use super::{program, traced};
use heapwire_tests::build::recorder;
use heapwire_tests::run::{Run, command, list, number, report, without_recorder};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Ways to end, what the report calls them, and what the status is then.
const WAYS: [(&str, &str, i32); 22] = [
    ("return", "normal", 3),
    ("exit", "normal", 4),
    ("thread-exit", "normal", 0),
    ("quick_exit", "normal", 5),
    ("_exit", "normal", 7),
    ("_Exit", "normal", 8),
    ("exit_group", "cut", 9),
    ("abort", "signal", 134),
    ("kill", "signal", 137),
    ("term", "signal", 143),
    ("hup", "signal", 129),
    ("alarm", "signal", 142),
    ("pipe", "signal", 141),
    ("segv", "signal", 139),
    ("bus", "signal", 135),
    ("fpe", "signal", 136),
    ("trap", "signal", 133),
    ("overflow", "signal", 139),
    ("handled", "normal", 55),
    ("exec", "exec", 10),
    ("double", "signal", 134),
    ("busy", "normal", 6),
];

/// Bytes of the blocks that the program has left, its thread's included.
fn left(process: &Value) -> Vec<u64> {
    let mut sizes: Vec<_> = list(&process["leaks"])
        .iter()
        .map(|leak| number(&leak["bytes"]))
        .filter(|bytes| (60_000..70_000).contains(bytes))
        .collect();
    sizes.sort_unstable();
    sizes
}

fn check(trace: &Path, how: &str, end: &str) {
    let report = report(trace);
    let process = &list(&report["processes"])[0];
    assert_eq!(process["end"], end, "{how}");
    assert_eq!(left(process), [60001, 60002, 60003], "{how}");
    // The end may come in the middle of a call of each of three threads: its number is taken, and nothing else.
    let unfinished = if how == "busy" { 3 } else { 0 };
    let lost = number(&report["trace"]["lost_records"]);
    assert!(lost <= unfinished, "{how}: {lost} lost");
    let wrong: Vec<_> = list(&process["errors"])
        .iter()
        .map(|error| (&error["kind"], &error["certain"]))
        .collect();
    if how == "double" && end == "signal" {
        assert_eq!(wrong, [(&"double-free".into(), &true.into())]);
    } else {
        assert_eq!(wrong.len(), usize::from(how == "double"), "{how}");
    }
    // It may also cut frames in the middle, whose records are in the lanes as well.
    if how != "busy" {
        let is_complete = report["trace"]["complete"] == true;
        assert_eq!(is_complete, end != "cut", "{how}: {}", report["warnings"]);
    }
}

#[test]
fn what_was_recorded_is_there_however_a_program_ends() {
    let scratch = Scratch::new("ends");
    let (program, library) = (program(&scratch, "ends"), recorder(&scratch));
    for (how, end, status) in WAYS {
        let plain = Run::of(without_recorder(Command::new(&program)).arg(how));
        assert_eq!(plain.status, status, "{how}");
        // An observer sees what the process itself cannot say.
        let trace = scratch.join(&format!("{how}.hwt"));
        let observed = Run::of(
            command()
                .args(["record", "-o"])
                .arg(&trace)
                .arg("--")
                .arg(&program)
                .arg(how),
        );
        assert_eq!(
            (observed.status, observed.stdout),
            (status, plain.stdout.clone())
        );
        let seen = if how == "exit_group" { "normal" } else { end };
        check(&trace, how, seen);
        // Without one, a signal that no handler of ours may catch is a trace that just ends; SIGBUS and calls of abort are watched for.
        let trace = scratch.join(&format!("{how}-alone.hwt"));
        let alone = Run::of(traced(&program, &library, trace.to_str().unwrap()).arg(how));
        assert_eq!(alone, plain, "{how}");
        check(
            &trace,
            how,
            if end == "signal" && !["bus", "abort"].contains(&how) {
                "cut"
            } else {
                end
            },
        );
    }
}
