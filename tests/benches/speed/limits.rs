//! What no analysis is faster than, measured by small programs.

use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

/// Nanoseconds that no analysis is below.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// To read what a record takes.
    pub(crate) reading: f64,
    /// To look up one among others that wait as well.
    pub(crate) together: f64,
    /// To look up one that waits for the one before.
    pub(crate) alone: f64,
}

impl Limits {
    /// Those of a trace of `records` that keep `live` blocks.
    pub(crate) fn of(trace: &Path, records: u64, live: u64) -> Self {
        let [together, alone] = look_ups(usize::try_from(live).expect("it fits"));
        Self {
            reading: reading(trace) / records as f64,
            together,
            alone,
        }
    }
}

/// Nanoseconds that it takes to read a file, block by block.
fn reading(trace: &Path) -> f64 {
    let begin = Instant::now();
    let mut file = File::open(trace).expect("it was written");
    let mut buffer = vec![0u8; 1 << 20];
    while file.read(&mut buffer).expect("it is a file") > 0 {
        black_box(&buffer);
    }
    begin.elapsed().as_secs_f64() * 1e9
}

/// Nanoseconds of a look-up in a table of so many cache lines: among others, and alone.
fn look_ups(lines: usize) -> [f64; 2] {
    const STEPS: u32 = 10_000_000;
    let table = vec![[1u64; 8]; lines];
    let at = |state: &mut u64| {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(*state >> 33).unwrap_or(0) % lines
    };
    let (mut state, mut sum) = (1u64, 0u64);
    let begin = Instant::now();
    for _ in 0..STEPS {
        sum = sum.wrapping_add(table[at(&mut state)][0]);
    }
    let together = begin.elapsed();
    let begin = Instant::now();
    for _ in 0..STEPS {
        state = state.wrapping_add(table[at(&mut state)][0]);
    }
    let alone = begin.elapsed();
    black_box((sum, state));
    [together, alone].map(|took| took.as_secs_f64() * 1e9 / f64::from(STEPS))
}
