//! Programs that call `mtrace` and `muntrace`, with MALLOC_TRACE set: what glibc's own recorder does to logs, files and
//! programs does not happen here.

use super::program;
use heapwire_tests::build::recorder;
use heapwire_tests::run::{Run, is_installed, json, list, number, on, report, without_recorder};
use heapwire_tests::scratch::Scratch;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Tracer {
    scratch: Scratch,
    program: PathBuf,
    library: PathBuf,
}

impl Tracer {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let (program, library) = (program(&scratch, "mtrace"), recorder(&scratch));
        Self {
            scratch,
            program,
            library,
        }
    }

    fn log(&self) -> PathBuf {
        self.scratch.join("log")
    }

    /// The program with the library, and without a place to trace to.
    fn bare(&self) -> Command {
        let mut command = without_recorder(Command::new(&self.program));
        command.env_remove("HEAPWIRE_FORMAT");
        command.env("LD_PRELOAD", &self.library);
        command
    }

    /// Runs the program in the way that `how` names.
    fn run(&self, how: &str) -> Run {
        let mut command = self.bare();
        Run::of(command.env("MALLOC_TRACE", self.log()).arg(how))
    }

    /// Runs a line of shell, in which `$P` is the traced program.
    fn shell(&self, line: &str) -> Run {
        let traced = format!(
            "env LD_PRELOAD={} {}",
            self.library.display(),
            self.program.display()
        );
        let mut shell = without_recorder(Command::new("sh"));
        shell.current_dir(self.log().parent().unwrap());
        Run::of(shell.env("P", traced).args(["-c", line]))
    }

    /// The logs beside the one that was named, which children write.
    fn others(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.log().parent().unwrap()).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        paths
            .filter(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                name.starts_with("log.")
            })
            .collect()
    }
}

/// What the rules of mtrace(1) make of a log.
#[derive(Debug, Default, PartialEq, Eq)]
struct Account {
    /// Sizes of the program's own blocks that were not released.
    leaks: Vec<u64>,
    /// Releases of unknown blocks, and blocks that were there already.
    errors: u64,
    starts: usize,
    ends: usize,
    lost: u64,
    lines: u64,
}

/// Reads a log of which every line must be whole.
fn account(log: &str) -> Account {
    let mut account = Account::default();
    let mut live = BTreeMap::new();
    assert!(log.ends_with('\n'), "the last line is cut");
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["=", "Start"] => account.starts += 1,
            ["=", "End"] => account.ends += 1,
            ["=", "Lost", count] => account.lost += count.parse::<u64>().unwrap(),
            ["@", caller, sign @ ("+" | ">" | "!"), address, size] => {
                check(caller, line);
                account.lines += 1;
                let size = hexadecimal(size).unwrap_or_else(|| panic!("{line}"));
                if sign != "!" && hexadecimal(address).is_some() {
                    account.errors += u64::from(live.insert(address, size).is_some());
                }
            }
            ["@", caller, "-" | "<", address] => {
                check(caller, line);
                account.lines += 1;
                assert!(hexadecimal(address).is_some(), "{line}");
                account.errors += u64::from(live.remove(address).is_none());
            }
            _ => panic!("no line of a log: {line:?}"),
        }
    }
    account.leaks = live
        .into_values()
        .filter(|size| (1001..=1010).contains(size))
        .collect();
    account.leaks.sort_unstable();
    account
}

fn check(caller: &str, line: &str) {
    let begin = caller.rfind('[').unwrap_or_else(|| panic!("{line}"));
    let pc = caller[begin + 1..].strip_suffix(']').and_then(hexadecimal);
    assert!(pc.is_some() && caller.starts_with('/'), "{line}");
}

