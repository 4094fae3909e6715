//! The verbs about single blocks, time and two traces, from the command line.

use heapwire_tests::run::{Run, command, json, list, number, prose};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::Writer;
use std::path::{Path, PathBuf};

/// A trace in which a block of `size` stays, and one of 7 bytes that was there at the peak.
fn trace(scratch: &Scratch, name: &str, size: u64) -> PathBuf {
    let mut writer = Writer::new();
    writer.malloc(0x1000, size).malloc(0x2000, 7).free(0x2000);
    scratch.write(name, writer.end().bytes())
}

fn run(words: &[&str], paths: &[&Path]) -> Run {
    Run::of(command().args(words).args(paths))
}

#[test]
fn blocks_are_listed_for_a_moment_and_as_they_are_selected() {
    let scratch = Scratch::new("verbs");
    let path = trace(&scratch, "a.hwt", 100);
    let sizes = |options: &[&str]| -> Vec<u64> {
        let words = [&["blocks", "--format", "json"], options].concat();
        let run = run(&words, &[&path]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let found = json(&run);
        let blocks = list(&found["processes"][0]["blocks"]);
        blocks.iter().map(|block| number(&block["size"])).collect()
    };
    assert_eq!(sizes(&["--live"]), [100]);
    assert_eq!(sizes(&["--at", "end"]), [100]);
    assert_eq!(sizes(&["--at", "peak"]), [100, 7]);
    assert_eq!(sizes(&["--at", "peak", "--size", "1..10"]), [7]);
    assert_eq!(sizes(&["--live", "--thread", "4711"]), [100]);
    assert!(sizes(&["--live", "--thread", "1"]).is_empty());
    assert!(sizes(&["--until", "1h", "--from", "1m", "--to", "2m"]).is_empty());
    let filtered = run(&["blocks", "--ptr", "0x2000", "--thread", "1"], &[&path]);
    assert!(
        prose(&filtered.stdout).contains("no call there fits the filter"),
        "{filtered:?}"
    );
    let history = run(&["blocks", "--ptr", "0x2000"], &[&path]);
    assert_eq!(
        history.stdout.matches("0x2000").count(),
        3,
        "{}",
        history.stdout
    );
    assert_eq!(run(&["blocks", "--at", "noon"], &[&path]).status, 2);
    assert_eq!(
        run(&["blocks", "--live", "--size", "9..1"], &[&path]).status,
        2
    );
}

#[test]
fn the_history_of_an_address_tells_processes_apart() {
    let scratch = Scratch::new("verbs");
    let of = |stream: u32, pid: u64| {
        let mut writer = Writer::bare(stream);
        writer.process(pid, &["exe=/bin/p", "began=exec"]);
        writer.malloc(0x2000, 7).free(0x2000).end().bytes()
    };
    let both = scratch.write("b.hwt", [of(1, 11), of(2, 12)].concat());
    let one = scratch.write("a.hwt", of(1, 11));
    let pids = |path: &Path| {
        let history = run(&["blocks", "--ptr", "0x2000"], &[path]);
        ["pid 11", "pid 12"].map(|pid| history.stdout.matches(pid).count())
    };
    assert_eq!((pids(&both), pids(&one)), ([2, 2], [0, 0]));
}

#[test]
fn every_verb_says_what_is_missing() {
    let scratch = Scratch::new("verbs");
    let whole = trace(&scratch, "a.hwt", 100);
    let mut writer = Writer::new();
    writer.malloc(0x1000, 8).lose(3).malloc(0x2000, 7);
    let holed = scratch.write("b.hwt", writer.end().bytes());
    let log = scratch.join("b.log");
    let log = log.to_str().unwrap();
    let verbs: [&[&str]; 8] = [
        &["report"],
        &["blocks", "--live"],
        &["blocks", "--ptr", "0x2000"],
        &["timeline"],
        &["timeline", "--csv"],
        &["dump"],
        &["export", "--to", "mtrace", "-o", log],
        &["verify"],
    ];
    for words in verbs {
        let told = |path: &Path| {
            let run = run(words, &[path]);
            prose(&(run.stdout + &run.stderr)).contains("3 records")
        };
        assert_eq!((told(&whole), told(&holed)), (false, true), "{words:?}");
    }
    for (new, told) in [(&whole, false), (&holed, true)] {
        let text = prose(&run(&["diff"], &[&whole, new]).stdout);
        assert_eq!(text.contains("new: 3 records"), told, "{text}");
        let found = json(&run(&["diff", "--format", "json"], &[&whole, new]));
        let mut warnings = list(&found["new_warnings"]).iter();
        assert_eq!(
            warnings.any(|it| it["kind"] == "lost-on-the-way"),
            told,
            "{found}"
        );
        assert_eq!(found["new_files"][0], new.to_str().unwrap());
    }
}

#[test]
fn a_timeline_can_be_read_by_a_program() {
    let scratch = Scratch::new("verbs");
    let path = trace(&scratch, "a.hwt", 100);
    let run = run(&["timeline", "--csv", "--step", "1s"], &[&path]);
    assert_eq!(
        run.stdout,
        "pid,time_ns,live_bytes,live_blocks,unsure\n4711,0,107,2,0\n"
    );
}

#[test]
fn two_traces_are_compared() {
    let scratch = Scratch::new("verbs");
    let (old, new) = (
        trace(&scratch, "a.hwt", 100),
        trace(&scratch, "b.hwt", 3000),
    );
    let found = json(&run(&["diff", "--format", "json"], &[&old, &new]));
    assert_eq!(number(&found["sites"][0]["new"]["live_bytes"]), 3000);
    assert_eq!(number(&found["old"]["live_bytes"]), 100);
    let text = run(&["diff"], &[&old, &new]).stdout;
    assert!(prose(&text).contains("100 B → 2.9 KiB"), "{text}");
    let same = run(&["diff", "--per", "allocations"], &[&old, &old]).stdout;
    assert!(prose(&same).contains("no site changed"), "{same}");
}
