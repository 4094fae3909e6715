//! A made-up report, and what its text must be like.

mod layout;
mod wording;

use super::{TextOptions, render};
use crate::report::usage::Usage;
use crate::report::{
    Fault, FaultKind, Frame, Leak, ModuleCount, Moment, Peak, PeakSite, Process, Report, Stack,
    Temporary, Timeline, Totals, TraceSummary,
};

const SECOND: u64 = 1_000_000_000;

fn frame(function: &str, place: &str, module: &str) -> Frame {
    let (file, line) = place.split_once(':').unwrap_or((place, ""));
    Frame {
        address: format!("0x{:x}", 0x40_0000 + function.len()),
        module: Some(module.to_owned()),
        build_id: None,
        offset: Some("0x1136".to_owned()),
        function: Some(function.to_owned()).filter(|name| !name.is_empty()),
        file: (!file.is_empty()).then(|| format!("/home/u/gw/{file}")),
        line: line.parse().ok(),
        column: None,
        inlined: false,
    }
}

fn stack(calls: &[(&str, &str)]) -> Stack {
    calls
        .iter()
        .map(|(function, place)| frame(function, place, "/usr/bin/gatewayd"))
        .collect()
}

fn moment(at_ms: u64, thread: u64, calls: &[(&str, &str)]) -> Moment {
    Moment {
        thread: Some(thread),
        time_ns: Some(at_ms * 1_000_000),
        time_is_lower_bound: false,
        log_line: None,
        stack: stack(calls),
    }
}

fn double_free() -> Fault {
    let freed = moment(
        242_918,
        318,
        &[
            ("session_reap", "src/session.c:171"),
            ("timer_tick", "src/timer.c:44"),
        ],
    );
    Fault {
        kind: FaultKind::DoubleFree,
        certain: true,
        doubt: None,
        address: "0xb6f0a4e8".to_owned(),
        size: Some(48),
        thread: freed.thread,
        time_ns: freed.time_ns,
        time_is_lower_bound: false,
        log_line: None,
        stack: freed.stack,
        first_release: Some(moment(
            191_377,
            311,
            &[("session_close", "src/session.c:130")],
        )),
        allocation: Some(moment(
            191_204,
            311,
            &[("session_open", "src/session.c:88")],
        )),
        first_release_may_be_later: false,
        inside: None,
        by_realloc: false,
        families: None,
    }
}

fn leak(bytes: u64, blocks: u64, stack: Stack) -> Leak {
    Leak {
        bytes,
        blocks,
        allocations: blocks + 2110,
        oldest_ns: Some(4 * SECOND),
        oldest_is_lower_bound: false,
        oldest_line: None,
        stack,
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn process() -> Process {
    let insert = stack(&[
        ("hash_insert", "src/hash.c:638"),
        ("cache_put", "src/cache.c:195"),
    ]);
    let libc: Stack = [frame("", "", "/lib/x86_64-linux-gnu/libc.so.6")].into();
    Process {
        pid: Some(4711),
        parent_pid: Some(1),
        command: Some(words("gatewayd --config gw.toml")),
        exe: Some("/usr/bin/gatewayd".to_owned()),
        end: "normal",
        signal: None,
        is_session: false,
        exit_status: Some(0),
        machine: Some("armv7l".to_owned()),
        threads: 3,
        modules: ModuleCount {
            used: 6,
            resolved: 6,
        },
        totals: Totals {
            allocations: 1_709_022,
            releases: 1_697_267,
            live_blocks: 7_188,
            live_bytes: 372_942,
            peak_bytes: 5_033_165,
            peak_blocks: 61_022,
            temporary: 280_280,
            ..Totals::default()
        },
        peak: Peak {
            time_ns: Some(441 * SECOND),
            time_is_lower_bound: false,
            sites: vec![PeakSite {
                bytes: 2_202_010,
                blocks: 9,
                stack: stack(&[("json_encode", "src/json.c:385")]),
            }],
        },
        timeline: Timeline {
            unsure: Vec::new(),
            step_ns: 60 * SECOND,
            blocks: Vec::new(),
            bytes: vec![0, 1000, 2_500_000, 5_033_165, 372_942],
        },
        groups: Vec::new(),
        unsure_blocks: 0,
        leaks: vec![
            leak(200_000, 4, libc),
            leak(172_442, 7183, insert.clone()),
            leak(500, 1, stack(&[("timer_tick", "src/timer.c:734")])),
        ],
        errors: vec![double_free()],
        usage: Usage::default(),
        temporaries: vec![Temporary {
            temporary: 120_433,
            allocations: 121_000,
            stack: insert,
        }],
    }
}

fn report(processes: Vec<Process>) -> Report {
    Report {
        totals: processes
            .iter()
            .fold(Totals::default(), |sum, process| sum.plus(&process.totals)),
        schema: 1,
        trace: TraceSummary {
            kind: "hwt",
            files: vec!["gatewayd.4711.hwt".to_owned()],
            complete: true,
            records: 3_418_112,
            lost_records: 0,
            lost_is_lower_bound: false,
            lost_by_recorder: 0,
            damaged_bytes: 0,
            foreign_bytes: 0,
            start_unix_ns: None,
            duration_ns: 724 * SECOND,
        },
        processes,
        until_ns: None,
        filter: Vec::new(),
        pids: Vec::new(),
        by: None,
        warnings: Vec::new(),
    }
}

fn options(width: usize) -> TextOptions {
    TextOptions {
        width,
        base: Some("/home/u/gw".into()),
        ..TextOptions::default()
    }
}

fn text(processes: Vec<Process>, width: usize) -> String {
    render(&report(processes), &options(width))
}
