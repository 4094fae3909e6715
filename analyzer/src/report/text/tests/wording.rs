//! What is said, and what is not.

use super::super::{Ended, TextOptions, render, render_blocks, render_summary};
use super::{SECOND, double_free, frame, leak, options, process, report, stack, text, words};
use crate::report::columns::columns;
use crate::report::{
    Address, Block, BlockList, Doubt, Families, Fault, FaultKind, Inside, LiveAt, LiveBlocks,
    Process, ProcessBlocks, Report, Totals,
};

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
fn of_lines_in_headers_it_is_said_that_their_callers_are_not_known() {
    let why = "who called that is not in the trace";
    let mut generic = process();
    assert!(!text(vec![generic.clone()], 200).contains(why));
    let header = |function: &str| {
        let mut frame = frame(function, "stl_vector.h:378", "/usr/bin/gatewayd");
        frame.file = Some("/usr/include/c++/12/bits/stl_vector.h".to_owned());
        frame
    };
    generic.leaks[1].stack = [header("allocate"), header("std::vector<int>::grow()")].into();
    let shown = text(vec![generic.clone()], 200);
    assert!(shown.contains(why), "{shown}");
    let row = shown.lines().find(|line| line.contains("stl_vector.h"));
    assert!(
        row.is_some_and(|row| row.contains("std::vector<int>::grow()")),
        "{shown}"
    );
    generic.leaks[1].stack = [
        header("allocate"),
        stack(&[("main", "main.cpp:7")])[0].clone(),
    ]
    .into();
    assert!(!text(vec![generic], 200).contains(why));
}

fn ended() -> Ended {
    Ended {
        program: "gatewayd".to_owned(),
        how: "exited 0".to_owned(),
        elapsed_ns: SECOND,
        trace_bytes: 4096,
        traces: Vec::new(),
    }
}

