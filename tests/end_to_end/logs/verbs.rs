//! The verbs with logs: what they answer, where files are found, and logs as an output.

use super::{PLAIN, live, only};
use crate::keep::Keep;
use heapwire_tests::build::executable;
use heapwire_tests::run::{Run, command, json, list, number, on, prose, record, report};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::process::Command;

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
fn a_log_has_peaks_and_no_times() {
    let scratch = Scratch::new("log_peak");
    let session = "= Start\n@ p:[0x1] + 0x1000 0x64\n@ p:[0x2] + 0x2000 0x3e8\n@ p:[0x3] - 0x2000\n\
                   @ p:[0x4] + 0x3000 0x10\n= End\n";
    let other = "= Start\n@ p:[0x1] + 0x5000 0x20\n@ p:[0x2] - 0x5000\n= End\n";
    let file = scratch.write("log", format!("{session}{other}"));
    let shown = |arguments: &[&str]| json(&on(&[arguments, &["--format", "json"]].concat(), &file));
    let sizes = |found: &Value| -> Vec<Vec<u64>> {
        let processes = list(&found["processes"]).iter();
        let sizes = |of: &Value| {
            list(&of["blocks"])
                .iter()
                .map(|it| number(&it["size"]))
                .collect()
        };
        processes.map(sizes).collect()
    };
    let peak = shown(&["blocks", "--at", "peak"]);
    assert_eq!(sizes(&peak), [vec![0x64, 0x3e8], vec![0x20]]);
    let warned = |found: &Value| {
        let mut warnings = list(&found["warnings"]).iter();
        warnings.any(|it| it["kind"] == "no-times")
    };
    assert!(!warned(&peak));
    for asked in [
        &["blocks", "--live", "--from", "1s"][..],
        &["blocks", "--at", "1s"],
        &["report", "--to", "1s"],
        &["blocks", "--live", "--min-age", "1s"],
    ] {
        assert!(warned(&shown(asked)), "{asked:?}");
    }
    let history = |options: &[&str]| -> Vec<(u64, String)> {
        let found = shown(&[&["blocks", "--ptr", "0x2000"], options].concat());
        let events = list(&found["events"]).iter();
        let event = |event: &Value| {
            assert!(event["time_ns"].is_null());
            (
                number(&event["log_line"]),
                event["event"].as_str().unwrap().to_owned(),
            )
        };
        events.map(event).collect()
    };
    let both = [(3, "allocated".to_owned()), (4, "released".to_owned())];
    assert_eq!(history(&[]), both);
    assert_eq!(
        history(&["--size", "..10"]),
        both[1..],
        "a release has any size"
    );
    let timeline = on(&["timeline"], &file);
    assert_eq!((timeline.status, timeline.stdout.lines().count()), (0, 1));
    assert!(timeline.stderr.contains("tells no times"), "{timeline:?}");
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
