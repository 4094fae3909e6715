use super::{Ended, TextOptions, render, render_blocks, render_summary};
use crate::report::usage::Usage;
use crate::report::{
    Block, Doubt, Families, Fault, FaultKind, Frame, Inside, Leak, LiveAt, LiveBlocks, ModuleCount,
    Moment, Peak, PeakSite, Process, ProcessBlocks, Report, Stack, Temporary, Timeline, Totals,
    TraceSummary, Warning, columns::columns,
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

/// Compares with a file below `snapshots`; HEAPWIRE_UPDATE=1 writes it anew.
fn expect(name: &str, text: &str) {
    let path = format!(
        "{}/src/report/text/snapshots/{name}.txt",
        env!("CARGO_MANIFEST_DIR")
    );
    if std::env::var_os("HEAPWIRE_UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, expected, "{path} (HEAPWIRE_UPDATE=1 writes it anew)");
}

#[test]
fn a_wide_report_looks_so() {
    expect("wide", &text(vec![process()], 100));
}

#[test]
fn a_narrow_report_looks_so() {
    expect("narrow", &text(vec![process()], 60));
}

#[test]
fn a_summary_looks_so() {
    let ended = Ended {
        program: "gatewayd".to_owned(),
        how: "exited 0".to_owned(),
        elapsed_ns: 724 * SECOND,
        trace_bytes: 22_439_526,
        traces: vec!["gatewayd.4711.hwt".to_owned()],
    };
    expect(
        "summary",
        &render_summary(&report(vec![process()]), &ended, &options(100)),
    );
}

#[test]
fn several_processes_have_a_section_each_or_a_line() {
    let clean = Process {
        pid: Some(4712),
        leaks: Vec::new(),
        errors: Vec::new(),
        totals: Totals {
            allocations: 3,
            releases: 3,
            peak_bytes: 99,
            ..Totals::default()
        },
        ..process()
    };
    let replaced = Process {
        pid: Some(4713),
        end: "exec",
        errors: Vec::new(),
        ..process()
    };
    expect("several", &text(vec![clean, process(), replaced], 100));
}

#[test]
fn a_long_command_line_leaves_room_for_what_tells_processes_apart() {
    let mut long = process();
    long.command = Some(vec!["gatewayd".to_owned(), "x".repeat(500)]);
    for width in [60, 100] {
        let text = text(vec![long.clone(), process()], width);
        let heading = text
            .lines()
            .find(|line| line.starts_with("PROCESS  gatewayd xxx"));
        let heading = heading.unwrap_or_else(|| panic!("{text}"));
        assert!(
            heading.ends_with("… · pid 4711 · parent 1 · exited 0"),
            "{heading}"
        );
    }
}

#[test]
fn the_headline_says_how_much_of_it_is_the_systems() {
    let shown = text(vec![process()], 100);
    assert!(
        shown.contains("7,188 blocks from 3 call sites, 195.3 KiB in libraries of the system"),
        "{shown}"
    );
    let mut own = process();
    own.leaks.remove(0);
    assert!(!text(vec![own], 100).contains("in libraries of the system"));
}

#[test]
fn no_line_is_wider_than_asked_for() {
    let long = |length: usize| "very::long<name>".repeat(length);
    let mut wide = process();
    wide.leaks[1].stack = [frame(
        &long(30),
        &format!("{}.rs:12", "deep/".repeat(40)),
        "/opt/plug.so",
    )]
    .into();
    wide.command = Some(vec![long(20)]);
    wide.errors[0].stack = [frame(&"大".repeat(80), "src/größe.c:7", "/x")].into();
    for width in [20, 40, 60, 79, 80, 99, 100, 131, 200] {
        for line in text(vec![wide.clone(), process()], width).lines() {
            let limit = width.max(60); // the figures themselves need this much
            assert!(columns(line) <= limit, "{width}: {} {line}", columns(line));
        }
    }
}

#[test]
fn names_of_the_trace_do_not_drive_the_terminal() {
    let mut hostile = process();
    let evil = "\x1b]0;owned\x07\x1b[2J\n\u{202e}";
    hostile.command = Some(vec![evil.to_owned()]);
    hostile.machine = Some(evil.to_owned());
    hostile.leaks[0].stack = [frame(evil, evil, evil)].into();
    hostile.errors[0].address = evil.to_owned();
    hostile.errors[0].stack = [frame("", "", evil)].into();
    let mut report = report(vec![hostile.clone(), hostile.clone()]);
    report.trace.files = vec![evil.to_owned()];
    report.warnings.push(Warning {
        kind: "x",
        count: 1,
        text: evil.to_owned(),
    });
    for processes in [vec![hostile.clone()], vec![hostile.clone(), hostile]] {
        report.processes = processes;
        for width in [60, 100] {
            let text = render(&report, &options(width));
            let bad = text
                .chars()
                .find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
            assert_eq!(bad, None, "{text}");
        }
    }
}

#[test]
fn blocks_of_a_program_that_did_not_end_are_not_called_leaked() {
    for (end, signal) in [("signal", Some(9)), ("cut", None), ("unknown", None)] {
        let text = text(
            vec![Process {
                end,
                signal,
                ..process()
            }],
            100,
        );
        assert!(!text.to_lowercase().contains("leaked"), "{text}");
        let what = if end == "unknown" { "LOG" } else { "TRACE" };
        let heading = format!("LIVE WHEN THE {what} ENDS  3 sites");
        assert!(text.contains(&heading), "{text}");
    }
    assert!(
        text(
            vec![Process {
                end: "signal",
                signal: Some(9),
                ..process()
            }],
            100
        )
        .contains("killed by SIGKILL")
    );
}

#[test]
fn no_calls_never_read_as_no_leaks() {
    let empty = Process {
        totals: Totals::default(),
        leaks: Vec::new(),
        errors: Vec::new(),
        ..process()
    };
    let text = text(vec![empty], 100);
    assert!(
        text.contains("LEAKED  nothing is known: no call was recorded"),
        "{text}"
    );
    assert!(!text.contains("was released"), "{text}");
}

#[test]
fn the_users_leaks_stand_before_larger_ones_of_the_system() {
    let text = text(vec![process()], 100);
    let at = |what: &str| {
        text.find(what)
            .unwrap_or_else(|| panic!("{what} is not in {text}"))
    };
    assert!(at("hash_insert") < at("in libraries of the system:"));
    assert!(at("in libraries of the system:") < at("libc.so.6+0x1136"));
}

#[test]
fn leaks_of_the_system_alone_are_told_as_such() {
    let mut quiet = process();
    quiet.leaks.truncate(1);
    quiet.errors.clear();
    let ended = Ended {
        program: "gatewayd".to_owned(),
        how: "exited 0".to_owned(),
        elapsed_ns: SECOND,
        trace_bytes: 4096,
        traces: Vec::new(),
    };
    let summary = render_summary(&report(vec![quiet.clone()]), &ended, &options(100));
    let text = text(vec![quiet], 100);
    assert!(text.contains("in libraries of the system:"), "{text}");
    assert!(
        summary.contains("195.3 KiB in 4 blocks, in a library of the system   libc.so.6+0x1136"),
        "{summary}"
    );
}

#[test]
fn an_uncertain_error_says_what_could_explain_it() {
    let mut doubtful = process();
    let fault = &mut doubtful.errors[0];
    fault.kind = FaultKind::MismatchedFree;
    fault.certain = false;
    fault.doubt = Some(Doubt::MissingRecords);
    fault.families = Some(Families {
        allocated: "new",
        released: "free",
    });
    let named = text(vec![doubtful.clone()], 100);
    assert!(
        named.contains("records are missing that could explain this"),
        "{named}"
    );
    doubtful.errors[0].doubt = Some(Doubt::NamelessCall);
    let nameless = text(vec![doubtful.clone()], 100);
    assert!(
        nameless.contains("may be in an operator of the program"),
        "{nameless}"
    );
    doubtful.errors[0].doubt = Some(Doubt::UnseenAllocations);
    doubtful.errors[0].kind = FaultKind::InvalidFree;
    let unseen = text(vec![doubtful.clone()], 100);
    assert!(
        unseen.contains("may have been handed out past the recorder"),
        "{unseen}"
    );
    doubtful.errors[0].log_line = Some(7);
    let in_log = text(vec![doubtful], 100);
    assert!(
        in_log.contains("calls are missing, as an address was handed out twice"),
        "{in_log}"
    );
}

#[test]
fn what_is_lost_at_an_end_that_nobody_saw_is_no_exact_number() {
    let mut report = report(vec![process()]);
    report.trace.lost_records = 12_345;
    let header = |report: &Report| render(report, &options(100));
    assert!(header(&report).contains("· 12,345 lost"));
    report.trace.lost_is_lower_bound = true;
    assert!(header(&report).contains("· at least 12,345 lost"));
    report.trace.lost_records = 0;
    assert!(header(&report).contains("· none known to be lost"));
}

#[test]
fn all_of_an_error_is_said_in_narrow_reports_too() {
    let mut narrow = process();
    narrow.errors[0].address = "0x7f12a4b6f0a4e8".into();
    narrow.errors = vec![narrow.errors[0].clone(); 1_234_567];
    let text = text(vec![narrow], 60);
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("double free of 0x7f12a4b6f0a4e8 (48 B), and 1,234,566 more like it"),
        "{text}"
    );
}

#[test]
fn moments_stand_below_each_other_whether_they_are_lower_bounds_or_not() {
    let mut paused = process();
    paused.leaks[1].oldest_is_lower_bound = true;
    paused.errors[0].time_is_lower_bound = true;
    let text = text(vec![paused], 100);
    let columns = |what: &str| -> Vec<usize> {
        let lines = text.lines().filter(|line| line.contains(what));
        let places = lines.map(|line| line.split(what).next().unwrap().chars().count());
        places.collect()
    };
    for what in ["00:00:04", "00:03:11", "≥ 00:00:04"] {
        let columns = columns(what);
        assert!(!columns.is_empty(), "{what} in {text}");
        assert!(
            columns.iter().all(|it| *it == columns[0]),
            "{what} in {text}"
        );
    }
    let again = columns("00:04:02.918");
    assert_eq!(again, columns("00:03:11.204"), "{text}");
}

#[test]
fn cut_lists_say_how_to_see_the_rest() {
    let mut many = process();
    many.leaks = (0..42)
        .map(|n| leak(1000 - n, 1, stack(&[("f", "a.c:1")])))
        .collect();
    let text = text(vec![many], 100);
    assert!(text.contains("32 more  (--top 42)"), "{text}");
}

#[test]
fn equal_errors_are_shown_once() {
    let mut many = process();
    many.errors = vec![double_free(); 5];
    many.errors.push(Fault {
        kind: FaultKind::InvalidFree,
        certain: false,
        doubt: Some(Doubt::MissingRecords),
        first_release: None,
        inside: Some(Inside {
            offset: 8,
            size: 64,
        }),
        ..double_free()
    });
    let text = text(vec![many], 100);
    assert!(
        text.contains("ERROR  double free of 0xb6f0a4e8 (48 B), and 4 more like it"),
        "{text}"
    );
    assert!(text.contains("5 double frees, 1 invalid free"), "{text}");
    assert!(text.contains("POSSIBLE ERROR  invalid free"), "{text}");
    assert!(text.contains("8 B inside a live block of 64 B"), "{text}");
}

#[test]
fn colour_changes_no_column() {
    let report = report(vec![process()]);
    let coloured = render(
        &report,
        &TextOptions {
            color: true,
            ..options(100)
        },
    );
    let mut plain = String::new();
    for piece in coloured.split('\x1b') {
        plain.push_str(
            piece
                .strip_prefix('[')
                .and_then(|code| code.split_once('m'))
                .map_or(piece, |(_, text)| text),
        );
    }
    let trimmed = |text: &str| {
        text.lines()
            .map(|line| line.trim_end().to_owned())
            .collect::<Vec<_>>()
    };
    assert_ne!(coloured, plain);
    assert_eq!(trimmed(&plain), trimmed(&render(&report, &options(100))));
}

#[test]
fn live_blocks_are_listed() {
    let block = |size| Block {
        address: "0x1000".to_owned(),
        size,
        thread: Some(7),
        time_ns: Some(SECOND),
        time_is_lower_bound: false,
        log_line: None,
        inherited: size == 2,
        stack: stack(&[("main", "src/main.c:3")]),
    };
    let blocks = (1..=12).map(block).collect();
    let mut live = LiveBlocks {
        at: LiveAt::End,
        until_ns: None,
        processes: vec![ProcessBlocks {
            ended: false,
            pid: Some(7),
            blocks,
        }],
        warnings: Vec::new(),
    };
    let text = render_blocks(&live, &options(80));
    assert!(
        text.starts_with("pid 7  12 blocks never released, 78 B\n"),
        "{text}"
    );
    assert!(
        text.contains("0x1000        1 B  1.000 s  thread 7             main  src/main.c:3"),
        "{text}"
    );
    assert!(text.contains("inherited  main"), "{text}");
    assert!(text.contains("… 2 more (--top 12)"), "{text}");
    live.at = LiveAt::Peak;
    let text = render_blocks(&live, &options(80));
    assert!(
        text.starts_with("pid 7  12 blocks live at the peak, 78 B\n"),
        "{text}"
    );
    (live.at, live.until_ns) = (LiveAt::Time, Some(3 * SECOND / 2));
    let text = render_blocks(&live, &options(80));
    assert!(
        text.starts_with("pid 7  12 blocks live at 1.500 s, 78 B\n"),
        "{text}"
    );
}
