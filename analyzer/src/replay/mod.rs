//! Replays the events of one process image: pairs each allocation with its release, and names every release that
//! has no partner.
//!
//! Takes events in order; says nothing about where code is, sites are numbers here.

mod block;
mod call;
mod chart;
mod code;
mod control;
mod events;
mod fault;
mod heap;
mod histogram;
mod kept;
mod late;
mod ledger;
mod marks;
mod memory;
mod numbers;
mod outcome;
mod shard;
mod slot;
mod stages;
mod table;
mod threads;
mod timeline;
mod usage;

pub(crate) use block::{Block, Moment};
pub(crate) use call::Batch;
pub(crate) use chart::{Chart, Only};
pub(crate) use control::Forked;
pub(crate) use events::Events;
pub(crate) use fault::{RawFault, Target, Wrong};
pub(crate) use histogram::Histogram;
pub(crate) use numbers::Numbers;
pub(crate) use outcome::{LiveBlock, Outcome, SiteRow, Wanted};
pub(crate) use threads::ThreadUsage;
pub(crate) use timeline::Timeline;

use crate::address::Machine;
use code::Code;
use heap::Heap;
use ledger::Ledger;
use stages::{Idle, Stages};

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
    /// Pairs of allocation and release that the recorder left out on purpose.
    pub(crate) culled: u64,
    /// Records of such pairs in frames that are lost.
    pub(crate) culled_unseen: u64,
    /// Most bytes that were live among those of one frame.
    pub(crate) culled_peak: u64,
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Beginning {
    /// Number of the stream's first record, if it is known.
    pub(crate) first_number: Option<u64>,
    /// Blocks may have been handed out that the trace does not show.
    pub(crate) is_late: bool,
    /// Blocks were left out on purpose.
    pub(crate) has_culled: bool,
    /// Releases may stand after the address was handed out again.
    pub(crate) writes_late: bool,
    pub(crate) machine: Machine,
    /// The trace's clock when the first recorded process began.
    pub(crate) clock: u64,
    pub(crate) chart: Chart,
}

/// The replay of one process image, up to the event that came last.
pub(crate) struct Replay {
    pub(crate) events: Events,
    heap: Heap,
    ledger: Ledger,
    /// Blocks with lower numbers are the parent's.
    first_own: u64,
    /// The process that this one was forked from calls the allocator past the recorder.
    inherits_bypass: bool,
    spare: Option<Batch>,
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
            spare: None,
        }
    }

    /// Takes note that all numbers below `taken` were taken.
    pub(crate) fn note_taken(&mut self, taken: u64) {
        self.events.numbers.note_taken(taken);
    }

    /// The replay of a child that is forked now, at number `first`.
    ///
    /// Operations that are open in the parent count as not done.
    /// This replay has to rest until [`resume`](Self::resume).
    pub(crate) fn fork(&mut self, first: u64, beginning: Beginning, takes_code: bool) -> Self {
        let mut child = self.branch(first, beginning, takes_code);
        for (address, block) in self.heap.open_blocks() {
            if !child.heap.restore(address, block) {
                child.ledger.end(&block);
            }
        }
        child
    }

    /// A replay that goes on with what comes from number `first` on, while this one stays as it is now.
    ///
    /// What it comes to itself is not the account of the process. This replay has to rest until [`resume`](Self::resume).
    pub(crate) fn stand_in(&mut self, first: u64, beginning: Beginning) -> Self {
        let mut other = self.branch(first, beginning, true);
        other.heap.open_as(&self.heap);
        other.events.threads = self.events.threads.clone();
        other
    }

    fn branch(&mut self, first: u64, beginning: Beginning, takes_code: bool) -> Self {
        let ledger = &self.ledger;
        let blocks = ledger.inherited_blocks + ledger.usage.live_blocks;
        let bytes = ledger
            .inherited_bytes
            .saturating_add(ledger.usage.live_bytes);
        let heap = self.heap.fork();
        let numbers = Numbers::of_child(self.events.numbers, first);
        let code = if takes_code {
            self.events.code.clone()
        } else {
            Code::new(beginning.machine)
        };
        let own = Ledger::new(&beginning, first, (blocks, bytes));
        Self {
            events: Events::new(
                &Beginning {
                    is_late: self.events.is_late,
                    has_culled: self.events.has_culled,
                    ..beginning
                },
                numbers,
                code,
            ),
            heap,
            ledger: own,
            first_own: first,
            // Whatever it released before the fork, it went on.
            inherits_bypass: self.inherits_bypass || ledger.shows_bypass(),
            spare: self.spare.take(),
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

    /// Has `look` look at events, a batch at a time, until it gives a result in place of one. The heap pairs the calls of a batch
    /// and the ledger books them, as far as there are `threads` for it while the next events are looked at.
    pub(crate) fn run<T>(
        &mut self,
        threads: usize,
        idle: &Idle<'_>,
        mut look: impl FnMut(&mut Events, Batch) -> Result<Batch, T>,
    ) -> T {
        if threads > 1 {
            return self.run_at_once(threads, idle, look);
        }
        loop {
            let batch = self.events.batch(self.spare.take().unwrap_or_default());
            let mut batch = match look(&mut self.events, batch) {
                Ok(batch) => batch,
                Err(result) => return result,
            };
            self.heap.pair(&mut batch);
            self.ledger.book(&batch);
            self.spare = Some(batch);
        }
    }

    fn run_at_once<T>(
        &mut self,
        threads: usize,
        idle: &Idle<'_>,
        mut look: impl FnMut(&mut Events, Batch) -> Result<Batch, T>,
    ) -> T {
        let stages = Stages::new(&mut self.heap, &mut self.ledger, threads, idle);
        let events = &mut self.events;
        stages.run(|stages| {
            loop {
                let batch = events.batch(stages.spare());
                match look(events, batch) {
                    Ok(batch) => stages.add(batch),
                    Err(result) => return result,
                }
            }
        })
    }
}
