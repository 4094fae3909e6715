//! Replays the events of one process image: pairs each allocation with its release, and names every release that
//! has no partner.
//!
//! Takes events in order; says nothing about where code is, sites are numbers here.

mod code;
mod control;
mod fault;
mod heap;
mod late;
mod numbers;
mod outcome;
mod threads;
mod timeline;
mod usage;

pub(crate) use fault::{RawFault, Target, Wrong};
pub(crate) use heap::{Block, Moment};
pub(crate) use outcome::{LiveBlock, Outcome, SiteRow};

use crate::address::Machine;
use crate::order::Event;
use crate::sites::{Module, SiteId, SiteTable};
use code::Code;
use control::Declaring;
use heap::{Entry, Heap, Released};
use heapwire_format::{Family, Op, Record};
use late::Late;
use numbers::Numbers;
use threads::{OpenRealloc, Threads};
use timeline::Timeline;
use usage::Usage;

/// Alignment that every allocator gives; what is less aligned was never handed out.
const ALIGNMENT: u64 = 8;

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
}

/// The replay of one process image, up to the event that came last.
pub(crate) struct Replay {
    is_late: bool,
    late: Option<Late>,
    /// Blocks with lower numbers are the parent's.
    first_own: u64,
    numbers: Numbers,
    code: Code,
    heap: Heap,
    threads: Threads,
    usage: Usage,
    timeline: Timeline,
    counts: Counts,
    faults: Vec<RawFault>,
    /// The process that this one was forked from calls the allocator past the recorder.
    inherits_bypass: bool,
    ending: Ending,
    forked: Vec<u64>,
    /// A module whose text has not all come yet.
    declaring: Option<Declaring>,
    last_clock: u64,
}

impl Replay {
    pub(crate) fn new(beginning: Beginning) -> Self {
        Self {
            is_late: beginning.is_late,
            late: beginning.writes_late.then(Late::default),
            first_own: 0,
            numbers: Numbers::from(beginning.first_number),
            code: Code::new(beginning.machine),
            heap: Heap::default(),
            threads: Threads::default(),
            usage: Usage::default(),
            timeline: Timeline::new(beginning.clock),
            counts: Counts::default(),
            faults: Vec::new(),
            inherits_bypass: false,
            ending: Ending::default(),
            forked: Vec::new(),
            declaring: None,
            last_clock: 0,
        }
    }

    /// The replay of a child that is forked now, at number `first`.
    ///
    /// Operations that are open in the parent count as not done.
    /// This replay has to rest until [`resume`](Self::resume).
    pub(crate) fn fork(&mut self, first: u64, beginning: Beginning, takes_code: bool) -> Self {
        let mut heap = self.heap.fork();
        let mut inherited_blocks = self.counts.inherited_blocks + self.usage.live_blocks;
        let mut inherited_bytes = self
            .counts
            .inherited_bytes
            .saturating_add(self.usage.live_bytes);
        for open in self.threads.all_open() {
            if let Some(block) = open.block
                && !heap.restore(open.address, block)
            {
                inherited_blocks = inherited_blocks.saturating_sub(1);
                inherited_bytes = inherited_bytes.saturating_sub(block.size);
            }
        }
        Self {
            is_late: self.is_late,
            first_own: first,
            numbers: Numbers::of_child(self.numbers, first),
            code: if takes_code {
                self.code.clone()
            } else {
                Code::new(beginning.machine)
            },
            heap,
            // Whatever it released before the fork, it went on.
            inherits_bypass: self.inherits_bypass
                || self.counts.unseen_releases > 0
                || self.faults.iter().any(|it| it.target == Target::Stranger),
            counts: Counts {
                inherited_blocks,
                inherited_bytes,
                ..Counts::default()
            },
            ..Self::new(beginning)
        }
    }

    /// Modules and stack nodes that a child takes over.
    pub(crate) fn code_size(&self) -> usize {
        self.code.size()
    }

    /// Makes the replay ready to go on after a child is done.
    pub(crate) fn resume(&mut self) {
        self.heap.thaw();
    }

    /// Takes note of a module that events to come may name.
    pub(crate) fn declare(&mut self, module: Module, sites: &mut SiteTable) {
        self.code.load(module, sites);
    }

    /// The site of a heap record, with the modules and stacks declared so far.
    pub(crate) fn site(&mut self, record: &Record, sites: &mut SiteTable) -> SiteId {
        self.code.site(record, sites)
    }

