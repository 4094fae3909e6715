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
const CALLS_WORTH_IT: usize = 1 << 12;

/// Live blocks that are: with fewer, to look at events takes longer than to pair them.
const LIVE_WORTH_IT: usize = 1 << 15;

/// The same with two threads, which other stages keep busy.
const LIVE_WORTH_IT_FOR_TWO: usize = 1 << 19;

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

    /// So many parts of the heap, in which the calls of a batch can be paired at the same time, each in order. Until they are
    /// [joined](Self::join) nothing else is known of the heap.
    pub(super) fn part(&mut self, batch: &mut Batch, parts: usize) -> Vec<Part> {
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

    /// In how many parts it pays that so many `threads` pair a batch: what is found does not depend on it.
    pub(super) fn parts(&self, batch: &Batch, threads: usize) -> usize {
        let live_worth_it = match threads {
            0..=1 => usize::MAX,
            2 => LIVE_WORTH_IT_FOR_TWO,
            _ => LIVE_WORTH_IT,
        };
        if batch.calls.len() >= CALLS_WORTH_IT && self.live() >= live_worth_it {
            PARTS
        } else {
            1
        }
    }

    /// Blocks that are live, without inherited ones.
    pub(super) fn live(&self) -> usize {
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

    /// Takes all open reallocs back, as if they had failed; gives how many blocks are live by that, and those whose address was
    /// handed out since.
    pub(super) fn undo_open(&mut self) -> (u64, Vec<Block>) {
        let (mut restored, mut gone) = (0, Vec::new());
        for shard in &mut self.shards {
            let mut open: Vec<_> = mem::take(&mut shard.open).into_iter().collect();
            open.sort_unstable_by_key(|(number, _)| *number);
            for (_, open) in open {
                match open.block {
                    Some(block) if shard.restore(open.address, block) => restored += 1,
                    Some(block) => gone.push(block),
                    None => {}
                }
            }
        }
        gone.sort_unstable_by_key(|block| block.number);
        (restored, gone)
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

    /// Gives `each` the blocks that are live and their addresses, inherited ones as well, in no order that may show. What a shard holds
    /// is let go before the next one.
    pub(super) fn into_live_blocks(self, mut each: impl FnMut(u64, Block)) {
        for shard in self.shards {
            for (address, block) in shard.live_blocks() {
                each(address, block);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::{Heap, PARTS, SHARDS};
    use crate::replay::Beginning;
    use crate::replay::call::{Batch, Call, Kind};
    use crate::replay::ledger::Ledger;
    use crate::sites::SiteId;
    use heapwire_format::Family;
    use proptest::prelude::{any, proptest};

    /// What pairing and booking batches of these calls in so many parts comes to, as far as it can differ.
    fn account(calls: &[(u64, u8)], parts: usize) -> String {
        let mut heap = Heap::default();
        let mut ledger = Ledger::new(&Beginning::default(), 0, (0, 0));
        let mut batch = Batch::default();
        let numbered: Vec<_> = (1..).zip(calls).collect();
        for calls in numbered.chunks(100) {
            batch = batch.begin(false, false, None);
            for (number, (address, choice)) in calls {
                let (kind, family) = match choice % 8 {
                    0..4 => (Kind::HandOut, Family::Malloc),
                    4 => (Kind::Release, Family::New),
                    _ => (Kind::Release, Family::Malloc),
                };
                batch.push(Call {
                    address: 0x1000 + address * 4,
                    value: u64::from(choice / 8) + 1,
                    clock: *number,
                    number: *number,
                    site: SiteId::of_raw(1).unwrap(),
                    tid: 1,
                    kind,
                    family,
                });
            }
            let mut work = heap.part(&mut batch, parts);
            assert_eq!(work.len(), parts);
            work.reverse(); // they are done in any order
            work.iter_mut().for_each(|part| part.pair(&batch));
            heap.join(&mut batch, work);
            assert_eq!(heap.shards.len(), SHARDS);
            ledger.book(&batch);
        }
        let mut live = Vec::new();
        heap.into_live_blocks(|address, block| live.push((address, block)));
        live.sort_unstable_by_key(|(address, _)| *address);
        let usage = &ledger.usage;
        let sums = (usage.live_blocks, usage.live_bytes, usage.peak);
        let counts = (
            ledger.temporary,
            ledger.earlier_releases,
            ledger.unseen_releases,
        );
        format!("{sums:?} {counts:?} {live:?} {:?}", ledger.faults)
    }

    proptest! {
        #[test]
        fn what_is_found_does_not_depend_on_the_parts(
            calls in proptest::collection::vec((0u64..60, any::<u8>()), 0..500),
        ) {
            let whole = account(&calls, 1);
            for parts in [2, PARTS, SHARDS] {
                assert_eq!(account(&calls, parts), whole);
            }
        }
    }
}
