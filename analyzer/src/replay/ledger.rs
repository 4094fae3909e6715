//! The account of one process image: what is live after each call, the peak, and who held it.

use super::block::Block;
use super::call::{Batch, Call, Kind};
use super::chart::Only;
use super::fault::{RawFault, Target};
use super::histogram::Histogram;
use super::shard::End;
use super::timeline::{Live, Timeline};
use super::usage::Usage;
use super::{Beginning, Counts};
use std::sync::Arc;
use std::{iter, slice};

/// Faults that are kept one by one.
const FAULTS: usize = 1 << 16;

/// Sums that only the pairing of calls gives.
pub(super) struct Ledger {
    /// Blocks with lower numbers are the parent's.
    first_own: u64,
    pub(super) usage: Usage,
    pub(super) timeline: Timeline,
    /// What counts for the timeline, and what of that is live.
    only: Option<Arc<Only>>,
    charted: Live,
    pub(super) faults: Vec<RawFault>,
    /// Faults beyond those that are kept.
    pub(super) more_faults: u64,
    pub(super) temporary: u64,
    pub(super) earlier_releases: u64,
    pub(super) unseen_releases: u64,
    pub(super) late_releases: u64,
    /// Blocks of the parent that are not released yet.
    pub(super) inherited_blocks: u64,
    pub(super) inherited_bytes: u64,
    pub(super) sizes: Histogram,
    pub(super) lifetimes: Histogram,
    pub(super) lifetimes_unknown: u64,
    pub(super) lifetimes_in_records: Histogram,
}

impl Ledger {
    pub(super) fn new(beginning: &Beginning, first_own: u64, inherited: (u64, u64)) -> Self {
        Self {
            first_own,
            usage: Usage::default(),
            timeline: Timeline::new(beginning.clock, beginning.chart.step),
            only: beginning.chart.only.clone(),
            charted: (0, 0),
            faults: Vec::new(),
            more_faults: 0,
            temporary: 0,
            earlier_releases: 0,
            unseen_releases: 0,
            late_releases: 0,
            inherited_blocks: inherited.0,
            inherited_bytes: inherited.1,
            sizes: Histogram::default(),
            lifetimes: Histogram::default(),
            lifetimes_unknown: 0,
            lifetimes_in_records: Histogram::default(),
        }
    }

    /// Adds what was booked to the counts of a process image, which `was_there` and so inherited.
    pub(super) fn tell(&self, counts: &mut Counts, was_there: bool) {
        counts.temporary = self.temporary;
        counts.earlier_releases = self.earlier_releases;
        counts.unseen_releases = self.unseen_releases - self.late_releases;
        counts.late_releases = self.late_releases;
        if was_there {
            counts.inherited_blocks = self.inherited_blocks;
            counts.inherited_bytes = self.inherited_bytes;
        }
    }

    /// Books a batch and what its pairing found.
    pub(super) fn book(&mut self, batch: &Batch) {
        self.walk(batch);
        self.count(batch);
    }

    /// Whether blocks were released that came from past the recorder, for all that the process lived on.
    pub(super) fn shows_bypass(&self) -> bool {
        self.unseen_releases > self.late_releases
            || self.faults.iter().any(|it| it.target == Target::Stranger)
    }

    /// Ends a block.
    #[inline]
    pub(super) fn end(&mut self, block: &Block) {
        if block.number >= self.first_own {
            self.usage.release(block.handed_out.site, block.size);
        } else {
            self.end_inherited(block.size);
        }
    }

    fn end_inherited(&mut self, size: u64) {
        self.inherited_blocks = self.inherited_blocks.saturating_sub(1);
        self.inherited_bytes = self.inherited_bytes.saturating_sub(size);
    }

