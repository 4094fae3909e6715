//! Random sources, in order a second time in the simplest way; and what waits for what.

use super::{Event, Order, PATIENCE, WINDOW};
use crate::tests::made::{ALLOCATED, Made, record};
use crate::trace::Trace;
use crate::trace::source::{Holder, Place, Source};
use proptest::prelude::proptest;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A source of records with these numbers; what they hold tells where they stand.
fn source(offset: u64, numbers: &[u64]) -> Source {
    let slots = (0..).zip(numbers).map(|(at, number)| {
        let ptr = 0x1000 + offset * 1000 + at;
        record(ALLOCATED, 0, *number, [ptr, 1, 2, 3])
    });
    let slots: Vec<_> = slots.collect();
    Source::survey(Place {
        block: Arc::new(slots.concat()),
        at: 0,
        slots: u32::try_from(slots.len()).unwrap(),
        reference: numbers.first().copied().unwrap_or(1),
        clock: 7,
        tid: 9,
        is_mixed: false,
        is_late: false,
        frame: (0, offset),
        holder: Holder::Frame,
        lane: 0,
        is_newer: false,
    })
}

fn events(order: &mut Order) -> Vec<Event> {
    let mut events = Vec::new();
    while order.is_due(PATIENCE) && order.window(u64::MAX, |event| events.push(event.event())) {}
    events
}

/// Number and address of each record, the first in place of each number, in order of numbers.
fn naive(runs: &[Vec<u64>]) -> Vec<(u64, u64)> {
    let mut first = BTreeMap::new();
    for (offset, numbers) in (0u64..).zip(runs) {
        for (at, number) in (0..).zip(numbers) {
            let ptr = 0x1000 + offset * 1000 + at;
            first.entry(*number).or_insert(ptr);
        }
    }
    first.into_iter().collect()
}

proptest! {
    #[test]
    fn events_come_by_number_and_of_copies_the_first(
        runs in proptest::collection::vec(proptest::collection::vec(1u64..4000, 0..60), 0..120),
        spread in 1u64..200,
    ) {
        let runs: Vec<Vec<u64>> = runs
            .into_iter()
            .map(|run| run.into_iter().map(|it| it * spread).collect())
            .collect();
        let mut order = Order::default();
        for (offset, run) in (0..).zip(&runs).filter(|(_, run)| !run.is_empty()) {
            order.feed(vec![source(offset, run)]);
        }
        order.end();
        let found: Vec<_> = events(&mut order)
            .iter()
            .map(|event| (event.number, event.record.ptr))
            .collect();
        assert_eq!(found, naive(&runs));
        assert_eq!(order.late, 0);
    }
}

proptest! {
    #[test]
    fn sources_that_follow_one_another_need_no_laying_out(
        lengths in proptest::collection::vec(1usize..50, 1..40),
        gap in 1u64..700,
        moved in 0usize..40,
        (twice, back) in (0usize..40, 0u64..3),
    ) {
        let mut next = 1;
        let mut runs = Vec::new();
        for length in lengths {
            let run: Vec<u64> = (0..length as u64).map(|it| next + it * gap).collect();
            next = run[length - 1] + gap;
            runs.push(run);
        }
        let first = moved % runs.len();
        runs.rotate_left(first);
        let with_copy = twice % runs.len();
        let copy = runs[with_copy][0].saturating_sub(back).max(1);
        runs[with_copy].insert(0, copy);
        let mut order = Order::default();
        for (offset, run) in (0..).zip(&runs) {
            order.feed(vec![source(offset, run)]);
        }
        order.end();
        let found: Vec<_> = events(&mut order)
            .iter()
            .map(|event| (event.number, event.record.ptr))
            .collect();
        assert_eq!(found, naive(&runs));
        let missing: u64 = order.gaps.iter().map(|(begin, end)| end - begin).sum();
        assert_eq!(missing, order.next - found[0].0 - found.len() as u64);
    }
}

#[test]
fn a_window_that_came_whole_need_not_wait() {
    let mut order = Order::default();
    order.expect(Some(1));
    let odd: Vec<u64> = (1..3 * WINDOW).step_by(2).collect();
    order.feed(vec![source(0, &odd)]);
    assert!(order.may_be_whole(0) && !order.is_whole());
    // Copies do not make up for what is missing.
    order.feed(vec![source(1, &odd)]);
    assert!(!order.is_whole());
    let even: Vec<u64> = (2..3 * WINDOW).step_by(2).collect();
    order.feed(vec![source(2, &even)]);
    assert!(order.is_whole() && !order.is_due(PATIENCE));
    let mut numbers = Vec::new();
    while order.may_be_whole(0) && order.is_whole() {
        assert!(order.window(u64::MAX, |event| numbers.push(event.number)));
    }
    assert!(numbers.into_iter().eq(1..2 * WINDOW + 1));
}

#[test]
fn a_window_is_not_whole_before_the_first_number_is_known() {
    let mut order = Order::default();
    let dense: Vec<u64> = (5..3 * WINDOW).collect();
    order.feed(vec![source(0, &dense)]);
    assert!(!order.may_be_whole(0) && order.has_beginning());
    order.expect(Some(2));
    assert!(!order.is_whole());
    order.expect(Some(5));
    assert!(order.may_be_whole(0) && order.is_whole());
}

