//! Logs of glibc's mtrace as inputs of every verb that reads traces: all forms that lines have had, and all that happens
//! to logs on their way.

use crate::keep::Keep;
use heapwire_tests::build::executable;
use heapwire_tests::run::{Run, command, json, list, number, on, prose, record, report};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::process::Command;

/// The report on a log with this text.
fn reported(log: impl AsRef<[u8]>) -> Value {
    let scratch = Scratch::new("log");
    report(&scratch.write("log", log))
}

/// The only session of a report.
fn only(report: &Value) -> &Value {
    let [session] = list(&report["processes"]) else {
        panic!("not one session: {report}");
    };
    session
}

/// Blocks and bytes live at the end, of each session.
fn live(report: &Value) -> Vec<(u64, u64)> {
    let totals = list(&report["processes"]).iter().map(|of| &of["totals"]);
    totals
        .map(|of| (number(&of["live_blocks"]), number(&of["live_bytes"])))
        .collect()
}

/// Kind, line and certainty of each error.
fn errors(session: &Value) -> Vec<(&str, u64, bool)> {
    list(&session["errors"])
        .iter()
        .map(|error| {
            let kind = error["kind"].as_str().unwrap();
            let certain = error["certain"].as_bool().unwrap();
            (kind, number(&error["log_line"]), certain)
        })
        .collect()
}

/// How often a kind of warning counts.
fn warned(report: &Value, kind: &str) -> u64 {
    let warnings = list(&report["warnings"]).iter();
    let found = warnings.filter(|warning| warning["kind"] == kind);
    found.map(|warning| number(&warning["count"])).sum()
}

const PLAIN: &str = "\
= Start
@ ./gw:[0x1233] + 0x55d0c0de02a0 0x10
@ ./gw:(poll+1d)[0x1250] + 0x55d0c0de02c0 0x20
@ /lib/libc.so.6:(__strdup+1a)[0x9e9aa] + 0x55d0c0de02f0 0x5
@ ./gw:[0x1260] < 0x55d0c0de02c0
@ ./gw:[0x1260] > 0x55d0c0de0310 0x40
@ ./gw:[0x1270] ! 0x55d0c0de0310 0xffffffffffffe000
@ ./gw:[0x1280] + (nil) 0xffffffffffffe000
@ ./gw:[0x1290] - 0x55d0c0de02a0
@ ./gw:[0x12a0] + 0x55d0c0de02a0 0
= End
";

/// Forms of all versions in one log, a block at an address that was live, a double and an invalid release, and a cut end.
#[test]
fn a_log_with_all_that_can_be_odd_is_read_for_what_it_says() {
    let report = reported(
        "= Start
@ ./gw:(fill+0x16)[0x5555555551a6] + 0x5555555592a0 0x65
@ /lib/libc.so.6:(__strdup+1a)[0x9e9aa] + 0x5555555592c0 0x66
@ [0x401136] + 0x555555559400 0x67
 [0x8048209] - 0x5555555592c0
@ ./my gw:(odd [name]+0x4)[0x401200] + 0x555555559500 0x68
@ ./gw:(drop+0x9)[0x5555555551c9] - 0x5555555592a0
@ ./gw:(drop+0x9)[0x5555555551c9] - 0x5555555592a0
@ ./gw:(drop+0x9)[0x5555555551d9] - 0x7777
@ ./gw:(fill+0x16)[0x5555555551a6] + 0x555555559400 0x69
what the program prints
@ ./gw:(fill+0x16)[0x5555555551a6] + 0x555555559",
    );
    let session = only(&report);
    assert_eq!(live(&report), [(2, 0x68 + 0x69)]);
    let leaks = list(&session["leaks"]).iter();
    let leaks = leaks.map(|leak| {
        let frame = &leak["stack"][0];
        let module = frame["module"].as_str().unwrap();
        (number(&leak["bytes"]), module, frame["address"].as_str())
    });
    assert_eq!(
        leaks.collect::<Vec<_>>(),
        [
            (0x69, "./gw", Some("0x5555555551a6")),
            (0x68, "./my gw", Some("0x401200"))
        ]
    );
    let errors = errors(session);
    let errors = errors.iter().map(|(kind, line, _)| (*kind, *line));
    assert_eq!(
        errors.collect::<Vec<_>>(),
        [("double-free", 8), ("invalid-free", 9)]
    );
    let warnings = [
        "unseen-releases",
        "foreign-lines",
        "cut-line",
        "end-unknown",
    ];
    assert_eq!(warnings.map(|kind| warned(&report, kind)), [1; 4]);
}