    /// Books what ends and begins from call to call.
    fn walk(&mut self, batch: &Batch) {
        let mut ends = Ends::of(batch);
        let ticks = batch.ticks.iter().map(|(position, _)| *position);
        let calls = u32::try_from(batch.calls.len()).unwrap_or(u32::MAX);
        let stretches = iter::once(0).chain(ticks.clone()).zip(ticks.chain([calls]));
        let clocks = iter::once(None).chain(batch.ticks.iter().map(|tick| Some(tick.1)));
        for ((begin, end), clock) in stretches.zip(clocks) {
            if let Some(clock) = clock {
                self.timeline.advance_to(clock, self.live());
            }
            let mut most = self.live();
            let calls = &batch.calls[begin as usize..end as usize];
            for (position, call) in (begin..).zip(calls) {
                if let Some(end) = ends.at(position) {
                    self.end_one(end);
                }
                if call.kind == Kind::HandOut {
                    self.begin_one(call);
                    let live = self.live();
                    most = (live.0.max(most.0), live.1.max(most.1));
                }
            }
            self.timeline.note(most);
        }
    }

    #[inline(always)]
    fn begin_one(&mut self, call: &Call) {
        self.sizes.note(call.value);
        self.usage.acquire(call.site, call.value);
        self.usage.note_peak(call.clock, call.number);
        if let Some(only) = &self.only
            && only.takes(call.site, call.tid, call.value)
        {
            let (bytes, blocks) = self.charted;
            self.charted = (bytes.saturating_add(call.value), blocks + 1);
        }
    }

    /// What the timeline shows of what is live.
    #[inline]
    pub(super) fn live(&self) -> Live {
        if self.only.is_some() {
            return self.charted;
        }
        (self.usage.live_bytes, self.usage.live_blocks)
    }

    #[inline(always)]
    fn end_one(&mut self, end: &End) {
        let block = &end.block;
        if end.is_temporary {
            self.usage.note_temporary(block.handed_out.site);
            self.temporary += 1;
        }
        self.end(block);
        if let Some(only) = &self.only
            && block.number >= self.first_own
            && only.takes_block(block)
        {
            let (bytes, blocks) = self.charted;
            self.charted = (bytes.saturating_sub(block.size), blocks.saturating_sub(1));
        }
    }

    fn count(&mut self, batch: &Batch) {
        let mut faults: Vec<(u32, RawFault)> = Vec::new();
        for of in &batch.paired {
            for (site, bytes) in &of.grown {
                self.usage.note_growth(*site, *bytes);
            }
            self.earlier_releases += of.earlier;
            self.unseen_releases += of.unseen;
            self.late_releases += of.late;
            self.lifetimes.absorb(&of.lifetimes);
            self.lifetimes_unknown += of.lifetimes_unknown;
            self.lifetimes_in_records.absorb(&of.lifetimes_in_records);
            faults.extend_from_slice(&of.faults);
        }
        faults.sort_by_key(|(position, _)| *position);
        let room = FAULTS.saturating_sub(self.faults.len());
        self.more_faults += faults.len().saturating_sub(room) as u64;
        let kept = faults.into_iter().take(room);
        self.faults.extend(kept.map(|(_, fault)| fault));
    }
}

/// The ends of blocks in a batch, by position.
struct Ends<'b> {
    batch: &'b Batch,
    /// What is left of each part, in which they are in order.
    parts: Vec<slice::Iter<'b, End>>,
    /// The next one, if all are in one part.
    next: Option<&'b End>,
}

impl<'b> Ends<'b> {
    fn of(batch: &'b Batch) -> Self {
        let mut parts: Vec<_> = batch.paired.iter().map(|of| of.ends.iter()).collect();
        let next = match &mut *parts {
            [all] => all.next(),
            _ => None,
        };
        Self { batch, parts, next }
    }

    /// The end at a position. Positions are asked for in order.
    #[inline(always)]
    fn at(&mut self, position: u32) -> Option<&'b End> {
        if let [all] = &mut *self.parts {
            let end = self.next.filter(|end| end.position == position)?;
            self.next = all.next();
            return Some(end);
        }
        self.in_parts(position)
    }

    fn in_parts(&mut self, position: u32) -> Option<&'b End> {
        let part = self.parts.get_mut(self.batch.part_of(position))?;
        let end = part.as_slice().first();
        end.filter(|end| end.position == position)?;
        part.next()
    }
}
