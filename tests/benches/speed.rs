//! How fast a trace is analyzed.
//!
//! `cargo bench -p heapwire-tests --bench speed`. Machines are noisy: rounds of all candidates take turns, medians are shown, and what
//! counts are the ratios. Nothing is asserted about time.
#![expect(clippy::print_stdout, reason = "the table is the result")]

use heapwire_tests::run::{Run, command, json, number};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::Writer;
use std::time::Instant;

const ROUNDS: usize = 7;
const ANALYZED_RECORDS: u64 = 4_000_000;

fn main() {
    let scratch = Scratch::new("speed");
    analyze(&scratch);
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
