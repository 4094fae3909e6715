//! How process images begin and end.

use super::made::{FRAME, Made, MadeFrame, record, report, warned};
use crate::report::Report;

fn made() -> Made {
    let mut made = Made::new(0xA0);
    made.malloc(0x1000, 8, 0x10);
    made
}

/// A frame of an observer who says how the process with `pid` ended.
pub(super) fn observed(pid: u64, status: u64) -> Vec<u8> {
    let frame = MadeFrame { stream: 0, ..FRAME };
    frame.bytes(&record(0xF8, 0, 1, [pid, status, 0, 0]))
}

#[test]
fn without_an_end_blocks_are_live_when_the_trace_ends() {
    let report = made().report();
    assert_eq!(report.processes[0].end, "cut");
    assert!(!report.trace.complete);
    let cut = report.warnings.iter().find(|it| it.kind == "cut").unwrap();
    assert!(
        cut.text.contains("live when the trace ends"),
        "{}",
        cut.text
    );
}

#[test]
fn an_observer_tells_the_signal() {
    let pid = 4000 + 0xA0;
    let report = report([[made().bytes(), observed(pid, 9)].concat()]);
    let process = &report.processes[0];
    assert_eq!((process.end, process.signal), ("signal", Some(9)));
    assert_eq!(warned(&report, "cut"), 0);
}

#[test]
fn what_only_an_observer_tells_the_end_of_may_lack_its_last_records() {
    let killed = report([[made().bytes(), observed(4000 + 0xA0, 9)].concat()]);
    let is_unsure = |report: &Report| {
        assert_eq!(report.trace.complete, !report.trace.lost_is_lower_bound);
        (report.trace.complete, warned(report, "last-records"))
    };
    assert_eq!(is_unsure(&killed), (false, 1));
    let mut told = made();
    told.push(0xF5, 0, [0, 9, 0, 0]); // a fault
    let told = report([[told.bytes(), observed(4000 + 0xA0, 9)].concat()]);
    assert_eq!(is_unsure(&told), (true, 0));
}

#[test]
fn an_observer_speaks_of_the_last_image_with_the_pid_before_it() {
    let mut first = Made::bare(0xA0);
    first.process(7, "began=exec\0").push(0x76, 0, [0, 0, 0, 0]);
    let mut second = Made::bare(0xB0);
    second.process(7, "began=exec\0").malloc(0x1000, 8, 0x10);
    let mut third = Made::bare(0xC0);
    third.process(7, "began=exec\0").malloc(0x1000, 8, 0x10);
    let trace = [
        first.bytes(),
        second.bytes(),
        observed(7, 0x8B),
        third.bytes(),
    ]
    .concat();
    let report = report([trace]);
    let ends: Vec<_> = report
        .processes
        .iter()
        .map(|it| (it.end, it.signal))
        .collect();
    assert_eq!(ends, [("exec", None), ("signal", Some(11)), ("cut", None)]);
}

#[test]
fn an_observed_exit_gives_the_status() {
    let report = report([[made().bytes(), observed(4000 + 0xA0, 3 << 8)].concat()]);
    let process = &report.processes[0];
    assert_eq!(process.exit_status, Some(3));
    assert_eq!(process.end, "cut", "the last records may be missing");
}

#[test]
fn a_stop_is_no_end() {
    let report = report([[made().bytes(), observed(4000 + 0xA0, 0x137F)].concat()]);
    assert_eq!(report.processes[0].end, "cut");
    assert_eq!(report.processes[0].exit_status, None);
}

#[test]
fn an_exec_counts_only_as_the_last_act() {
    let mut made = made();
    made.declare(0x76, [0, 0, 0x40_0010], "/bin/true");
    assert_eq!(made.report().processes[0].end, "exec");
    assert!(made.report().trace.complete);
    made.free(0x1000, 0x20);
    assert_eq!(made.report().processes[0].end, "cut");
}

#[test]
fn records_may_follow_the_end() {
    let mut made = made();
    made.end(0).free(0x1000, 0x20);
    let report = made.report();
    assert_eq!(report.processes[0].end, "normal");
    assert_eq!(report.processes[0].totals.live_blocks, 0);
}

