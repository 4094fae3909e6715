//! Programs that take our descriptor away, or use its number: no byte of a trace ever lands in a file of theirs.

use super::{program, traced};
use heapwire_tests::build::recorder;
use heapwire_tests::run::{Run, list, number, report, without_recorder};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

fn swept(how: &str) -> Value {
    let scratch = Scratch::new(&format!("sweep-{how}"));
    let (program, library) = (program(&scratch, "sweep"), recorder(&scratch));
    let folder = scratch.join("files");
    fs::create_dir(&folder).unwrap();
    let trace = scratch.join("t.hwt");
    let mut command = traced(&program, &library, trace.to_str().unwrap());
    let run = Run::of(command.arg(how).arg(&folder));
    assert_eq!(
        (run.status, run.stdout.as_str()),
        (0, "clean\n"),
        "{}",
        run.stderr
    );
    if how == "dup2" {
        assert_eq!(fs::metadata(folder.join("all")).unwrap().len(), 0);
    }
    report(&trace)
}

#[test]
fn a_closed_or_replaced_descriptor_is_opened_again_by_its_path() {
    for how in ["none", "close", "close_range", "dup2"] {
        let report = swept(how);
        let process = &list(&report["processes"])[0];
        assert_eq!(
            report["trace"]["complete"], true,
            "{how}: {}",
            report["warnings"]
        );
        let releases = number(&process["totals"]["releases"]);
        assert!(releases >= 8000, "{how}: {releases}");
    }
}

#[test]
fn where_the_path_leads_elsewhere_recording_ends_and_the_report_says_so() {
    let report = swept("chroot");
    let process = &list(&report["processes"])[0];
    assert_eq!(report["trace"]["complete"], false);
    assert!(
        number(&process["totals"]["releases"]) >= 2000,
        "what was recorded before is there"
    );
}

/// Whatever the trace goes to, the program's own files hold its own bytes only.
#[test]
fn files_that_get_the_standard_numbers_stay_clean() {
    let scratch = Scratch::new("stdio-files");
    let (program, library) = (program(&scratch, "stdio_files"), recorder(&scratch));
    for (out, how) in [
        ("t.hwt", ""),
        ("fd:1", ">t.hwt"),
        ("fd:1", "| cat >t.hwt"),
        ("/dev/stdout", ">>t.hwt"),
        ("/proc/self/fd/2", "2>t.hwt"),
        ("fd:2", "2>&1 | cat >t.hwt"),
    ] {
        let folder = scratch.join("files");
        fs::create_dir_all(&folder).unwrap();
        let trace = scratch.join("t.hwt");
        let _ = fs::remove_file(&trace); // of the round before
        let line = format!(
            "{{ LD_PRELOAD={} HEAPWIRE_OUT={out} {} {}; echo $? >status; }} {how}",
            library.display(),
            program.display(),
            folder.display()
        );
        let run = Run::of(
            Command::new("bash")
                .args(["-c", &line])
                .current_dir(scratch.path()),
        );
        assert_eq!(
            (run.status, run.stdout.as_str(), run.stderr.as_str()),
            (0, "", "")
        );
        assert_eq!(
            fs::read_to_string(scratch.join("status")).unwrap(),
            "0\n",
            "{out} {how}"
        );
        for file in ["data0", "data1", "data2"] {
            assert_eq!(
                fs::read(folder.join(file)).unwrap(),
                [0; 1000],
                "{out} {how}"
            );
        }
        let report = report(&trace);
        let process = &list(&report["processes"])[0];
        let has = |bytes| {
            list(&process["leaks"])
                .iter()
                .any(|leak| leak["bytes"] == bytes)
        };
        assert!(has(60001), "{out} {how}");
        assert!(
            has(60002) || report["trace"]["complete"] == false,
            "what is missing is told: {out} {how}"
        );
    }
}

