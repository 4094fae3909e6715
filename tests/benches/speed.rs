//! How fast a trace is analyzed, how that scales, what bounds it and how far each stage is from that, and what heaptrack's two
//! steps need for as many events.
//!
//! `cargo bench -p heapwire-tests --bench speed`. Machines are noisy: rounds of all candidates take turns, the best is shown, with
//! the processor time beside it, which others on the machine disturb least. What counts are the ratios. Nothing is
//! asserted about time.
#![expect(clippy::print_stdout, reason = "the table is the result")]
#![expect(clippy::cast_precision_loss, reason = "rates")]

use heapwire_tests::build::{compile, heapwire, workspace};
use heapwire_tests::run::{Run, json, number};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{Record, Writer};
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const ROUNDS: usize = 3;
/// Pairs of malloc and free that heaptrack records.
const PAIRS: u64 = 1_000_000;
const INTERPRET: &str = "/usr/lib/heaptrack/libexec/heaptrack_interpret";

/// A made-up trace: records and live blocks.
const TRACES: [(u64, u64); 3] = [
    (10_000_000, 1000),
    (20_000_000, 100_000),
    (40_000_000, 10_000_000),
];

/// Seconds that passed and of processor time.
#[derive(Clone, Copy)]
struct Took {
    wall: f64,
    cpu: f64,
}

fn main() {
    let scratch = Scratch::new("speed");
    let mut best = f64::INFINITY;
    let idle = of_idle_records(&scratch);
    for (records, live) in TRACES {
        let trace = made_up_trace(&scratch, records, live);
        println!(
            "\n{} records, {live} live blocks; best of {ROUNDS}",
            records - live
        );
        let limits = limits(&trace, records - live, live);
        let ours = report(&trace, records, live);
        stages(idle, ours, limits);
        best = best.min(ours);
        let _ = std::fs::remove_file(trace); // the folder goes at the end all the same
    }
    heaptrack(&scratch, best);
}

/// Reports with one thread and with two; gives nanoseconds of processor time a record.
fn report(trace: &Path, calls: u64, live: u64) -> f64 {
    let records = calls - live; // what stays is not released
    let mut best = [Took {
        wall: f64::INFINITY,
        cpu: f64::INFINITY,
    }; 2];
    for _ in 0..ROUNDS {
        for (threads, best) in ["1", "2"].into_iter().zip(&mut best) {
            let mut command = timed(heapwire());
            command.env("RAYON_NUM_THREADS", threads);
            command.args(["report", "--format", "json"]).arg(trace);
            let (took, run) = time(&mut command);
            let totals = &json(&run)["processes"][0]["totals"];
            assert_eq!(number(&totals["live_blocks"]), live);
            assert_eq!(number(&totals["allocations"]), calls / 2);
            best.wall = best.wall.min(took.wall);
            best.cpu = best.cpu.min(took.cpu);
        }
    }
    for (threads, took) in (1..).zip(best) {
        println!(
            "  {threads} thread(s)  {:6.1} million records a second  {:6.1} ns  {:6.1} ns of processor time",
            records as f64 / took.wall / 1e6,
            took.wall * 1e9 / records as f64,
            took.cpu * 1e9 / records as f64
        );
    }
    println!("  from 1 thread to 2: {:.2}", best[0].wall / best[1].wall);
    best[0].cpu.min(best[1].cpu) * 1e9 / records as f64
}

/// Nanoseconds of processor time for a record that means nothing to the heap: to read it, find its frame and put it in order.
fn of_idle_records(scratch: &Scratch) -> f64 {
    const RECORDS: u64 = 5_000_000;
    let path = scratch.join("idle.hwt");
    let mut out = BufWriter::new(File::create(&path).expect("the folder is ours"));
    let mut writer = Writer::new();
    writer.frame.sum_kind = 0;
    writer.malloc(0x1000, 8);
    for record in 0..RECORDS {
        writer.record(Record {
            op: 0xF4, // a pair of clocks
            ..Record::default()
        });
        if record % 1600 == 1599 {
            out.write_all(&writer.take()).expect("there is room");
        }
    }
    out.write_all(&writer.end().take()).expect("there is room");
    drop(out);
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let mut command = timed(heapwire());
        command.env("RAYON_NUM_THREADS", "1");
        command.args(["report", "--format", "json"]).arg(&path);
        best = best.min(time(&mut command).0.cpu * 1e9 / RECORDS as f64);
    }
    let _ = std::fs::remove_file(path); // the folder goes at the end all the same
    best
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

/// Nanoseconds that no analysis is below: of reading a record, of a look-up among others that wait as well, and of one that waits
/// for the one before.
#[derive(Clone, Copy)]
struct Limits {
    reading: f64,
    together: f64,
    alone: f64,
}

