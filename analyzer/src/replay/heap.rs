//! What is known of each address: the live block that begins there, or the last release.
//!
//! Addresses are spread over shards, so that what happens to different addresses can be looked at at once. A shard takes
//! its calls in order and knows nothing of the others.

use super::call::{Batch, Call, Kind};
use super::fault::{RawFault, Target, Wrong};
use super::histogram::Histogram;
use super::late::Late;
use super::table::{Table, hash};
use crate::sites::SiteId;
use heapwire_format::{Family, Op};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::{Arc, OnceLock};

/// Bits of a hash that choose the shard.
pub(super) const SHARD_BITS: u32 = 5;
/// Shards of a heap.
pub(super) const SHARDS: usize = 1 << SHARD_BITS;
/// Calls that are looked up together, so that their cache misses overlap.
const TOGETHER: usize = 32;
/// Calls of a batch that are worth another thread.
const WORTH_A_THREAD: usize = 1 << 12;
/// Entries that searches may look at before an index pays.
const SEARCH_BUDGET: usize = 1 << 22;
/// Alignment that every allocator gives; what is less aligned was never handed out.
const ALIGNMENT: u64 = 8;

/// The shard of an address.
#[inline]
pub(super) fn shard_of(address: u64) -> usize {
    (hash(address) >> (64 - SHARD_BITS)) as usize
}

/// A call at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Nanoseconds of the traced machine's clock.
    pub(crate) clock: u64,
    pub(crate) site: SiteId,
    /// Kernel tid.
    pub(crate) tid: u32,
}

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Requested bytes.
    pub(crate) size: u64,
    /// Number of the record that handed it out.
    pub(crate) number: u64,
    /// When it was handed out, or resized last.
    pub(crate) handed_out: Moment,
    pub(crate) family: Family,
}

/// The last release of an address that was not handed out since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Released {
    /// Requested bytes of the block; `None` for a block older than the recording.
    pub(crate) block: Option<(u64, Moment)>,
    /// Number of the release.
    pub(crate) number: u64,
    pub(crate) released: Moment,
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Live(Block),
    Released(Released),
    /// Nothing.
    Forgotten,
}

// With its address an entry is one cache line.
const _: () = assert!(size_of::<Entry>() <= 56);

/// All addresses that are handed out, and the last releases. Grows with the live blocks, not with the trace.
///
/// The heap of a forked child lies on that of its parent, which stays as it was at the fork until the child is done.
pub(super) struct Heap {
    shards: Vec<Shard>,
    /// Entries looked at by searches without an index.
    searched: usize,
}

#[derive(Default)]
struct Shard {
    own: Layer,
    base: Option<Arc<Base>>,
    /// Reallocs under way, by the number that opened them.
    open: FxHashMap<u64, Open>,
    late: Late,
}

#[derive(Default)]
struct Layer {
    table: Table,
    /// Live blocks by address, from the moment on that searching without it became dear.
    index: OnceLock<BTreeMap<u64, u64>>,
}

/// A shard that others lie on.
struct Base {
    layer: Layer,
    below: Option<Arc<Base>>,
}

/// The old half of a realloc.
#[derive(Clone, Copy, Debug)]
struct Open {
    address: u64,
    /// The block, if it was live.
    block: Option<Block>,
    /// Nothing is known of the address: perhaps the block is older than the recording.
    is_unknown: bool,
}

/// The end of a block in the account.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) position: u32,
    pub(super) block: Block,
}