/// A relative path means what it meant at the start, and a closed number is not ours any more.
#[test]
fn a_daemon_keeps_its_files_clean_and_is_recorded() {
    let scratch = Scratch::new("daemon");
    let (program, library) = (program(&scratch, "daemon"), recorder(&scratch));
    let folder = scratch.join("files");
    fs::create_dir(&folder).unwrap();
    for out in ["relative-%p.hwt", "relative.hwt"] {
        let mut command = traced(&program, &library, out);
        let run = Run::of(command.arg(&folder).current_dir(scratch.path()));
        assert_eq!(
            (run.status, run.stdout.as_str()),
            (0, "daemon said y\n"),
            "{out}"
        );
        assert_eq!(fs::read(folder.join("file0")).unwrap(), b"daemon\n");
        let name = out.replace("%p", "");
        assert!(
            !Path::new("/").join(&name).exists(),
            "no trace where it went"
        );
    }
    let report = report(&scratch.join("relative.hwt"));
    let leaks = |process: &Value| -> Vec<u64> {
        let leaks = list(&process["leaks"]).iter();
        leaks
            .map(|leak| number(&leak["bytes"]))
            .filter(|bytes| *bytes > 60_000)
            .collect()
    };
    let found: Vec<_> = list(&report["processes"]).iter().map(leaks).collect();
    // The process in between makes no call.
    assert_eq!(found, [[60001], [60002]], "first process, daemon");
    assert_eq!(report["trace"]["complete"], true, "{}", report["warnings"]);
}

/// What `few_descriptors.c` says that it can have, run in a shell line that is one of these with its name for `$P`.
fn counted(folder: &Path, line: &str) -> String {
    let line = line.replace("$P", "./few_descriptors");
    let mut command = without_recorder(Command::new("bash"));
    let run = Run::of(command.args(["-c", &line]).current_dir(folder));
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{line}");
    run.stdout
}

/// A program that may have few descriptors can have all of them, however it came to the limit; what is lost meanwhile is told.
#[test]
fn a_program_with_few_descriptors_can_have_all_of_them() {
    const PAIRS: u64 = 5000;
    const LANE: u64 = 2048;
    let scratch = Scratch::new("few");
    let folder = scratch.path();
    program(&scratch, "few_descriptors");
    let library = recorder(&scratch);
    let lines = [
        "ulimit -n 4; $P",
        "ulimit -n 5; $P",
        "ulimit -n 8; $P",
        "$P exec 4",
        "$P exec 20",
        "$P after 6",
        "$P fork 6",
        "$P closed 4",
        "$P closed 20",
    ];
    for line in lines {
        let alone = counted(folder, line);
        for (out, redirection) in [("t.hwt", ""), ("t-%p.hwt", ""), ("fd:2", " 2>>t.hwt")] {
            let name = format!("LD_PRELOAD={} HEAPWIRE_OUT={out} $P", library.display());
            let traced = line.replace("$P", &name) + redirection;
            assert_eq!(counted(folder, &traced), alone, "{traced}");
            let (mut lost, mut kept) = (0, 0);
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.extension() == Some("hwt".as_ref()) {
                    let report = report(&path);
                    lost += number(&report["trace"]["lost_records"]);
                    let processes = list(&report["processes"]).iter();
                    kept += processes
                        .map(|process| number(&process["totals"]["releases"]))
                        .sum::<u64>();
                    fs::remove_file(&path).unwrap();
                }
            }
            // Nothing is written while the program has all of them, and while it has two threads.
            assert!(kept >= PAIRS - LANE / 2, "{traced}: {kept} kept");
            assert!(lost <= 4 * PAIRS + LANE, "{traced}: {lost} lost");
        }
    }
}

/// The other threads of a program with few descriptors meet none of ours, not for a moment.
#[test]
fn threads_with_one_descriptor_left_can_always_open_it() {
    let scratch = Scratch::new("last");
    let folder = scratch.path();
    program(&scratch, "last_descriptor");
    let library = recorder(&scratch);
    for limit in [8, 31] {
        let name = format!(
            "ulimit -n {limit}; LD_PRELOAD={} HEAPWIRE_OUT=t.hwt ./last_descriptor",
            library.display()
        );
        let mut command = without_recorder(Command::new("bash"));
        let run = Run::of(command.args(["-c", &name]).current_dir(folder));
        let seen = (run.status, run.stdout.as_str(), run.stderr.as_str());
        assert_eq!(seen, (0, "0 failed, 0 elsewhere\n", ""), "{limit}");
        let report = report(&folder.join("t.hwt"));
        assert_eq!(
            report["trace"]["complete"], false,
            "it says what is missing"
        );
        fs::remove_file(folder.join("t.hwt")).unwrap();
    }
}