#[test]
fn totals_follow_the_rules_of_traces() {
    let report = reported(PLAIN);
    assert_eq!(report["trace"]["kind"], "mtrace");
    assert_eq!(report["trace"]["complete"], true);
    assert_eq!(
        list(&report["warnings"])
            .iter()
            .filter(|it| it["kind"] != "module-missing-symbols")
            .count(),
        0
    );
    let session = only(&report);
    assert_eq!(session["end"], "normal");
    assert_eq!(session["exe"], "./gw");
    assert!(session["pid"].is_null() && session["peak"]["time_ns"].is_null());
    let expected = [
        ("allocations", 4),
        ("releases", 1),
        ("reallocations", 1),
        ("allocated_bytes", 0x10 + 0x20 + 0x5 + 0x40),
        ("failed", 2),
        ("failed_reallocations", 1),
        ("live_blocks", 3),
        ("live_bytes", 0x45),
        ("peak_bytes", 0x55),
        ("earlier_releases", 0),
    ];
    for (name, value) in expected {
        assert_eq!(number(&session["totals"][name]), value, "{name}");
    }
    let leaks = list(&session["leaks"]).iter().map(|leak| {
        let frame = &leak["stack"][0];
        (
            number(&leak["bytes"]),
            frame["address"].as_str().unwrap(),
            frame["module"].as_str().unwrap(),
        )
    });
    assert_eq!(
        leaks.collect::<Vec<_>>(),
        [
            (0x40, "0x1260", "./gw"),
            (0x5, "0x9e9aa", "/lib/libc.so.6"),
            (0, "0x12a0", "./gw")
        ]
    );
}

#[test]
fn callers_have_every_form_they_ever_had() {
    let forms = [
        ("@ ./gw:[0x1233] ", "0x1233", Some("./gw")),
        (
            "@ ./gw:(poll+0x1d)[0x5555555551a6] ",
            "0x5555555551a6",
            Some("./gw"),
        ),
        (
            "@ ./gw:(poll+1d)[0x5555555551a6] ",
            "0x5555555551a6",
            Some("./gw"),
        ),
        ("@ ./gw:(poll-2)[0x1233] ", "0x1233", Some("./gw")),
        ("@ (poll+0x1d)[0x8048209] ", "0x8048209", None),
        ("@ [0x7f01] ", "0x7f01", None),
        ("@ [0x7f01]:poll ", "0x7f01", None),
        (" [0x8048209] ", "0x8048209", None),
        ("@0x4005f4 ", "0x4005f4", None),
        ("@[0x4005f4] ", "0x4005f4", None),
        ("", "0x0", None),
        (
            "@ ./my app:(odd [name]+0x4)[0x401200] ",
            "0x401200",
            Some("./my app"),
        ),
        ("@ /a:b/c:(f+1)[0x22] ", "0x22", Some("/a:b/c")),
        ("@ gw.c:71 ", "0x0", Some("gw.c:71")),
        ("[4711] @ ./gw:[0x1233] ", "0x1233", Some("./gw")),
        ("[4711] ./gw:[0x1233] ", "0x1233", Some("./gw")),
        ("12:30:01.25 @ [0x1233] ", "0x1233", None),
        ("[ 12.345678] ", "0x0", None),
        (
            "Nov 29 12:30:01 dev gw[4711]: @ ./gw:[0x1233] ",
            "0x1233",
            Some("./gw"),
        ),
        ("\t\t@ ./gw:[0x1233]\t", "0x1233", Some("./gw")),
        ("@ ./gw:[0x1233]", "0x1233", Some("./gw")),
        ("listening@ ./gw:[0x1233] ", "0x1233", Some("./gw")),
    ];
    for (before, address, module) in forms {
        for end in ["\n", "\r\n", " and more\n"] {
            let report = reported(format!(
                "{before}+ 0x602010 0x20{end}{before}+ 0x602040 0x7{end}{before}- 0x602010{end}"
            ));
            assert_eq!(live(&report), [(1, 7)], "{before}");
            assert_eq!(
                warned(&report, "damaged-lines") + warned(&report, "foreign-lines"),
                0,
                "{before}"
            );
            let frame = &only(&report)["leaks"][0]["stack"][0];
            assert_eq!(
                (&frame["address"], &frame["module"]),
                (&address.into(), &module.into()),
                "{before}"
            );
        }
    }
}

