//! Blocks from past the recorder: nobody is blamed for releasing one.

use super::ends::observed;
use super::made::{Made, RELEASED, report, warned};
use super::rules::{A, B, made, only};
use crate::report::{Doubt, FaultKind, Report};

/// An address that no record hands out.
const STRANGER: u64 = 0x5555_0000;
const NEW: u8 = 2;

/// Kind and doubt of each error.
fn errors(report: &Report) -> Vec<(FaultKind, Option<Doubt>)> {
    let errors = &only(report).errors;
    assert!(errors.iter().all(|it| it.certain == it.doubt.is_none()));
    errors.iter().map(|it| (it.kind, it.doubt)).collect()
}

const UNSURE: Option<Doubt> = Some(Doubt::UnseenAllocations);

/// The report where the process with `made` ended by `signal`.
fn dead(made: &Made, signal: u64) -> Report {
    report([[made.bytes(), observed(4000 + 0xA0, signal)].concat()])
}

#[test]
fn a_release_that_the_program_survives_is_not_certainly_invalid() {
    for tail in 0..3 {
        let mut made = made();
        made.malloc(A, 8, 0x10).free(STRANGER, 0x20);
        let _ = match tail {
            0 => made.end(0),
            1 => made.push(0x76, 0, [0; 4]),
            _ => made.free(A, 0x30),
        };
        let report = if tail == 2 {
            dead(&made, 6)
        } else {
            made.report()
        };
        assert_eq!(
            errors(&report),
            [(FaultKind::InvalidFree, UNSURE)],
            "{tail}"
        );
        assert_eq!(warned(&report, "unseen-allocations"), 1);
    }
}

#[test]
fn a_block_that_was_left_out_may_be_released_twice() {
    let mut made = made();
    made.malloc(A, 8, 0x10).push(0x7C, 0, [1, 8, 8, 0]);
    let mut child = made.child(0xB0);
    child.free(STRANGER, 0x20);
    let left_out = [(FaultKind::InvalidFree, Some(Doubt::CulledBlocks))];
    made.free(STRANGER, 0x20);
    assert_eq!(errors(&dead(&made, 6)), left_out);
    made.malloc(B, 8, 0x10).free(B, 0x30).free(B, 0x30).end(0);
    let after = [left_out[0], (FaultKind::DoubleFree, None)];
    assert_eq!(errors(&made.report()), after);
    assert_eq!(warned(&made.report(), "unseen-allocations"), 0);
    // A child has its parent's blocks, also those that were left out.
    let both = report([[made.bytes(), child.end(0).bytes()].concat()]);
    let doubts = both.processes[1].errors.iter().map(|it| it.doubt);
    assert!(doubts.eq([Some(Doubt::CulledBlocks)]));
    // But a crooked address is one.
    let mut crooked = self::made();
    crooked
        .push(0x7C, 0, [1, 8, 8, 0])
        .free(STRANGER + 1, 0x20)
        .end(0);
    assert_eq!(errors(&crooked.report()), [(FaultKind::InvalidFree, None)]);
}

#[test]
fn a_release_that_the_program_dies_in_is_invalid() {
    for signal in [4, 6, 7, 11, 0x80 | 6] {
        let mut made = made();
        made.malloc(A, 8, 0x10).free(STRANGER, 0x20);
        made.by(101).at(5).free(A, 0x30); // another thread, before it is stopped
        let report = dead(&made, signal);
        assert_eq!(
            errors(&report),
            [(FaultKind::InvalidFree, None)],
            "{signal}"
        );
        assert_eq!(warned(&report, "unseen-allocations"), 0);
    }
}

#[test]
fn a_death_that_has_nothing_to_do_with_it_proves_nothing() {
    let killed = |signal, late| {
        let mut made = made();
        made.malloc(A, 8, 0x10).free(STRANGER, 0x20);
        made.by(101).at(late).free(A, 0x30);
        errors(&dead(&made, signal))
    };
    let unsure = [(FaultKind::InvalidFree, UNSURE)];
    assert_eq!(killed(9, 1), unsure);
    assert_eq!(killed(15, 1), unsure);
    assert_eq!(
        killed(6, 2000),
        unsure,
        "another thread lived on for two seconds"
    );
    assert_eq!(killed(6, 1), [(FaultKind::InvalidFree, None)]);
    let mut cut = made();
    cut.free(STRANGER, 0x20);
    assert_eq!(errors(&cut.report()), unsure);
    assert_eq!(warned(&cut.report(), "unseen-allocations"), 0);
}