/// What no analysis is faster than: reading the bytes, and one look-up in memory of the size of the live blocks.
fn limits(trace: &Path, records: u64, live: u64) -> Limits {
    let begin = Instant::now();
    let mut file = File::open(trace).expect("it was written");
    let mut buffer = vec![0u8; 1 << 20];
    while file.read(&mut buffer).expect("it is a file") > 0 {
        black_box(&buffer);
    }
    let reading = begin.elapsed().as_secs_f64() * 1e9 / records as f64;
    let lines = usize::try_from(live).expect("it fits");
    let table = vec![[1u64; 8]; lines];
    let steps = 10_000_000;
    let at = |state: &mut u64| {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(*state >> 33).unwrap_or(0) % lines
    };
    let (mut state, mut sum) = (1u64, 0u64);
    let begin = Instant::now();
    for _ in 0..steps {
        sum = sum.wrapping_add(table[at(&mut state)][0]);
    }
    let together = begin.elapsed().as_secs_f64() * 1e9 / f64::from(steps);
    let begin = Instant::now();
    for _ in 0..steps {
        state = state.wrapping_add(table[at(&mut state)][0]);
    }
    let alone = begin.elapsed().as_secs_f64() * 1e9 / f64::from(steps);
    black_box((sum, state));
    println!(
        "  limits: reading {reading:.1} ns a record; a look-up {together:.1} ns among others, {alone:.1} ns alone"
    );
    Limits {
        reading,
        together,
        alone,
    }
}

/// heaptrack's two steps after recording, an event, beside a record of ours.
fn heaptrack(scratch: &Scratch, ours: f64) {
    if !Path::new(INTERPRET).exists() {
        println!("\nheaptrack is not installed");
        return;
    }
    let program = scratch.join("pairs");
    let source = workspace().join("tests/benches/overhead/pairs.c");
    compile(&source, &program, &["-O2", "-fno-builtin", "-pthread"]);
    let mut recording = Command::new("heaptrack");
    recording.args(["--raw", "-o"]).arg(scratch.join("raw"));
    let recorded = Run::of(recording.arg(&program).args(["1", &PAIRS.to_string()]));
    let unpack = "cat raw*.gz 2>/dev/null | gzip -dc > raw; cat raw*.zst 2>/dev/null | zstd -dc >> raw; test -s raw";
    let unpacked = Run::of(&mut shell(scratch, unpack));
    if recorded.status != 0 || unpacked.status != 0 {
        println!(
            "\nheaptrack recorded nothing: {} {}",
            recorded.stderr, unpacked.stderr
        );
        return;
    }
    let events = 2.0 * PAIRS as f64;
    let step = |line: &str| time(&mut shell_timed(scratch, line)).0.cpu * 1e9 / events;
    let interpret = step(&format!("{INTERPRET} < raw > interpreted"));
    let print = step("heaptrack_print -f interpreted > printed");
    println!(
        "\nheaptrack, processor time: interpret {interpret:.0} ns + print {print:.0} ns an event; ours {ours:.0} ns: {:.1} times as fast",
        (interpret + print) / ours
    );
}

fn shell(scratch: &Scratch, line: &str) -> Command {
    let mut command = Command::new("bash");
    command.current_dir(scratch.join("")).args(["-c", line]);
    command
}

fn shell_timed(scratch: &Scratch, line: &str) -> Command {
    let mut command = timed(Path::new("bash"));
    command.current_dir(scratch.join("")).args(["-c", line]);
    command
}

/// A command that says on standard error what processor time it took.
fn timed(program: &Path) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", "TIMEFORMAT='cpu %U %S'; time \"$0\" \"$@\""]);
    command.arg(program);
    command
}

fn time(command: &mut Command) -> (Took, Run) {
    let begin = Instant::now();
    let run = Run::of(command);
    let wall = begin.elapsed().as_secs_f64();
    assert_eq!(run.status, 0, "{}", run.stderr);
    let line = run
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("cpu "));
    let cpu = line.map_or(0.0, |line| {
        line.split(' ')
            .filter_map(|part| part.parse::<f64>().ok())
            .sum()
    });
    (Took { wall, cpu }, run)
}

/// Blocks of 1,000 sites that come and go, `live` of them at a time, in an order that no cache foresees.
fn made_up_trace(scratch: &Scratch, records: u64, live: u64) -> PathBuf {
    let path = scratch.join("made.hwt");
    let mut out = BufWriter::new(File::create(&path).expect("the folder is ours"));
    let mut writer = Writer::new();
    writer.frame.sum_kind = 0;
    let block = |place: u64| 0x5000_0000_0000 + place * 48;
    let mut state = 1u64;
    for round in 0..records / 2 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let place = if round < live {
            round
        } else {
            (state >> 33) % live
        };
        writer.site(state >> 40 & 0x3FF);
        if round >= live {
            writer.free(block(place));
        }
        writer.malloc(block(place), 32 + (state >> 50 & 63));
        if round % 800 == 799 {
            out.write_all(&writer.take()).expect("there is room");
        }
    }
    out.write_all(&writer.end().take()).expect("there is room");
    path
}
