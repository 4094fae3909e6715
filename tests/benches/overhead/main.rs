//! What recording costs, beside the other tools that record or check each allocation, in one run.
//!
//! `cargo bench -p heapwire-tests --bench overhead`, with `-- pairs` or `-- programs` for a part. Machines are noisy: rounds of all candidates take turns, medians are
//! shown, and what counts are the ratios. Nothing is asserted about time. A tool that is not installed is left out.
#![expect(clippy::print_stdout, reason = "the table is the result")]

mod pairs;
mod programs;
mod tools;

use heapwire_tests::scratch::Scratch;
use std::env;
use tools::Tools;

const ROUNDS: usize = 5;

fn main() {
    let scratch = Scratch::new("overhead");
    let tools = Tools::find(&scratch);
    let is_wanted = |part: &str| {
        let mut named = env::args().skip(1).filter(|argument| argument != "--bench");
        named.next().is_none_or(|argument| argument == part)
    };
    if is_wanted("pairs") {
        pairs::show(&tools, &scratch);
    }
    if is_wanted("programs") {
        programs::show(&tools, &scratch);
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
