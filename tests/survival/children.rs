//! Children made in every way: each has a stream of its own, wherever the streams go.

use super::{program, traced};
use heapwire_tests::build::recorder;
use heapwire_tests::run::{Run, command, json, list, number, report};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::fs;
use std::process::Command;

/// Sizes of the blocks that each process keeps itself, processes without one aside.
fn kept(report: &Value) -> Vec<u64> {
    let processes = list(&report["processes"]).iter();
    let mut sizes: Vec<_> = processes
        .flat_map(|process| list(&process["leaks"]))
        .map(|leak| number(&leak["bytes"]))
        .filter(|bytes| (60_000..62_000).contains(bytes))
        .collect();
    sizes.sort_unstable();
    sizes
}

fn check(report: &Value) {
    // The block of 61,000 bytes is the parent's, and no child's.
    assert_eq!(
        kept(report),
        [60001, 60002, 60003, 60004, 60005, 60006, 61000]
    );
    assert_eq!(number(&report["trace"]["lost_records"]), 0);
    assert_eq!(number(&report["trace"]["damaged_bytes"]), 0);
    for process in list(&report["processes"]) {
        assert_eq!(list(&process["errors"]).len(), 0, "{}", process["errors"]);
    }
    let first = &report["processes"][0];
    let children = list(&report["processes"])
        .iter()
        .filter(|process| process["parent_pid"] == first["pid"]);
    assert!(children.count() >= 5, "each names its parent");
}

#[test]
fn each_process_has_a_file_of_its_own() {
    let scratch = Scratch::new("children-files");
    let (program, library) = (program(&scratch, "children"), recorder(&scratch));
    let folder = scratch.join("traces");
    fs::create_dir(&folder).unwrap();
    let out = folder.join("%e.%p.hwt");
    let run = Run::of(&mut traced(&program, &library, out.to_str().unwrap()));
    assert_eq!(
        (run.status, run.stdout.as_str()),
        (0, "12345\n"),
        "{}",
        run.stderr
    );
    let mut names: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("children.")
        })
        .collect();
    names.sort_by_key(|path| fs::metadata(path).unwrap().created().unwrap());
    assert!(names.len() >= 6, "{names:?}");
    let report = json(&Run::of(
        command().args(["report", "--format", "json"]).args(&names),
    ));
    check(&report);
}

#[test]
fn processes_that_share_a_file_or_a_pipe_stay_apart() {
    let scratch = Scratch::new("children-shared");
    let (program, library) = (program(&scratch, "children"), recorder(&scratch));
    let trace = scratch.join("t.hwt");
    let run = Run::of(&mut traced(&program, &library, trace.to_str().unwrap()));
    assert_eq!(
        (run.status, run.stdout.as_str()),
        (0, "12345\n"),
        "{}",
        run.stderr
    );
    check(&report(&trace));
    let line = format!(
        "{{ HEAPWIRE_OUT=fd:9 LD_PRELOAD={} {} 9>&1 >&4 | cat >p.hwt; }} 4>&1",
        library.display(),
        program.display()
    );
    let mut shell = Command::new("bash");
    let run = Run::of(shell.args(["-c", &line]).current_dir(scratch.path()));
    assert_eq!(
        (run.status, run.stdout.as_str()),
        (0, "12345\n"),
        "{}",
        run.stderr
    );
    check(&report(&scratch.join("p.hwt")));
}

#[test]
fn a_child_that_becomes_another_program_at_once_is_replaced_by_it() {
    let scratch = Scratch::new("exec-at-once");
    let (program, library) = (program(&scratch, "exec_at_once"), recorder(&scratch));
    let trace = scratch.join("t.hwt");
    let run = Run::of(&mut traced(&program, &library, trace.to_str().unwrap()));
    assert_eq!(run.status, 0, "{}", run.stderr);
    let report = report(&trace);
    let processes = list(&report["processes"]).iter();
    let ends: Vec<_> = processes.map(|it| it["end"].as_str().unwrap()).collect();
    assert_eq!(ends, ["normal", "exec", "normal"], "{}", report["warnings"]);
    assert_eq!(report["trace"]["complete"], true, "{}", report["warnings"]);
}