fn hexadecimal(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn read(path: &Path) -> Account {
    account(&fs::read_to_string(path).unwrap())
}

#[test]
fn sessions_follow_each_other_in_one_file() {
    let tracer = Tracer::new("mtrace-sessions");
    assert_eq!(tracer.run("sessions").status, 0);
    let expected = Account {
        leaks: vec![1001, 1002],
        errors: 0,
        starts: 2,
        ends: 2,
        lost: 0,
        lines: 603,
    };
    let log = read(&tracer.log());
    // The block from before is released in the first session.
    assert_eq!((log.errors, log.lines), (1, expected.lines), "{log:?}");
    assert_eq!(Account { errors: 0, ..log }, expected);
    assert_eq!(tracer.run("sessions").status, 0);
    assert_eq!(read(&tracer.log()).starts, 4, "nothing is truncated");
}

#[test]
fn the_report_knows_the_sessions_and_their_lines() {
    let tracer = Tracer::new("mtrace-report");
    assert_eq!(tracer.run("sessions").status, 0);
    let report = report(&tracer.log());
    assert_eq!(report["trace"]["kind"], "mtrace");
    assert_eq!(report["trace"]["lost_records"], 0);
    let processes = list(&report["processes"]);
    assert_eq!(processes.len(), 2);
    for (process, bytes) in processes.iter().zip([1001, 1002]) {
        assert_eq!(process["end"], "normal");
        let [leak] = list(&process["leaks"]) else {
            panic!("{process}");
        };
        assert_eq!(number(&leak["bytes"]), bytes);
        let frame = &list(&leak["stack"])[0];
        assert_eq!(frame["function"], "leak");
        assert!(frame["file"].as_str().unwrap().ends_with("/mtrace.c"));
    }
}

#[test]
fn the_script_of_glibc_reads_the_same_leaks() {
    let tracer = Tracer::new("mtrace-script");
    assert_eq!(tracer.run("sessions").status, 0);
    if !is_installed("mtrace") {
        return;
    }
    let script = Run::of(Command::new("mtrace").arg(tracer.log()));
    let ours = on(&["mtrace"], &tracer.log());
    assert_eq!((script.status, &script.stdout), (1, &ours.stdout));
    assert_eq!(
        script.stdout.matches("    0x3e9  at ").count(),
        1,
        "{}",
        script.stdout
    );
    assert_eq!(script.stdout.matches("    0x3ea  at ").count(), 1);
}

#[test]
fn each_form_of_a_call_is_a_line_as_glibc_writes_it() {
    let tracer = Tracer::new("mtrace-forms");
    assert_eq!(tracer.run("forms").status, 0);
    let log = fs::read_to_string(tracer.log()).unwrap();
    let signs: Vec<_> = log
        .lines()
        .filter_map(|line| line.split(' ').nth(2))
        .collect();
    let expected = "+ < > + < > + ! - - + - + -".split(' ').collect::<Vec<_>>();
    assert_eq!(signs, expected, "{log}");
    assert_eq!(account(&log).leaks, [1001]);
}

/// From glibc 2.34 on a release is written after it has happened: then another thread can have the address already.
#[test]
fn no_release_comes_late_whatever_threads_do() {
    let tracer = Tracer::new("mtrace-threads");
    for _ in 0..3 {
        let _ = fs::remove_file(tracer.log()); // of the round before
        assert_eq!(tracer.run("threads").status, 0);
        let log = read(&tracer.log());
        assert_eq!((log.errors, log.lost, log.leaks), (0, 0, vec![1001]));
        assert!(log.lines > 200_000, "{}", log.lines);
    }
}

/// glibc's `muntrace` makes the program crash.
#[test]
fn sessions_end_while_threads_allocate() {
    let tracer = Tracer::new("mtrace-race");
    let run = tracer.run("race");
    assert_eq!(run.status, 0, "{}", run.stderr);
    let log = read(&tracer.log());
    assert_eq!((log.starts, log.ends, log.lost), (30, 30, 0));
    // Each thread can have one block when a session begins, and one when it ends.
    assert!(log.errors <= 30 * 3 * 2, "{}", log.errors);
}

#[test]
fn parent_and_child_of_a_fork_have_a_log_each() {
    let tracer = Tracer::new("mtrace-fork");
    assert_eq!(tracer.run("fork").status, 0);
    let log = read(&tracer.log());
    assert_eq!((log.errors, log.starts, log.ends), (0, 1, 1));
    assert_eq!((log.leaks, log.lines), (vec![1001, 1003], 1004));
    let [child] = &tracer.others()[..] else {
        panic!("{:?}", tracer.others());
    };
    let log = read(child);
    assert_eq!(
        (log.errors, log.starts, log.ends),
        (1, 1, 0),
        "one was inherited"
    );
    assert_eq!((log.leaks, log.lines), (vec![1002], 1002));
}

#[test]
fn children_come_while_threads_allocate() {
    let tracer = Tracer::new("mtrace-forks");
    assert_eq!(tracer.run("forks").status, 0);
    let log = read(&tracer.log());
    assert_eq!((log.errors, log.lost, log.ends), (0, 0, 1));
    assert_eq!(log.leaks, [1001]);
    let children = tracer.others();
    assert_eq!(children.len(), 60);
    for child in children {
        let log = read(&child);
        assert_eq!((log.errors, log.lost, log.starts), (0, 0, 1));
        assert_eq!(log.leaks, [1002]);
    }
}

#[test]
fn lines_of_a_child_on_its_parents_descriptor_name_it() {
    let tracer = Tracer::new("mtrace-fork-pipe");
    let run = tracer.shell("MALLOC_TRACE=/dev/stdout $P fork | cat >log");
    assert_eq!(run.status, 0, "{}", run.stderr);
    let text = fs::read_to_string(tracer.log()).unwrap();
    let parents: String = text
        .split_inclusive('\n')
        .filter(|line| !line.starts_with('['))
        .collect();
    assert_eq!(account(&parents).leaks, [1001, 1003]);
    let report = report(&tracer.log());
    let leaks = |process: &serde_json::Value| number(&process["totals"]["live_bytes"]);
    let processes = list(&report["processes"]);
    assert_eq!(
        processes.iter().map(leaks).collect::<Vec<_>>(),
        [2004, 1002]
    );
}

/// glibc truncates the file for each program that inherits the variable, and leaves a hole in it.
#[test]
fn a_program_that_is_started_meanwhile_has_a_log_of_its_own() {
    let tracer = Tracer::new("mtrace-exec");
    assert_eq!(tracer.run("exec").status, 0);
    let log = read(&tracer.log());
    assert_eq!((log.errors, log.starts, log.ends, log.lost), (0, 1, 1, 0));
    assert_eq!((log.leaks, log.lines), (vec![1001, 1003], 2002));
    let [child] = &tracer.others()[..] else {
        panic!("{:?}", tracer.others());
    };
    assert_eq!(read(child).leaks, [1002]);
    assert_eq!(
        read(child).starts,
        1,
        "a child that only starts a program writes nothing"
    );
}

/// glibc writes its lines into the program's file.
#[test]
fn a_program_that_takes_all_descriptors_keeps_its_files_clean() {
    let tracer = Tracer::new("mtrace-close");
    let victim = tracer.scratch.join("victim");
    let mut command = tracer.bare();
    command.env("MALLOC_TRACE", tracer.log());
    let run = Run::of(command.arg("close").arg(&victim));
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine\n");
    let log = read(&tracer.log());
    assert_eq!(
        (log.errors, log.leaks, log.lines),
        (0, vec![1001, 1002], 1002)
    );
}

/// glibc ends in the middle of a line, and says nothing.
#[test]
fn what_finds_no_room_is_counted_and_told() {
    let tracer = Tracer::new("mtrace-full");
    let run = tracer.run("full");
    assert_eq!(run.status, 0, "{}", run.stderr);
    let text = fs::read_to_string(tracer.log()).unwrap();
    let log = account(&text);
    assert_eq!(log.leaks, [1001]);
    assert_eq!(
        log.lines + log.lost,
        6601,
        "every call is a line or counted"
    );
    assert!(log.lost > 1000);
    let report = report(&tracer.log());
    assert_eq!(number(&report["trace"]["lost_records"]), log.lost);
    assert_eq!(report["trace"]["complete"], false);
    for at in ["/dev/full", "/proc/none/log"] {
        let mut command = tracer.bare();
        assert_eq!(
            Run::of(command.env("MALLOC_TRACE", at).arg("sessions")).status,
            0
        );
    }
}

/// glibc lets the program die by SIGPIPE.
#[test]
fn a_reader_that_left_is_not_missed() {
    let tracer = Tracer::new("mtrace-pipe");
    let run = tracer.shell("{ MALLOC_TRACE=fd:1 $P threads; echo $? >status; } | head -n1");
    assert_eq!((run.status, run.stdout.as_str()), (0, "= Start\n"));
    let status = tracer.scratch.join("status");
    assert_eq!(fs::read_to_string(status).unwrap(), "0\n");
}

/// glibc opens the file anew, and truncates it.
#[test]
fn output_and_log_share_a_file_and_nothing_is_cut() {
    let tracer = Tracer::new("mtrace-stdout");
    for (at, how) in [
        ("/dev/stdout", ">>log"),
        ("/proc/self/fd/1", ">>log"),
        ("/dev/stdout", "| cat >>log"),
    ] {
        fs::write(tracer.log(), "mine from before\n").unwrap();
        let run = tracer.shell(&format!("MALLOC_TRACE={at} $P print {how}"));
        assert_eq!(run.status, 0, "{}", run.stderr);
        let text = fs::read_to_string(tracer.log()).unwrap();
        let rest = text.strip_prefix("mine from before\n").unwrap();
        let is_output = |line: &&str| line.starts_with("line ");
        let output: Vec<_> = rest.lines().filter(is_output).collect();
        let expected: Vec<_> = (0..300).map(|number| format!("line {number}")).collect();
        assert_eq!(output, expected, "{at} {how}");
        let lines = rest.split_inclusive('\n').filter(|line| !is_output(line));
        let log = account(&lines.collect::<String>());
        assert_eq!((log.errors, log.leaks), (0, vec![1001]), "{at} {how}");
    }
}

/// glibc loses up to 511 bytes, and ends in the middle of a line.
#[test]
fn however_a_program_ends_the_last_line_is_there() {
    let tracer = Tracer::new("mtrace-ends");
    for (how, status) in [("return", 0), ("_exit", 0), ("abort", 134)] {
        let _ = fs::remove_file(tracer.log()); // of the round before
        assert_eq!(tracer.run(how).status, status);
        let log = read(&tracer.log());
        assert_eq!(
            (log.leaks, log.lines, log.ends),
            (vec![1001], 1001, 0),
            "{how}"
        );
    }
}

/// glibc cuts a line: its buffer is written at each 512 bytes.
#[test]
fn a_kill_leaves_whole_lines() {
    let tracer = Tracer::new("mtrace-kill");
    assert_eq!(tracer.run("kill").status, 128 + 9);
    let text = fs::read_to_string(tracer.log()).unwrap();
    let log = account(&text);
    assert_eq!((log.errors, log.lost, log.starts), (0, 0, 1));
    let longest = text.lines().map(str::len).max().unwrap();
    let missing = (1001 - log.lines) * longest as u64;
    assert!(missing <= 4096 + longest as u64, "{missing}");
}

#[test]
fn a_program_can_set_the_variable_itself() {
    let tracer = Tracer::new("mtrace-setenv");
    let mut command = tracer.bare();
    let run = Run::of(command.arg("setenv").arg(tracer.log()));
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(read(&tracer.log()).leaks, [1002]);
}

#[test]
fn a_file_that_is_no_log_is_left_alone() {
    let tracer = Tracer::new("mtrace-foreign");
    fs::write(tracer.log(), "somebody's\n").unwrap();
    assert_eq!(tracer.run("sessions").status, 0);
    assert_eq!(fs::read_to_string(tracer.log()).unwrap(), "somebody's\n");
    assert!(tracer.others().is_empty());
}

#[test]
fn without_the_variable_nothing_is_recorded() {
    let tracer = Tracer::new("mtrace-bare");
    let before = fs::read_dir(tracer.log().parent().unwrap())
        .unwrap()
        .count();
    assert_eq!(Run::of(tracer.bare().arg("sessions")).status, 0);
    let after = fs::read_dir(tracer.log().parent().unwrap())
        .unwrap()
        .count();
    assert_eq!(before, after);
}

#[test]
fn the_same_calls_become_records_if_asked_for() {
    let tracer = Tracer::new("mtrace-records");
    let mut command = tracer.bare();
    command.env("HEAPWIRE_FORMAT", "hwt");
    command.env("MALLOC_TRACE", tracer.log());
    assert_eq!(Run::of(command.arg("sessions")).status, 0);
    let report = report(&tracer.log());
    assert_eq!(report["trace"]["kind"], "hwt");
    assert_eq!(report["trace"]["lost_records"], 0, "{}", report["warnings"]);
    let [process] = list(&report["processes"]) else {
        panic!("{report}");
    };
    assert_eq!(process["end"], "normal");
    let totals = &process["totals"];
    assert_eq!(number(&totals["allocations"]), 302);
    assert_eq!(number(&totals["releases"]), 301);
    assert_eq!(number(&totals["earlier_releases"]), 1);
    assert_eq!(number(&totals["live_bytes"]), 1001 + 1002);
    assert_eq!(list(&process["errors"]).len(), 0);
}

#[test]
fn lines_can_be_had_from_the_start() {
    let tracer = Tracer::new("mtrace-start");
    let outs =
        ["mtrace", "hwt"].map(|format| (format, tracer.scratch.join(&format!("from.{format}"))));
    for (format, out) in &outs {
        let mut command = tracer.bare();
        command.env("HEAPWIRE_FORMAT", format);
        command.env("HEAPWIRE_OUT", out);
        command.env("MALLOC_TRACE", tracer.log());
        assert_eq!(Run::of(command.arg("threads")).status, 0);
    }
    assert!(!tracer.log().exists(), "the other variable counts");
    let paths = outs.map(|(_, path)| path);
    let log = read(&paths[0]);
    assert_eq!((log.errors, log.lost, log.starts), (0, 0, 1));
    let [from_lines, from_records] = paths.map(|path| {
        let report = json(&on(&["report", "--format", "json"], &path));
        let process = &list(&report["processes"])[0];
        let leaks = list(&process["leaks"]).iter();
        let of = |leak: &serde_json::Value| {
            let frame = &list(&leak["stack"])[0];
            let place = ["function", "file", "line"].map(|key| frame[key].clone());
            (number(&leak["bytes"]), number(&leak["blocks"]), place)
        };
        leaks.map(of).collect::<Vec<_>>()
    });
    assert_eq!(from_lines, from_records);
    assert!(!from_lines.is_empty());
}
