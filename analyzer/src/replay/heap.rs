//! What is known of each address: the live block that begins there, or the last release.
//!
//! Addresses are spread over shards, so that what happens to different addresses can be looked at at once. A shard takes
//! its calls in order and knows nothing of the others.

use super::block::Block;
use super::call::{Batch, Call, Kind};
use super::fault::{RawFault, Target, Wrong};
use super::kept::Kept;
use super::shard::{End, Paired, Shard, fault, holds, pair};
use super::table::Key;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use std::collections::BTreeSet;
use std::mem;

/// Bits of a hash that choose the shard.
pub(super) const SHARD_BITS: u32 = 5;

/// Shards of a heap.
pub(super) const SHARDS: usize = 1 << SHARD_BITS;

/// Calls of a batch that are worth another thread.
const WORTH_A_THREAD: usize = 1 << 12;

/// Live blocks that are: with fewer, other stages keep two threads busy.
const LIVE_WORTH_A_THREAD: usize = 1 << 19;

/// Parts of a heap that are paired at the same time.
const PARTS: usize = 8;

/// Entries that searches may look at before an index pays.
const SEARCH_BUDGET: usize = 1 << 22;

/// Alignment that every allocator gives; what is less aligned was never handed out.
const ALIGNMENT: u64 = 8;

/// All addresses that are handed out, and the last releases. Grows with the live blocks, not with the trace.
///
/// The heap of a forked child lies on that of its parent, which stays as it was at the fork until the child is done.
pub(super) struct Heap {
    shards: Vec<Shard>,
    /// Entries looked at by searches without an index.
    searched: usize,
}

/// Some of a heap's shards, and what the calls of a batch come to in them.
pub(super) struct Part {
    /// Index of the first shard.
    first: usize,
    shards: Vec<Shard>,
    paired: Paired,
}

impl Part {
    /// Pairs the calls of the batch at addresses of these shards.
    pub(super) fn pair(&mut self, batch: &Batch) {
        pair(&mut self.shards, self.first, batch, &mut self.paired);
    }
}

impl Default for Heap {
    fn default() -> Self {
        let mut shards = Vec::new();
        shards.resize_with(SHARDS, Shard::default);
        Self {
            shards,
            searched: 0,
        }
    }
}

impl Heap {
    /// Pairs the calls of a batch.
    pub(super) fn pair(&mut self, batch: &mut Batch) {
        let mut parts = self.part(batch, 1);
        for part in &mut parts {
            part.pair(batch);
        }
        self.join(batch, parts);
    }

    /// Parts of the heap in which the calls of a batch can be paired at the same time, each in order, as far as that pays for so
    /// many `threads`. Until they are [joined](Self::join) nothing else is known of the heap.
    pub(super) fn part(&mut self, batch: &mut Batch, threads: usize) -> Vec<Part> {
        let parts = self.parts(batch, threads);
        let of_each = SHARDS / parts;
        let paired = batch.part(parts, |call| Key::of(call.address).shard() / of_each);
        let mut shards = mem::take(&mut self.shards).into_iter();
        let parts = (0..SHARDS).step_by(of_each).zip(paired);
        parts
            .map(|(first, paired)| Part {
                first,
                shards: shards.by_ref().take(of_each).collect(),
                paired,
            })
            .collect()
    }

    /// Puts the parts together again in which a batch was paired, and ends what needs all of them.
    pub(super) fn join(&mut self, batch: &mut Batch, mut parts: Vec<Part>) {
        parts.sort_unstable_by_key(|part| part.first);
        let mut paired = Vec::with_capacity(parts.len());
        for part in parts {
            self.shards.extend(part.shards);
            paired.push(part.paired);
        }
        if paired.iter().any(|of| !of.unknown.is_empty()) {
            self.judge_unknown(batch, &mut paired);
        }
        batch.paired = paired;
    }

    /// In how many parts: what is found does not depend on it.
    fn parts(&self, batch: &Batch, threads: usize) -> usize {
        let is_worth_it = threads > 2 || threads == 2 && self.live() >= LIVE_WORTH_A_THREAD;
        if is_worth_it && batch.calls.len() >= WORTH_A_THREAD {
            PARTS
        } else {
            1
        }
    }

    fn live(&self) -> usize {
        self.shards.iter().map(|it| it.own.table.live()).sum()
    }

    /// A heap that begins as this one is now. This one should rest until it is [thawed](Self::thaw).
    pub(super) fn fork(&mut self) -> Self {
        Self {
            shards: self.shards.iter_mut().map(Shard::fork).collect(),
            searched: 0,
        }
    }

    /// Takes over the reallocs that are under way in `other`.
    pub(super) fn open_as(&mut self, other: &Self) {
        for (shard, other) in self.shards.iter_mut().zip(&other.shards) {
            shard.open = other.open.clone();
        }
    }

    /// Makes the heap whole again once the one forked off is gone.
    pub(super) fn thaw(&mut self) {
        self.shards.iter_mut().for_each(Shard::thaw);
    }

    /// Takes all open reallocs back, as if they had failed; gives the blocks whose address was handed out since.
    pub(super) fn undo_open(&mut self) -> Vec<Block> {
        let mut gone = Vec::new();
        for shard in &mut self.shards {
            let mut open: Vec<_> = mem::take(&mut shard.open).into_iter().collect();
            open.sort_unstable_by_key(|(number, _)| *number);
            for (_, open) in open {
                if let Some(block) = open.block
                    && !shard.restore(open.address, block)
                {
                    gone.push(block);
                }
            }
        }
        gone.sort_unstable_by_key(|block| block.number);
        gone
    }

