//! Replays the events of one process image: pairs each allocation with its release, and names every release that
//! has no partner.
//!
//! Takes events in order; says nothing about where code is, sites are numbers here.

mod call;
mod code;
mod control;
mod events;
mod fault;
mod heap;
mod histogram;
mod late;
mod ledger;
mod numbers;
mod outcome;
mod table;
mod threads;
mod timeline;
mod usage;

pub(crate) use call::Batch;
pub(crate) use events::Events;
pub(crate) use fault::{RawFault, Target, Wrong};
pub(crate) use heap::Moment;
pub(crate) use histogram::Histogram;
pub(crate) use outcome::{LiveBlock, Outcome, SiteRow};
pub(crate) use threads::ThreadUsage;

use crate::address::Machine;
use code::Code;
use heap::{Heap, Paired};
use ledger::Ledger;
use numbers::Numbers;

/// Sums by the counting rules of the contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) allocations: u64,
    pub(crate) releases: u64,
    pub(crate) reallocations: u64,
    pub(crate) allocated_bytes: u64,
    pub(crate) failed: u64,
    pub(crate) failed_reallocations: u64,
    pub(crate) temporary: u64,
    pub(crate) earlier_releases: u64,
    /// Blocks of the parent that are not released yet.
    pub(crate) inherited_blocks: u64,
    pub(crate) inherited_bytes: u64,
    /// Addresses handed out again without a release in between.
    pub(crate) unseen_releases: u64,
    /// Releases of a log that stand after the address was handed out again.
    pub(crate) late_releases: u64,
    /// Records of this version's reader unknown to it, that it may not ignore.
    pub(crate) unknown_ops: u64,
    /// Records of any kind.
    pub(crate) records: u64,
}

impl Counts {
    /// Recorded calls.
    pub(crate) fn calls(&self) -> u64 {
        [
            self.allocations,
            self.releases,
            self.reallocations,
            self.failed,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

/// What a stream says of its own end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ending {
    /// There is an end record; with the exit status, if it knows one.
    pub(crate) end: Option<Option<u64>>,
    /// The last record that acts is an exec.
    pub(crate) is_exec: bool,
    /// The last record is a fault, with this signal.
    pub(crate) fault: Option<u64>,
}

/// How the replay of a process image begins.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beginning {
    /// Number of the stream's first record, if it is known.
    pub(crate) first_number: Option<u64>,
    /// Blocks may have been handed out that the trace does not show.
    pub(crate) is_late: bool,
    /// Releases may stand after the address was handed out again.
    pub(crate) writes_late: bool,
    pub(crate) machine: Machine,
    /// The trace's clock when the first recorded process began.
    pub(crate) clock: u64,
    /// Nanoseconds of a step of the timeline, where that is asked for.
    pub(crate) step: Option<u64>,
}

/// The replay of one process image, up to the event that came last. Its stages work on stretches of events at the same time:
/// while the heap pairs the calls of one, the events of the next are looked at and the account of the one before is kept.
pub(crate) struct Replay {
    pub(crate) events: Events,
    heap: Heap,
    ledger: Ledger,
    /// Blocks with lower numbers are the parent's.
    first_own: u64,
    /// The process that this one was forked from calls the allocator past the recorder.
    inherits_bypass: bool,
    /// Looked at, to be paired.
    ready: Option<Batch>,
    /// Paired, to be booked.
    paired: Option<(Batch, Vec<Paired>)>,
    spare: Vec<Batch>,
}

impl Replay {
    pub(crate) fn new(beginning: Beginning) -> Self {
        let numbers = Numbers::from(beginning.first_number);
        let code = Code::new(beginning.machine);
        Self {
            events: Events::new(&beginning, numbers, code),
            heap: Heap::default(),
            ledger: Ledger::new(&beginning, 0, (0, 0)),
            first_own: 0,
            inherits_bypass: false,
            ready: None,
            paired: None,
            spare: Vec::new(),
        }
    }

    /// The replay of a child that is forked now, at number `first`.
    ///
    /// Operations that are open in the parent count as not done.
    /// This replay has to rest until [`resume`](Self::resume).
    pub(crate) fn fork(&mut self, first: u64, beginning: Beginning, takes_code: bool) -> Self {
        self.drain();
        let ledger = &self.ledger;
        let mut blocks = ledger.inherited_blocks + ledger.usage.live_blocks;
        let mut bytes = ledger
            .inherited_bytes
            .saturating_add(ledger.usage.live_bytes);
        let mut heap = self.heap.fork();
        for (address, block) in self.heap.open_blocks() {
            if !heap.restore(address, block) {
                blocks = blocks.saturating_sub(1);
                bytes = bytes.saturating_sub(block.size);
            }
        }
        let numbers = Numbers::of_child(self.events.numbers, first);
        let code = if takes_code {
            self.events.code.clone()
        } else {
            Code::new(beginning.machine)
        };
        Self {
            events: Events::new(
                &Beginning {
                    is_late: self.events.is_late,
                    ..beginning
                },
                numbers,
                code,
            ),
            heap,
            ledger: Ledger::new(&beginning, first, (blocks, bytes)),
            first_own: first,
            // Whatever it released before the fork, it went on.
            inherits_bypass: self.inherits_bypass || ledger.shows_bypass(),
            ready: None,
            paired: None,
            spare: std::mem::take(&mut self.spare),
        }
    }

    /// Modules and stack nodes that a child takes over.
    pub(crate) fn code_size(&self) -> usize {
        self.events.code.size()
    }

    /// Makes the replay ready to go on after a child is done.
    pub(crate) fn resume(&mut self) {
        self.heap.thaw();
    }

    /// Has `look` look at the next events while those before are worked on.
    pub(crate) fn step<T: Send>(
        &mut self,
        look: impl FnOnce(&mut Events, Batch) -> (T, Option<Batch>) + Send,
    ) -> T {
        let old = self.spare.pop().unwrap_or_default();
        let (ready, paired) = (self.ready.take(), self.paired.take());
        let (events, heap, ledger) = (&mut self.events, &mut self.heap, &mut self.ledger);
        let pair = || {
            ready.map(|batch| {
                let paired = heap.pair(&batch);
                (batch, paired)
            })
        };
        let book = || {
            paired.map(|(batch, paired)| {
                ledger.book(&batch, &paired);
                batch
            })
        };
        let ((result, next), (paired, booked)) = rayon::join(
            || {
                let batch = events.batch(old);
                look(events, batch)
            },
            || rayon::join(pair, book),
        );
        self.ready = next;
        self.paired = paired;
        self.spare.extend(booked);
        result
    }

    /// Works on all that was looked at.
    fn drain(&mut self) {
        while self.ready.is_some() || self.paired.is_some() {
            self.step(|_, _| ((), None));
        }
    }
}