#[test]
fn of_a_trace_without_gaps_little_is_held() {
    let mut made = Made::new(0xA0);
    for _ in 0..1 << 16 {
        made.malloc(0x1000, 8, 0x10).free(0x1000, 0x10);
    }
    let mut trace = Trace::of_bytes([made.bytes()]).unwrap();
    let mut supply = trace.alone().unwrap();
    let mut order = Order::default();
    order.expect(Some(1));
    let (mut most, mut count) = (0, 0);
    while order.fill(&mut trace, &mut supply).unwrap() {
        most = most.max(order.held);
        if !order.window(u64::MAX, |_| count += 1) {
            break;
        }
    }
    assert!(count > 1 << 17, "{count}");
    assert!(most < 6 * WINDOW, "{most}");
}

#[test]
fn a_window_waits_for_what_may_still_come() {
    let mut order = Order::default();
    let dense: Vec<u64> = (1..=3 * WINDOW).filter(|it| it % 2 == 0).collect();
    order.feed(vec![source(1, &dense)]);
    assert!(!order.is_due(PATIENCE));
    let rest: Vec<u64> = (1..=3 * WINDOW).filter(|it| it % 2 == 1).collect();
    order.feed(vec![source(0, &rest)]);
    order.end();
    let numbers: Vec<_> = events(&mut order).iter().map(|it| it.number).collect();
    assert!(numbers.into_iter().eq(1..=3 * WINDOW));
    assert_eq!(order.held, 0);
}

#[test]
fn what_comes_late_brings_no_copy_of_what_was_given_out() {
    let mut order = Order::default();
    let far = 1 << 20;
    order.feed(vec![source(0, &[1, 3, 4, 5, far])]);
    assert_eq!(events(&mut order).len(), 4);
    order.feed(vec![source(1, &[2])]);
    assert_eq!(events(&mut order).len(), 1);
    order.feed(vec![source(2, &[4, far + 1])]);
    order.end();
    let numbers: Vec<_> = events(&mut order).iter().map(|it| it.number).collect();
    assert_eq!(numbers, [far, far + 1]);
    assert_eq!(order.late, 1);
}

#[test]
fn numbers_below_the_one_that_is_said_to_be_the_first_count() {
    for (first, missing) in [(None, 0), (Some(100), 0), (Some(1), 3)] {
        let mut order = Order::default();
        order.expect(first);
        order.feed(vec![source(0, &[4, 5, 6])]);
        order.end();
        let numbers: Vec<_> = events(&mut order).iter().map(|it| it.number).collect();
        assert_eq!(numbers, [4, 5, 6], "{first:?}");
        let before = order.gaps.range(..4).map(|(begin, end)| end - begin);
        assert_eq!(before.sum::<u64>(), missing, "{first:?}");
    }
}

#[test]
fn lanes_of_one_frame_that_begin_with_one_number_are_all_read() {
    let mut order = Order::default();
    let mut lanes = [source(0, &[1, 2]), source(0, &[1, 3])];
    for (index, lane) in (0..).zip(&mut lanes) {
        (lane.place.holder, lane.place.lane) = (Holder::Lane, index);
    }
    order.feed(lanes.into());
    order.end();
    let numbers: Vec<_> = events(&mut order).iter().map(|it| it.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(order.held, 0);
}

#[test]
fn what_was_missing_comes_late_once() {
    let mut order = Order::default();
    let far = 1 << 20;
    order.feed(vec![source(0, &[1, 2, 5, far])]);
    assert_eq!(events(&mut order).len(), 3);
    order.feed(vec![source(1, &[2, 3, 4]), source(2, &[4, far + 1])]);
    order.end();
    let numbers: Vec<_> = events(&mut order).iter().map(|it| it.number).collect();
    assert_eq!(numbers, [3, 4, far, far + 1]);
    assert_eq!(order.late, 2);
}

/// However long the stretch is that comes a second time.
#[test]
fn copies_of_what_was_given_out_are_not_held() {
    let numbers: Vec<u64> = (1..=4 * WINDOW).collect();
    let mut order = Order::default();
    for (offset, run) in (0..).zip(numbers.chunks(1000)) {
        order.feed(vec![source(offset, run)]);
    }
    while order.next <= 3 * WINDOW {
        assert!(order.window(u64::MAX, |_| ()));
    }
    let held = order.held;
    order.feed(vec![
        source(99, &numbers[..1000]),
        source(100, &numbers[5000..6000]),
    ]);
    assert_eq!((order.held, order.late_copies), (held, 2000));
    assert!(!order.has_late());
}

#[test]
fn what_comes_late_is_given_out_in_order_a_window_of_it_at_a_time() {
    let numbers: Vec<u64> = (1..=4 * WINDOW).collect();
    let mut order = Order::default();
    order.feed(vec![source(0, &[1]), source(1, &[4 * WINDOW + 1])]);
    while order.next <= 4 * WINDOW {
        assert!(order.window(u64::MAX, |_| ()));
    }
    for (offset, run) in (2..).zip(numbers[1..].chunks(1000)) {
        let (even, odd): (Vec<u64>, Vec<u64>) = run.iter().partition(|it| *it % 2 == 0);
        order.feed(vec![
            source(2 * offset, &even),
            source(2 * offset + 1, &odd),
        ]);
    }
    let mut given = Vec::new();
    while order.has_late() {
        let before = given.len();
        assert!(order.window(u64::MAX, |event| given.push(event.number)));
        assert!((given.len() - before) as u64 <= WINDOW + 1000);
        assert!(given[before..].is_sorted());
    }
    assert_eq!(
        (given.len(), order.late),
        (numbers.len() - 1, 4 * WINDOW - 1)
    );
}
