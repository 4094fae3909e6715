//! Outputs that fail, or that others use as well: the program goes on unchanged, and what is missing is counted.

use super::{program, traced};
use heapwire_tests::build::{heapwire, recorder};
use heapwire_tests::raw::Raw;
use heapwire_tests::run::{Run, list, number, on, prose, report, shell_status};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const SAID: &str = "begin\nend 77 0 0 0 1 1\n";

struct Setup {
    scratch: Scratch,
    program: PathBuf,
    library: PathBuf,
}

impl Setup {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let (program, library) = (program(&scratch, "pairs"), recorder(&scratch));
        Self {
            scratch,
            program,
            library,
        }
    }

    fn run(&self, out: &str, pairs: &str) -> Run {
        let run = Run::of(traced(&self.program, &self.library, out).arg(pairs));
        assert_eq!(
            (run.status, run.stdout.as_str(), run.stderr.as_str()),
            (5, SAID, ""),
            "{out}"
        );
        run
    }

    /// Runs the program in a shell line, where `$HW` stands for it with the recorder in it.
    fn shell(&self, line: &str, environment: &[(&str, &str)]) -> Run {
        let mut command = Command::new("bash");
        let preload = format!(
            "LD_PRELOAD={} {}",
            self.library.display(),
            self.program.display()
        );
        command
            .args(["-c", &line.replace("$HW", &preload)])
            .current_dir(self.scratch.path());
        command.envs(environment.iter().copied());
        Run::of(&mut command)
    }
}

fn process(trace: &Path) -> (Value, Value) {
    let report = report(trace);
    let process = list(&report["processes"])[0].clone();
    (report, process)
}

/// The sizes of the blocks that were never freed, in order.
fn leaked(process: &Value) -> Vec<u64> {
    let mut sizes: Vec<_> = list(&process["leaks"])
        .iter()
        .map(|leak| number(&leak["bytes"]))
        .collect();
    sizes.sort_unstable();
    sizes
}

#[test]
fn a_full_disk_changes_nothing() {
    let setup = Setup::new("full");
    setup.run("/dev/full", "20000");
}

#[test]
fn a_folder_that_is_not_there_or_not_ours_changes_nothing() {
    let setup = Setup::new("no-folder");
    setup.run("/nonexistent/t.hwt", "1000");
    setup.run("/proc/t.hwt", "1000");
    setup.run(setup.scratch.path().to_str().unwrap(), "1000");
    setup.run("fd:99", "1000");
}

#[test]
fn a_file_of_somebody_else_is_never_touched() {
    let setup = Setup::new("foreign-file");
    for content in [&b"precious\n"[..], b"\x89HW", b"\0\0\0\0\0\0\0\0\0\0\0\0"] {
        let file = setup.scratch.write("precious", content);
        setup.run(file.to_str().unwrap(), "1000");
        assert_eq!(fs::read(&file).unwrap(), content);
    }
}

#[test]
fn a_dead_reader_changes_nothing() {
    let setup = Setup::new("dead-reader");
    let begin = Instant::now();
    let run = setup.shell(
        "{ HEAPWIRE_OUT=fd:3 $HW 100000 3>&1 >&4 | head -c 100 >/dev/null; echo ${PIPESTATUS[0]}; } 4>&1",
        &[],
    );
    assert_eq!(run.stdout, format!("{SAID}5\n"), "{}", run.stderr);
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "nobody waits for a reader that is gone"
    );
}

#[test]
fn a_limit_of_the_file_size_changes_nothing_and_is_told() {
    let setup = Setup::new("file-size");
    let run = setup.shell("ulimit -f 100; HEAPWIRE_OUT=t.hwt $HW 20000", &[]);
    assert_eq!(
        (run.status, run.stdout.as_str()),
        (5, SAID),
        "{}",
        run.stderr
    );
    let (report, _) = process(&setup.scratch.join("t.hwt"));
    assert_eq!(report["trace"]["complete"], false);
    assert!(
        number(&report["trace"]["lost_records"]) > 1000,
        "{}",
        report["trace"]
    );
}

#[test]
fn who_records_lives_on_at_a_limit_of_the_file_size() {
    let setup = Setup::new("recorded-size");
    let (heapwire, program) = (heapwire().display(), setup.program.display());
    let line = format!("ulimit -f 100; {heapwire} record -o t.hwt -- {program} 20000");
    let run = setup.shell(&line, &[]);
    assert_eq!((run.status, run.stdout.as_str()), (5, SAID), "{run:?}");
    assert!(
        prose(&run.stderr).contains("The recorder could not write at least"),
        "{run:?}"
    );
}

