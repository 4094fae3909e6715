//! Blocks at a moment, of a stretch of time, and the history of an address.

use super::made::Made;
use crate::replay::Wanted;
use crate::report::LiveBlocks;
use crate::trace::Trace;
use crate::{Options, Selection, Until, findings, replayed};

/// Time 0: one block that stays. 10 ms: a cycle that leaves one of three. 30 ms: the last of these goes.
fn made() -> Made {
    let mut made = Made::new(0xA0);
    made.at(0).malloc(0x1000, 10, 0x10);
    made.at(10)
        .malloc(0x2000, 100, 0x20)
        .malloc(0x3000, 200, 0x30)
        .free(0x2000, 0x40);
    made.at(20).malloc(0x2000, 5, 0x10);
    made.at(30).free(0x3000, 0x40).at(40).end(0);
    made
}

const MS: u64 = 1_000_000;

fn listed(selection: &Selection, until: Option<Until>) -> Vec<(String, u64)> {
    let mut trace = Trace::of_bytes([made().bytes()]).unwrap();
    let options = Options {
        until,
        ..Options::default()
    };
    let (images, sites) = replayed(&mut trace, Wanted::All, &options).unwrap();
    let live: LiveBlocks = findings::live(&trace, &images, &sites, selection, &options).unwrap();
    assert!(live.warnings.iter().all(|warning| warning.kind != "cut"));
    let of_process = live.processes[0].blocks.iter();
    of_process
        .map(|it| (it.address.to_string(), it.size))
        .collect()
}

#[test]
fn what_is_live_depends_on_the_moment() {
    let all = Selection::default();
    let at = |time| listed(&all, Some(Until::Time(time)));
    let block = |address: &str, size| (address.to_owned(), size);
    assert_eq!(at(0), [block("0x1000", 10)]);
    assert_eq!(at(9 * MS), [block("0x1000", 10)]);
    assert_eq!(at(10 * MS), [block("0x1000", 10), block("0x3000", 200)]);
    assert_eq!(at(u64::MAX), listed(&all, None));
    assert_eq!(
        listed(&all, None),
        [block("0x1000", 10), block("0x2000", 5)]
    );
    let peak = listed(&all, Some(Until::Peak));
    assert_eq!(
        peak,
        [
            block("0x1000", 10),
            block("0x2000", 100),
            block("0x3000", 200)
        ]
    );
}

#[test]
fn a_cycle_leaves_what_was_not_released_in_time() {
    let cycle = Selection {
        from: Some(5 * MS),
        to: Some(15 * MS),
        ..Selection::default()
    };
    let until = |time| listed(&cycle, Some(Until::Time(time)));
    assert_eq!(until(25 * MS), [("0x3000".to_owned(), 200)]);
    assert!(until(30 * MS).is_empty());
}

#[test]
fn an_address_has_a_history() {
    let mut trace = Trace::of_bytes([made().bytes()]).unwrap();
    let history = |trace: &mut Trace, address| {
        findings::history(trace, address, &Selection::default(), &Options::default())
    };
    let found = history(&mut trace, 0x2004).unwrap();
    let events: Vec<_> = found
        .events
        .iter()
        .map(|it| {
            (
                it.event,
                it.address.as_str(),
                it.size,
                it.time_ns.unwrap() / MS,
            )
        })
        .collect();
    assert_eq!(
        events,
        [
            ("allocated", "0x2000", Some(100), 10),
            ("released", "0x2000", None, 10),
            ("allocated", "0x2000", Some(5), 20),
        ]
    );
    let mut made = made();
    made.malloc(0x5000, 40, 0x10)
        .realloc(0x5000, Some(0x6000), 4000, 0x20);
    let mut moved = Trace::of_bytes([made.bytes()]).unwrap();
    let found = history(&mut moved, 0x5000).unwrap();
    let sizes: Vec<_> = found.events.iter().map(|it| (it.event, it.size)).collect();
    assert_eq!(sizes, [("allocated", Some(40)), ("realloc-old", None)]);
    let none = history(&mut trace, 0x9000).unwrap();
    assert!(none.events.is_empty());
}

#[test]
fn timelines_have_the_steps_that_are_asked_for() {
    let trace = Trace::of_bytes([made().bytes()]).unwrap();
    let options = Options {
        step: Some(10 * MS),
        ..Options::default()
    };
    let report = crate::analyze_trace(trace, &options).unwrap();
    let timeline = &report.processes[0].timeline;
    assert_eq!(timeline.step_ns, 10 * MS);
    assert_eq!(timeline.bytes, [10, 310, 215, 215, 15]);
    assert_eq!(timeline.blocks, [1, 3, 3, 3, 2]);
}