#[test]
fn programs_of_one_process_are_not_called_processes() {
    let replaced = || Process {
        end: "exec",
        errors: Vec::new(),
        ..process()
    };
    let other = Process {
        pid: Some(4712),
        ..process()
    };
    let mut report = report(vec![replaced(), process(), replaced(), other]);
    let mut options = TextOptions {
        top: 1,
        ..options(100)
    };
    let shown = render(&report, &options);
    for part in [
        "\n2 processes with 4 programs · ",
        "\nPROCESSES  2 with 4 programs, most errors",
        "\n… 1 more program (--top 2, or",
        "\nNO FINDINGS  in 2 programs\n",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    for width in [60, 100] {
        options.width = width;
        let summary = render_summary(&report, &ended(), &options);
        assert!(
            summary.contains("  with 4 programs; figures are of all\n"),
            "{summary}"
        );
    }
    report.processes.retain(|process| process.end != "exec");
    let shown = render(&report, &options);
    for part in [
        "\n2 processes · ",
        "\nPROCESSES  2, most errors",
        "\n… 1 more process (--top 2, or",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let summary = render_summary(&report, &ended(), &options);
    assert!(
        summary.contains("  figures below are of all together\n"),
        "{summary}"
    );
}

#[test]
fn a_summary_keeps_places_beside_long_names() {
    let mut long = process();
    let name = "std::map<std::string, std::vector<std::string>>::operator[]".repeat(2);
    long.leaks = vec![leak(99, 1, stack(&[(&*name, "long/way/cxx.cpp:32")]))];
    let ends = [
        (60, ["cxx.cpp:32", "sion.c:171"]),
        (100, ["long/way/cxx.cpp:32", "src/session.c:171"]),
    ];
    for (width, places) in ends {
        let text = render_summary(&report(vec![long.clone()]), &ended(), &options(width));
        for place in places {
            let is_kept = text.lines().any(|line| line.ends_with(place));
            assert!(is_kept, "{place}: {text}");
        }
        assert!(text.lines().all(|line| columns(line) <= width), "{text}");
    }
}

#[test]
fn leaks_of_the_system_alone_are_told_as_such() {
    let mut quiet = process();
    quiet.leaks.truncate(1);
    quiet.totals.live_blocks = quiet.leaks[0].blocks;
    quiet.errors.clear();
    let summary = render_summary(&report(vec![quiet.clone()]), &ended(), &options(100));
    let text = text(vec![quiet], 100);
    assert!(text.contains("in libraries of the system:"), "{text}");
    assert!(
        summary.contains("195.3 KiB in 4 blocks, in a library of the system  libc.so.6+0x1136"),
        "{summary}"
    );
    assert!(
        summary.contains("1 call site, all in libraries of the system"),
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

fn block(size: u64, inherited: bool) -> Block {
    Block {
        address: Address(0x1000),
        size,
        thread: Some(7),
        time_ns: Some(SECOND),
        time_is_lower_bound: false,
        latest_ns: None,
        log_line: None,
        inherited,
        stack: stack(&[("main", "src/main.c:3")]),
    }
}

fn blocks_of(pid: u64, command: Option<&str>, blocks: Vec<Block>) -> ProcessBlocks {
    ProcessBlocks {
        pid: Some(pid),
        command: command.map(words),
        exe: Some("/bin/child".to_owned()),
        is_replaced: false,
        is_cut: false,
        ended: false,
        blocks: BlockList::of(blocks).unwrap(),
    }
}

fn never_released(processes: Vec<ProcessBlocks>) -> LiveBlocks {
    LiveBlocks {
        at: LiveAt::End,
        until_ns: None,
        filter: Vec::new(),
        processes,
        warnings: Vec::new(),
    }
}

#[test]
fn lists_of_blocks_name_the_program_and_tell_what_is_its_parents() {
    let inherited = |number| vec![block(100, true); number];
    let some = [inherited(3), vec![block(7, false)]].concat();
    let mut nameless = blocks_of(6, None, Vec::new());
    nameless.exe = None;
    let mut live = never_released(vec![
        blocks_of(1, Some("make -j 4 all"), vec![block(8, false)]),
        blocks_of(2, Some("make -j 4 all"), some),
        blocks_of(3, Some("sh -c \u{1b}[2J"), inherited(2)),
        blocks_of(4, None, inherited(1)),
        blocks_of(5, Some("true"), Vec::new()),
        nameless,
    ]);
    let headings = |live: &LiveBlocks, width| {
        let text = render_blocks(live, &options(width));
        let lines = text.lines().filter(|line| !line.starts_with("  "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        headings(&live, 100),
        [
            "pid 1  1 block never released, 8 B · make -j 4 all",
            "pid 2  4 blocks never released, 307 B; 3 of them its parent's, 300 B · make -j 4 all",
            "pid 3  2 blocks never released, 200 B; all of them its parent's · sh -c \\u{1b}[2J",
            "pid 4  1 block never released, 100 B; its parent's · /bin/child",
            "pid 5  no recorded block is live · true",
            "pid 6  no recorded block is live",
        ]
    );
    // Those are no leaks to a report.
    live.processes[0].is_replaced = true;
    let replaced = "pid 1  1 block live when exec replaced it, 8 B · make -j 4 all";
    assert_eq!(headings(&live, 100)[0], replaced);
    (live.at, live.until_ns) = (LiveAt::Time, Some(SECOND));
    let before = "pid 1  1 block live at 1.000 s, 8 B · make -j 4 all";
    assert_eq!(headings(&live, 100)[0], before);
    let at =
        "pid 2  4 blocks live at 1.000 s, 307 B; 3 of them its parent's, 300 B · make -j 4 all";
    assert_eq!(headings(&live, 100)[1], at);
    live.processes[1].command = Some(vec!["make".to_owned(), "x".repeat(500)]);
    for width in [60, 80, 100] {
        let text = render_blocks(&live, &options(width));
        assert!(text.lines().all(|line| columns(line) <= width), "{text}");
        let told = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            told.contains("3 of them its parent's, 300 B · make xxx"),
            "{text}"
        );
    }
}

#[test]
fn live_blocks_are_listed() {
    let blocks = (1..=12).map(|size| block(size, size == 2)).collect();
    let mut live = never_released(vec![blocks_of(7, Some("gatewayd"), blocks)]);
    let text = render_blocks(&live, &options(80));
    assert!(
        text.starts_with(
            "pid 7  12 blocks never released, 78 B; 1 of them its parent's, 2 B · gatewayd\n"
        ),
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
        text.starts_with(
            "pid 7  12 blocks live at the peak, 78 B; 1 of them its parent's, 2 B · gatewayd\n"
        ),
        "{text}"
    );
    (live.at, live.until_ns) = (LiveAt::Time, Some(3 * SECOND / 2));
    let text = render_blocks(&live, &options(80));
    assert!(
        text.starts_with(
            "pid 7  12 blocks live at 1.500 s, 78 B; 1 of them its parent's, 2 B · gatewayd\n"
        ),
        "{text}"
    );
}
