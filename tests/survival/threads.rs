//! Threads that come and go: each has a lane while it lives, the table never fills, nothing is lost.

use super::{program, traced};
use heapwire_tests::build::recorder;
use heapwire_tests::raw::Raw;
use heapwire_tests::run::{Run, is_installed, list, number, report, without_recorder};
use heapwire_tests::scratch::Scratch;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

fn check(total: u64, at_once: u64) {
    let scratch = Scratch::new(&format!("threads-{total}-{at_once}"));
    let (program, library) = (program(&scratch, "many_threads"), recorder(&scratch));
    let trace = scratch.join("t.hwt");
    let mut command = traced(&program, &library, trace.to_str().unwrap());
    let run = Run::of(command.args([total.to_string(), at_once.to_string()]));
    assert_eq!(
        (run.status, run.stdout.as_str()),
        (0, "ok\n"),
        "{}",
        run.stderr
    );
    let report = report(&trace);
    let process = &list(&report["processes"])[0];
    assert_eq!(report["trace"]["complete"], true, "{}", report["warnings"]);
    assert_eq!(list(&process["errors"]).len(), 0);
    let kept = list(&process["leaks"]).iter().find(|leak| {
        number(&leak["bytes"]) == 7001 * number(&leak["blocks"]) && number(&leak["blocks"]) > 0
    });
    assert_eq!(number(&kept.unwrap()["blocks"]), total / 100);
    let raw = Raw::read(&trace);
    // Each thread declares itself; every record of one carries its own tid.
    let declared = raw.records().filter(|record| record.op == 0x74).count() as u64;
    assert_eq!(declared, total + 1);
    let tids: BTreeSet<_> = raw
        .records()
        .filter(|record| record.size == 7001)
        .map(|seen| seen.tid)
        .collect();
    assert!(tids.len() as u64 >= at_once, "{} tids", tids.len());
}

#[test]
fn ten_thousand_short_threads_share_one_lane_one_after_the_other() {
    check(10_000, 1);
}

#[test]
fn sixty_four_threads_at_once() {
    check(6_400, 64);
}

#[test]
fn five_hundred_threads_at_once() {
    check(2_000, 500);
}

/// A new thread does not ask after each of the others.
#[test]
fn what_a_thread_costs_does_not_grow_with_their_number() {
    const THREADS: u64 = 400;
    if !is_installed("strace") {
        return;
    }
    let scratch = Scratch::new("threads-held");
    let (program, library) = (program(&scratch, "held_threads"), recorder(&scratch));
    let (trace, log) = (scratch.join("t.hwt"), scratch.join("calls"));
    let variable = |name: &str, value: &Path| format!("{name}={}", value.display());
    let mut strace = without_recorder(Command::new("strace"));
    strace.args(["-f", "-e", "trace=tgkill", "-o"]).arg(&log);
    strace.args(["-E", &variable("LD_PRELOAD", &library)]);
    strace.args(["-E", &variable("HEAPWIRE_OUT", &trace)]);
    let run = Run::of(strace.arg(&program).arg(THREADS.to_string()));
    assert_eq!((run.status, run.stdout.as_str()), (0, "ok\n"));
    let calls = fs::read_to_string(&log).unwrap().matches("tgkill(").count() as u64;
    assert!(calls < 20 * THREADS, "{calls} calls");
    let process = &report(&trace)["processes"][0];
    assert!(number(&process["totals"]["releases"]) >= 2 * THREADS);
}

#[test]
fn a_thread_whose_first_call_is_made_in_the_child_of_its_vfork_has_a_lane_of_its_own() {
    let scratch = Scratch::new("vfork-first");
    let (program, library) = (program(&scratch, "vfork_first"), recorder(&scratch));
    let trace = scratch.join("t.hwt");
    let run = Run::of(&mut traced(&program, &library, trace.to_str().unwrap()));
    let tid: u32 = run.stdout.trim().parse().unwrap();
    let raw = Raw::read(&trace);
    let tids = |size: u64| -> Vec<u32> {
        let records = raw.records();
        let of_size = records.filter(|record| record.op == 1 && record.size == size);
        of_size.map(|record| record.tid).collect()
    };
    assert_eq!(tids(777), [tid; 100]);
    let others: BTreeSet<_> = tids(888).into_iter().collect();
    assert_eq!((tids(888).len(), others.len()), (100, 1));
    assert!(!others.contains(&tid));
}
