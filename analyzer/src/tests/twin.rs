//! Random streams, replayed here a second time in the simplest way; and in every layout the same report.

use super::made::{
    ALLOCATED, Made, REALLOC_FAILED, REALLOC_FREED, REALLOC_NEW, REALLOC_OLD, RELEASED,
    live_blocks, report,
};
use crate::order::WINDOW;
use crate::report::{FaultKind, json};
use crate::{Options, analyze_trace};

/// Numbers that look random and are the same each time.
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A stream of calls at a few addresses, many of them wrong.
fn random(seed: u64) -> Made {
    let mut chance = Chance(seed * 0x9E37_79B9 + 1);
    let calls = chance.below(400);
    random_calls(&mut chance, calls)
}

pub(super) fn random_calls(chance: &mut Chance, calls: u64) -> Made {
    let mut made = Made::new(0xA0);
    for _ in 0..calls {
        let address = 0x1000 + 0x40 * chance.below(12);
        let size = 1 + chance.below(0x40);
        let pc = 0x10 + chance.below(6);
        made.by(100 + u32::try_from(chance.below(3)).unwrap());
        made.at(u16::try_from(chance.below(50)).unwrap());
        match chance.below(9) {
            0..=3 => made.malloc(address, size, pc),
            4..=6 => made.free(address, pc),
            7 => {
                let to = 0x1000 + 0x40 * chance.below(12);
                made.realloc(address, Some(to), size, pc)
            }
            _ => {
                let size = chance.below(2) * 50;
                made.realloc(address, None, size, pc)
            }
        };
    }
    made
}

#[derive(Default)]
struct Naive {
    /// Address, size and number.
    live: Vec<(u64, u64, u64)>,
    released: Vec<u64>,
    faults: Vec<(FaultKind, u64)>,
    peak: u64,
    allocated: u64,
}

impl Naive {
    fn of(made: &Made) -> Self {
        let mut naive = Self::default();
        let mut taken = None;
        for (_, number, slot) in &made.records {
            let field = |at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().unwrap());
            let (ptr, size) = (field(8), field(16));
            match slot[0] {
                ALLOCATED | REALLOC_NEW => {
                    naive.live.retain(|block| block.0 != ptr);
                    naive.released.retain(|address| *address != ptr);
                    naive.live.push((ptr, size, *number));
                    naive.allocated += size;
                }
                RELEASED | REALLOC_OLD => taken = naive.release(ptr),
                REALLOC_FAILED => {
                    if let Some(block) = taken.take() {
                        naive.released.retain(|address| *address != ptr);
                        naive.live.push(block);
                    }
                }
                _ => assert!(slot[0] == REALLOC_FREED || slot[0] >= 0x70),
            }
            naive.peak = naive.peak.max(naive.live.iter().map(|block| block.1).sum());
        }
        naive.live.sort_by_key(|block| block.2);
        naive
    }

    fn release(&mut self, ptr: u64) -> Option<(u64, u64, u64)> {
        let found = self.live.iter().position(|block| block.0 == ptr);
        if let Some(at) = found {
            self.released.push(ptr);
            return Some(self.live.remove(at));
        }
        let is_double = self.released.contains(&ptr);
        let kind = if is_double {
            FaultKind::DoubleFree
        } else {
            FaultKind::InvalidFree
        };
        self.faults.push((kind, ptr));
        None
    }
}

#[test]
fn random_streams_come_to_what_the_naive_replay_says() {
    let long = random_calls(&mut Chance(7), 3 * WINDOW);
    let streams = (1..300).map(random).chain([long]);
    for (seed, made) in (1..).zip(streams) {
        let naive = Naive::of(&made);
        let report = made.report();
        let process = &report.processes[0];
        let live: Vec<_> = live_blocks([made.bytes()]).processes[0]
            .blocks
            .iter()
            .map(|block| (block.address.to_string(), block.size))
            .collect();
        let expected: Vec<_> = naive
            .live
            .iter()
            .map(|it| (format!("{:#x}", it.0), it.1))
            .collect();
        assert_eq!(live, expected, "seed {seed}");
        let faults: Vec<_> = process
            .errors
            .iter()
            .map(|it| (it.kind, it.address.clone()))
            .collect();
        let expected: Vec<_> = naive
            .faults
            .iter()
            .map(|it| (it.0, format!("{:#x}", it.1)))
            .collect();
        assert_eq!(faults, expected, "seed {seed}");
        let totals = process.totals;
        assert_eq!(totals.peak_bytes, naive.peak, "seed {seed}");
        assert_eq!(totals.allocated_bytes, naive.allocated, "seed {seed}");
        assert_eq!(
            totals.live_bytes,
            naive.live.iter().map(|it| it.1).sum::<u64>(),
            "seed {seed}"
        );
        let held: u64 = process.peak.sites.iter().map(|it| it.bytes).sum();
        assert_eq!(held, totals.peak_bytes, "seed {seed}");
        let leaked: u64 = process.leaks.iter().map(|it| it.bytes).sum();
        assert_eq!(leaked, totals.live_bytes, "seed {seed}");
    }
}

#[test]
fn any_layout_and_any_number_of_threads_give_the_same_report() {
    for seed in 1..20 {
        let made = random(seed);
        let expected = json::render(&made.report());
        for most in [1, 3, 1000] {
            let mut frames = made.frames(most);
            let mut chance = Chance(seed);
            for at in (1..frames.len()).rev() {
                let other = usize::try_from(chance.below(at as u64 + 1)).unwrap();
                frames.swap(at, other);
            }
            assert_eq!(
                json::render(&report([frames.concat()])),
                expected,
                "seed {seed}"
            );
        }
        check_threads(&made, &expected);
    }
    let long = random_calls(&mut Chance(9), 4 * WINDOW);
    check_threads(&long, &json::render(&long.report()));
}

fn check_threads(made: &Made, expected: &str) {
    for threads in [1, 2, 3, 16] {
        let trace = crate::trace::Trace::of_bytes([made.bytes()]).unwrap();
        let analyze = || analyze_trace(trace, &Options::default()).unwrap();
        let report = crate::with_threads(Some(threads), analyze);
        assert!(json::render(&report) == expected, "{threads} threads");
    }
}