    /// Replays `events`, which follow those before.
    pub(crate) fn apply(&mut self, events: &[Event], sites: &mut SiteTable) {
        for event in events {
            self.numbers.note(event.number);
            self.counts.records += 1;
            self.last_clock = self.last_clock.max(event.clock);
            if self.declaring.is_some() && self.continue_text(event, sites) {
                continue;
            }
            self.ending.fault = None;
            if event.record.op.is_heap() {
                self.ending.is_exec = false;
                if event.record.ptr != 0 || event.record.op == Op::ALLOCATION_FAILED {
                    self.heap_event(event, sites);
                }
            } else {
                self.control_event(event, sites);
            }
        }
    }

    fn heap_event(&mut self, event: &Event, sites: &mut SiteTable) {
        let at = Moment {
            clock: event.clock,
            site: self.code.site(&event.record, sites),
            tid: event.tid,
        };
        match event.record.op {
            Op::ALLOCATED => {
                self.counts.allocations = self.counts.allocations.saturating_add(1);
                self.hand_out(event, at);
            }
            Op::RELEASED => self.release(event, at),
            Op::REALLOC_OLD => self.begin_realloc(event, at),
            Op::REALLOC_NEW => self.end_realloc(event, at),
            Op::REALLOC_FAILED => self.fail_realloc(event),
            Op::REALLOC_FREED => self.free_by_realloc(event, at),
            _ => self.counts.failed += 1,
        }
        if !self.faults.is_empty() {
            self.threads.get(event.tid).last_call = event.number;
        }
        self.timeline.note(event.clock, self.usage.live_bytes);
    }

    fn hand_out(&mut self, event: &Event, at: Moment) {
        let block = Block {
            size: event.record.size,
            number: event.number,
            handed_out: at,
            family: Family::from_flags(event.record.flags),
        };
        if let Some(Entry::Live(unseen)) = self.heap.occupy(event.record.ptr, block) {
            self.counts.unseen_releases += 1;
            self.account_release(&unseen);
            if let Some(late) = &mut self.late
                && self.numbers.are_whole_since(unseen.number)
            {
                late.expect(event.record.ptr);
            }
        }
        self.counts.allocated_bytes = self.counts.allocated_bytes.saturating_add(block.size);
        self.usage.acquire(at.site, block.size, at.clock);
        self.threads.get(event.tid).last_handed_out = event.number;
    }

    fn release(&mut self, event: &Event, at: Moment) {
        self.counts.releases = self.counts.releases.saturating_add(1);
        let address = event.record.ptr;
        if self.is_late_release(address) {
            return;
        }
        match self.heap.release(address, event.number, at) {
            Ok(block) => {
                self.check_family(event, at, &block);
                self.end_block(&block);
            }
            Err(Some(before)) => self.double_free(event, at, before),
            Err(None) => {
                if self.is_earlier(event, at) {
                    self.counts.earlier_releases += 1;
                    self.heap.release_earlier(address, event.number, at);
                }
            }
        }
    }

    /// Whether this is the release of a block that was seen to be gone when its address was handed out again.
    fn is_late_release(&mut self, address: u64) -> bool {
        let is_late = self.late.as_mut().is_some_and(|late| late.take(address));
        if is_late {
            self.counts.unseen_releases = self.counts.unseen_releases.saturating_sub(1);
            self.counts.late_releases += 1;
        }
        is_late
    }

    fn begin_realloc(&mut self, event: &Event, at: Moment) {
        let address = event.record.ptr;
        let mut open = OpenRealloc {
            pc: event.record.pc,
            size: event.record.size,
            address,
            block: None,
            is_earlier: false,
        };
        if self.is_late_release(address) {
            self.threads.open(event.tid, open);
            return;
        }
        match self.heap.release(address, event.number, at) {
            // The account changes when the realloc is closed: until then nobody else can be given the bytes.
            Ok(block) => {
                self.check_family(event, at, &block);
                open.block = Some(block);
            }
            Err(Some(before)) => self.double_free(event, at, before),
            Err(None) => {
                open.is_earlier = self.is_earlier(event, at);
                if open.is_earlier {
                    self.heap.release_earlier(address, event.number, at);
                }
            }
        }
        self.threads.open(event.tid, open);
    }