#[test]
fn sizes_and_reallocs_of_old_versions_are_understood() {
    // 2.0: sizes without prefix, and no caller in the second half. Up to 2.17, `!` with size 0 frees.
    let report = reported(
        "@ [0x8] + 0x1000 1f\n@ [0x9] < 0x1000\n> 0x2000 64\n@ [0xa] + 0x3000 0x8\n@ [0xb] ! 0x3000 0\n",
    );
    assert_eq!(live(&report), [(1, 0x64)]);
    let session = only(&report);
    assert_eq!(session["leaks"][0]["stack"][0]["address"], "0x9");
    assert_eq!(number(&session["totals"]["releases"]), 1);
    assert_eq!(number(&session["totals"]["failed"]), 0);
}

#[test]
fn wrong_releases_are_told_from_those_of_earlier_blocks() {
    let report = reported(
        "= Start\n+ 0x1000 0x40\n- 0x1000\n- 0x1000\n- 0x7777\n+ 0x2000 0x40\n- 0x2010\n- 0x9990\n- 0x9990\n= End\n",
    );
    let session = only(&report);
    assert_eq!(
        errors(session),
        [
            ("double-free", 4, true),
            ("invalid-free", 5, true),
            ("invalid-free", 7, true),
            ("double-free", 9, true)
        ]
    );
    assert_eq!(number(&session["totals"]["earlier_releases"]), 1);
    assert_eq!(session["errors"][0]["first_release"]["log_line"], 3);
    assert_eq!(session["errors"][0]["allocation"]["log_line"], 2);
    assert_eq!(session["errors"][2]["inside"]["offset"], 16);
    for error in list(&session["errors"]) {
        assert!(error["thread"].is_null() && error["time_ns"].is_null());
    }
}

#[test]
fn releases_that_are_written_late_are_no_errors() {
    let report = reported(
        "+ 0x1000 0x1\n+ 0x1000 0x2\n- 0x1000\n- 0x1000\n+ 0x2000 0x1\n+ 0x2000 0x3\n< 0x2000\n> 0x3000 0x4\n",
    );
    assert_eq!(errors(only(&report)), []);
    assert_eq!(warned(&report, "late-releases"), 2);
    assert_eq!(warned(&report, "unseen-releases"), 0);
    // The block that was handed out last is the one whose release is missing, and so is the one after it.
    assert_eq!(live(&report), [(2, 7)]);
    let again = reported("+ 0x1000 0x1\n+ 0x1000 0x2\n- 0x1000\n- 0x1000\n- 0x1000\n");
    assert_eq!(errors(only(&again)), [("double-free", 5, true)]);
}

#[test]
fn releases_of_a_program_with_mcheck_find_their_blocks() {
    let report = reported(
        "= Start\n@ ./gw:[0x119a] + 0x5617940fc510 0xa\n@ ./gw:[0x11af] < 0x5617940fc4e0\n@ ./gw:[0x11af] > 0x5617940fc510 0x1388\n+ 0x5617940fe010 0x7\n@ ./gw:[0x11bf] - 0x5617940fc4e0\n",
    );
    assert_eq!(errors(only(&report)), []);
    assert_eq!(live(&report), [(1, 7)]);
}

#[test]
fn sessions_are_processes_of_their_own() {
    let report = reported(
        "= Start\r\n+ 0x1000 0x1\r\n+ 0x2000 0x2\r\n- 0x1000\r\n= End\r\n= Start\r\n+ 0x1000 0x3\r\n",
    );
    assert_eq!(live(&report), [(1, 2), (1, 3)]);
    let ends = list(&report["processes"]).iter().map(|of| &of["end"]);
    assert_eq!(ends.collect::<Vec<_>>(), ["normal", "unknown"]);
    assert_eq!(warned(&report, "unseen-releases"), 0);
    let before = reported("- 0x1000\n= Start\n- 0x1001\n= End\n");
    assert_eq!(list(&before["processes"]).len(), 2);
}

#[test]
fn processes_that_a_collector_tells_apart_are_told_apart() {
    let log = "[7] = Start\n[7] + 0x1000 0x1\n[8] = Start\n[8] + 0x1000 0x2\n[7] - 0x1000\n[8] + 0x2000 0x4\n[7] = End\n[8] - 0x1000\n[8] = End\n";
    let report = reported(log);
    assert_eq!(live(&report), [(0, 0), (1, 4)]);
    assert_eq!(report["trace"]["complete"], true);
    assert_eq!(
        warned(&report, "late-releases") + warned(&report, "foreign-lines"),
        0
    );
}

