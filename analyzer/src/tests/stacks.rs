//! Where a record's code is: modules that come and go, and declared stacks.

use super::made::{ALLOCATED, BASE, Made};
use crate::report::{Frame, Report};

fn stacks(report: &Report) -> Vec<&[Frame]> {
    let leaks = report.processes[0].leaks.iter();
    leaks.map(|leak| &*leak.stack).collect()
}

fn modules(report: &Report) -> Vec<Option<&str>> {
    let stacks = stacks(report);
    stacks
        .iter()
        .map(|stack| stack[0].module.as_deref())
        .collect()
}

#[test]
fn a_base_means_the_module_last_declared_with_it() {
    const PLUG: u64 = 0x7000_0000;
    let mut made = Made::new(0xA0);
    for (path, size) in [("/a.so", 30), ("/b.so", 20), ("/a.so", 5)] {
        made.module(PLUG, &format!("path={path}\0"));
        made.push(ALLOCATED, 0, [0x1000 * size, size, PLUG + 0x10, PLUG]);
        made.module(PLUG, &format!("path={path}\0")); // a repetition
        made.push(ALLOCATED, 0, [0x1100 * size, size, PLUG + 0x10, PLUG]);
        made.push(0x73, 0, [PLUG, 0x10000, 0, 0]);
    }
    let report = made.report();
    assert_eq!(modules(&report), [Some("/a.so"), Some("/b.so")]);
    let leaks = &report.processes[0].leaks;
    assert_eq!((leaks[0].blocks, leaks[0].bytes), (4, 70));
}

#[test]
fn a_new_declaration_takes_over_without_an_unload() {
    let mut made = Made::new(0xA0);
    made.malloc(0x1000, 2, 0x10);
    made.module(BASE, "path=/nowhere/other\0")
        .malloc(0x2000, 1, 0x10);
    let report = made.report();
    let expected = [Some("/nowhere/app"), Some("/nowhere/other")];
    assert_eq!(modules(&report), expected);
}

#[test]
fn without_a_base_the_range_tells_while_it_is_loaded() {
    let mut made = Made::new(0xA0);
    let call = |made: &mut Made, size, pc| {
        made.push(ALLOCATED, 0, [0x1000 * size, size, pc, 0]);
    };
    call(&mut made, 9, BASE + 0x10);
    call(&mut made, 8, BASE + 0xFFFF);
    call(&mut made, 7, BASE + 0x10000);
    call(&mut made, 6, BASE - 1);
    made.push(0x73, 0, [BASE, 0x10000, 0, 0]);
    call(&mut made, 5, BASE + 0x10);
    let report = made.report();
    let app = Some("/nowhere/app");
    assert_eq!(modules(&report), [app, app, None, None, None]);
    let frame = &stacks(&report)[2][0];
    assert_eq!(
        (frame.offset.as_deref(), frame.build_id.as_deref()),
        (None, None)
    );
}

#[test]
fn a_bias_of_nothing_is_legal() {
    let mut made = Made::bare(0xA0);
    made.process(1, "began=exec\0");
    made.declare(0x72, [BASE, 0x1000, 0], "path=/nowhere/static\0");
    made.malloc(0x1000, 1, 0x10);
    let report = made.report();
    assert_eq!(stacks(&report)[0][0].offset.as_deref(), Some("0x400010"));
}

#[test]
fn a_lost_text_is_not_guessed_and_a_repetition_brings_it() {
    let long = format!("path=/nowhere/{}\0", "x".repeat(40));
    let mut made = Made::bare(0xA0);
    made.process(1, "began=exec\0").module(BASE, &long);
    made.records.pop(); // the second half of the text
    made.malloc(0x1000, 1, 0x10);
    let report = made.report();
    let frame = &stacks(&report)[0][0];
    assert_eq!(
        (frame.module.as_deref(), frame.offset.as_deref()),
        (None, Some("0x3ff010"))
    );
    assert_eq!(report.trace.lost_records, 1);

    made.module(BASE, &long).malloc(0x2000, 1, 0x10);
    let report = made.report();
    assert_eq!(stacks(&report).len(), 1);
    assert!(modules(&report)[0].unwrap().ends_with("xxxx"));
}

#[test]
fn text_of_any_claimed_length_costs_nothing() {
    let mut made = Made::new(0xA0);
    made.push(0x72, 0, [0x9000, 0x1000, 0, u64::MAX])
        .malloc(0x1000, 1, 0x10);
    made.push(0x71, 0, [1, 0, 0, u64::MAX])
        .malloc(0x2000, 1, 0x10);
    assert_eq!(made.report().processes[0].totals.live_blocks, 2);
}

#[test]
fn a_declared_stack_is_the_site() {
    const HAS_STACK: u8 = 1 << 4;
    let epoch = 3 << 32;
    let mut made = Made::new(0xA0);
    made.push(0x78, 0, [epoch | 1, 0, BASE + 0x900, BASE]);
    made.push(0x78, 0, [epoch | 2, epoch | 1, BASE + 0x10, BASE]);
    made.push(0x78, 0, [epoch | 3, 0, BASE + 0x10, BASE]);
    for (size, stack) in [(3, epoch | 2), (2, epoch | 3), (1, 0x77), (3, epoch | 2)] {
        let ptr = 0x1000 * made.next;
        made.push(ALLOCATED, HAS_STACK, [ptr, size, BASE + 0x10, stack]);
    }
    let report = made.report();
    let stacks = stacks(&report);
    let addresses: Vec<Vec<&str>> = stacks
        .iter()
        .map(|stack| stack.iter().map(|frame| &*frame.address).collect())
        .collect();
    // Of the stack that was lost, the innermost call site is left; it is a stack of its own.
    assert_eq!(addresses, [vec!["0x400010", "0x400900"], vec!["0x400010"]]);
    assert_eq!(report.processes[0].leaks[0].blocks, 2);
    assert_eq!(report.processes[0].leaks[1].blocks, 2);
}

#[test]
fn one_line_of_a_report_per_stack_of_raw_addresses() {
    let mut made = Made::new(0xA0);
    made.malloc(0x1000, 1, 0x10)
        .malloc(0x2000, 1, 0x11)
        .malloc(0x3000, 1, 0x10);
    let report = made.report();
    let rows: Vec<_> = report.processes[0]
        .leaks
        .iter()
        .map(|it| it.blocks)
        .collect();
    assert_eq!(rows, [2, 1]);
    assert_eq!(report.processes[0].modules.used, 1);
    assert_eq!(super::made::warned(&report, "module-missing-symbols"), 1);
}
