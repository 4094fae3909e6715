//! The command line: statuses, streams, and what a script may rely on.

use heapwire_tests::build::{Sample, heapwire};
use heapwire_tests::run::{Run, command, json, on, prose, record, run};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::Writer;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn leaky(scratch: &Scratch) -> PathBuf {
    scratch.write("leaky.hwt", Writer::new().malloc(0x1000, 48).end().bytes())
}

fn clean(scratch: &Scratch) -> PathBuf {
    scratch.write(
        "clean.hwt",
        Writer::new().malloc(0x1000, 48).free(0x1000).end().bytes(),
    )
}

#[test]
fn help_is_no_error_and_wrong_usage_is() {
    let verbs = [
        "run", "record", "report", "check", "blocks", "dump", "recorder",
    ];
    let help = run(["--help"]);
    assert_eq!((help.status, help.stderr.as_str()), (0, ""));
    for verb in verbs {
        assert!(
            help.stdout.contains(verb),
            "{verb} is in the help: {}",
            help.stdout
        );
        let help = run([verb, "--help"]);
        assert_eq!((help.status, help.stderr.as_str()), (0, ""), "{verb}");
        let wrong = run([verb, "--no-such-option"]);
        let expected: &[i32] = if verb == "run" || verb == "record" {
            &[125, 2]
        } else {
            &[2]
        };
        assert!(expected.contains(&wrong.status), "{verb}: {wrong:?}");
        assert_eq!(wrong.stdout, "", "{verb}");
        assert!(wrong.stderr.contains("--no-such-option"), "{wrong:?}");
    }
    assert_eq!(
        run(["--version"]).stdout,
        format!("heapwire {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn a_trace_alone_means_report_and_leaks_are_no_failure() {
    let scratch = Scratch::new("alone");
    let trace = leaky(&scratch);
    let alone = run([trace.as_os_str()]);
    let report = on(&["report"], &trace);
    assert_eq!((alone.status, report.status), (0, 0));
    assert_eq!(alone.stdout, report.stdout);
    assert!(alone.stdout.contains("48"), "{}", alone.stdout);
}

#[test]
fn a_mistyped_verb_is_told_from_a_missing_file() {
    let scratch = Scratch::new("mistyped");
    let mistyped = on(&["reprot"], &leaky(&scratch));
    assert_eq!(mistyped.status, 3);
    assert!(
        mistyped
            .stderr
            .ends_with("; did you mean `heapwire report`?\n"),
        "{mistyped:?}"
    );
    let missing = run(["no-such-file.hwt"]);
    assert_eq!(missing.status, 3);
    assert!(
        !prose(&missing.stderr).contains("did you mean"),
        "{missing:?}"
    );
}

#[test]
fn a_dash_is_standard_input() {
    let scratch = Scratch::new("dash");
    let trace = leaky(&scratch);
    let named = json(&on(&["report", "--format", "json"], &trace));
    let piped = Run::with_input(
        command().args(["report", "-", "--format", "json"]),
        fs::read(&trace).unwrap(),
    );
    assert_eq!(json(&piped)["processes"], named["processes"]);
}

#[test]
fn several_files_make_one_report() {
    let scratch = Scratch::new("several");
    let mut other = Writer::bare(0x0BAD_CAFE);
    other
        .process(4712, &["exe=/bin/p", "began=exec"])
        .malloc(0x1000, 48);
    let files = [
        leaky(&scratch),
        scratch.write("other.hwt", other.end().bytes()),
    ];
    let run = Run::of(
        command()
            .arg("report")
            .args(&files)
            .args(["--format", "json"]),
    );
    assert_eq!(json(&run)["processes"].as_array().unwrap().len(), 2);
}

#[test]
fn nothing_found_says_so_and_why_it_may_be_believed() {
    let scratch = Scratch::new("nothing");
    let run_on = |trace: PathBuf| on(&["report"], &trace).stdout.to_lowercase();
    assert!(prose(&run_on(clean(&scratch))).contains("no leaks"));
    let cut = scratch.write(
        "cut.hwt",
        Writer::new().malloc(0x1000, 48).free(0x1000).bytes(),
    );
    assert!(
        !prose(&run_on(cut)).contains("no leaks"),
        "a trace without its end cannot know"
    );
    let live = scratch.write("live.hwt", Writer::new().malloc(0x1000, 48).bytes());
    let words = run_on(live);
    assert!(
        prose(&words).contains("live when the trace ends"),
        "{words}"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let scratch = Scratch::new("pipe");
    let mut writer = Writer::new();
    for address in 1..5000 {
        writer.malloc(address * 0x100, 8);
    }
    let trace = scratch.write("t.hwt", writer.end().bytes());
    let mut child = command()
        .arg("dump")
        .arg(&trace)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), &b""[..])
    );
}

