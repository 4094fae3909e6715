//! What other tools need for the trace that they made of the same program.

use crate::{Best, report_with, time};
use heapwire_tests::build::{compile, workspace};
use heapwire_tests::run::{Run, json, number, record, without_recorder};
use heapwire_tests::scratch::Scratch;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pairs of malloc and free that the program makes.
const PAIRS: u64 = 10_000_000;
const EVENTS: u64 = 2 * PAIRS;
const INTERPRET: &str = "/usr/lib/heaptrack/libexec/heaptrack_interpret";
const MTRACE: &str = "/usr/bin/mtrace";
/// The library that writes its logs.
const MTRACE_LIBRARY: &str = "libc_malloc_debug.so.0";
/// The script takes long.
const ROUNDS: usize = 3;
/// How often as fast as each tool a report is to be.
const AIMS: [f64; 3] = [5.0, 25.0, 25.0];

/// Runs all tools that are there in turn, and shows how many events a second each gets through.
pub(crate) fn compare(scratch: &Scratch) {
    let program = scratch.join("pairs");
    let source = workspace().join("tests/benches/overhead/pairs.c");
    compile(&source, &program, &["-O2", "-fno-builtin", "-pthread"]);
    let words = ["1".to_owned(), PAIRS.to_string()];
    let recorded = record(&program, &words.clone().map(PathBuf::from), scratch);
    assert_eq!(recorded.run.status, 0, "{}", recorded.run.stderr);
    let with_program = format!("{MTRACE} pairs log > printed; test -s printed");
    let without = format!("{MTRACE} log > printed; test -s printed");
    let mut tools = Vec::new();
    if heaptrack(scratch, &program, &words) {
        let both =
            format!("{INTERPRET} < raw > interpreted && heaptrack_print -f interpreted > printed");
        tools.push(("heaptrack, interpret and print", both, AIMS[0]));
    }
    if mtrace(scratch, &program, &words) {
        tools.push(("mtrace PROGRAM LOG", with_program, AIMS[1]));
        tools.push(("mtrace LOG", without, AIMS[2]));
    }
    let mut ours = [Best::NONE; 2];
    let mut theirs = vec![Best::NONE; tools.len()];
    for _ in 0..ROUNDS {
        for (threads, ours) in ["1", "2"].into_iter().zip(&mut ours) {
            let (took, run) = time(report_with(threads, &recorded.trace));
            let totals = &json(&run)["processes"][0]["totals"];
            assert!(number(&totals["releases"]) >= PAIRS);
            ours.note(took);
        }
        for ((_, line, _), theirs) in tools.iter().zip(&mut theirs) {
            let (took, run) = time(shell(scratch, line));
            assert_eq!(run.status, 0, "{}", run.stderr);
            theirs.note(took);
        }
    }
    let [one, two] = ours;
    println!(
        "\n{PAIRS} pairs of one program, each tool on the trace that it made of it, from start to end; best of {ROUNDS}"
    );
    println!(
        "                                    million events   times   aim   processor time   times"
    );
    println!(
        "                                    a second (wall)   as fast       ns an event   as fast"
    );
    row("heapwire report, 1 thread", one, None);
    row("heapwire report, 2 threads", two, None);
    for ((name, _, aim), theirs) in tools.iter().zip(theirs) {
        let least = if one.cpu < two.cpu { one.cpu } else { two.cpu };
        row(
            name,
            theirs,
            Some((theirs.wall / two.wall, *aim, theirs.cpu / least)),
        );
    }
}

fn row(name: &str, took: Best, ratios: Option<(f64, f64, f64)>) {
    let rate = EVENTS as f64 / took.wall / 1e6;
    let nanoseconds = took.cpu * 1e9 / EVENTS as f64;
    match ratios {
        None => println!(
            "  {name:<32} {rate:>15.2} {:>9} {:>5} {nanoseconds:>16.1}",
            "", ""
        ),
        Some((wall, aim, cpu)) => println!(
            "  {name:<32} {rate:>15.2} {wall:>9.1} {aim:>5.0} {nanoseconds:>16.1} {cpu:>7.1}"
        ),
    }
}

/// Has heaptrack record the program. `false`: it is not there, or records nothing.
fn heaptrack(scratch: &Scratch, program: &Path, words: &[String]) -> bool {
    if !Path::new(INTERPRET).exists() {
        println!("\nheaptrack is not installed");
        return false;
    }
    let mut recording = without_recorder(Command::new("heaptrack"));
    recording.args(["--raw", "-o"]).arg(scratch.join("raw"));
    let recorded = Run::of(recording.arg(program).args(words));
    let unpack = "cat raw*.gz 2>/dev/null | gzip -dc > raw; cat raw*.zst 2>/dev/null | zstd -dc >> raw; test -s raw";
    let unpacked = Run::of(&mut shell(scratch, unpack));
    let is_there = recorded.status == 0 && unpacked.status == 0;
    if !is_there {
        println!(
            "\nheaptrack recorded nothing: {} {}",
            recorded.stderr, unpacked.stderr
        );
    }
    is_there
}

/// Has mtrace write a log of the program. `false`: the script is not there.
fn mtrace(scratch: &Scratch, program: &Path, words: &[String]) -> bool {
    if !Path::new(MTRACE).exists() {
        println!("\n{MTRACE} is not there");
        return false;
    }
    let mut recording = without_recorder(Command::new(program));
    recording.env("LD_PRELOAD", MTRACE_LIBRARY);
    recording.env("MALLOC_TRACE", scratch.join("log"));
    let recorded = Run::of(recording.args(words).arg("mtrace"));
    assert_eq!(recorded.status, 0, "{}", recorded.stderr);
    true
}

/// A line of the shell in the scratch folder.
fn shell(scratch: &Scratch, line: &str) -> Command {
    let mut command = Command::new("bash");
    command.current_dir(scratch.path()).args(["-c", line]);
    command
}