#[test]
fn the_log_of_a_parent_and_its_child_has_no_certain_error() {
    let log = "= Start\n+ 0x1000 0x1\n+ 0x2000 0x2\n@ [0x1] + 0x30= Start\n+ 0x1000 0x1\n- 0x1000\n- 0x1000\n- 0x2000\n";
    let report = reported(log);
    assert_eq!(live(&report), [(2, 3), (0, 0)]);
    assert_eq!(errors(&report["processes"][1]), [("double-free", 7, false)]);
    assert_eq!(warned(&report, "mixed-sessions"), 1);
    assert_eq!(warned(&report, "damaged-lines"), 1);
}

#[test]
fn what_is_passed_over_is_counted_and_never_reads_as_no_leaks() {
    let scratch = Scratch::new("log_damage");
    let log = "= Start
welcome
@ ./gw:[0x1233] + 0x55d0c0de02a0 0x10
@ ./gw:[0x1233] + 0x55d0programs text
c0de02c0 0x20
@ ./gw:[0x1233] - 0x55d0c0de02a0
= End
";
    let file = scratch.write("log", log);
    let report = report(&file);
    assert_eq!(live(&report), [(0, 0)]);
    assert_eq!(number(&report["trace"]["lost_records"]), 2);
    assert_eq!(report["trace"]["complete"], false);
    assert_eq!(number(&report["trace"]["foreign_bytes"]), 8);
    assert!(number(&report["trace"]["damaged_bytes"]) > 0);
    assert_eq!(warned(&report, "foreign-lines"), 1);
    assert_eq!(warned(&report, "damaged-lines"), 2);
    let text = on(&["report"], &file);
    assert!(!prose(&text.stdout).contains("no leaks"), "{}", text.stdout);
    assert!(
        prose(&text.stdout).contains("the first is line 4"),
        "{}",
        text.stdout
    );
    assert_eq!(on(&["check"], &file).status, 0);
    assert_eq!(on(&["check", "--strict"], &file).status, 4);
}

#[test]
fn what_a_recorder_says_is_lost_counts_as_lost() {
    let scratch = Scratch::new("log_lost");
    let log = "= Start\n+ 0x1000 0x10\n= Lost 7\n[7] = Lost 2\n- 0x1000\n- 0x1000\n= End\n";
    let file = scratch.write("log", log);
    let report = report(&file);
    assert_eq!(number(&report["trace"]["lost_records"]), 9);
    assert_eq!(number(&report["trace"]["foreign_bytes"]), 0);
    assert_eq!(report["trace"]["complete"], false);
    assert_eq!(errors(only(&report)), [("double-free", 6, true)]);
    let text = on(&["report"], &file);
    assert!(!prose(&text.stdout).contains("no leaks"), "{}", text.stdout);
    // The script takes it for nothing.
    assert!(
        on(&["mtrace"], &file)
            .stdout
            .contains("Free 6 was never alloc'd")
    );
    let cut = reported("+ 0x1000 0x10\n= Lost 7");
    assert_eq!(warned(&cut, "cut-line"), 1);
}

#[test]
fn lines_of_a_child_that_name_it_are_not_its_parents() {
    let log =
        "= Start\n+ 0x1000 0x1\n[8] = Start\n[8] - 0x1000\n[8] + 0x2000 0x4\n+ 0x2000 0x2\n= End\n";
    let report = reported(log);
    assert_eq!(live(&report), [(2, 3), (1, 4)]);
    assert_eq!(
        warned(&report, "late-releases") + warned(&report, "unseen-releases"),
        0
    );
}

#[test]
fn a_last_line_without_end_is_left_out_if_it_can_be_cut() {
    let log = |last: &str| reported(format!("@ [0x1] + 0x55d0c0de02a0 0x10\n@ [0x1] {last}"));
    for last in [
        "+ 0x55d0c0de02c0 0x2",
        "- 0x55d0c0",
        "<",
        "> 0x55d0c0de02c0 0x20",
        "- 0x",
        "@ ./g",
    ] {
        let report = log(last);
        assert_eq!(live(&report), [(1, 16)], "{last}");
        assert_eq!(warned(&report, "cut-line"), 1, "{last}");
    }
    let whole = log("- 0x55d0c0de02a0");
    assert_eq!(
        (live(&whole), warned(&whole, "cut-line")),
        (vec![(0, 0)], 0)
    );
}

