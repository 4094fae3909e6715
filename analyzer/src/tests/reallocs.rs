//! The rules of realloc: it moves, resizes, fails, frees, and can be interrupted.

use super::made::{ALLOCATION_FAILED, REALLOC_NEW, REALLOC_OLD, live_blocks, warned};
use super::rules::{A, B, made, only, only_fault, pc};
use crate::report::FaultKind;
use crate::report::text::{TextOptions, render};

#[test]
fn calls_that_give_no_memory_are_failed() {
    let mut made = made();
    made.heap(ALLOCATION_FAILED, 0, 0, u64::MAX, 0x10);
    made.malloc(A, 8, 0x10)
        .realloc(A, None, 1 << 60, 0x20)
        .free(A, 0x30)
        .end(0);
    let report = made.report();
    let totals = only(&report).totals;
    assert_eq!((totals.failed, totals.failed_reallocations), (2, 1));
    assert_eq!((totals.reallocations, totals.allocated_bytes), (0, 8));
    assert_eq!((totals.live_blocks, totals.releases), (0, 1));
    assert!(only(&report).errors.is_empty());
}

#[test]
fn a_failed_realloc_leaves_the_block_as_it_was() {
    let mut made = made();
    made.malloc(A, 10729, 0x10)
        .realloc(A, None, 1 << 60, 0x20)
        .end(0);
    let live = live_blocks([made.bytes()]);
    let block = live.processes[0].blocks.iter().next().unwrap();
    assert_eq!((block.size, &*block.stack[0].address), (10729, "0x400010"));
}

#[test]
fn a_realloc_to_nothing_is_a_release() {
    let mut made = made();
    made.malloc(A, 8, 0x10).realloc(A, None, 0, 0x20).end(0);
    let report = made.report();
    let totals = only(&report).totals;
    assert_eq!(
        (totals.releases, totals.reallocations, totals.live_blocks),
        (1, 0, 0)
    );
}

#[test]
fn a_resized_block_has_its_new_size_and_line() {
    for to in [A, B] {
        let mut made = made();
        made.malloc(A, 8, 0x10)
            .at(9)
            .realloc(A, Some(to), 24, 0x20)
            .end(0);
        let report = made.report();
        let totals = only(&report).totals;
        assert_eq!((totals.allocations, totals.reallocations), (1, 1));
        assert_eq!((totals.allocated_bytes, totals.live_bytes), (32, 24));
        assert_eq!((totals.peak_bytes, totals.live_blocks), (24, 1));
        let live = live_blocks([made.bytes()]);
        let block = live.processes[0].blocks.iter().next().unwrap();
        assert_eq!((block.size, block.time_ns), (24, Some(9_000_000)));
        assert_eq!(block.address.to_string(), format!("{to:#x}"));
        assert_eq!(block.stack[0].address, "0x400020");
    }
}

#[test]
fn another_thread_may_be_given_the_block_that_a_realloc_leaves() {
    let mut made = made();
    made.malloc(A, 8, 0x10).heap(REALLOC_OLD, 0, A, 16, 0x20);
    made.by(101).malloc(A, 4, 0x30);
    made.by(100).heap(REALLOC_NEW, 0, B, 16, 0x20).end(0);
    let report = made.report();
    let process = only(&report);
    assert!(process.errors.is_empty());
    assert_eq!(warned(&report, "unseen-releases"), 0);
    assert_eq!(
        (process.totals.live_blocks, process.totals.live_bytes),
        (2, 20)
    );
}

#[test]
fn nested_reallocs_are_closed_latest_first_and_by_their_own_thread() {
    let mut made = made();
    made.malloc(A, 1, 0x10)
        .malloc(B, 2, 0x10)
        .malloc(0x3000, 3, 0x10);
    made.heap(REALLOC_OLD, 0, A, 64, 0x20);
    made.heap(REALLOC_OLD, 0, B, 64, 0x20); // a signal handler at the same line
    made.by(101).heap(REALLOC_OLD, 0, 0x3000, 64, 0x20);
    made.by(100).heap(REALLOC_NEW, 0, 0x4000, 64, 0x20);
    made.by(101)
        .heap(REALLOC_NEW, 0, 0x5000, 64, 0x20)
        .by(100)
        .end(0);
    let report = made.report();
    // The first is still open: its block is live.
    assert_eq!(warned(&report, "in-flight"), 1);
    assert_eq!(only(&report).totals.live_bytes, 1 + 64 + 64);
    let live = live_blocks([made.bytes()]);
    let addresses: Vec<_> = live.processes[0]
        .blocks
        .iter()
        .map(|it| it.address.0)
        .collect();
    assert_eq!(addresses, [0x1000, 0x4000, 0x5000]);
}

#[test]
fn a_realloc_of_a_released_block_is_a_double_free() {
    let mut made = made();
    made.malloc(A, 8, 0x10)
        .free(A, 0x20)
        .heap(REALLOC_OLD, 0, A, 9, 0x30);
    let report = made.report();
    let fault = only_fault(&report);
    assert_eq!(fault.kind, FaultKind::DoubleFree);
    let shown = render(&report, &TextOptions::default());
    assert!(shown.contains("(8 B) by realloc\n"), "{shown}");
    assert_eq!(only(&report).totals.live_blocks, 0);
    assert_eq!(warned(&report, "in-flight"), 0, "nothing is listed");
}

#[test]
fn a_release_after_a_realloc_moved_the_block_is_a_double_free() {
    let mut made = made();
    made.malloc(A, 8, 0x10)
        .realloc(A, Some(B), 100, 0x20)
        .free(A, 0x30)
        .end(0);
    let report = made.report();
    let fault = only_fault(&report);
    assert_eq!(fault.kind, FaultKind::DoubleFree);
    assert_eq!(pc(fault.first_release.as_ref()), Some("0x400020"));
}