#[test]
fn a_stream_without_its_start_says_so() {
    let whole = {
        let mut made = made();
        made.free(0x9000, 0x20).end(0);
        made
    };
    let mut made = whole.clone();
    let declarations = whole.records.len() - 3;
    made.records.drain(..declarations);
    let report = made.report();
    assert_eq!(warned(&report, "start-missing"), 1);
    assert_eq!(report.trace.lost_records, declarations as u64);
    assert_eq!(report.processes[0].pid, None);
    assert!(report.processes[0].errors.is_empty());
    assert_eq!(report.processes[0].totals.earlier_releases, 1);
    assert_eq!(whole.report().processes[0].errors.len(), 1);
}

/// What a capture shows that begins with a block of one site, then has declarations of its process and module with these keys more, then
/// another block of that site.
fn from_the_middle(process: &str, module: &str) -> Report {
    let mut made = made();
    made.malloc(0x2000, 8, 0x20);
    let begin = made.records.len() - 1;
    made.process(9, &format!("exe=/bin/late\0began=exec\0{process}"));
    let path = format!("path=/nowhere/app\0build-id=00ff\0{module}");
    made.module(super::made::BASE, &path);
    made.malloc(0x3000, 8, 0x20).end(0);
    made.records.drain(..begin);
    made.report()
}

#[test]
fn a_capture_from_the_middle_learns_from_repeated_declarations() {
    let report = from_the_middle("since=1\0", "since=6\0");
    let process = &report.processes[0];
    assert_eq!(process.exe.as_deref(), Some("/bin/late"));
    // One site, though the module was declared between its two records.
    assert_eq!(process.leaks.len(), 1);
    assert_eq!(
        process.leaks[0].stack[0].module.as_deref(),
        Some("/nowhere/app")
    );
    assert!(!report.trace.complete);
    assert_eq!(warned(&report, "start-missing"), 1);
}

#[test]
fn a_module_that_came_after_a_call_does_not_hold_it() {
    for since in ["", "since=1000\0", "since=x\0"] {
        let report = from_the_middle("since=1\0", since);
        let process = &report.processes[0];
        let mut modules: Vec<_> = process
            .leaks
            .iter()
            .map(|leak| leak.stack[0].module.as_deref())
            .collect();
        modules.sort();
        assert_eq!(modules, [None, Some("/nowhere/app")], "{since}");
    }
}

#[test]
fn a_capture_that_begins_with_a_repetition_begins_in_the_middle() {
    let mut made = made();
    made.free(0x9000, 0x20);
    let begin = made.records.len();
    made.process(9, "exe=/bin/late\0began=exec\0since=1\0");
    made.free(0xA000, 0x20).end(0);
    let whole = made.report();
    assert_eq!(
        (whole.trace.complete, warned(&whole, "start-missing")),
        (true, 0)
    );
    assert_eq!(whole.processes[0].exe.as_deref(), Some("/nowhere/app"));
    assert_eq!(whole.processes[0].errors.len(), 2);
    made.records.drain(..begin);
    let report = made.report();
    assert_eq!(warned(&report, "start-missing"), 1);
    assert_eq!(report.processes[0].totals.earlier_releases, 1);
    assert!(report.processes[0].errors.is_empty() && !report.trace.complete);
}

#[test]
fn a_trace_without_calls_says_why() {
    let mut made = Made::new(0xA0);
    made.end(0);
    let report = made.report();
    assert_eq!(report.recorded_calls(), 0);
    assert_eq!(report.processes.len(), 1);
    assert_eq!(report.warnings[0].kind, "no-records");
    assert!(
        report.warnings[0].text.contains("process 4160"),
        "{}",
        report.warnings[0].text
    );
}

#[test]
fn times_count_from_the_first_process() {
    let mut late = Made::bare(0xA0);
    late.frame.clock += 5_000_000;
    late.process(1, "began=exec\0").malloc(0x1000, 8, 0x10);
    let mut early = Made::bare(0xB0);
    early.process(2, "began=exec\0").malloc(0x1000, 8, 0x10);
    let report = report([late.bytes(), early.bytes()]);
    let oldest: Vec<_> = report
        .processes
        .iter()
        .map(|it| it.leaks[0].oldest_ns)
        .collect();
    assert_eq!(oldest, [Some(5_000_000), Some(0)]);
}
