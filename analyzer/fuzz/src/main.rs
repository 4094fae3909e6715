//! `heapwire-fuzz [SECONDS [SEED]]`: damages seeds and feeds them to the analyzer, without a nightly compiler.
//!
//! Each round has its own seed, which stands in the message when one fails; the input that failed stays in the folder
//! that is named there.

use heapwire_fuzz::memory::{Counting, peak_of};
use heapwire_fuzz::mutate::{self, Random};
use heapwire_fuzz::{Place, open_log, open_trace, read_name, resolve, seeds};
use std::env;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most that a small damaged input may make the analyzer hold.
const MOST_BYTES: usize = 256 << 20;
/// No round takes this long unless it hangs.
const LONGEST: Duration = Duration::from_secs(20);

fn main() {
    let mut arguments = env::args()
        .skip(1)
        .map(|word| word.parse::<u64>().expect("SECONDS and SEED are numbers"));
    let seconds = arguments.next().unwrap_or(10);
    let first = arguments.next().unwrap_or(1);
    let place = Place::new();
    let traces = seeds::traces();
    let share = Duration::from_millis(seconds * 1000 / 4);
    for seed in &traces {
        open_trace(seed, &place);
    }
    rounds("open_trace", first, share, |random| {
        let mut bytes = traces[random.below(traces.len())].clone();
        match random.below(4) {
            0 => mutate::bytes(&mut bytes, random),
            1 => {
                mutate::bytes(&mut bytes, random);
                mutate::repair(&mut bytes);
            }
            _ => {
                mutate::fields(&mut bytes, random);
                mutate::repair(&mut bytes);
            }
        }
        open_trace(&bytes, &place);
    });
    let logs = seeds::logs();
    rounds("open_log", first, share, |random| {
        let mut bytes = logs[random.below(logs.len())].clone();
        if random.below(2) == 0 {
            mutate::bytes(&mut bytes, random);
        }
        mutate::words(&mut bytes, seeds::WORDS, random);
        open_log(&bytes, &place);
    });
    let program = seeds::program(&place);
    let found = resolve(
        &program.bytes,
        &program.build_id,
        &program.addresses,
        &place,
    );
    assert!(
        found > 10,
        "only {found} addresses of the undamaged program have a function"
    );
    rounds("resolve", first, share, |random| {
        let mut bytes = program.bytes.clone();
        if random.below(4) == 0 {
            mutate::bytes(&mut bytes, random);
        } else {
            mutate::values(&mut bytes, &program.unloaded, random);
        }
        resolve(&bytes, &program.build_id, &program.addresses, &place);
    });
    rounds("read_name", first, share, |random| {
        let mut bytes = seeds::NAMES[random.below(seeds::NAMES.len())]
            .as_bytes()
            .to_vec();
        if random.below(3) == 0 {
            mutate::bytes(&mut bytes, random);
        }
        mutate::words(&mut bytes, seeds::PIECES, random);
        read_name(&bytes);
    });
}

fn rounds(name: &str, first: u64, time: Duration, mut round: impl FnMut(&mut Random)) {
    let begin = Instant::now();
    let (mut seed, mut most, mut longest) = (first, 0, Duration::ZERO);
    while begin.elapsed() < time || seed == first {
        let failing = Failing { name, seed };
        let start = Instant::now();
        let peak = peak_of(|| round(&mut Random::new(seed)));
        assert!(peak <= MOST_BYTES, "{peak} bytes held");
        assert!(start.elapsed() < LONGEST, "took {:?}", start.elapsed());
        (most, longest) = (most.max(peak), longest.max(start.elapsed()));
        std::mem::forget(failing);
        seed += 1;
    }
    println!(
        "{name}: {} rounds, at most {} KiB and {longest:?} for one",
        seed - first,
        most >> 10
    );
}

/// Says which round it was, where a panic drops it.
struct Failing<'n> {
    name: &'n str,
    seed: u64,
}

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        eprintln!("{}: failed in the round with seed {}", self.name, self.seed);
    }
}