    /// Reallocs under way.
    pub(super) fn open(&self) -> u64 {
        self.shards.iter().map(|it| it.open.len() as u64).sum()
    }

    /// The blocks of open reallocs and their addresses, in order of the reallocs' numbers.
    pub(super) fn open_blocks(&self) -> Vec<(u64, Block)> {
        let open = self.shards.iter().flat_map(|shard| &shard.open);
        let mut open: Vec<_> = open
            .filter_map(|(number, open)| Some((*number, open.address, open.block?)))
            .collect();
        open.sort_unstable_by_key(|(number, ..)| *number);
        open.into_iter()
            .map(|(_, address, block)| (address, block))
            .collect()
    }

    /// Takes a release back, unless the address was handed out since. Gives whether it did.
    pub(super) fn restore(&mut self, address: u64, block: Block) -> bool {
        self.shards[Key::of(address).shard()].restore(address, block)
    }

    /// What the live blocks come to that were handed out from number `first` on.
    pub(super) fn kept(&self, first: u64) -> Kept {
        let shards = self.shards.par_iter();
        let kept = shards.fold(Kept::default, |mut kept, shard| {
            for (_, block) in shard.live_blocks() {
                if block.number >= first {
                    kept.add(&block);
                }
            }
            kept
        });
        kept.reduce(Kept::default, Kept::and)
    }

    /// The blocks that are live, inherited ones as well, in no order that may show.
    pub(super) fn live_blocks(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        self.shards.iter().flat_map(Shard::live_blocks)
    }

    /// Says of each release that nothing is known of whether its block is older than the recording, or there was none.
    /// For that a block is looked for that held the address then, in all shards.
    fn judge_unknown(&mut self, batch: &Batch, paired: &mut [Paired]) {
        let mut unknown = Vec::new();
        for (part, of) in paired.iter_mut().enumerate() {
            let positions = mem::take(&mut of.unknown);
            unknown.extend(positions.into_iter().map(|position| (position, part, None)));
            // The release before a second one may turn out to have been none.
            of.faults.retain(|(position, fault)| {
                let of_unknown = fault.wrong == Wrong::Double && fault.size.is_none();
                if of_unknown {
                    unknown.push((*position, part, Some(*fault)));
                }
                !of_unknown
            });
        }
        unknown.sort_unstable_by_key(|(position, ..)| *position);
        let mut invalid: BTreeSet<u64> = BTreeSet::new();
        for (position, part, double) in unknown {
            let call = batch.calls[position as usize];
            if let Some(fault) = double
                && !invalid.contains(&fault.first_number)
            {
                paired[part].faults.push((position, fault));
                continue;
            }
            let inside = self.containing_at(&call, position, batch, paired);
            let doubt = batch.doubt_at(position);
            let may_be_earlier = batch.is_late || doubt.is_some();
            let of = &mut paired[part];
            let target = match inside {
                _ if !call.address.is_multiple_of(ALIGNMENT) => Target::Crooked,
                Some(_) => Target::Known,
                None if batch.has_culled => Target::LeftOut,
                None => Target::Stranger,
            };
            if may_be_earlier && matches!(target, Target::LeftOut | Target::Stranger) {
                of.earlier += u64::from(call.kind == Kind::Release);
                continue;
            }
            invalid.insert(double.map_or(call.number, |fault| fault.first_number));
            invalid.insert(call.number);
            let fault = RawFault {
                allocation: inside.map(|(_, block)| block.handed_out),
                inside: inside.map(|(begin, block)| (call.address - begin, block.size)),
                ..fault(Wrong::Invalid, target, &call, doubt.is_none())
            };
            of.faults.push((position, fault));
            self.shards[Key::of(call.address).shard()].forget(&call);
        }
        for of in paired {
            let closed = mem::take(&mut of.closed_unknown);
            of.earlier += closed.iter().filter(|it| !invalid.contains(it)).count() as u64;
        }
    }

    /// The block that held the address of `call` when it was made, and its address.
    fn containing_at(
        &mut self,
        call: &Call,
        position: u32,
        batch: &Batch,
        paired: &[Paired],
    ) -> Option<(u64, Block)> {
        let address = call.address;
        let was_there = |block: &Block| block.number < call.number;
        self.searched = self.searched.saturating_add(self.live());
        let may_search = self.searched <= SEARCH_BUDGET;
        let live = self.shards.iter().filter_map(|shard| {
            shard
                .containing(address, may_search)
                .filter(|(_, block)| was_there(block))
        });
        let held = paired.iter().flat_map(|of| of.held.iter().copied());
        let released = paired.iter().flat_map(|of| {
            let later = of.ends.partition_point(|end| end.position <= position);
            of.ends[later..].iter().filter_map(|end| {
                let begin = released_by(&batch.calls, end)?;
                Some((end.position, begin, end.block))
            })
        });
        let gone = held
            .chain(released)
            .filter(|(at, begin, block)| {
                *at > position && was_there(block) && holds(*begin, block, address)
            })
            .map(|(_, begin, block)| (begin, block));
        live.chain(gone).max_by_key(|(begin, _)| *begin)
    }
}

/// The address of the release that ended a block, if it was one.
fn released_by(calls: &[Call], end: &End) -> Option<u64> {
    let call = calls.get(end.position as usize)?;
    matches!(call.kind, Kind::Release | Kind::Freed).then_some(call.address)
}
