//! Where things stand, at every width.

use super::super::{Ended, TextOptions, render, render_summary};
use super::{SECOND, frame, leak, options, process, report, stack, text};
use crate::report::columns::columns;
use crate::report::{Process, Totals, Warning};

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
    let replaced_early = Process {
        pid: Some(4710),
        leaks: Vec::new(),
        ..replaced.clone()
    };
    expect(
        "several",
        &text(vec![replaced_early, clean, process(), replaced], 100),
    );
}

/// Pids in the lines that begin so.
fn pids(text: &str, begin: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with(begin));
    let pid = |line: &str| {
        let words = line.split([' ', '·']);
        words
            .filter(|word| word.len() == 4)
            .find_map(|word| word.parse::<u64>().ok())
    };
    lines.filter_map(pid).map(|pid| pid.to_string()).collect()
}

/// Processes of which each holds more than the one before; the fourth has a wrong release, every fifth nothing at all.
fn growing(number: u64) -> Vec<Process> {
    let one = |at: u64| {
        let mut process = process();
        process.pid = Some(5000 + at);
        process.parent_pid = None;
        process.leaks = vec![leak(1000 + at, 1, stack(&[("f", "a.c:1")]))];
        if at != 3 {
            process.errors.clear();
        }
        if at % 5 == 4 {
            process.leaks.clear();
        }
        process
    };
    (0..number).map(one).collect()
}

#[test]
fn sections_come_in_the_order_of_the_table() {
    let shown = text(growing(9), 100);
    let order = [
        "5003", "5008", "5007", "5006", "5005", "5002", "5001", "5000",
    ];
    let table = shown.split("NO FINDINGS").next().unwrap();
    assert_eq!(
        pids(table, "  50"),
        [&order[..], &["5004"]].concat(),
        "{shown}"
    );
    assert_eq!(pids(&shown, "PROCESS "), order, "{shown}");
    assert_eq!(pids(&shown, "  pid 50"), ["5004"], "{shown}");
    assert!(!shown.contains('…'), "nothing is left out: {shown}");
}

#[test]
fn no_more_processes_have_a_section_than_rows_are_asked_for() {
    let mut report = report(growing(25));
    let mut options = TextOptions {
        top: 3,
        ..options(100)
    };
    let shown = render(&report, &options);
    assert_eq!(
        pids(&shown, "PROCESS "),
        ["5003", "5023", "5022"],
        "{shown}"
    );
    let rest = "\n\n… 17 more processes (--top 20, or --pid PID for one)\n\nNO FINDINGS  in 5";
    assert!(shown.contains(rest), "{shown}");
    assert_eq!(pids(&shown, "  pid 50").len(), 3, "{shown}");
    options.top = 19;
    assert!(render(&report, &options).contains("\n… 1 more process (--top 20, or"));
    options.top = 20;
    assert!(!render(&report, &options).contains("more process"));
    options.usage = true; // then all have a section
    assert!(render(&report, &options).contains("… 5 more processes (--top 25, or"));
    // What cannot be asked for is not named.
    options.takes_pid = false;
    assert!(render(&report, &options).contains("… 5 more processes (--top 25)\n"));
    options.takes_pid = true;
    for process in &mut report.processes {
        process.pid = None;
    }
    let of_log = render(&report, &options);
    assert!(
        of_log.contains("… 5 more processes (--top 25)\n"),
        "{of_log}"
    );
    assert!(!of_log.contains("--pid"), "{of_log}");
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
fn cut_lists_say_how_to_see_the_rest() {
    let mut many = process();
    many.leaks = (0..42)
        .map(|n| leak(1000 - n, 1, stack(&[("f", "a.c:1")])))
        .collect();
    let text = text(vec![many], 100);
    assert!(text.contains("32 more  (--top 42)"), "{text}");
}