#[test]
fn the_programs_status_is_passed_on() {
    let scratch = Scratch::new("status");
    let trace = scratch.join("t.hwt");
    let status = |program: &[&str]| {
        Run::of(
            command()
                .args(["record", "-o"])
                .arg(&trace)
                .arg("--")
                .args(program),
        )
        .status
    };
    assert_eq!(status(&["true"]), 0);
    assert_eq!(status(&["sh", "-c", "exit 9"]), 9);
    assert_eq!(status(&["sh", "-c", "kill -TERM $$"]), 128 + 15);
    assert_eq!(status(&["/nonexistent/program"]), 127);
    assert_eq!(status(&["/etc/passwd"]), 126);
    let nowhere = run(["record", "-o", "/nonexistent/folder/t.hwt", "--", "true"]);
    assert_eq!(nowhere.status, 125, "{nowhere:?}");
}

#[test]
fn record_never_overwrites_what_is_no_trace() {
    let scratch = Scratch::new("overwrite");
    let text = scratch.write("notes.txt", "not a trace\n");
    let refused = record_into(&text);
    assert_eq!(refused.status, 125, "{refused:?}");
    assert_eq!(refused.stdout, "", "the program did not run");
    assert_eq!(fs::read_to_string(&text).unwrap(), "not a trace\n");

    let trace = leaky(&scratch);
    assert_eq!(record_into(&trace).status, 0);
    let report = json(&on(&["report", "--format", "json"], &trace));
    assert_eq!(
        report["processes"].as_array().unwrap().len(),
        1,
        "a trace is begun afresh"
    );
    assert_ne!(report["processes"][0]["pid"], 4711);
}

fn record_into(path: &std::path::Path) -> Run {
    Run::of(
        command()
            .args(["record", "-o"])
            .arg(path)
            .args(["--", "sort", "/etc/passwd"]),
    )
}

#[test]
fn without_a_name_the_trace_is_named_after_program_and_pid() {
    let scratch = Scratch::new("names");
    let run = Run::of(command().current_dir(scratch.path()).args([
        "record",
        "--",
        "sort",
        "/etc/passwd",
    ]));
    assert_eq!(run.status, 0, "{run:?}");
    let names: Vec<String> = fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let middle = names[0]
        .strip_prefix("sort.")
        .and_then(|rest| rest.strip_suffix(".hwt"));
    assert!(
        middle.is_some_and(|pid| pid.parse::<u32>().is_ok()),
        "{names:?}"
    );
}

#[test]
fn run_reports_on_stderr_and_keeps_no_trace() {
    let scratch = Scratch::new("run");
    let sample = Sample::build("c/leak_loop.c", &scratch);
    let before = fs::read_dir(scratch.path()).unwrap().count();
    let run = Run::of(
        command()
            .current_dir(scratch.path())
            .args(["run", "--"])
            .arg(&sample.program),
    );
    assert_eq!((run.status, run.stdout.as_str()), (0, ""), "{run:?}");
    assert!(
        run.stderr.contains("144"),
        "three blocks of 48 bytes: {}",
        run.stderr
    );
    assert!(run.stderr.contains("leak_loop.c:6"), "{}", run.stderr);
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), before);
}

