//! How fast a trace is analyzed, how that scales, what bounds it and how far each stage is from that, and what other tools need for
//! the trace that they made of the same program.
//!
//! `cargo bench -p heapwire-tests --bench speed`. Traces are packed, as `record` writes them, unless it is said otherwise, and their
//! files are in memory. Machines are noisy: rounds of all candidates take turns, the best is shown, with
//! the processor time beside it, which others on the machine disturb least. What counts are the ratios. Nothing is
//! asserted about time.
#![expect(clippy::print_stdout, reason = "the table is the result")]
#![expect(clippy::cast_precision_loss, reason = "rates")]

mod limits;
mod made;
mod tools;

use heapwire_tests::run::{Run, command, json, number};
use heapwire_tests::scratch::Scratch;
use limits::Limits;
use made::Frames;
use std::path::Path;
use std::process::Command;

const ROUNDS: usize = 5;

/// Made-up traces: calls, live blocks, millions of records a second that are to be reached, and how they are written.
const TRACES: [(u64, u64, f64, Frames); 4] = [
    (10_000_000, 1000, 30.0, Frames::Packed),
    (20_000_000, 100_000, 30.0, Frames::Packed),
    (20_000_000, 100_000, 30.0, Frames::Plain),
    (40_000_000, 10_000_000, 12.0, Frames::Packed),
];
/// What two threads are to be faster than one.
const SCALING: f64 = 1.7;
/// Records that mean nothing to the heap.
const IDLE: u64 = 10_000_000;

/// The least seconds that passed, and of processor time.
#[derive(Clone, Copy)]
struct Best {
    wall: f64,
    cpu: f64,
}

impl Best {
    const NONE: Self = Self {
        wall: f64::INFINITY,
        cpu: f64::INFINITY,
    };

    fn note(&mut self, took: Self) {
        self.wall = self.wall.min(took.wall);
        self.cpu = self.cpu.min(took.cpu);
    }
}

fn main() {
    let scratch = Scratch::new("speed");
    let idle = [Frames::Packed, Frames::Plain].map(|frames| of_idle_records(&scratch, frames));
    for (calls, live, aim, frames) in TRACES {
        let trace = made::trace(&scratch, calls, live, frames);
        let records = calls - live; // what stays is not released
        println!("\n{records} records, {frames:?}, {live} live blocks; best of {ROUNDS}");
        let limits = Limits::of(&trace, records, live);
        let ours = report(&trace, calls, live, aim);
        stages(idle[usize::from(frames == Frames::Plain)], ours, limits);
        let _ = std::fs::remove_file(trace); // the folder goes at the end all the same
    }
    tools::compare(&scratch);
}

/// Reports with one thread and with two; gives nanoseconds of processor time a record.
fn report(trace: &Path, calls: u64, live: u64, aim: f64) -> f64 {
    let records = (calls - live) as f64;
    let mut best = [Best::NONE; 2];
    for _ in 0..ROUNDS {
        for (threads, best) in ["1", "2"].into_iter().zip(&mut best) {
            let (took, run) = time(report_with(threads, trace));
            let totals = &json(&run)["processes"][0]["totals"];
            assert_eq!(number(&totals["live_blocks"]), live);
            assert_eq!(number(&totals["allocations"]), calls / 2);
            best.note(took);
        }
    }
    for ((threads, aim), took) in [
        ("1 thread ", String::new()),
        ("2 threads", format!("; aim {aim}")),
    ]
    .into_iter()
    .zip(best)
    {
        println!(
            "  {threads} {:6.1} million records a second  {:6.1} ns  {:6.1} ns of processor time{aim}",
            records / took.wall / 1e6,
            took.wall * 1e9 / records,
            took.cpu * 1e9 / records
        );
    }
    let scaling = best[0].wall / best[1].wall;
    println!("  from 1 thread to 2: {scaling:.2}; aim {SCALING}");
    best[0].cpu.min(best[1].cpu) * 1e9 / records
}

/// Nanoseconds of processor time for a record that means nothing to the heap: to read it, find its frame and put it in order.
fn of_idle_records(scratch: &Scratch, frames: Frames) -> f64 {
    let path = made::idle(scratch, IDLE, frames);
    let mut best = Best::NONE;
    for _ in 0..ROUNDS {
        best.note(time(report_with("1", &path)).0);
    }
    let _ = std::fs::remove_file(path); // the folder goes at the end all the same
    best.cpu * 1e9 / IDLE as f64
}

/// How far the stages are from what the machine can do: to find frames and put records in order from reading, and to replay from
/// one look-up in memory a record.
fn stages(idle: f64, all: f64, limits: Limits) {
    println!("  stage               ns a record   limit  times the limit");
    for (stage, took, limit, what) in [
        ("frames and order", idle, limits.reading, "reading"),
        (
            "replay",
            all - idle,
            limits.together,
            "a look-up among others",
        ),
        ("replay", all - idle, limits.alone, "a look-up alone"),
    ] {
        println!(
            "  {stage:<20}{took:>11.1} {limit:>7.1} {:>16.1}  {what}",
            took / limit
        );
    }
}

/// A report on `trace`.
fn report_with(threads: &str, trace: &Path) -> Command {
    let mut command = command();
    command.env("RAYON_NUM_THREADS", threads);
    command.args(["report", "--format", "json"]).arg(trace);
    command
}

/// What a command takes from its start to its end, and what it did. The shell waits for it in the kernel.
fn time(command: Command) -> (Best, Run) {
    let mut shell = Command::new("bash");
    shell.args(["-c", "TIMEFORMAT='took %R %U %S'; time \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    let run = Run::of(&mut shell);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let line = run
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("took "));
    let numbers = line.unwrap_or_default().split(' ').map(str::parse::<f64>);
    let [wall, user, system] = numbers.collect::<Result<Vec<_>, _>>().expect("numbers")[..] else {
        panic!("no times in {}", run.stderr);
    };
    let took = Best {
        wall,
        cpu: user + system,
    };
    (took, run)
}
