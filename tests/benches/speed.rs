//! What recording costs, beside glibc's mtrace in the same run, and how fast a trace is analyzed.
//!
//! `cargo bench -p heapwire-tests`. Machines are noisy: rounds of all candidates take turns, medians are shown, and what
//! counts are the ratios. Nothing is asserted about time.
#![expect(clippy::print_stdout, reason = "the table is the result")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot go on fails")]

use heapwire_tests::build::{recorder, workspace};
use heapwire_tests::run::{Run, command, json, number, without_recorder};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::Writer;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const ROUNDS: usize = 7;
const PAIRS: u64 = 1_000_000;
/// mtrace takes so long that fewer pairs give as good a mean.
const MTRACE_PAIRS: u64 = 100_000;
const MTRACE_LIBRARY: &str = "libc_malloc_debug.so.0";
const ANALYZED_RECORDS: u64 = 4_000_000;

/// A way to run the loop of pairs.
struct Candidate {
    name: &'static str,
    pairs: u64,
    command: Box<dyn Fn(&mut Command)>,
    /// Nanoseconds a pair, a value a round.
    rounds: Vec<f64>,
}

impl Candidate {
    fn new(name: &'static str, pairs: u64, command: impl Fn(&mut Command) + 'static) -> Self {
        Self {
            name,
            pairs,
            command: Box::new(command),
            rounds: Vec::new(),
        }
    }

    fn round(&mut self, program: &Path, threads: usize, out: &Path) {
        let mut command = without_recorder(Command::new(program));
        command.args([threads.to_string(), self.pairs.to_string()]);
        (self.command)(&mut command);
        let run = Run::of(&mut command);
        assert_eq!(run.status, 0, "{}: {}", self.name, run.stderr);
        self.rounds.push(run.stdout.trim().parse().unwrap());
        let _ = fs::remove_file(out); // not every candidate writes it
    }

    fn median(&self) -> f64 {
        median(&self.rounds)
    }
}

fn main() {
    let scratch = Scratch::new("speed");
    record(&scratch);
    analyze(&scratch);
}

fn record(scratch: &Scratch) {
    let program = scratch.join("pairs");
    let source = workspace().join("tests/benches/pairs.c");
    let compiler = Run::of(
        Command::new("cc")
            .args(["-O2", "-fno-builtin", "-pthread", "-o"])
            .arg(&program)
            .arg(source),
    );
    assert_eq!(compiler.status, 0, "{}", compiler.stderr);
    let library = recorder(scratch);
    let out = scratch.join("trace");
    for threads in [1, 2] {
        let with = |out: &Path| {
            let (library, out) = (library.clone(), out.to_path_buf());
            move |command: &mut Command| {
                command
                    .env("LD_PRELOAD", &library)
                    .env("HEAPWIRE_OUT", &out);
            }
        };
        let log = out.clone();
        let mut candidates = [
            Candidate::new("no recorder", PAIRS, |_| ()),
            Candidate::new("heapwire to a file", PAIRS, with(&out)),
            Candidate::new("heapwire to /dev/null", PAIRS, with(Path::new("/dev/null"))),
            Candidate::new("mtrace to a file", MTRACE_PAIRS, move |command| {
                command
                    .env("LD_PRELOAD", MTRACE_LIBRARY)
                    .env("MALLOC_TRACE", &log)
                    .arg("mtrace");
            }),
        ];
        for _ in 0..ROUNDS {
            for candidate in &mut candidates {
                candidate.round(&program, threads, &out);
            }
        }
        show(threads, &candidates);
    }
}

fn show(threads: usize, candidates: &[Candidate; 4]) {
    let plain = candidates[0].median();
    let mtrace = candidates[3].median() - plain;
    println!("\nCPU time of malloc and free, {threads} thread(s), median of {ROUNDS} rounds");
    println!(
        "{:24} {:>10} {:>10} {:>10} {:>16}",
        "", "ns/pair", "added ns", "ratio", "mtrace's added/"
    );
    for candidate in candidates {
        let (all, added) = (candidate.median(), candidate.median() - plain);
        let beside = if added > 0.0 {
            format!("{:.1}", mtrace / added)
        } else {
            "-".to_owned()
        };
        println!(
            "{:24} {all:10.1} {added:10.1} {:10.2} {beside:>16}",
            candidate.name,
            all / plain
        );
    }
}

fn analyze(scratch: &Scratch) {
    let trace = scratch.write("made.hwt", made_up_trace());
    println!("\nReport on {ANALYZED_RECORDS} records, median of {ROUNDS} rounds");
    for threads in ["1", "2"] {
        let seconds: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let begin = Instant::now();
                let run = Run::of(
                    command()
                        .env("RAYON_NUM_THREADS", threads)
                        .args(["report", "--format", "json"])
                        .arg(&trace),
                );
                let seconds = begin.elapsed().as_secs_f64();
                let report = json(&run);
                assert_eq!(
                    number(&report["processes"][0]["totals"]["live_blocks"]),
                    1000
                );
                seconds
            })
            .collect();
        let median = median(&seconds);
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let millions = ANALYZED_RECORDS as f64 / median / 1e6;
        println!("{threads} thread(s) {median:8.3} s {millions:8.1} million records a second");
    }
}

/// Blocks of 1,000 sites that come and go, 1,000 of which stay.
fn made_up_trace() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.frame.sum_kind = 0;
    for round in 0..ANALYZED_RECORDS / 2 {
        let block = 0x10_0000 + (round * 7919 % 50_000) * 64;
        writer.site(round % 1000).malloc(block, 48);
        if round + 1000 < ANALYZED_RECORDS / 2 {
            writer.free(block);
        }
        if round % 800 == 0 {
            writer.flush();
        }
    }
    writer.end().bytes()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
