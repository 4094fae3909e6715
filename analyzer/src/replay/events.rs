//! The part of a replay that needs the order of events and no address: which site a call is of, which halves of a realloc
//! belong together, what is missing, and what control records say.

use super::call::{Batch, Call, Closing, Kind};
use super::code::Code;
use super::control::{Declaring, Forked};
use super::marks::Marks;
use super::numbers::Numbers;
use super::threads::{OpenRealloc, Threads};
use super::{Beginning, Counts, Ending};
use crate::event::{Event, RawEvent};
use crate::sites::{Module, SiteId, SiteTable};
use heapwire_format::Op;
use rustc_hash::FxHashMap;

/// What the events of one process image come to, but for the heap.
pub(crate) struct Events {
    pub(super) is_late: bool,
    writes_late: bool,
    /// Blocks were left out on purpose, here or in the process that this one was forked from.
    pub(super) has_culled: bool,
    pub(super) numbers: Numbers,
    pub(super) code: Code,
    pub(super) threads: Threads,
    pub(super) counts: Counts,
    pub(super) ending: Ending,
    pub(super) forked: Vec<Forked>,
    /// Calls that returned no memory, and the bytes they asked for, by site.
    pub(super) failed: FxHashMap<SiteId, (u64, u64)>,
    pub(super) marks: Marks,
    /// A declaration whose text has not all come yet.
    pub(super) declaring: Option<Declaring>,
    pub(super) last_clock: u64,
    /// The clock that the heap was told last.
    ticked: u64,
}

impl Events {
    pub(super) fn new(beginning: &Beginning, numbers: Numbers, code: Code) -> Self {
        Self {
            is_late: beginning.is_late,
            writes_late: beginning.writes_late,
            has_culled: beginning.has_culled,
            numbers,
            code,
            threads: Threads::default(),
            counts: Counts::default(),
            ending: Ending::default(),
            forked: Vec::new(),
            failed: FxHashMap::default(),
            marks: Marks::default(),
            declaring: None,
            last_clock: 0,
            ticked: 0,
        }
    }

    /// An empty batch for the events to come, made of what an old one needed.
    pub(crate) fn batch(&self, old: Batch) -> Batch {
        let doubted_to = self.numbers.doubted_to;
        let mut batch = old.begin(self.is_late, self.writes_late, doubted_to);
        batch.has_culled = self.has_culled;
        batch
    }

    /// The site of a heap event, with the modules and stacks declared so far.
    pub(crate) fn site(&mut self, event: &Event, sites: &mut SiteTable) -> SiteId {
        self.code.site(&event.record, event.number, sites)
    }

    /// Takes note of a module that any event may name.
    pub(crate) fn declare(&mut self, module: Module, sites: &mut SiteTable) {
        self.code.load(module, 0, sites);
    }

    /// As [`take`](Self::take), of an event that lies elsewhere.
    pub(crate) fn apply(&mut self, event: &Event, sites: &mut SiteTable, batch: &mut Batch) {
        let slot = event.record.encode();
        let event = RawEvent {
            number: event.number,
            clock: event.clock,
            tid: event.tid,
            slot: &slot,
        };
        self.take(event, sites, batch);
    }

    /// Takes the next event; what it means for the heap goes into `batch`.
    // What the functions that are seldom called need is made for them alone: all else stays in registers.
    #[inline(always)]
    pub(crate) fn take(&mut self, event: RawEvent<'_>, sites: &mut SiteTable, batch: &mut Batch) {
        self.numbers.note(event.number);
        self.counts.records += 1;
        self.last_clock = self.last_clock.max(event.clock);
        if self.declaring.is_some() && self.continue_text(&event.event(), sites) {
            return;
        }
        self.ending.fault = None;
        let record = event.record();
        if !record.op.is_heap() {
            self.control_event(&event.event(), sites);
            batch.has_culled |= self.has_culled;
            return;
        }
        self.ending.is_exec = false;
        batch.doubt(self.numbers.doubted_to);
        if event.clock > self.ticked {
            self.ticked = event.clock;
            batch.tick(event.clock);
        }
        if record.ptr == 0 && record.op != Op::ALLOCATION_FAILED {
            return;
        }
        let site = self.code.site(&record, event.number, sites);
        match record.op {
            Op::ALLOCATED => {
                let counts = &mut self.counts;
                counts.allocations = counts.allocations.saturating_add(1);
                self.hand_out(Call::of(event, site), batch);
            }
            Op::RELEASED => {
                let counts = &mut self.counts;
                counts.releases = counts.releases.saturating_add(1);
                let value = self.threads.release(event.tid, record.ptr, event.number);
                batch.push(Call {
                    kind: Kind::Release,
                    value,
                    ..Call::of(event, site)
                });
            }
            _ => self.seldom(&event.event(), Call::of(event, site), batch),
        }
    }

    /// Heap events that are seldom: reallocs, and what failed.
    #[inline(never)]
    fn seldom(&mut self, event: &Event, call: Call, batch: &mut Batch) {
        let record = &event.record;
        match record.op {
            Op::REALLOC_OLD => {
                let open = OpenRealloc {
                    pc: record.pc,
                    size: record.size,
                    address: record.ptr,
                    number: event.number,
                };
                self.threads.open(event.tid, open);
                batch.push(Call {
                    kind: Kind::Open,
                    ..call
                });
            }
            Op::REALLOC_NEW | Op::REALLOC_FAILED | Op::REALLOC_FREED => {
                self.end_realloc(event, call, batch);
            }
            _ => self.fail(&call),
        }
    }

    fn end_realloc(&mut self, event: &Event, call: Call, batch: &mut Batch) {
        let size = event.record.size;
        match event.record.op {
            Op::REALLOC_NEW => {
                self.counts.reallocations += 1;
                self.close(event, call, Kind::Moved, size, batch);
                self.hand_out(call, batch);
            }
            Op::REALLOC_FAILED => {
                self.counts.failed_reallocations += 1;
                self.fail(&call);
                self.close(event, call, Kind::Failed, 0, batch);
            }
            _ => {
                self.counts.releases = self.counts.releases.saturating_add(1);
                let value = self.threads.release(event.tid, call.address, event.number);
                if !self.close(event, call, Kind::Freed, value, batch) {
                    let call = Call {
                        kind: Kind::Freed,
                        ..call
                    };
                    batch.push_closing(call, Closing { partner: 0, value });
                }
            }
        }
    }

    #[inline(always)]
    fn hand_out(&mut self, call: Call, batch: &mut Batch) {
        let size = call.value;
        self.counts.allocated_bytes = self.counts.allocated_bytes.saturating_add(size);
        self.threads
            .hand_out(call.tid, call.address, call.number, size);
        batch.push(call);
    }

    /// Closes the realloc that `event` ends, if it was seen to begin.
    fn close(
        &mut self,
        event: &Event,
        call: Call,
        kind: Kind,
        value: u64,
        batch: &mut Batch,
    ) -> bool {
        let record = &event.record;
        let Some(open) = self
            .threads
            .close(event.tid, record.pc, record.size, event.number)
        else {
            return false;
        };
        let partner = open.number;
        let call = Call {
            kind,
            address: open.address,
            ..call
        };
        batch.push_closing(call, Closing { partner, value });
        true
    }

    fn fail(&mut self, call: &Call) {
        self.threads.note_call(call.tid, call.number);
        self.counts.failed += 1;
        let (calls, bytes) = self.failed.entry(call.site).or_default();
        *calls += 1;
        *bytes = bytes.saturating_add(call.value);
    }
}
