//! Heap calls of a stretch of events, spread over the shards of the heap, with all that a shard must know of each.

use super::block::Moment;
use super::heap::{SHARDS, shard_of};
use crate::sites::SiteId;
use heapwire_format::Family;

/// What a call does to the heap at its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Begins a block.
    HandOut,
    /// Ends one.
    Release,
    /// The old half of a realloc.
    Open,
    /// The realloc of the block was done; the new one begins elsewhere.
    Moved,
    /// It failed.
    Failed,
    /// It released the block.
    Freed,
}

impl Kind {
    /// Whether it is a release that can be wrong.
    pub(super) fn releases(self) -> bool {
        matches!(self, Self::Release | Self::Open)
    }
}

/// One call at one address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) address: u64,
    /// Of a block that begins or moves its size; of a release the number of the block that it would make a temporary one.
    pub(super) value: u64,
    pub(super) clock: u64,
    pub(super) number: u64,
    /// Number of the realloc's old half; 0 = not known.
    pub(super) partner: u64,
    pub(super) site: SiteId,
    pub(super) tid: u32,
    pub(super) position: u32,
    pub(super) kind: Kind,
    pub(super) family: Family,
}

impl Call {
    pub(super) fn moment(&self) -> Moment {
        Moment {
            clock: self.clock,
            site: self.site,
            tid: self.tid,
        }
    }
}

/// A block that begins, for the account.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gain {
    pub(super) position: u32,
    pub(super) site: SiteId,
    pub(super) size: u64,
    pub(super) clock: u64,
    pub(super) number: u64,
}

/// The heap calls of a stretch of events; each has a position in it.
#[derive(Default)]
pub(crate) struct Batch {
    /// For each shard its calls, in order.
    pub(super) calls: Vec<Vec<Call>>,
    /// In order.
    pub(super) gains: Vec<Gain>,
    /// Positions where the clock was higher than ever before.
    pub(super) ticks: Vec<(u32, u64)>,
    /// Blocks may have been handed out that the trace does not show.
    pub(super) is_late: bool,
    /// Releases may stand after the address was handed out again.
    pub(super) writes_late: bool,
    /// Positions from which on events are missing before the number that is given.
    doubts: Vec<(u32, u64)>,
    positions: u32,
}

impl Batch {
    /// Makes an empty batch of what another one needed. `doubted_to` is the number before which events are missing.
    pub(super) fn begin(
        mut self,
        is_late: bool,
        writes_late: bool,
        doubted_to: Option<u64>,
    ) -> Self {
        self.calls.resize_with(SHARDS, Vec::new);
        self.calls.iter_mut().for_each(Vec::clear);
        self.gains.clear();
        self.ticks.clear();
        self.doubts.clear();
        self.positions = 0;
        self.is_late = is_late;
        self.writes_late = writes_late;
        self.doubt(doubted_to);
        self
    }

    /// Positions.
    pub(super) fn len(&self) -> usize {
        self.positions as usize
    }

    /// Begins a position.
    pub(super) fn advance(&mut self) -> u32 {
        let position = self.positions;
        self.positions += 1;
        position
    }

    /// Notes that the clock is higher from the next position on than it ever was.
    pub(super) fn tick(&mut self, clock: u64) {
        match self.ticks.last_mut() {
            Some(last) if last.0 == self.positions => last.1 = clock,
            _ => self.ticks.push((self.positions, clock)),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, call: Call) {
        self.calls[shard_of(call.address)].push(call);
    }

    /// From the next position on, events are missing before number `doubted_to`.
    pub(super) fn doubt(&mut self, doubted_to: Option<u64>) {
        if let Some(number) = doubted_to
            && self.doubts.last().is_none_or(|(_, last)| *last != number)
        {
            self.doubts.push((self.positions, number));
        }
    }

    /// The number before which events are missing, as far as is known at a position.
    pub(super) fn doubt_at(&self, position: u32) -> Option<u64> {
        let before = self.doubts.partition_point(|(from, _)| *from <= position);
        self.doubts[..before].last().map(|(_, number)| *number)
    }

    /// Whether everything between record `number` and a position was seen.
    pub(super) fn is_whole_since(&self, number: u64, position: u32) -> bool {
        self.doubt_at(position)
            .is_none_or(|doubted| doubted <= number)
    }
}