#[test]
fn a_pipe_keeps_all_and_frames_stay_whole() {
    for pack in ["0", "1"] {
        let setup = Setup::new(&format!("pipe-{pack}"));
        let run = setup.shell(
            "{ HEAPWIRE_OUT=fd:3 $HW 100000 3>&1 >&4 | cat >t.hwt; } 4>&1",
            &[("HEAPWIRE_PACK", pack)],
        );
        assert_eq!(run.stdout, SAID, "{}", run.stderr);
        let (report, process) = process(&setup.scratch.join("t.hwt"));
        assert_eq!(report["trace"]["complete"], true, "{report:#}");
        assert_eq!(number(&process["totals"]["releases"]), 100_000);
        let raw = Raw::read(&setup.scratch.join("t.hwt"));
        assert_eq!(raw.torn, 0);
        if pack == "1" {
            assert_eq!(raw.slot_bytes, 0, "all frames are packed");
            continue;
        }
        let overhead = raw.overhead();
        assert!(
            overhead <= 0.022,
            "frames on a pipe cost {:.2} %",
            overhead * 100.0
        );
    }
}

/// On a pipe the last records would die with the process; SIGKILL and what terminates from outside cost a frame.
#[test]
fn a_pipe_loses_nothing_to_faults_and_a_frame_to_kills() {
    let setup = Setup::new("ways-to-die");
    let ways = program(&setup.scratch, "ways_to_die");
    for (how, signal, loses) in [
        ("abort", 6, false),
        ("segv", 11, false),
        ("raise-segv", 11, false),
        ("fpe", 8, false),
        ("ill", 4, false),
        ("handler", 11, false),
        ("kill", 9, true),
        ("term", 15, true),
    ] {
        let trace = setup.scratch.join(&format!("{how}.hwt"));
        let line = format!(
            "{{ HEAPWIRE_OUT=fd:3 LD_PRELOAD={} {} {how} 3>&1 >&4 | cat >{}; echo ${{PIPESTATUS[0]}}; }} 4>&1",
            setup.library.display(),
            ways.display(),
            trace.display()
        );
        let run = Run::of(Command::new("bash").args(["-c", &line]));
        let plain = Run::of(Command::new(&ways).arg(how));
        assert_eq!(
            run.stdout,
            format!("{}{}\n", plain.stdout, 128 + signal),
            "{how}"
        );
        let (_, process) = process(&trace);
        let releases = number(&process["totals"]["releases"]);
        if loses {
            assert!((1000 - 100..=1000).contains(&releases), "{how}: {releases}");
            assert_eq!(process["end"], "cut", "{how}");
        } else {
            assert_eq!(releases, 1000, "{how}");
            assert_eq!(
                (&process["end"], &process["signal"]),
                (&"signal".into(), &signal.into()),
                "{how}"
            );
        }
    }
}

#[test]
fn a_file_that_is_not_packed_has_forty_bytes_a_record() {
    let setup = Setup::new("overhead");
    let trace = setup.scratch.join("t.hwt");
    let run = setup.shell("HEAPWIRE_OUT=t.hwt $HW 200000", &[("HEAPWIRE_PACK", "0")]);
    assert_eq!(run.stdout, SAID, "{}", run.stderr);
    let raw = Raw::read(&trace);
    let overhead = raw.overhead();
    assert!(
        overhead <= 0.003,
        "frames in a file cost {:.2} %",
        overhead * 100.0
    );
}

#[test]
fn standard_output_is_shared_in_every_form() {
    let setup = Setup::new("stdout");
    for out in ["/proc/self/fd/1", "/dev/stdout", "fd:1", "/dev/fd/1"] {
        let environment = [("HEAPWIRE_OUT", out)];
        for line in [
            "$HW 3000 >t.out",
            "$HW 3000 >>t.out",
            "$HW 3000 | cat >t.out",
        ] {
            let old = if line.contains(">>") {
                "what was there\n"
            } else {
                ""
            };
            let file = setup.scratch.write("t.out", old);
            setup.shell(line, &environment);
            let bytes = fs::read(&file).unwrap();
            let (report, process) = process(&file);
            assert_eq!(
                report["trace"]["complete"], true,
                "{out} {line}: {report:#}"
            );
            assert_eq!(
                leaked(&process)[..],
                [4096, 70001, 70002][..],
                "{out} {line}"
            );
            let foreign = number(&report["trace"]["foreign_bytes"]);
            assert_eq!(foreign, (old.len() + SAID.len()) as u64, "{out} {line}");
            assert!(bytes.starts_with(old.as_bytes()));
            for words in ["begin\n", "end 77 0 0 0 1 1\n"] {
                let found = bytes
                    .windows(words.len())
                    .any(|part| part == words.as_bytes());
                assert!(found, "{words:?} is whole in {out} {line}");
            }
        }
    }
}

