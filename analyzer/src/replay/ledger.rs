//! The account of one process image: what is live after each call, the peak, and who held it.

use super::Beginning;
use super::block::Block;
use super::call::{Batch, Kind};
use super::chart::Only;
use super::fault::{RawFault, Target};
use super::histogram::Histogram;
use super::timeline::{Live, Timeline};
use super::usage::Usage;
use crate::sites::SiteId;
use std::mem;
use std::sync::Arc;

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
    pub(super) lifetimes_in_records: Histogram,
    /// What ends at each position of a batch.
    ended: Vec<Ended>,
}

/// The end of a block, if there is one.
#[derive(Clone, Copy, Default)]
struct Ended {
    size: u64,
    site: Option<SiteId>,
    is_inherited: bool,
    is_temporary: bool,
    /// It counts for the timeline.
    is_charted: bool,
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
            lifetimes_in_records: Histogram::default(),
            ended: Vec::new(),
        }
    }

    /// Books a batch and what its pairing found.
    pub(super) fn book(&mut self, batch: &Batch) {
        self.lay_out(batch);
        self.walk(batch);
        self.count(batch);
    }

    /// Lets go of the memory that only the next batch needs again.
    pub(super) fn rest(&mut self) {
        self.ended = Vec::new();
    }

    /// Whether blocks were released that came from past the recorder, for all that the process lived on.
    pub(super) fn shows_bypass(&self) -> bool {
        self.unseen_releases > self.late_releases
            || self.faults.iter().any(|it| it.target == Target::Stranger)
    }

    /// Ends a block outside of a batch.
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

    fn lay_out(&mut self, batch: &Batch) {
        self.ended.clear();
        self.ended.resize(batch.calls.len(), Ended::default());
        for end in batch.paired.iter().flat_map(|of| &of.ends) {
            self.ended[end.position as usize] = Ended {
                size: end.block.size,
                site: Some(end.block.handed_out.site),
                is_inherited: end.block.number < self.first_own,
                is_temporary: end.is_temporary,
                is_charted: self
                    .only
                    .as_ref()
                    .is_some_and(|it| it.takes_block(&end.block)),
            };
        }
    }

    /// Books what ends and begins from call to call.
    fn walk(&mut self, batch: &Batch) {
        let ended = mem::take(&mut self.ended);
        let ticks = batch.ticks.iter().map(|(position, _)| *position as usize);
        let begins = std::iter::once(0).chain(ticks.clone());
        let ends = ticks.chain([batch.calls.len()]);
        let clocks = std::iter::once(None).chain(batch.ticks.iter().map(|tick| Some(tick.1)));
        for ((begin, end), clock) in begins.zip(ends).zip(clocks) {
            if let Some(clock) = clock {
                self.timeline.advance_to(clock, self.live());
            }
            let mut most = (0, 0);
            for (call, ended) in batch.calls[begin..end].iter().zip(&ended[begin..end]) {
                self.end_one(ended);
                if call.kind == Kind::HandOut {
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
                let live = self.live();
                most = (live.0.max(most.0), live.1.max(most.1));
            }
            self.timeline.note(most);
        }
        self.ended = ended;
    }

    /// What the timeline shows of what is live.
    #[inline]
    fn live(&self) -> Live {
        if self.only.is_some() {
            return self.charted;
        }
        (self.usage.live_bytes, self.usage.live_blocks)
    }

    #[inline]
    fn end_one(&mut self, ended: &Ended) {
        let Some(site) = ended.site else {
            return;
        };
        if ended.is_temporary {
            self.usage.note_temporary(site);
            self.temporary += 1;
        }
        if ended.is_inherited {
            self.end_inherited(ended.size);
        } else {
            self.usage.release(site, ended.size);
            if ended.is_charted {
                let (bytes, blocks) = self.charted;
                self.charted = (bytes.saturating_sub(ended.size), blocks.saturating_sub(1));
            }
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