#[test]
fn a_hole_of_zeros_hides_no_record_behind_it() {
    let report =
        reported(b"+ 0x1000 0x1\n@ [0x1] + 0x20\0\0\0\0\0\0@ [0x2] - 0x1000\n\x00\x00\x0000 0x8\n");
    assert_eq!(live(&report), [(0, 0)]);
    assert_eq!(warned(&report, "damaged-lines"), 2);
}

#[test]
fn every_verb_takes_logs_from_files_and_standard_input() {
    let scratch = Scratch::new("log_verbs");
    let file = scratch.write("log", PLAIN);
    assert_eq!(on(&["check"], &file).status, 1);
    assert_eq!(on(&[], &file).status, 0);
    let without_end = scratch.write("open", PLAIN.replace("= End\n", ""));
    assert_eq!(on(&["check"], &without_end).status, 1);
    let tight = scratch.write("tight", "+0x1000 0x10\n-0x1000\n");
    assert_eq!(live(&report(&tight)), [(0, 0)]);
    let dump = on(&["dump"], &file);
    assert!(
        dump.stdout
            .contains("line=2 number=1 op=allocated ptr=0x55d0c0de02a0 size=16 pc=0x1233"),
        "{}",
        dump.stdout
    );
    let blocks = json(&on(&["blocks", "--live", "--format", "json"], &file));
    let blocks = list(&blocks["processes"][0]["blocks"]);
    let lines: Vec<u64> = blocks
        .iter()
        .map(|block| number(&block["log_line"]))
        .collect();
    assert_eq!(lines, [4, 6, 10]);
    assert!(blocks[0]["thread"].is_null() && blocks[0]["time_ns"].is_null());
    let mut from_input = command();
    from_input.args(["report", "--format", "json", "-"]);
    let piped = json(&Run::with_input(&mut from_input, PLAIN.into()));
    assert_eq!(piped["processes"], report(&file)["processes"]);
}

#[test]
fn a_log_without_calls_is_answered_with_status_3() {
    let scratch = Scratch::new("log_empty");
    let run = on(&["report"], &scratch.write("log", "= Start\n= End\n"));
    assert_eq!(run.status, 3);
    assert!(!prose(&run.stdout).contains("no leaks"), "{}", run.stdout);
    let run = on(
        &["report"],
        &scratch.write("text", "a + b\n- 12\nmail me @ home\n"),
    );
    assert_eq!(run.status, 3);
    assert!(
        prose(&run.stderr).contains("is not a heapwire trace"),
        "{}",
        run.stderr
    );
}