#[test]
fn one_such_block_casts_doubt_on_what_others_would_explain() {
    let wrongs = |made: &mut Made| {
        made.malloc(A, 48, 0x10)
            .free(A + 16, 0x20)
            .free(A + 4, 0x20);
        made.free(A, 0x20).free(A, 0x30);
        made.malloc(B, 8, 0x10)
            .heap(RELEASED, NEW, B, u64::MAX, 0x20);
    };
    let kinds = [
        FaultKind::InvalidFree,
        FaultKind::InvalidFree,
        FaultKind::DoubleFree,
        FaultKind::MismatchedFree,
    ];
    let doubts = |report: &Report| -> Vec<_> {
        let errors = errors(report);
        let kinds_found: Vec<_> = errors.iter().map(|it| it.0).collect();
        assert_eq!(kinds_found[errors.len() - 4..], kinds);
        errors[errors.len() - 4..errors.len() - 1]
            .iter()
            .map(|it| it.1)
            .collect()
    };
    let mut whole = made();
    wrongs(&mut whole);
    assert_eq!(doubts(&whole.end(0).report()), [None, None, None]);
    let mut before = made();
    before.free(STRANGER, 0x40);
    wrongs(&mut before);
    let unsure = [UNSURE, None, UNSURE]; // nobody hands out a crooked address
    assert_eq!(doubts(&before.end(0).report()), unsure);
    let mut twice = made();
    twice.malloc(STRANGER, 8, 0x10).malloc(STRANGER, 8, 0x10);
    wrongs(&mut twice);
    assert_eq!(doubts(&twice.end(0).report()), unsure);
}

#[test]
fn an_abort_of_the_programs_own_is_no_death_in_the_release_before() {
    let end = |code: u64| {
        let mut made = made();
        made.malloc(A, 8, 0x10).free(STRANGER, 0x20);
        made.push(0xF5, 0, [0, 6 | code << 32, 0x30, 0]);
        errors(&dead(&made, 6))
    };
    assert_eq!(end(0), [(FaultKind::InvalidFree, UNSURE)]);
    let of_libc = 0xFFFF_FFFA; // SI_TKILL
    assert_eq!(end(of_libc), [(FaultKind::InvalidFree, None)]);
}

#[test]
fn a_first_release_may_have_been_of_a_block_that_was_left_out() {
    let may_be_later = |culled: u64| {
        let mut made = made();
        made.malloc(A, 8, 0x10).free(A, 0x20);
        if culled > 0 {
            made.push(0x7C, 0, [culled, 8 * culled, 8, 1 + 2 * culled]);
            made.lose(2 * culled);
        }
        made.free(A, 0x30).end(0);
        let report = made.report();
        let error = &only(&report).errors[0];
        (error.kind, error.certain, error.first_release_may_be_later)
    };
    assert_eq!(may_be_later(0), (FaultKind::DoubleFree, true, false));
    assert_eq!(may_be_later(1), (FaultKind::DoubleFree, true, true));
}

#[test]
fn a_stranger_can_be_resized() {
    let mut made = made();
    made.realloc(STRANGER, Some(B), 64, 0x20)
        .free(B, 0x30)
        .end(0);
    let report = made.report();
    assert_eq!(errors(&report), [(FaultKind::InvalidFree, UNSURE)]);
    assert_eq!(only(&report).totals.live_blocks, 0);
}

#[test]
fn a_child_inherits_what_its_parent_was_handed() {
    let mut parent = made();
    parent.malloc(A, 8, 0x10).free(STRANGER, 0x20);
    let mut child = parent.child(0xB0);
    child.free(A, 0x20).free(A, 0x30).end(0);
    parent.free(A, 0x20).end(0);
    let report = report([[parent.bytes(), child.bytes()].concat()]);
    let [_, child] = &report.processes[..] else {
        panic!("{} processes", report.processes.len());
    };
    let doubts: Vec<_> = child.errors.iter().map(|it| it.doubt).collect();
    assert_eq!(doubts, [UNSURE]);
}
