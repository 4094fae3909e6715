//! `heapwire-fuzz [SECONDS [SEED [TARGET [THREADS]]]]`: damages seeds and feeds them to the analyzer, without a nightly compiler.
//!
//! Without a target, all of them share the time; without a number of threads, the analyzer has one. Each round has its own seed, which stands in the message when one fails; the
//! input that failed stays in the folder that is named there.

use heapwire_fuzz::memory::{Counting, peak_of};
use heapwire_fuzz::mutate::{self, Random};
use heapwire_fuzz::{
    Place, open_log, open_trace, programs, read_frames, read_name, read_records, replay,
    resolve_with, seeds, split,
};
use heapwire_tests::armour::armoured;
use heapwire_tests::packed::twin;
use std::env;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most that a small damaged input may make the analyzer hold.
const MOST_BYTES: usize = 256 << 20;
/// No round takes this long unless it hangs.
const LONGEST: Duration = Duration::from_secs(20);

/// Rounds after which there is a word of how far it is.
const WORD: u64 = 1_000_000;

/// What one round does.
type Round<'p> = Box<dyn FnMut(&mut Random) + 'p>;

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize| {
        let word = words.get(at)?;
        Some(word.parse::<u32>().expect("all but TARGET are numbers"))
    };
    let (seconds, first) = (number(0).unwrap_or(10), number(1).unwrap_or(1));
    rayon::ThreadPoolBuilder::new()
        .num_threads(number(3).unwrap_or(1) as usize)
        .use_current_thread() // another one would have to be woken for each round
        .build_global()
        .expect("nobody used threads before");
    let place = Place::new();
    let mut targets = TARGETS.to_vec();
    if let Some(wanted) = words.get(2) {
        targets.retain(|(name, _)| name == wanted);
        assert!(!targets.is_empty(), "no target is called {wanted}");
    }
    let share = Duration::from_secs(seconds.into()) / u32::try_from(targets.len()).expect("few");
    for (name, of) in targets {
        rounds(name, first.into(), share, of(&place));
    }
}

/// The trace, or what it is with its whole frames packed.
fn sometimes_packed(trace: Vec<u8>, random: &mut Random) -> Vec<u8> {
    if random.below(2) == 0 {
        twin(&trace)
    } else {
        trace
    }
}

/// A target's name, and what makes all that it needs before its first round.
type Target = (&'static str, fn(&Place) -> Round<'_>);

/// All targets.
const TARGETS: [Target; 8] = [
    ("frames", |place| {
        let traces = seeds::traces();
        Box::new(move |random| {
            let mut bytes = one_of(&traces, random).clone();
            mutate::bytes(&mut bytes, random);
            if random.below(2) == 0 {
                mutate::repair(&mut bytes);
            }
            read_frames(&bytes, place);
        })
    }),
    ("records", |place| {
        let traces = seeds::traces();
        Box::new(move |random| {
            let mut bytes = one_of(&traces, random).clone();
            mutate::fields(&mut bytes, random);
            mutate::repair(&mut bytes);
            read_records(&sometimes_packed(bytes, random), place);
        })
    }),
    ("replay", |place| {
        Box::new(|random| replay(&seeds::calls(random), place))
    }),
    ("open_trace", |place| {
        let traces = seeds::traces();
        for seed in &traces {
            open_trace(seed, place);
        }
        Box::new(move |random| open_trace(&damaged(&traces, random), place))
    }),
    ("split", |place| {
        Box::new(|random| {
            let trace = sometimes_packed(seeds::calls(random), random);
            let mut lines = armoured(&trace, *one_of(&[76, 252], random));
            for _ in 0..random.below(8) {
                let line = random.below(lines.len());
                mutate::bytes(&mut lines[line], random);
            }
            split(&lines.concat(), &trace, place);
        })
    }),
    ("open_log", |place| {
        let logs = seeds::logs();
        Box::new(move |random| {
            let mut bytes = one_of(&logs, random).clone();
            if random.below(2) == 0 {
                mutate::bytes(&mut bytes, random);
            }
            mutate::words(&mut bytes, seeds::WORDS, random);
            open_log(&bytes, place);
        })
    }),
    ("resolve", |place| {
        let programs = programs::all(place);
        for program in &programs {
            let found = resolve_with(program, &program.bytes);
            let least = program.addresses.len() / 10;
            assert!(
                found > least,
                "{}: only {found} addresses of the undamaged program have a function",
                program.kind
            );
        }
        Box::new(move |random| {
            let program = one_of(&programs, random);
            let mut bytes = program.bytes.clone();
            if random.below(4) == 0 {
                mutate::bytes(&mut bytes, random);
            } else {
                mutate::values(&mut bytes, &program.unloaded, random);
            }
            let _ = resolve_with(program, &bytes); // any number is a fine answer
        })
    }),
    ("read_name", |_| {
        Box::new(|random| {
            let mut bytes = one_of(seeds::NAMES, random).as_bytes().to_vec();
            if random.below(3) == 0 {
                mutate::bytes(&mut bytes, random);
            }
            mutate::words(&mut bytes, seeds::PIECES, random);
            read_name(&bytes);
        })
    }),
];

fn one_of<'l, T>(list: &'l [T], random: &mut Random) -> &'l T {
    &list[random.below(list.len())]
}

/// One of these with damage that sums show, that they do not show, or in fields alone.
fn damaged(traces: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut trace = one_of(traces, random).clone();
    match random.below(4) {
        0 => mutate::bytes(&mut trace, random),
        1 => {
            mutate::bytes(&mut trace, random);
            mutate::repair(&mut trace);
        }
        _ => {
            mutate::fields(&mut trace, random);
            mutate::repair(&mut trace);
            trace = sometimes_packed(trace, random);
        }
    }
    trace
}

fn rounds(name: &str, first: u64, time: Duration, mut round: impl FnMut(&mut Random)) {
    let begin = Instant::now();
    let (mut seed, mut most, mut longest) = (first, 0, Duration::ZERO);
    while begin.elapsed() < time || seed == first {
        let failing = Failing { name, seed };
        let mut once = || {
            let start = Instant::now();
            let peak = peak_of(|| round(&mut Random::new(seed)));
            assert!(peak <= MOST_BYTES, "{peak} bytes held");
            (peak, start.elapsed())
        };
        let (peak, mut took) = once();
        if took >= LONGEST {
            took = took.min(once().1); // others may have had the processor
        }
        assert!(took < LONGEST, "took {took:?}");
        (most, longest) = (most.max(peak), longest.max(took));
        std::mem::forget(failing);
        seed += 1;
        if (seed - first).is_multiple_of(WORD) {
            println!("{name}: {} rounds so far", seed - first);
        }
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