    fn end_realloc(&mut self, event: &Event, at: Moment) {
        if let Some(open) = self.close(event) {
            self.counts.earlier_releases += u64::from(open.is_earlier);
            if let Some(block) = open.block {
                self.account_release(&block);
            }
        }
        self.counts.reallocations += 1;
        self.hand_out(event, at);
    }

    fn fail_realloc(&mut self, event: &Event) {
        self.counts.failed += 1;
        self.counts.failed_reallocations += 1;
        let Some(open) = self.close(event) else {
            return;
        };
        if open.is_earlier {
            self.heap.forget_release(open.address);
        }
        self.undo(&open);
    }

    fn free_by_realloc(&mut self, event: &Event, at: Moment) {
        self.counts.releases = self.counts.releases.saturating_add(1);
        let block = match self.close(event) {
            Some(open) => {
                self.counts.earlier_releases += u64::from(open.is_earlier);
                open.block
            }
            None => self.heap.release(event.record.ptr, event.number, at).ok(),
        };
        if let Some(block) = block {
            self.end_block(&block);
        }
    }

    fn close(&mut self, event: &Event) -> Option<OpenRealloc> {
        let thread = self.threads.get(event.tid);
        thread.close(event.record.pc, event.record.size)
    }

    /// Takes the release of an open realloc back. Where the address was handed out since, it was no failure.
    fn undo(&mut self, open: &OpenRealloc) {
        if let Some(block) = open.block
            && !self.heap.restore(open.address, block)
        {
            self.counts.unseen_releases += 1;
            self.account_release(&block);
        }
    }

    fn end_block(&mut self, block: &Block) {
        let at = block.handed_out;
        let is_own = block.number >= self.first_own;
        if is_own && self.threads.last_handed_out(at.tid) == Some(block.number) {
            self.counts.temporary += 1;
            self.usage.note_temporary(at.site);
        }
        self.account_release(block);
    }

    fn account_release(&mut self, block: &Block) {
        if block.number >= self.first_own {
            self.usage.release(block.handed_out.site, block.size);
        } else {
            let counts = &mut self.counts;
            counts.inherited_blocks = counts.inherited_blocks.saturating_sub(1);
            counts.inherited_bytes = counts.inherited_bytes.saturating_sub(block.size);
        }
    }

    fn check_family(&mut self, event: &Event, at: Moment, block: &Block) {
        let family = Family::from_flags(event.record.flags);
        if block.family.is_released_by(family) {
            return;
        }
        self.faults.push(RawFault {
            size: Some(block.size),
            allocation: Some(block.handed_out),
            families: Some((block.family, family, event.record.op)),
            ..self.fault(Wrong::Mismatched, Target::Known, event, at, block.number)
        });
    }

    fn double_free(&mut self, event: &Event, at: Moment, before: Released) {
        self.faults.push(RawFault {
            size: before.block.map(|(size, _)| size),
            first_release: Some(before.released),
            allocation: before.block.map(|(_, handed_out)| handed_out),
            ..self.fault(Wrong::Double, Target::Known, event, at, before.number)
        });
    }

    /// Whether a release of an address that nothing is known of is one of a block older than the recording. If
    /// it is not, it is an invalid free.
    fn is_earlier(&mut self, event: &Event, at: Moment) -> bool {
        let address = event.record.ptr;
        let inside = self.heap.containing(address);
        let target = match inside {
            _ if !address.is_multiple_of(ALIGNMENT) => Target::Crooked,
            Some(_) => Target::Known,
            None => Target::Stranger,
        };
        let may_be_earlier = self.is_late || !self.numbers.are_whole();
        if may_be_earlier && target == Target::Stranger {
            return true;
        }
        self.faults.push(RawFault {
            allocation: inside.map(|(_, block)| block.handed_out),
            inside: inside.map(|(begin, block)| (address - begin, block.size)),
            is_whole: self.numbers.are_whole(),
            ..self.fault(Wrong::Invalid, target, event, at, 0)
        });
        false
    }

    /// A wrong release that nothing explains which came after record `since`.
    fn fault(
        &self,
        wrong: Wrong,
        target: Target,
        event: &Event,
        at: Moment,
        since: u64,
    ) -> RawFault {
        RawFault {
            wrong,
            number: event.number,
            is_whole: self.numbers.are_whole_since(since),
            target,
            is_last: false,
            address: event.record.ptr,
            size: None,
            at,
            first_release: None,
            allocation: None,
            inside: None,
            families: None,
        }
    }
}