#[test]
fn a_socket_takes_frames_and_a_dead_one_changes_nothing() {
    use std::os::fd::{AsRawFd, OwnedFd};
    let setup = Setup::new("socket");
    for is_read in [true, false] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let reader = thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut ours = ours;
            if is_read {
                ours.read_to_end(&mut bytes).unwrap();
            }
            bytes
        });
        let number_of = theirs.as_raw_fd();
        let line = format!("exec {} 50000", setup.program.display());
        let mut command = Command::new("bash");
        // Standard input is the one descriptor that a child can be handed safely.
        command
            .args(["--norc", "-c", &line]) // with a socket as input, bash believes that it is a remote shell
            .env("LD_PRELOAD", &setup.library)
            .env("HEAPWIRE_OUT", "fd:0")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        drop(command);
        assert_eq!(shell_status(output.status), 5, "{number_of}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), SAID);
        let bytes = reader.join().unwrap();
        if is_read {
            let trace = setup.scratch.write("socket.hwt", &bytes);
            let report = report(&trace);
            let last = list(&report["processes"]).last().unwrap().clone();
            assert_eq!(
                number(&last["totals"]["releases"]),
                50_000,
                "{}",
                report["warnings"]
            );
            assert_eq!(number(&report["trace"]["damaged_bytes"]), 0);
        }
    }
}

/// Opened for writing it would never end for the program.
#[test]
fn a_pipe_that_the_program_reads_is_not_written_to() {
    let setup = Setup::new("read-end");
    let line = "{ echo b; echo a; } | HEAPWIRE_OUT=fd:0 LD_PRELOAD=$LIB timeout 20 sort; echo $?";
    let run = setup.shell(&line.replace("$LIB", setup.library.to_str().unwrap()), &[]);
    assert_eq!(run.stdout, "a\nb\n0\n", "{}", run.stderr);
}

#[test]
fn a_slow_reader_is_waited_for_or_dropped_for() {
    let setup = Setup::new("slow");
    let slow = "{ HEAPWIRE_OUT=fd:3 $HW 60000 3>&1 >&4 | { sleep 1; cat >t.hwt; }; } 4>&1";
    let run = setup.shell(slow, &[]);
    assert_eq!(run.stdout, SAID, "{}", run.stderr);
    let (waited, _) = process(&setup.scratch.join("t.hwt"));
    assert_eq!(waited["trace"]["complete"], true, "{}", waited["warnings"]);
    assert_eq!(number(&waited["trace"]["lost_records"]), 0);
    let run = setup.shell(slow, &[("HEAPWIRE_ON_FULL", "drop")]);
    assert_eq!(run.stdout, SAID, "{}", run.stderr);
    let trace = setup.scratch.join("t.hwt");
    let (dropped, process) = process(&trace);
    let lost = number(&dropped["trace"]["lost_records"]);
    assert!(
        lost > 10_000,
        "a pipe holds 16 frames: {}",
        dropped["trace"]
    );
    assert_eq!(dropped["trace"]["complete"], false);
    let (totals, records) = (
        &process["totals"],
        Raw::read(&trace).records().count() as u64,
    );
    let seen = number(&totals["allocations"]) + number(&totals["releases"]);
    assert!(
        seen <= records && seen + lost >= 120_002,
        "every record is there or counted: {totals}"
    );
}

