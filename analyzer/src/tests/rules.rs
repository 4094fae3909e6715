//! The rules of counting and naming, one by one.

use super::made::{ALLOCATED, BASE, Made, REALLOC_OLD, RELEASED, warned};
use crate::report::{Fault, FaultKind, Inside, Moment, Process, Report, Totals};

pub(super) const A: u64 = 0x1000;
pub(super) const B: u64 = 0x2000;

pub(super) fn made() -> Made {
    Made::new(0xA0)
}

pub(super) fn only(report: &Report) -> &Process {
    let [process] = &report.processes[..] else {
        panic!("{} processes", report.processes.len());
    };
    process
}

pub(super) fn only_fault(report: &Report) -> &Fault {
    let [fault] = &only(report).errors[..] else {
        panic!("{} errors", only(report).errors.len());
    };
    fault
}

pub(super) fn pc(moment: Option<&Moment>) -> Option<&str> {
    moment.map(|moment| &*moment.stack[0].address)
}

#[test]
fn a_simple_stream_gives_every_field() {
    let mut made = made();
    made.at(5).malloc(A, 48, 0x10).malloc(B, 100, 0x20);
    made.at(7).malloc(0x3000, 2, 0x10).free(B, 0x30).end(3);
    let report = made.report();
    assert_eq!(report.schema, 1);
    assert_eq!(report.trace.kind, "hwt");
    assert!(report.trace.complete);
    assert_eq!(report.trace.start_unix_ns, Some(1_700_000_000_000_000_000));
    assert_eq!(report.trace.duration_ns, 7_000_000);
    assert_eq!(report.recorded_calls(), 4);
    let process = only(&report);
    assert_eq!(process.pid, Some(0x10A0 - 0x1000 + 4000));
    assert_eq!(process.exe.as_deref(), Some("/nowhere/app"));
    assert_eq!(process.command.as_deref().unwrap(), ["app", "-v"]);
    assert_eq!((process.end, process.exit_status), ("normal", Some(3)));
    assert_eq!(process.machine.as_deref(), Some("x86_64"));
    assert_eq!(process.threads, 1);
    let expected = Totals {
        allocations: 3,
        releases: 1,
        allocated_bytes: 150,
        live_blocks: 2,
        live_bytes: 50,
        peak_bytes: 150,
        peak_blocks: 3,
        ..Totals::default()
    };
    assert_eq!(process.totals, expected);
    let [leak] = &process.leaks[..] else {
        panic!("{} leaks", process.leaks.len());
    };
    assert_eq!((leak.bytes, leak.blocks, leak.allocations), (50, 2, 2));
    assert_eq!(leak.oldest_ns, Some(5_000_000));
    let frame = &leak.stack[0];
    assert_eq!(frame.address, "0x400010");
    assert_eq!(frame.offset.as_deref(), Some("0x3ff010"));
    assert_eq!(frame.module.as_deref(), Some("/nowhere/app"));
    assert_eq!(frame.build_id.as_deref(), Some("00ff"));
    let peak: Vec<_> = process
        .peak
        .sites
        .iter()
        .map(|it| (it.bytes, it.blocks))
        .collect();
    assert_eq!(peak, [(100, 1), (50, 2)]);
    assert_eq!(process.peak.time_ns, Some(7_000_000));
    assert_eq!(process.timeline.bytes.iter().max(), Some(&150));
}

#[test]
fn the_peak_is_held_by_those_who_held_it_then() {
    let mut made = made();
    made.malloc(A, 100, 0x10).free(A, 0x11);
    made.malloc(B, 150, 0x20).malloc(A, 10, 0x10).free(B, 0x11);
    made.malloc(B, 20, 0x30).end(0);
    let report = made.report();
    let peak = &only(&report).peak.sites;
    let held: Vec<_> = peak
        .iter()
        .map(|it| (&*it.stack[0].address, it.bytes))
        .collect();
    assert_eq!(held, [("0x400020", 150), ("0x400010", 10)]);
}

#[test]
fn leaks_come_by_bytes_then_by_address() {
    let mut made = made();
    made.malloc(A, 8, 0x30)
        .malloc(B, 8, 0x20)
        .malloc(0x3000, 9, 0x40);
    let report = made.report();
    let order: Vec<_> = only(&report)
        .leaks
        .iter()
        .map(|it| &*it.stack[0].address)
        .collect();
    assert_eq!(order, ["0x400040", "0x400020", "0x400030"]);
}

