//! Heap calls of a stretch of events in order, with all that a shard of the heap must know of each.

use super::block::{Block, Moment};
use super::memory::fetch_to_push;
use super::shard::Paired;
use crate::event::RawEvent;
use crate::sites::SiteId;
use heapwire_format::Family;
use std::mem;

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

/// One call at one address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) address: u64,
    /// Of a block that begins its size; of a release the number of the block that it would make a temporary one; of
    /// what closes a realloc the place of its [`Closing`].
    pub(super) value: u64,
    pub(super) clock: u64,
    pub(super) number: u64,
    pub(super) site: SiteId,
    pub(super) tid: u32,
    pub(super) kind: Kind,
    pub(super) family: Family,
}

/// Calls that will be written before what is fetched now.
const AHEAD: usize = 24;

// They are handed from stage to stage, which is most of what the stages cost.
const _: () = assert!(size_of::<Call>() <= 48);

/// What closes a realloc.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closing {
    /// Number of the realloc's old half; 0 = not known.
    pub(super) partner: u64,
    /// Of a block that moves its new size; of one that is released the number of the block that this would make a temporary
    /// one.
    pub(super) value: u64,
}

impl Call {
    /// The call of a heap event, as if it began a block.
    #[inline(always)]
    pub(super) fn of(event: RawEvent<'_>, site: SiteId) -> Self {
        let record = event.record();
        Self {
            address: record.ptr,
            value: record.size,
            clock: event.clock,
            number: event.number,
            site,
            tid: event.tid,
            kind: Kind::HandOut,
            family: Family::from_flags(record.flags),
        }
    }

    /// The block that it begins.
    #[inline(always)]
    pub(super) fn block(&self) -> Block {
        Block {
            size: self.value,
            number: self.number,
            handed_out: self.moment(),
            family: self.family,
        }
    }

    #[inline(always)]
    pub(super) fn moment(&self) -> Moment {
        Moment {
            clock: self.clock,
            site: self.site,
            tid: self.tid,
        }
    }
}

/// The heap calls of a stretch of events; each has a position in it.
#[derive(Default)]
pub(crate) struct Batch {
    /// In order.
    pub(super) calls: Vec<Call>,
    closings: Vec<Closing>,
    /// Positions where the clock was higher than ever before.
    pub(super) ticks: Vec<(u32, u64)>,
    /// Blocks may have been handed out that the trace does not show.
    pub(super) is_late: bool,
    /// Blocks were left out on purpose.
    pub(super) has_culled: bool,
    /// Releases may stand after the address was handed out again.
    pub(super) writes_late: bool,
    /// Positions from which on events are missing before the number that is given.
    doubts: Vec<(u32, u64)>,
    /// What pairing finds, by part of the heap.
    pub(super) paired: Vec<Paired>,
    /// The part that the call at each position is in, if there are several.
    part_of: Vec<u8>,
}

impl Batch {
    /// Makes an empty batch of what another one needed. `doubted_to` is the number before which events are missing.
    pub(super) fn begin(
        mut self,
        is_late: bool,
        writes_late: bool,
        doubted_to: Option<u64>,
    ) -> Self {
        self.calls.clear();
        self.closings.clear();
        self.ticks.clear();
        self.doubts.clear();
        self.is_late = is_late;
        self.writes_late = writes_late;
        self.doubt(doubted_to);
        self
    }

    /// Says which of `parts` of the heap each call is in, at most 256. Gives what is to be filled by each, with the positions of
    /// its calls.
    #[expect(clippy::cast_possible_truncation, reason = "there are few parts")]
    pub(super) fn part(&mut self, parts: usize, of: impl Fn(&Call) -> usize) -> Vec<Paired> {
        let mut paired = mem::take(&mut self.paired);
        paired.resize_with(parts, Paired::default);
        paired.iter_mut().for_each(Paired::clear);
        self.part_of.clear();
        if parts > 1 {
            for (position, call) in (0..).zip(&self.calls) {
                let part = of(call);
                self.part_of.push(part as u8);
                paired[part].positions.push(position);
            }
        }
        paired
    }

    /// The part of the heap that the call at a position is in.
    #[inline(always)]
    pub(super) fn part_of(&self, position: u32) -> usize {
        self.part_of
            .get(position as usize)
            .map_or(0, |part| usize::from(*part))
    }

    /// The position to come.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a batch is of a window of numbers"
    )]
    fn position(&self) -> u32 {
        self.calls.len() as u32
    }

    /// Notes that the clock is higher from the next position on than it ever was.
    pub(super) fn tick(&mut self, clock: u64) {
        let position = self.position();
        match self.ticks.last_mut() {
            Some(last) if last.0 == position => last.1 = clock,
            _ => self.ticks.push((position, clock)),
        }
    }

    // Whole calls that are written in parts and read at once to be copied would have to wait for the writing.
    #[inline(always)]
    pub(super) fn push(&mut self, call: Call) {
        fetch_to_push(&self.calls, AHEAD);
        self.calls.push(call);
    }

    /// Adds a call that closes a realloc.
    #[inline(never)]
    pub(super) fn push_closing(&mut self, call: Call, closing: Closing) {
        let value = self.closings.len() as u64;
        self.closings.push(closing);
        self.push(Call { value, ..call });
    }

    /// How a call closes a realloc.
    pub(super) fn closing(&self, call: &Call) -> Closing {
        let place = usize::try_from(call.value).unwrap_or(usize::MAX);
        let closing = self.closings.get(place).copied();
        closing.unwrap_or(Closing {
            partner: 0,
            value: 0,
        })
    }

    /// From the next position on, events are missing before number `doubted_to`.
    pub(super) fn doubt(&mut self, doubted_to: Option<u64>) {
        if let Some(number) = doubted_to
            && self.doubts.last().is_none_or(|(_, last)| *last != number)
        {
            self.doubts.push((self.position(), number));
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