#[test]
fn a_program_that_reads_its_own_trace_does_not_hang() {
    let setup = Setup::new("own-reader");
    let own = program(&setup.scratch, "own_reader");
    let begin = Instant::now();
    let mut command = traced(&own, &setup.library, "fd:9");
    command.env("HEAPWIRE_WAIT", "1");
    let line = format!("exec {} 9>/dev/null", own.display());
    let mut shell = Command::new("bash");
    shell.args(["-c", &line]).env("HEAPWIRE_WAIT", "1");
    let plain = Run::of(&mut shell);
    assert_eq!((plain.status, plain.stdout.as_str()), (0, "read 1\n"));
    let run = Run::of(&mut command);
    assert_eq!(run.status, plain.status, "{}", run.stderr);
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_live_trace_that_somebody_cuts_does_not_kill_the_program() {
    let setup = Setup::new("cut-live");
    program(&setup.scratch, "cut_own_trace");
    let traced = format!("LD_PRELOAD={}", setup.library.display());
    // Started where the signal of it cannot be caught, a program has no lanes in the file.
    for start in ["", "--block-signal=BUS", "--ignore-signal=BUS"] {
        let line =
            format!("env {start} {traced} HEAPWIRE_OUT=t.hwt ./cut_own_trace t.hwt; echo $?");
        assert_eq!(setup.shell(&line, &[]).stdout, "still here\n0\n", "{start}");
        fs::remove_file(setup.scratch.join("t.hwt")).unwrap();
    }
}

#[test]
fn a_trace_that_is_cut_while_nothing_is_recorded_does_not_kill_the_program_at_its_end() {
    let setup = Setup::new("cut-idle");
    let line = format!(
        "HEAPWIRE_OUT=t.hwt LD_PRELOAD={} sleep 0.5 & sleep 0.2; : >t.hwt; wait $!; echo $?",
        setup.library.display()
    );
    assert_eq!(setup.shell(&line, &[]).stdout, "0\n");
}

#[test]
fn a_fifo_that_nobody_reads_is_not_waited_for_where_dropping_was_chosen() {
    let setup = Setup::new("fifo-drop");
    let line = "mkfifo f; HEAPWIRE_OUT=f $HW 10; echo $?";
    let settings = [("HEAPWIRE_ON_FULL", "drop"), ("HEAPWIRE_WAIT", "1000")];
    let run = setup.shell(line, &settings);
    assert_eq!(run.stdout, format!("{SAID}5\n"));
}

#[test]
fn two_programs_can_share_one_file() {
    let setup = Setup::new("shared-file");
    let line = "export HEAPWIRE_OUT=$PWD/t.hwt; $HW 30000 >a & $HW 40000 >b & wait; cat a b";
    let run = setup.shell(line, &[]);
    assert_eq!(run.stdout, format!("{SAID}{SAID}"));
    let report = report(&setup.scratch.join("t.hwt"));
    let mut releases: Vec<_> = list(&report["processes"])
        .iter()
        .map(|process| number(&process["totals"]["releases"]))
        .collect();
    releases.sort_unstable();
    assert_eq!(releases, [30_000, 40_000]);
    assert_eq!(report["trace"]["complete"], true, "{}", report["warnings"]);
}

/// A tmpfs of a few pages, in a mount namespace of its own.
fn on_small_tmpfs(setup: &Setup, script: &str) -> Run {
    let preload = format!(
        "LD_PRELOAD={} {}",
        setup.library.display(),
        setup.program.display()
    );
    let script = format!(
        "mkdir -p small && mount -t tmpfs -o size=256k none small && {}",
        script.replace("$HW", &preload)
    );
    let mut command = Command::new("unshare");
    command
        .args(["-m", "bash", "-c", &script])
        .current_dir(setup.scratch.path());
    Run::of(&mut command)
}

#[test]
fn a_small_disk_fills_up_before_or_after_the_start() {
    let setup = Setup::new("small-disk");
    let keep = "cp small/t.hwt kept.hwt 2>/dev/null; exit $status";
    for settings in ["HEAPWIRE_PACK=0 $HW 20000", "HEAPWIRE_PACK=1 $HW 300000"] {
        let after = format!("HEAPWIRE_OUT=small/t.hwt {settings}; status=$?; {keep}");
        let run = on_small_tmpfs(&setup, &after);
        assert_eq!(
            (run.status, run.stdout.as_str(), run.stderr.as_str()),
            (5, SAID, "")
        );
        let (report, _) = process(&setup.scratch.join("kept.hwt"));
        assert_eq!(report["trace"]["complete"], false);
        assert!(
            number(&report["trace"]["lost_records"]) > 10_000,
            "{}",
            report["trace"]
        );
    }
    let before = format!(
        "head -c 1000000 /dev/zero >small/fill 2>/dev/null; HEAPWIRE_OUT=small/t.hwt $HW 20000; status=$?; {keep}"
    );
    let run = on_small_tmpfs(&setup, &before);
    assert_eq!(
        (run.status, run.stdout.as_str(), run.stderr.as_str()),
        (5, SAID, "")
    );
    let said = on(&["report"], &setup.scratch.join("small/t.hwt"));
    assert_eq!(said.status, 3, "{}", said.stdout);
}

/// Without the calls that a flush makes, lanes take what they have room for, and the rest is counted.
#[test]
fn a_program_that_gives_up_system_calls_goes_on_unchanged() {
    let setup = Setup::new("sandbox");
    let own = program(&setup.scratch, "sandbox");
    let ways = [
        "none",
        "most",
        "errno",
        "strict",
        "write",
        "write-by-call",
        "no-shared",
        "read-only",
        "no-masks",
        "few-pieces",
        "own-places",
        "four-pieces",
    ];
    for how in ways {
        let plain = Run::of(Command::new(&own).arg(how));
        assert_eq!(
            (plain.status, plain.stdout.as_str()),
            (6, "done\n"),
            "{how}"
        );
        let trace = setup.scratch.join(&format!("{how}.hwt"));
        let run = Run::of(traced(&own, &setup.library, trace.to_str().unwrap()).arg(how));
        assert_eq!(run, plain, "{how}");
        let (report, process) = process(&trace);
        let lost = number(&report["trace"]["lost_records"]);
        let seen =
            number(&process["totals"]["allocations"]) + number(&process["totals"]["releases"]);
        // One before, 20,000 pairs, one after, and one more pair before.
        assert_eq!(seen + lost, 2 + 40_000 + 2, "{how}: {}", report["warnings"]);
        assert!(leaked(&process).contains(&6001), "{how}");
        let goes_on = ["none", "most", "four-pieces"].contains(&how);
        assert_eq!(lost == 0, goes_on, "{how}");
        assert_eq!(leaked(&process).contains(&6002), goes_on, "{how}");
        assert_eq!(list(&process["errors"]).len(), 0);
        // On a pipe, too, it lives on; what is missing there nobody can say.
        let line = "{ HEAPWIRE_OUT=fd:3 $OWN 3>&1 >&4 | cat >p.hwt; echo ${PIPESTATUS[0]}; } 4>&1";
        let run = setup.shell(
            &line.replace(
                "$OWN",
                &format!(
                    "LD_PRELOAD={} {} {how}",
                    setup.library.display(),
                    own.display()
                ),
            ),
            &[],
        );
        assert_eq!(run.stdout, "done\n6\n", "{how}: {}", run.stderr);
    }
}

#[test]
fn what_a_reader_took_before_it_left_is_reported_as_incomplete() {
    let setup = Setup::new("leaving-reader");
    let line = "{ HEAPWIRE_OUT=fd:3 $HW 100000 3>&1 >&4 | head -c 100000 >t.hwt; echo ${PIPESTATUS[0]}; } 4>&1";
    let run = setup.shell(line, &[]);
    assert_eq!(run.stdout, format!("{SAID}5\n"), "{}", run.stderr);
    let (report, process) = process(&setup.scratch.join("t.hwt"));
    assert_eq!(report["trace"]["complete"], false);
    assert!(number(&process["totals"]["releases"]) > 500);
    assert_eq!(process["end"], "cut");
    assert_eq!(list(&process["errors"]).len(), 0);
}

/// The program's own descriptor keeps its flags, and what it writes arrives.
#[test]
fn a_standard_output_that_does_not_wait_is_left_as_it_is() {
    let setup = Setup::new("nonblocking");
    let own = program(&setup.scratch, "nonblocking");
    for out in ["fd:1", "/dev/stdout", "t.hwt"] {
        let line = format!(
            "LD_PRELOAD={} HEAPWIRE_OUT={out} {} | {{ sleep 0.3; cat >got; }}; echo ${{PIPESTATUS[0]}}",
            setup.library.display(),
            own.display()
        );
        let run = setup.shell(&line, &[]);
        assert_eq!(run.stdout, "0\n", "{out}: {}", run.stderr);
        let got = fs::read(setup.scratch.join("got")).unwrap();
        assert!(got.windows(5).any(|part| part == b"done\n"), "{out}");
        let trace = if out == "t.hwt" { "t.hwt" } else { "got" };
        let (report, process) = process(&setup.scratch.join(trace));
        assert_eq!(number(&report["trace"]["lost_records"]), 0, "{out}");
        assert_eq!(number(&process["totals"]["releases"]), 20_000, "{out}");
    }
}
