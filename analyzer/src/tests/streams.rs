//! Traces that are read once: longer than what is held of them, with forks in the middle, and out of order.

use super::made::{Made, warned};
use crate::order::WINDOW;
use crate::report::{Report, json};
use crate::trace::Trace;
use crate::{Options, analyze_trace};

/// Records that lie further apart than any two that are looked at together.
const FAR: u64 = 44 * WINDOW;

fn from_pipe(bytes: Vec<u8>) -> Report {
    let trace = Trace::of_stream(bytes).unwrap();
    analyze_trace(trace, &Options::default()).unwrap()
}

fn from_file(bytes: Vec<u8>) -> Report {
    super::made::report([bytes])
}

/// Blocks that come and go, of three threads.
fn busy(made: &mut Made, records: u64) {
    for round in 0..records / 2 {
        made.by(100 + u32::try_from(round / 20 % 3).unwrap());
        let address = 0x10_0000 + round % 1000 * 0x40;
        made.malloc(address, 1 + round % 77, 0x10 + round % 5)
            .free(address, 0x90);
    }
}

#[test]
fn a_pipe_gives_what_a_file_gives() {
    let mut made = Made::new(0xA0);
    made.malloc(0x1000, 7, 0x10);
    busy(&mut made, FAR);
    made.free(0x1000, 0x20).malloc(0x2000, 9, 0x10).end(0);
    let bytes = made.bytes();
    let report = from_pipe(bytes.clone());
    assert_eq!(json::render(&report), json::render(&from_file(bytes)));
    assert!(report.trace.complete);
    let totals = report.processes[0].totals;
    assert_eq!(totals.allocations, FAR / 2 + 2);
    assert_eq!((totals.live_blocks, totals.live_bytes), (1, 9));
    assert_eq!(totals.peak_bytes, 7 + 77);
}

#[test]
fn a_child_inherits_though_nothing_announced_it() {
    let mut parent = Made::new(0xA0);
    parent.malloc(0x1000, 10, 0x10).malloc(0x2000, 20, 0x20);
    busy(&mut parent, FAR);
    let mut child = parent.child(0xB0);
    child.free(0x1000, 0x30).malloc(0x3000, 7, 0x40);
    parent.push(0x75, 0, [0xB0, 0, 0, 0]);
    busy(&mut parent, FAR);
    parent.free(0x1000, 0x31).free(0x2000, 0x32).end(0);
    busy(&mut child, FAR);
    child.end(0);
    let (first, second) = (parent.bytes(), child.bytes());
    for is_child_first in [false, true] {
        let both = match is_child_first {
            false => [&first[..], &second].concat(),
            true => [&second[..], &first].concat(),
        };
        let report = from_pipe(both.clone());
        assert_eq!(json::render(&report), json::render(&from_file(both)));
        check_family(&report, is_child_first);
    }
}

fn check_family(report: &Report, is_child_first: bool) {
    let [of_parent, of_child] = &report.processes[..] else {
        panic!("{} processes", report.processes.len());
    };
    let (of_parent, of_child) = if is_child_first {
        (of_child, of_parent)
    } else {
        (of_parent, of_child)
    };
    assert_eq!(of_parent.totals.live_blocks, 0);
    assert!(of_parent.errors.is_empty() && of_child.errors.is_empty());
    let totals = of_child.totals;
    assert_eq!((totals.inherited_blocks, totals.inherited_bytes), (1, 20));
    assert_eq!((totals.live_blocks, totals.live_bytes), (1, 7));
}

#[test]
fn what_is_missing_is_waited_for() {
    let mut made = Made::new(0xA0);
    made.malloc(0x1000, 7, 0x10);
    busy(&mut made, FAR);
    made.free(0x1000, 0x20).end(0);
    let mut frames = made.frames(100);
    let whole = from_file(frames.concat());
    // A thread that does not run for long writes what it did long after.
    let moved = frames.remove(5);
    let length = frames.len();
    let lacking = from_file(frames.concat());
    frames.insert(length - 1, moved);
    for report in [from_file(frames.concat()), from_pipe(frames.concat())] {
        assert_eq!(warned(&report, "late-records"), 0);
        assert!(report.trace.complete && report.processes[0].errors.is_empty());
        assert_eq!(report.processes[0].totals, whole.processes[0].totals);
    }
    // What never comes is not waited for without end.
    assert!(lacking.trace.lost_records > 0);
    assert_eq!(
        lacking.trace.lost_records + lacking.trace.records,
        whole.trace.records
    );
}

