//! A trace that is written as a log of glibc's mtrace and read again says the same, as far as logs have words for it.

use super::made::{
    ALLOCATION_FAILED, BASE, Made, REALLOC_FAILED, REALLOC_FREED, REALLOC_NEW, REALLOC_OLD, report,
};
use super::twin::Chance;
use crate::mtrace::Exporter;
use crate::report::{Process, Report};
use crate::trace::Trace;

fn exported(bytes: Vec<u8>) -> String {
    let mut exporter = Exporter::of(Trace::of_bytes([bytes]).unwrap()).unwrap();
    let mut log = Vec::new();
    for part in exporter.parts() {
        exporter.write(part, &mut log).unwrap();
    }
    String::from_utf8(log).unwrap()
}

/// A realloc under way: its record, and what it will come to.
struct Open {
    tid: u32,
    old: u64,
    size: u64,
    pc: u64,
    outcome: u64,
}

/// A heap, and calls on it as they can happen: no address is handed out twice, but releases can be wrong, in ways that do not
/// hang on when the recording began.
struct Calls {
    chance: Chance,
    made: Made,
    free: Vec<u64>,
    live: Vec<u64>,
    gone: Vec<u64>,
    open: Vec<Open>,
}

impl Calls {
    /// Calls of so many threads.
    fn of(seed: u64, threads: u64) -> Made {
        let mut calls = Self {
            chance: Chance(seed * 0x9E37_79B9 + 1),
            made: Made::new(0xA0),
            free: (0..12).map(|at| 0x1000 + 0x80 * at).collect(),
            live: Vec::new(),
            gone: Vec::new(),
            open: Vec::new(),
        };
        for _ in 0..calls.chance.below(300) {
            let tid = 100 + u32::try_from(calls.chance.below(threads)).unwrap();
            calls.made.by(tid);
            match calls.open.iter().position(|it| it.tid == tid) {
                Some(at) => calls.end_realloc(at),
                None => calls.call(tid),
            }
        }
        while !calls.open.is_empty() {
            let tid = calls.open[0].tid;
            calls.free.push(0x8000 + 0x100 * u64::from(tid));
            calls.made.by(tid);
            calls.end_realloc(0);
        }
        calls.made.end(0);
        calls.made
    }

    fn one_of(chance: &mut Chance, addresses: &mut Vec<u64>) -> u64 {
        let at = usize::try_from(chance.below(addresses.len() as u64)).unwrap();
        addresses.swap_remove(at)
    }

    fn hand_out(&mut self) -> u64 {
        let address = Self::one_of(&mut self.chance, &mut self.free);
        self.gone.retain(|known| *known != address);
        self.live.push(address);
        address
    }

    fn call(&mut self, tid: u32) {
        let (size, pc) = (self.chance.below(0x80), 0x10 + self.chance.below(6));
        match self.chance.below(10) {
            0..=3 if !self.free.is_empty() => {
                let address = self.hand_out();
                self.made.malloc(address, size, pc);
            }
            4 | 5 if !self.live.is_empty() => {
                let address = Self::one_of(&mut self.chance, &mut self.live);
                self.free.push(address);
                self.gone.push(address);
                self.made.free(address, pc);
            }
            6 if !self.live.is_empty() => self.begin_realloc(tid, size, pc),
            7 if !self.gone.is_empty() && self.open.is_empty() => {
                self.made.free(self.gone[0], pc);
            }
            8 => {
                self.made.free(0x9001 + 2 * self.chance.below(8), pc);
            }
            9 => {
                self.made.heap(ALLOCATION_FAILED, 0, 0, 1 << 40, pc);
            }
            _ => {}
        }
    }

    fn begin_realloc(&mut self, tid: u32, size: u64, pc: u64) {
        let old = Self::one_of(&mut self.chance, &mut self.live);
        let outcome = self.chance.below(4);
        let size = if outcome == 1 { 0 } else { size + 1 };
        if outcome != 0 {
            self.free.push(old);
            self.gone.push(old);
        }
        self.made.heap(REALLOC_OLD, 0, old, size, pc);
        self.open.push(Open {
            tid,
            old,
            size,
            pc,
            outcome,
        });
    }