#[test]
#[cfg(target_arch = "x86_64")]
fn addresses_are_resolved_whatever_they_count_from() {
    for options in [&["-no-pie"][..], &["-pie", "-fPIE"]] {
        let scratch = Scratch::new("log_symbols");
        let Keep {
            function: keep,
            call,
        } = Keep::build(&scratch, "gw", options);
        let is_fixed = options == ["-no-pie"];
        let begin = if is_fixed { 0x40_0000 } else { 0 };
        let loaded = if is_fixed { 0 } else { 0x5555_5555_4000 };
        let path = scratch.join("gw");
        let path = path.to_str().unwrap();
        let offset = call - keep;
        let resolved = [
            format!("{path}:[{:#x}]", call - begin),
            format!("{path}:(keep+{offset:x})[{:#x}]", call - begin),
            format!("{path}:(keep+{offset:#x})[{:#x}]", loaded + call),
            format!("{path}:(keep+{offset:x})[{:#x}]", loaded + call),
        ];
        let mut callers: Vec<(String, bool)> = resolved.into_iter().map(|it| (it, true)).collect();
        callers.push((format!("{path}:[{:#x}]", loaded + call), is_fixed));
        for (caller, is_known) in callers {
            let log = scratch.write("log", format!("@ {caller} + 0x602010 0x20\n"));
            let report = report(&log);
            let frame = &only(&report)["leaks"][0]["stack"][0];
            if is_known {
                assert_eq!(
                    (&frame["function"], &frame["line"]),
                    (&"keep".into(), &4.into()),
                    "{caller}"
                );
                assert_eq!(frame["offset"], format!("{call:#x}"), "{caller}");
            } else {
                assert!(
                    frame["function"].is_null() && frame["offset"].is_null(),
                    "{caller}"
                );
            }
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn files_are_found_where_the_user_says() {
    let scratch = Scratch::new("log_places");
    let Keep { call, .. } = Keep::build(&scratch, "gw", &["-pie", "-fPIE"]);
    std::fs::create_dir_all(scratch.join("root/opt")).unwrap();
    std::fs::copy(scratch.join("gw"), scratch.join("root/opt/gw")).unwrap();
    let log = |path: &str| scratch.write("log", format!("@ {path}:[{call:#x}] + 0x602010 0x20\n"));
    let function = |words: &[&str], place: &str, path: &str| {
        let file = log(path);
        let mut words: Vec<&str> = words.to_vec();
        let place = scratch.join(place);
        words.push(place.to_str().unwrap());
        let report = json(&on(&words, &file));
        only(&report)["leaks"][0]["stack"][0]["function"].clone()
    };
    let json = ["report", "--format", "json"];
    for (option, place, path) in [
        ("--sysroot", "root", "/opt/gw"),
        ("--debug-dir", "root/opt", "/nowhere/gw"),
        ("--exe", "gw", "gw"),
        ("--exe", "gw", "renamed: working"),
    ] {
        let words = [&json[..], &[option]].concat();
        assert_eq!(function(&words, place, path), "keep", "{option}");
    }
}

#[test]
fn a_recorded_program_is_exported_as_a_log_that_the_script_reads() {
    let scratch = Scratch::new("log_export");
    let program = executable("heapwire-samples", "leak");
    let recording = record(&program, &[], &scratch);
    let before = report(&recording.trace);
    let log = scratch.join("log");
    let exported = Run::of(
        command()
            .args(["export", "--to", "mtrace", "-o"])
            .arg(&log)
            .arg(&recording.trace),
    );
    assert_eq!((exported.status, &*exported.stderr), (0, ""));
    let after = report(&log);
    assert_eq!(live(&after), live(&before));
    let lines = |report: &Value| {
        let leaks = list(&only(report)["leaks"]).iter();
        let rows = leaks.map(|leak| (number(&leak["bytes"]), leak["stack"][0]["line"].as_u64()));
        rows.collect::<Vec<_>>()
    };
    assert_eq!(lines(&after), lines(&before));
    let script = std::path::Path::new("/usr/bin/mtrace");
    let (blocks, _) = live(&before)[0];
    let runs = [
        Some(on(&["mtrace"], &log)),
        script
            .exists()
            .then(|| Run::of(Command::new(script).arg(&log))),
    ];
    for run in runs.into_iter().flatten() {
        let listed = run
            .stdout
            .lines()
            .filter(|line| line.starts_with("0x"))
            .count();
        assert_eq!((listed as u64, run.status), (blocks, 1), "{}", run.stdout);
    }
    let to_stdout = Run::of(
        command()
            .args(["export", "--to", "mtrace"])
            .arg(&recording.trace),
    );
    assert_eq!(to_stdout.stdout, std::fs::read_to_string(&log).unwrap());
}

#[test]
fn processes_are_exported_apart_where_the_name_has_a_pid() {
    let scratch = Scratch::new("log_export_pids");
    let trace =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/v1/fork_both_sides.hwt");
    let pids: Vec<u64> = list(&report(&trace)["processes"])
        .iter()
        .map(|of| number(&of["pid"]))
        .collect();
    let output = scratch.join("log.%p");
    let apart = Run::of(
        command()
            .args(["export", "--to", "mtrace", "-o"])
            .arg(&output)
            .arg(&trace),
    );
    assert_eq!((apart.status, &*apart.stderr), (0, ""));
    for pid in &pids {
        assert!(scratch.join(&format!("log.{pid}")).exists());
    }
    let mixed = Run::of(command().args(["export", "--to", "mtrace"]).arg(&trace));
    assert_eq!(mixed.stdout.matches("= Start").count(), pids.len());
    assert!(mixed.stderr.contains("%p"), "{}", mixed.stderr);
}

/// No path and no name of a symbol is so long: it is not kept, nor shown.
#[test]
fn a_line_without_an_end_is_a_damaged_one() {
    let scratch = Scratch::new("endless");
    let line = format!("@ /{}:[0x10] + 0x2000 0x8\n", "a".repeat(3 << 20));
    let log = scratch.write(
        "log",
        format!("= Start\n{line}@ p:[0x1] + 0x1000 0x8\n= End\n"),
    );
    let run = Run::of(command().arg("report").arg(&log));
    assert!(run.stdout.len() < 10_000, "{} bytes", run.stdout.len());
    let report = json(&Run::of(
        command().args(["report", "--format", "json"]).arg(&log),
    ));
    assert_eq!(number(&report["processes"][0]["totals"]["allocations"]), 1);
    assert_eq!(report["trace"]["complete"], false);
}