#[test]
fn a_copy_far_away_is_no_late_record() {
    let mut made = Made::new(0xA0);
    busy(&mut made, FAR);
    made.end(0);
    let mut frames = made.frames(100);
    let whole = from_file(frames.concat());
    frames.push(frames[5].clone());
    let report = from_file(frames.concat());
    assert_eq!(warned(&report, "late-records"), 0);
    assert_eq!(report.processes[0].totals, whole.processes[0].totals);
}

#[test]
fn a_parent_knows_its_blocks_of_before_the_fork() {
    let mut parent = Made::new(0xA0);
    parent.malloc(0x1000, 10, 0x10);
    let mut child = parent.child(0xB0);
    child.malloc(0x3000, 7, 0x40).end(0);
    parent.push(0x75, 0, [0xB0, 0, 0, 0]);
    parent.malloc(0x2000, 20, 0x20).end(0);
    let report = from_file([parent.bytes(), child.bytes()].concat());
    let leaks = &report.processes[0].leaks;
    assert_eq!(leaks.len(), 2);
    assert!(
        leaks.iter().all(|leak| leak.oldest_ns.is_some()),
        "{leaks:?}"
    );
    let threads = &report.processes[0].usage.threads;
    assert_eq!(threads[0].live_blocks, 2);
}

#[test]
fn a_trace_that_comes_twice_is_the_same_trace() {
    let mut made = Made::new(0xA0);
    made.malloc(0x1000, 7, 0x10);
    busy(&mut made, FAR);
    let bytes = made.end(0).bytes();
    let once = from_file(bytes.clone());
    let twice = [bytes.clone(), bytes].concat();
    for mut report in [from_pipe(twice.clone()), from_file(twice)] {
        assert!(warned(&report, "copies-late") > WINDOW);
        assert!(report.trace.complete);
        report.warnings.retain(|it| it.kind != "copies-late");
        assert_eq!(json::render(&report), json::render(&once));
    }
}

#[test]
fn copies_are_compared_as_far_as_they_are_in_view() {
    // In a pipe, in a file, and nowhere.
    for (records, differing) in [(6 * WINDOW, [1, 1]), (15 * WINDOW, [0, 1]), (FAR, [0, 0])] {
        let mut made = Made::new(0xA0);
        busy(&mut made, records);
        made.end(0);
        let mut frames = made.frames(100);
        let mut copy = Made::bare(0xA0);
        copy.next = made.records[10].1;
        copy.by(made.records[10].0).malloc(0x5000, 9, 0x10);
        frames.extend(copy.frames(100));
        let bytes = frames.concat();
        let reports = [from_pipe(bytes.clone()), from_file(bytes)];
        for (report, differing) in reports.iter().zip(differing) {
            assert_eq!(warned(report, "copies-differ"), differing, "{records}");
            assert_eq!(warned(report, "copies-late"), 1 - differing, "{records}");
            assert_eq!(report.trace.complete, differing == 0, "{records}");
        }
    }
}

/// Larger than what is looked through for a declaration that lies where it should.
#[test]
fn a_declaration_far_behind_is_found_by_the_number_of_its_frame() {
    let mut made = Made::new(0xA0);
    busy(&mut made, 1 << 18);
    let mut frames = made.end(0).frames(1000);
    let first = frames.remove(0);
    frames.push(first);
    let report = from_file(frames.concat());
    assert_eq!(report.processes[0].exe.as_deref(), Some("/nowhere/app"));
    assert!(report.trace.complete, "{:?}", report.warnings);
}