#[test]
fn a_second_release_is_a_double_free() {
    let mut made = made();
    made.malloc(A, 53, 0x10).at(1).by(101).free(A, 0x20);
    made.at(2).by(102).free(A, 0x30).end(0);
    let report = made.report();
    let fault = only_fault(&report);
    assert_eq!(fault.kind, FaultKind::DoubleFree);
    assert!(fault.certain);
    assert_eq!((&*fault.address, fault.size), ("0x1000", Some(53)));
    assert_eq!((fault.thread, fault.time_ns), (Some(102), Some(2_000_000)));
    assert_eq!(fault.stack[0].address, "0x400030");
    let first = fault.first_release.as_ref();
    assert_eq!(pc(first), Some("0x400020"));
    assert_eq!(first.and_then(|it| it.thread), Some(101));
    assert_eq!(pc(fault.allocation.as_ref()), Some("0x400010"));
    let totals = only(&report).totals;
    assert_eq!(
        (totals.releases, totals.live_blocks, totals.live_bytes),
        (2, 0, 0)
    );
}

#[test]
fn a_release_after_the_address_was_handed_out_again_is_none() {
    let mut made = made();
    made.malloc(A, 8, 0x10)
        .free(A, 0x20)
        .malloc(A, 8, 0x10)
        .free(A, 0x20);
    assert!(only(&made.report()).errors.is_empty());
}

#[test]
fn a_release_inside_a_block_or_of_nothing_is_invalid() {
    let mut made = made();
    made.malloc(A, 11171, 0x10).free(A + 32, 0x20);
    made.heap(REALLOC_OLD, 0, A + 16, 1, 0x40)
        .free(0x5555_0000, 0x30)
        .push(0xF5, 0, [0, 6 | 0xFFFF_FFFA << 32, 0, 0]); // the libc ends it there
    let report = made.report();
    let errors = &only(&report).errors;
    assert!(
        errors
            .iter()
            .all(|it| it.kind == FaultKind::InvalidFree && it.certain)
    );
    let inside: Vec<_> = errors.iter().map(|it| it.inside).collect();
    let at = |offset| {
        Some(Inside {
            offset,
            size: 11171,
        })
    };
    assert_eq!(inside, [at(32), at(16), None]);
    assert_eq!(pc(errors[0].allocation.as_ref()), Some("0x400010"));
    let totals = only(&report).totals;
    assert_eq!(
        (totals.releases, totals.live_blocks, totals.earlier_releases),
        (2, 1, 0)
    );
}

#[test]
fn a_release_by_the_wrong_family_is_mismatched_and_still_releases() {
    const NEW: u8 = 2;
    const NEW_ARRAY: u8 = 3;
    let mut made = made();
    made.heap(ALLOCATED, NEW_ARRAY, A, 8, 0x10)
        .heap(RELEASED, NEW, A, u64::MAX, 0x20);
    made.heap(ALLOCATED, NEW, A, 8, 0x10).free(A, 0x20);
    made.heap(ALLOCATED, NEW, A, 8, 0x10)
        .realloc(A, Some(B), 16, 0x20)
        .free(B, 0x30)
        .end(0);
    let report = made.report();
    let process = only(&report);
    let families: Vec<_> = process
        .errors
        .iter()
        .map(|it| (it.kind, it.families.unwrap()))
        .map(|(kind, families)| (kind, families.allocated, families.released))
        .collect();
    let kind = FaultKind::MismatchedFree;
    let expected = [
        (kind, "new[]", "delete"),
        (kind, "new", "free"),
        (kind, "new", "realloc"),
    ];
    assert_eq!(families, expected);
    assert!(process.errors.iter().all(|it| it.size == Some(8)));
    // The program has no symbols: an operator of its own may have made the calls of free and realloc.
    let certain: Vec<_> = process.errors.iter().map(|it| it.certain).collect();
    assert_eq!(certain, [true, false, false]);
    assert_eq!(process.totals.live_blocks, 0);
}

#[test]
fn aligned_blocks_are_released_by_free_and_unknown_families_by_all() {
    let mut made = made();
    made.heap(ALLOCATED, 1, A, 8, 0x10).free(A, 0x20);
    made.heap(ALLOCATED, 4, A, 8, 0x10)
        .heap(RELEASED, 2, A, 8, 0x20);
    made.heap(ALLOCATED, 15, A, 8, 0x10)
        .heap(RELEASED, 3, A, 8, 0x20);
    assert!(only(&made.report()).errors.is_empty());
}