/// What a shard, or all of them, found in one batch.
#[derive(Default)]
pub(super) struct Paired {
    /// In order of position within a shard.
    pub(super) ends: Vec<End>,
    /// Sites of blocks that were released before the same thread allocated again.
    pub(super) temporaries: Vec<SiteId>,
    /// Sites of blocks that a realloc made larger, and by how much.
    pub(super) grown: Vec<(SiteId, u64)>,
    pub(super) earlier: u64,
    pub(super) unseen: u64,
    /// Releases that stand after the address was handed out again.
    pub(super) late: u64,
    pub(super) faults: Vec<(u32, RawFault)>,
    pub(super) lifetimes: Histogram,
    pub(super) lifetimes_in_records: Histogram,
    /// Blocks that the old half of a realloc took, with its position.
    held: Vec<(u32, u64, Block)>,
    /// Places among the calls of releases that nothing is known of.
    unknown: Vec<usize>,
    /// Numbers of reallocs of unknown blocks that were closed.
    closed_unknown: Vec<u64>,
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
    /// Pairs the calls of a batch. With `threads` beyond two, which other stages use, shards are worked on at once.
    pub(super) fn pair(&mut self, batch: &Batch, threads: usize) -> Vec<Paired> {
        let mut paired: Vec<Paired> = if threads > 2 && batch.len() >= WORTH_A_THREAD {
            let shards = self.shards.par_iter_mut().zip(&batch.calls);
            shards
                .map(|(shard, calls)| shard.pair(calls, batch))
                .collect()
        } else {
            let shards = self.shards.iter_mut().zip(&batch.calls);
            shards
                .map(|(shard, calls)| shard.pair(calls, batch))
                .collect()
        };
        if paired.iter().any(|of| !of.unknown.is_empty()) {
            self.judge_unknown(batch, &mut paired);
        }
        paired
    }