#[test]
fn lines_of_mtrace_are_a_trace_as_well() {
    let scratch = Scratch::new("lines");
    let sample = Sample::build("c/leak_loop.c", &scratch);
    for words in [
        &["run", "--"][..],
        &["record", "-o", "log", "--"],
        &["record", "--"],
    ] {
        let mut command = command();
        command
            .current_dir(scratch.path())
            .env("HEAPWIRE_FORMAT", "mtrace");
        let run = Run::of(command.args(words).arg(&sample.program));
        assert_eq!((run.status, run.stdout.as_str()), (0, ""), "{run:?}");
        assert!(run.stderr.contains("3 blocks"), "{words:?}: {}", run.stderr);
        assert!(
            run.stderr.contains("leak_loop.c:6"),
            "{words:?}: {}",
            run.stderr
        );
    }
    let logs = fs::read_dir(scratch.path()).unwrap().filter(|entry| {
        let path = entry.as_ref().unwrap().path();
        fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"= Start"))
    });
    assert_eq!(logs.count(), 2);
}

#[test]
fn a_bare_preload_records_nothing() {
    let scratch = Scratch::new("bare");
    let library = heapwire_tests::build::recorder(&scratch);
    let run = Run::of(
        heapwire_tests::run::without_recorder(Command::new("sort"))
            .current_dir(scratch.path())
            .arg("/etc/passwd")
            .env("LD_PRELOAD", &library),
    );
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    let left: Vec<_> = fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(left, [library]);
}

#[test]
fn dump_shows_every_record_on_a_line() {
    let scratch = Scratch::new("dump");
    let sample = Sample::build("c/realloc_forms.c", &scratch);
    let trace = record(&sample.program, &sample.arguments, &scratch).trace;
    let dump = on(&["dump"], &trace);
    assert_eq!(dump.status, 0, "{}", dump.stderr);
    for op in [
        "process",
        "module-loaded",
        "allocated",
        "realloc-old",
        "realloc-new",
        "realloc-failed",
        "realloc-freed",
        "end",
    ] {
        assert!(dump.stdout.contains(op), "{op} in {}", dump.stdout);
    }
}

#[test]
fn a_result_that_nobody_gets_is_an_error_unless_its_reader_left() {
    let scratch = Scratch::new("nobody");
    let trace = clean(&scratch);
    for (out, status, error) in [
        (">&-", 3, "Bad file descriptor"),
        (">/dev/full", 3, "No space left on device"),
        ("| true", 0, ""),
        (">/dev/null", 0, ""),
        ("<>/dev/null 1<&0", 0, ""), // as programs do it that have no use for the result
    ] {
        for verb in ["report", "report --format json", "dump", "info"] {
            let mut shell = Command::new("bash");
            let line = format!("set -o pipefail; \"$0\" {verb} \"$1\" {out}");
            let run = Run::of(shell.args(["-c", &line]).arg(heapwire()).arg(&trace));
            assert_eq!(run.status, status, "{verb} {out}: {run:?}");
            let stderr = run.stderr;
            assert!(
                stderr.contains(error) && stderr.is_empty() == error.is_empty(),
                "{stderr}"
            );
        }
    }
}

#[test]
fn where_a_recorder_is_missing_it_is_said_how_to_get_it() {
    let scratch = Scratch::new("missing");
    let library = scratch.join("libheapwire.so");
    let run = on(&["recorder", "--target", "pdp11", "-o"], &library);
    assert_eq!((run.status, &*run.stdout), (3, ""), "{run:?}");
    assert!(!library.exists());
    let said = prose(&run.stderr);
    for way in [
        "for pdp11:",
        "tests/devices/build DIR",
        "HEAPWIRE_RECORDERS=DIR",
    ] {
        assert!(said.contains(way), "{said}");
    }
}
