//! The account of one process image: what is live after each call, the peak, and who held it.

use super::Beginning;
use super::block::Block;
use super::call::Batch;
use super::fault::{RawFault, Target};
use super::histogram::Histogram;
use super::shard::Paired;
use super::timeline::Timeline;
use super::usage::Usage;

/// Faults that are kept one by one.
const FAULTS: usize = 1 << 16;

/// Sums that only the pairing of calls gives.
pub(super) struct Ledger {
    /// Blocks with lower numbers are the parent's.
    first_own: u64,
    pub(super) usage: Usage,
    pub(super) timeline: Timeline,
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
    /// Bytes that end at each position of a batch.
    freed: Vec<u64>,
    /// Bytes that begin.
    gained: Vec<u64>,
    /// Blocks that begin, less those that end.
    net: Vec<i32>,
}

impl Ledger {
    pub(super) fn new(beginning: &Beginning, first_own: u64, inherited: (u64, u64)) -> Self {
        Self {
            first_own,
            usage: Usage::default(),
            timeline: Timeline::new(beginning.clock, beginning.step),
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
            freed: Vec::new(),
            gained: Vec::new(),
            net: Vec::new(),
        }
    }

    /// Books a batch and what its pairing found.
    pub(super) fn book(&mut self, batch: &Batch, paired: &[Paired]) {
        self.lay_out(batch, paired);
        let peak = self.walk(batch);
        let split = peak.map_or(0, |(position, _)| position + 1);
        if let Some((position, bytes)) = peak {
            self.apply(batch, paired, 0, split);
            let at = batch.gains.partition_point(|gain| gain.position < position);
            let (clock, number) = batch
                .gains
                .get(at)
                .map_or((0, 0), |gain| (gain.clock, gain.number));
            self.usage.mark_peak(bytes, clock, number);
        }
        self.apply(batch, paired, split, u32::MAX);
        self.count(paired);
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
            self.usage.live_bytes = self.usage.live_bytes.saturating_sub(block.size);
        } else {
            self.end_inherited(block);
        }
    }

    fn end_inherited(&mut self, block: &Block) {
        self.inherited_blocks = self.inherited_blocks.saturating_sub(1);
        self.inherited_bytes = self.inherited_bytes.saturating_sub(block.size);
    }

    fn lay_out(&mut self, batch: &Batch, paired: &[Paired]) {
        self.freed.clear();
        self.freed.resize(batch.len(), 0);
        self.gained.clear();
        self.gained.resize(batch.len(), 0);
        self.net.clear();
        self.net.resize(batch.len(), 0);
        for gain in &batch.gains {
            self.gained[gain.position as usize] = gain.size;
            self.net[gain.position as usize] += 1;
            self.sizes.note(gain.size);
        }
        for of in paired {
            for end in &of.ends {
                if end.block.number >= self.first_own {
                    let freed = &mut self.freed[end.position as usize];
                    *freed = freed.saturating_add(end.block.size);
                    self.net[end.position as usize] -= 1;
                }
            }
        }
    }

    /// Follows live bytes from position to position. Gives the position and height of a new peak, if there is one.
    fn walk(&mut self, batch: &Batch) -> Option<(u32, u64)> {
        let mut live = self.usage.live_bytes;
        let mut blocks = self.usage.live_blocks;
        let mut highest = self.usage.peak.bytes;
        let mut peak = None;
        let ticks = batch.ticks.iter().map(|(position, _)| *position as usize);
        let begins = std::iter::once(0).chain(ticks.clone());
        let ends = ticks.chain([batch.len()]);
        let clocks = std::iter::once(None).chain(batch.ticks.iter().map(|tick| Some(tick.1)));
        for ((begin, end), clock) in begins.zip(ends).zip(clocks) {
            if let Some(clock) = clock {
                self.timeline.advance_to(clock, (live, blocks));
            }
            let mut most = (0, 0);
            for (at, (freed, gained)) in
                (begin..).zip(self.freed[begin..end].iter().zip(&self.gained[begin..end]))
            {
                live = live.saturating_sub(*freed).saturating_add(*gained);
                blocks = blocks.saturating_add_signed(self.net[at].into());
                most = (most.0.max(live), most.1.max(blocks));
                if live > highest {
                    highest = live;
                    peak = Some((at, live));
                }
            }
            self.timeline.note(most);
        }
        self.usage.live_bytes = live;
        peak.map(|(at, bytes)| (u32::try_from(at).unwrap_or(u32::MAX), bytes))
    }

    /// Books blocks that begin or end from position `from` on and before `to`, by site.
    fn apply(&mut self, batch: &Batch, paired: &[Paired], from: u32, to: u32) {
        let first = batch.gains.partition_point(|gain| gain.position < from);
        for gain in &batch.gains[first..] {
            if gain.position >= to {
                break;
            }
            self.usage.acquire(gain.site, gain.size);
        }
        for of in paired {
            let first = of.ends.partition_point(|end| end.position < from);
            for end in &of.ends[first..] {
                if end.position >= to {
                    break;
                }
                if end.block.number >= self.first_own {
                    self.usage
                        .release(end.block.handed_out.site, end.block.size);
                } else {
                    self.inherited_blocks = self.inherited_blocks.saturating_sub(1);
                    self.inherited_bytes = self.inherited_bytes.saturating_sub(end.block.size);
                }
            }
        }
    }

    fn count(&mut self, paired: &[Paired]) {
        let mut faults: Vec<(u32, RawFault)> = Vec::new();
        for of in paired {
            for site in &of.temporaries {
                self.usage.note_temporary(*site);
            }
            for (site, bytes) in &of.grown {
                self.usage.note_growth(*site, *bytes);
            }
            self.temporary += of.temporaries.len() as u64;
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