    /// A heap that begins as this one is now. This one should rest until it is [thawed](Self::thaw).
    pub(super) fn fork(&mut self) -> Self {
        Self {
            shards: self.shards.iter_mut().map(Shard::fork).collect(),
            searched: 0,
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
        self.shards[shard_of(address)].restore(address, block)
    }

    /// The blocks that are live, without inherited ones, in no order that may show.
    pub(super) fn own_live(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        self.shards.iter().flat_map(|shard| shard.own.live())
    }

    /// The inherited blocks that are live, in no order that may show.
    pub(super) fn inherited_live(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        self.shards.iter().flat_map(Shard::inherited_live)
    }

    /// Says of each release that nothing is known of whether its block is older than the recording, or there was none.
    /// For that a block is looked for that held the address then, in all shards.
    fn judge_unknown(&mut self, batch: &Batch, paired: &mut [Paired]) {
        let mut unknown = Vec::new();
        for (shard, of) in paired.iter_mut().enumerate() {
            let calls = &batch.calls[shard];
            let places = mem::take(&mut of.unknown);
            unknown.extend(
                places
                    .into_iter()
                    .map(|at| (calls[at].position, shard, at, None)),
            );
            // The release before a second one may turn out to have been none.
            of.faults.retain(|(position, fault)| {
                let of_unknown = fault.wrong == Wrong::Double && fault.size.is_none();
                if of_unknown {
                    let at = calls.partition_point(|call| call.position < *position);
                    let at = at
                        + calls[at..]
                            .iter()
                            .take_while(|it| !it.kind.releases())
                            .count();
                    unknown.push((*position, shard, at, Some(*fault)));
                }
                !of_unknown
            });
        }
        unknown.sort_unstable_by_key(|(position, ..)| *position);
        let mut invalid: BTreeSet<u64> = BTreeSet::new();
        for (position, shard, at, double) in unknown {
            let call = batch.calls[shard][at];
            if let Some(fault) = double
                && !invalid.contains(&fault.first_number)
            {
                paired[shard].faults.push((position, fault));
                continue;
            }
            let inside = self.containing_at(&call, batch, paired);
            let doubt = batch.doubt_at(position);
            let may_be_earlier = batch.is_late || doubt.is_some();
            let of = &mut paired[shard];
            let target = match inside {
                _ if !call.address.is_multiple_of(ALIGNMENT) => Target::Crooked,
                Some(_) => Target::Known,
                None => Target::Stranger,
            };
            if may_be_earlier && target == Target::Stranger {
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
            self.shards[shard].forget(&call);
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
        batch: &Batch,
        paired: &[Paired],
    ) -> Option<(u64, Block)> {
        let address = call.address;
        let was_there = |block: &Block| block.number < call.number;
        let all = self.shards.iter().map(|it| it.own.table.live()).sum();
        self.searched = self.searched.saturating_add(all);
        let may_search = self.searched <= SEARCH_BUDGET;
        let live = self.shards.iter().filter_map(|shard| {
            shard
                .containing(address, may_search)
                .filter(|(_, block)| was_there(block))
        });
        let held = paired.iter().flat_map(|of| of.held.iter().copied());
        let released = paired.iter().zip(&batch.calls).flat_map(|(of, calls)| {
            let later = of.ends.partition_point(|end| end.position <= call.position);
            of.ends[later..].iter().filter_map(|end| {
                let begin = released_at(calls, end.position)?;
                Some((end.position, begin, end.block))
            })
        });
        let gone = held
            .chain(released)
            .filter(|(position, begin, block)| {
                *position > call.position && was_there(block) && holds(*begin, block, address)
            })
            .map(|(_, begin, block)| (begin, block));
        live.chain(gone).max_by_key(|(begin, _)| *begin)
    }
}

impl Shard {
    fn pair(&mut self, calls: &[Call], batch: &Batch) -> Paired {
        let mut paired = Paired::default();
        let mut hints = [0; TOGETHER];
        for (part, calls) in calls.chunks(TOGETHER).enumerate() {
            for (hint, call) in hints.iter_mut().zip(calls) {
                *hint = self.own.table.hint(call.address);
            }
            for (at, (hint, call)) in hints.iter().zip(calls).enumerate() {
                self.call(call, *hint, part * TOGETHER + at, batch, &mut paired);
            }
        }
        paired
    }

    fn call(&mut self, call: &Call, hint: usize, at: usize, batch: &Batch, paired: &mut Paired) {
        match call.kind {
            Kind::HandOut => {
                let block = Block {
                    size: call.value,
                    number: call.number,
                    handed_out: call.moment(),
                    family: call.family,
                };
                if let Some(Entry::Live(unseen)) = self.occupy(call.address, block, hint) {
                    paired.unseen += 1;
                    paired.end(call, unseen);
                    if batch.writes_late && batch.is_whole_since(unseen.number, call.position) {
                        self.late.expect(call.address);
                    }
                }
            }
            Kind::Release => {
                if let Some(block) = self.release(call, hint, at, batch, paired) {
                    paired.end_of_life(call, block);
                }
            }
            Kind::Open => {
                let unknown = paired.unknown.len();
                let block = self.release(call, hint, at, batch, paired);
                if let Some(block) = block {
                    paired.held.push((call.position, call.address, block));
                }
                let open = Open {
                    address: call.address,
                    block,
                    is_unknown: paired.unknown.len() > unknown,
                };
                self.open.insert(call.number, open);
            }
            Kind::Moved | Kind::Failed | Kind::Freed => self.close(call, hint, paired),
        }
    }

    /// Closes a realloc.
    fn close(&mut self, call: &Call, hint: usize, paired: &mut Paired) {
        let open = self.open.remove(&call.partner);
        if let Some(open) = &open
            && open.is_unknown
        {
            if call.kind == Kind::Failed {
                self.forget_release(open.address);
            } else {
                paired.closed_unknown.push(call.partner);
            }
        }
        let block = open.and_then(|open| open.block);
        match (call.kind, block) {
            (Kind::Moved, Some(block)) => {
                let more = call.value.saturating_sub(block.size);
                if more > 0 {
                    paired.grown.push((call.site, more));
                }
                paired.end(call, block);
            }
            (Kind::Failed, Some(block)) if !self.restore(call.address, block) => {
                paired.unseen += 1;
                paired.end(call, block);
            }
            (Kind::Freed, Some(block)) => paired.end_of_life(call, block),
            (Kind::Freed, None) if open.is_none() => {
                if let Ok(block) = self.take(call, hint) {
                    paired.end_of_life(call, block);
                }
            }
            _ => {}
        }
    }

    /// Ends the block that `call` releases, or says what is wrong with that.
    fn release(
        &mut self,
        call: &Call,
        hint: usize,
        at: usize,
        batch: &Batch,
        paired: &mut Paired,
    ) -> Option<Block> {
        if self.late.take(call.address) {
            paired.late += 1;
            return None;
        }
        match self.take(call, hint) {
            Ok(block) => {
                if !block.family.is_released_by(call.family) {
                    paired
                        .faults
                        .push((call.position, mismatch(call, &block, batch)));
                }
                Some(block)
            }
            Err(Some(before)) => {
                paired
                    .faults
                    .push((call.position, double(call, &before, batch)));
                None
            }
            Err(None) => {
                paired.unknown.push(at);
                let entry = Entry::Released(Released {
                    block: None,
                    number: call.number,
                    released: call.moment(),
                });
                self.put(call.address, entry);
                None
            }
        }
    }

    /// Ends the live block at the call's address, if there is one; else gives what is known of the address.
    fn take(&mut self, call: &Call, hint: usize) -> Result<Block, Option<Released>> {
        let released = |block: &Block| {
            Entry::Released(Released {
                block: Some((block.size, block.handed_out)),
                number: call.number,
                released: call.moment(),
            })
        };
        let address = call.address;
        if let Some(at) = self.own.table.find_near(address, hint) {
            return match self.own.table.entry(at) {
                Entry::Live(block) => {
                    self.own.table.set(at, released(&block));
                    if let Some(index) = self.own.index.get_mut() {
                        index.remove(&address);
                    }
                    Ok(block)
                }
                Entry::Released(before) => Err(Some(before)),
                Entry::Forgotten => Err(None),
            };
        }
        match self.inherited(address) {
            Some(Entry::Live(block)) => {
                self.put(address, released(&block));
                Ok(block)
            }
            Some(Entry::Released(before)) => Err(Some(before)),
            _ => Err(None),
        }
    }

    /// Begins a block; gives what was known of the address.
    fn occupy(&mut self, address: u64, block: Block, hint: usize) -> Option<Entry> {
        if let Some(index) = self.own.index.get_mut() {
            index.insert(address, block.size);
        }
        let entry = Entry::Live(block);
        if let Some(at) = self.own.table.find_near(address, hint) {
            let before = self.own.table.entry(at);
            self.own.table.set(at, entry);
            return Some(before);
        }
        let before = self.inherited(address);
        self.put(address, entry);
        before
    }

    /// Says what is known of an address.
    fn put(&mut self, address: u64, entry: Entry) {
        if let Some(at) = self.own.table.find(address) {
            self.own.table.set(at, entry);
            return;
        }
        // A release hides the block that is inherited, so it stays as long as that.
        let base = &self.base;
        self.own.table.insert(address, entry, |address| {
            !matches!(look_up(base.as_deref(), address), Some(Entry::Live(_)))
        });
    }

    fn get(&self, address: u64) -> Option<Entry> {
        match self.own.table.get(address) {
            Some(entry) => Some(entry),
            None => self.inherited(address),
        }
    }

    fn inherited(&self, address: u64) -> Option<Entry> {
        look_up(self.base.as_deref(), address)
    }

    /// Forgets a release of an address that never was handed out.
    fn forget(&mut self, call: &Call) {
        if let Some(open) = self.open.get_mut(&call.number) {
            open.is_unknown = false;
        }
        if let Some(Entry::Released(release)) = self.get(call.address)
            && release.number == call.number
            && release.block.is_none()
        {
            self.forget_release(call.address);
        }
    }

    fn forget_release(&mut self, address: u64) {
        if matches!(self.get(address), Some(Entry::Released(_))) {
            self.put(address, Entry::Forgotten);
        }
    }

    fn restore(&mut self, address: u64, block: Block) -> bool {
        let is_free = !matches!(self.get(address), Some(Entry::Live(_)));
        if is_free {
            self.occupy(address, block, usize::MAX);
        }
        is_free
    }

    fn fork(&mut self) -> Self {
        if self.own.table.is_empty() && self.base.is_none() {
            return Self::default();
        }
        let base = Arc::new(Base {
            layer: mem::take(&mut self.own),
            below: self.base.take(),
        });
        self.base = Some(Arc::clone(&base));
        Self {
            base: Some(base),
            ..Self::default()
        }
    }

    fn thaw(&mut self) {
        if !self.own.table.is_empty() {
            return;
        }
        match self.base.take().map(Arc::try_unwrap) {
            Some(Ok(base)) => {
                self.own = base.layer;
                self.base = base.below;
            }
            Some(Err(shared)) => self.base = Some(shared),
            None => {}
        }
    }

    /// What this shard lies on, uppermost first.
    fn bases(&self) -> impl Iterator<Item = &Base> {
        std::iter::successors(self.base.as_deref(), |base| base.below.as_deref())
    }

    /// The live block that `address` lies in but does not begin.
    fn containing(&self, address: u64, may_search: bool) -> Option<(u64, Block)> {
        let own = if may_search && self.own.index.get().is_none() {
            self.own.search(address)
        } else {
            self.own.look_up(address)
        };
        let found = own.or_else(|| self.bases().find_map(|base| base.layer.look_up(address)));
        let (begin, block) = found?;
        // An inherited block may have been released since.
        (self.get(begin) == Some(Entry::Live(block))).then_some((begin, block))
    }

    fn inherited_live(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        self.bases()
            .flat_map(|base| base.layer.live())
            .filter(|(address, block)| self.get(*address) == Some(Entry::Live(*block)))
    }
}

fn look_up(base: Option<&Base>, address: u64) -> Option<Entry> {
    std::iter::successors(base, |base| base.below.as_deref())
        .find_map(|base| base.layer.table.get(address))
}

impl Paired {
    fn end(&mut self, call: &Call, block: Block) {
        self.ends.push(End {
            position: call.position,
            block,
        });
    }

    /// The end of a block that was released.
    fn end_of_life(&mut self, call: &Call, block: Block) {
        let lived = call.clock.saturating_sub(block.handed_out.clock);
        self.lifetimes.note(lived);
        self.lifetimes_in_records
            .note(call.number.saturating_sub(block.number));
        if call.value == block.number {
            self.temporaries.push(block.handed_out.site);
        }
        self.end(call, block);
    }
}

fn mismatch(call: &Call, block: &Block, batch: &Batch) -> RawFault {
    let op = match call.kind {
        Kind::Open => Op::REALLOC_OLD,
        _ => Op::RELEASED,
    };
    let is_whole = batch.is_whole_since(block.number, call.position);
    RawFault {
        size: Some(block.size),
        allocation: Some(block.handed_out),
        families: Some((block.family, call.family, op)),
        ..fault(Wrong::Mismatched, Target::Known, call, is_whole)
    }
}

fn double(call: &Call, before: &Released, batch: &Batch) -> RawFault {
    let is_whole = batch.is_whole_since(before.number, call.position);
    RawFault {
        size: before.block.map(|(size, _)| size),
        first_release: Some(before.released),
        first_number: before.number,
        allocation: before.block.map(|(_, handed_out)| handed_out),
        ..fault(Wrong::Double, Target::Known, call, is_whole)
    }
}

fn fault(wrong: Wrong, target: Target, call: &Call, is_whole: bool) -> RawFault {
    RawFault {
        wrong,
        number: call.number,
        is_whole,
        target,
        is_last: false,
        address: call.address,
        size: None,
        at: call.moment(),
        first_release: None,
        first_number: 0,
        allocation: None,
        inside: None,
        families: None,
    }
}

impl Layer {
    fn live(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        self.table
            .entries()
            .filter_map(|(address, entry)| match entry {
                Entry::Live(block) => Some((address, block)),
                _ => None,
            })
    }

    fn search(&self, address: u64) -> Option<(u64, Block)> {
        self.live()
            .filter(|(begin, _)| *begin < address)
            .max_by_key(|(begin, _)| *begin)
            .filter(|(begin, block)| holds(*begin, block, address))
    }

    fn look_up(&self, address: u64) -> Option<(u64, Block)> {
        let index = self
            .index
            .get_or_init(|| self.live().map(|(at, block)| (at, block.size)).collect());
        let (begin, _) = index.range(..address).next_back()?;
        match self.table.get(*begin) {
            Some(Entry::Live(block)) => holds(*begin, &block, address).then_some((*begin, block)),
            _ => None,
        }
    }
}

/// The address that was released at a position.
fn released_at(calls: &[Call], position: u32) -> Option<u64> {
    let at = calls.partition_point(|call| call.position < position);
    let there = calls[at..]
        .iter()
        .take_while(|call| call.position == position);
    let mut released = there.filter(|call| matches!(call.kind, Kind::Release | Kind::Freed));
    released.next().map(|call| call.address)
}

fn holds(begin: u64, block: &Block, address: u64) -> bool {
    begin < address && address - begin < block.size
}