    /// Ends a realloc: 0 it fails, 1 it frees, else it hands out a block, once there is memory.
    fn end_realloc(&mut self, at: usize) {
        let outcome = self.open[at].outcome;
        if outcome > 1 && self.free.is_empty() {
            return;
        }
        let Open { old, size, pc, .. } = self.open.swap_remove(at);
        let (op, address) = match outcome {
            0 => {
                self.live.push(old);
                (REALLOC_FAILED, old)
            }
            1 => (REALLOC_FREED, old),
            _ => (REALLOC_NEW, self.hand_out()),
        };
        self.made.heap(op, 0, address, size, pc);
    }
}

fn only(report: &Report) -> &Process {
    assert_eq!(report.processes.len(), 1);
    &report.processes[0]
}

/// What a process says of blocks and errors. Addresses of calls count from the module.
fn said(process: &Process, base: u64) -> (Vec<[u64; 4]>, Vec<String>, Vec<u64>) {
    let leaks = process.leaks.iter().map(|leak| {
        let address = leak.stack[0].address.trim_start_matches("0x");
        let address = u64::from_str_radix(address, 16).unwrap();
        [leak.bytes, leak.blocks, leak.allocations, address - base]
    });
    let errors = process.errors.iter().map(|error| {
        format!(
            "{:?} of {} {} {:?}",
            error.kind, error.address, error.certain, error.size
        )
    });
    let totals = &process.totals;
    let totals = [
        totals.allocations,
        totals.releases,
        totals.reallocations,
        totals.allocated_bytes,
        totals.failed,
        totals.failed_reallocations,
        totals.live_blocks,
        totals.live_bytes,
        totals.earlier_releases,
    ];
    let mut said = (
        leaks.collect::<Vec<_>>(),
        errors.collect::<Vec<_>>(),
        totals.to_vec(),
    );
    said.0.sort_unstable();
    said.1.sort_unstable(); // a realloc's halves come together, so errors can change places
    said
}

#[test]
fn a_log_says_what_the_trace_said() {
    let mut wrong = 0;
    for seed in 0..300 {
        let threads = 1 + seed % 3;
        let made = Calls::of(seed, threads);
        let log = exported(made.bytes());
        let (before, after) = (made.report(), report([log.clone().into_bytes()]));
        let (trace, session) = (only(&before), only(&after));
        assert_eq!(said(trace, BASE), said(session, 0), "seed {seed}\n{log}");
        assert_eq!(session.end, "normal");
        if threads == 1 {
            let totals = |of: &Process| {
                (
                    of.totals.peak_bytes,
                    of.totals.peak_blocks,
                    of.totals.temporary,
                )
            };
            assert_eq!(totals(trace), totals(session), "seed {seed}\n{log}");
            assert_eq!(exported(log.clone().into_bytes()), log, "seed {seed}");
        }
        wrong += trace.errors.len();
    }
    assert!(wrong > 100, "the traces have hardly an error");
}

#[test]
fn halves_of_a_realloc_come_together_where_they_can() {
    let mut made = Made::new(0xA0);
    made.malloc(0x1000, 8, 0x10).malloc(0x2000, 8, 0x10);
    made.by(1).heap(REALLOC_OLD, 0, 0x1000, 16, 0x20);
    made.by(2).malloc(0x3000, 8, 0x30);
    made.by(1).heap(REALLOC_NEW, 0, 0x4000, 16, 0x20);
    made.by(1).heap(REALLOC_OLD, 0, 0x2000, 32, 0x40);
    made.by(2).malloc(0x2000, 8, 0x50);
    made.by(1).heap(REALLOC_NEW, 0, 0x5000, 32, 0x40);
    made.by(1).heap(REALLOC_OLD, 0, 0x5000, 64, 0x60);
    made.by(2).free(0x3000, 0x70);
    let log = exported(made.bytes());
    let expected = "= Start
@ /nowhere/app:[0x10] + 0x1000 0x8
@ /nowhere/app:[0x10] + 0x2000 0x8
@ /nowhere/app:[0x30] + 0x3000 0x8
@ /nowhere/app:[0x20] < 0x1000
@ /nowhere/app:[0x20] > 0x4000 0x10
@ /nowhere/app:[0x40] < 0x2000
@ /nowhere/app:[0x40] > 0x5000 0x20
@ /nowhere/app:[0x50] + 0x2000 0x8
@ /nowhere/app:[0x70] - 0x3000
";
    assert_eq!(log, expected);
}