#[test]
fn blocks_from_before_the_recording_are_earlier_but_crooked_addresses_are_invalid() {
    let mut made = Made::bare(0xA0);
    made.process(1, "began=late\0").malloc(A, 64, 0x10);
    made.free(0x9000, 0x20).free(0x9004, 0x21).free(A + 8, 0x22);
    made.realloc(0xA000, Some(B), 8, 0x23)
        .realloc(0xB000, None, 1 << 60, 0x24);
    made.free(0x9000, 0x25).free(0xB000, 0x26).end(0);
    let report = made.report();
    let process = only(&report);
    let kinds: Vec<_> = process
        .errors
        .iter()
        .map(|it| (it.kind, &*it.address))
        .collect();
    let expected = [
        (FaultKind::InvalidFree, "0x9004"),
        (FaultKind::InvalidFree, "0x1008"),
        (FaultKind::DoubleFree, "0x9000"),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(process.errors[2].size, None);
    assert_eq!(process.totals.earlier_releases, 3);
    assert_eq!(process.totals.releases, 5);
    assert!(!report.trace.complete);
    assert_eq!(warned(&report, "started-late"), 1);
}

#[test]
fn what_is_missing_takes_certainty_only_where_it_lies_between() {
    let mut made = made();
    made.malloc(A, 8, 0x10).free(A, 0x20).free(A, 0x30); // certain
    made.malloc(B, 8, 0x10).free(B, 0x20).lose(3).free(B, 0x30); // not
    made.malloc(A, 8, 0x10).free(A, 0x20).free(A, 0x30); // certain again
    made.free(0x7777, 0x40).end(0); // the block may be lost
    let report = made.report();
    let certain: Vec<_> = only(&report).errors.iter().map(|it| it.certain).collect();
    assert_eq!(certain, [true, false, true, false]);
    assert_eq!(report.trace.lost_records, 3);
    assert_eq!(warned(&report, "lost-on-the-way"), 3);
    assert!(!report.trace.complete);
}

#[test]
fn temporary_is_what_is_released_before_its_thread_allocates_again() {
    let mut made = made();
    made.malloc(A, 8, 0x10).free(A, 0x20); // temporary
    made.malloc(A, 8, 0x11).malloc(B, 8, 0x12).free(A, 0x20); // not
    made.by(101).malloc(0x3000, 8, 0x13);
    made.by(100).free(B, 0x20).free(0x3000, 0x20).end(0); // both temporary, the other thread's too
    let report = made.report();
    let process = only(&report);
    assert_eq!(process.totals.temporary, 3);
    let sites: Vec<_> = process
        .temporaries
        .iter()
        .map(|it| &*it.stack[0].address)
        .collect();
    assert_eq!(sites, ["0x400010", "0x400012", "0x400013"]);
}

#[test]
fn an_address_handed_out_twice_was_released_unseen() {
    let mut made = made();
    made.malloc(A, 8, 0x10).malloc(A, 16, 0x20).end(0);
    let report = made.report();
    assert_eq!(warned(&report, "unseen-releases"), 1);
    assert_eq!(
        (
            only(&report).totals.live_blocks,
            only(&report).totals.live_bytes
        ),
        (1, 16)
    );
}

#[test]
fn a_pause_hides_blocks() {
    let mut made = made();
    made.push(0x7A, 0, [0; 4])
        .push(0x7B, 0, [0; 4])
        .free(0x9000, 0x10)
        .end(0);
    let report = made.report();
    assert!(only(&report).errors.is_empty());
    assert_eq!(only(&report).totals.earlier_releases, 1);
    assert!(report.trace.complete);
}

#[test]
fn sums_of_any_sizes_do_not_overflow() {
    let mut made = made();
    for at in 1..4 {
        made.malloc(at * 0x1000, u64::MAX - 1, 0x10).realloc(
            at * 0x1000,
            Some(at * 0x2000),
            u64::MAX,
            0x10,
        );
    }
    made.free(0x2000, 0x20)
        .free(u64::MAX, 0x20)
        .malloc(u64::MAX, u64::MAX, BASE);
    let report = made.report();
    assert_eq!(only(&report).totals.allocated_bytes, u64::MAX);
}
