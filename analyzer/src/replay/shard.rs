//! One shard of the heap: takes the calls at its addresses in order, and pairs them.

use super::block::{Block, Entry, Released};
use super::call::{Batch, Call, Closing, Kind};
use super::fault::{RawFault, Target, Wrong};
use super::heap::SHARDS;
use super::histogram::Histogram;
use super::late::Late;
use super::table::{Key, Table};
use crate::sites::SiteId;
use crate::time;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::iter;
use std::mem;
use std::sync::{Arc, OnceLock};

/// Calls that are looked up together, so that their cache misses overlap.
const TOGETHER: usize = 32;

/// Bytes of entries that are in the processor's cache anyhow.
const NEAR: usize = 1 << 18;

#[derive(Default)]
pub(super) struct Shard {
    pub(super) own: Layer,
    pub(super) base: Option<Arc<Base>>,
    /// Reallocs under way, by the number that opened them.
    pub(super) open: FxHashMap<u64, Open>,
    pub(super) late: Late,
}

#[derive(Default)]
pub(super) struct Layer {
    pub(super) table: Table,
    /// Live blocks by address, from the moment on that searching without it became dear.
    pub(super) index: OnceLock<BTreeMap<u64, u64>>,
}

/// A shard that others lie on.
pub(super) struct Base {
    pub(super) layer: Layer,
    pub(super) below: Option<Arc<Base>>,
}

/// The old half of a realloc.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) address: u64,
    /// The block, if it was live.
    pub(super) block: Option<Block>,
    /// Nothing is known of the address: perhaps the block is older than the recording.
    pub(super) is_unknown: bool,
}

/// The end of a block in the account.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) block: Block,
    pub(super) position: u32,
    /// It was released before the same thread allocated again.
    pub(super) is_temporary: bool,
}

/// What some of the shards found in one batch.
#[derive(Default)]
pub(super) struct Paired {
    /// In order of position.
    pub(super) ends: Vec<End>,
    /// Sites of blocks that a realloc made larger, and by how much.
    pub(super) grown: Vec<(SiteId, u64)>,
    pub(super) earlier: u64,
    pub(super) unseen: u64,
    /// Releases that stand after the address was handed out again.
    pub(super) late: u64,
    pub(super) faults: Vec<(u32, RawFault)>,
    pub(super) lifetimes: Histogram,
    /// Blocks of which the trace does not tell how long they lived.
    pub(super) lifetimes_unknown: u64,
    pub(super) lifetimes_in_records: Histogram,
    /// Blocks that the old half of a realloc took, with its position.
    pub(super) held: Vec<(u32, u64, Block)>,
    /// Positions of releases that nothing is known of.
    pub(super) unknown: Vec<u32>,
    /// Numbers of reallocs of unknown blocks that were closed.
    pub(super) closed_unknown: Vec<u64>,
    /// Positions of the calls at addresses of these shards, unless they are all.
    pub(super) positions: Vec<u32>,
}

/// A call, its position, and where its address belongs.
#[derive(Clone, Copy)]
struct Placed<'c> {
    call: &'c Call,
    position: u32,
    key: Key,
}

impl<'c> Placed<'c> {
    #[inline(always)]
    fn of(call: &'c Call, position: u32) -> Self {
        Self {
            call,
            position,
            key: Key::of(call.address),
        }
    }
}

/// Pairs the calls of a batch at addresses of `shards`, of which the first is number `first`: those at the positions in
/// `paired`, or all.
pub(super) fn pair(shards: &mut [Shard], first: usize, batch: &Batch, paired: &mut Paired) {
    if shards.len() < SHARDS {
        let positions = mem::take(&mut paired.positions);
        let calls = positions.iter().map(|position| {
            let call = &batch.calls[*position as usize];
            Placed::of(call, *position)
        });
        pair_far(shards, first, batch, paired, calls);
        paired.positions = positions;
        return;
    }
    let calls = (0..).zip(&batch.calls);
    let calls = calls.map(|(position, call)| Placed::of(call, position));
    let size: usize = shards.iter().map(|shard| shard.own.table.size()).sum();
    if size > NEAR {
        pair_far(shards, first, batch, paired, calls);
        return;
    }
    for placed in calls {
        shards[placed.key.shard()].call(placed, batch, paired);
    }
}

/// Pairs calls whose entries are not in the processor's cache: each waits twice for what it needs of memory to come, its tags,
/// then its entry.
fn pair_far<'c>(
    shards: &mut [Shard],
    first: usize,
    batch: &Batch,
    paired: &mut Paired,
    calls: impl Iterator<Item = Placed<'c>>,
) {
    let mut waiting = [None; 2 * TOGETHER];
    let last = iter::repeat_n(None, waiting.len());
    for (turn, placed) in calls.map(Some).chain(last).enumerate() {
        let table = |key: Key| &shards[key.shard() - first].own.table;
        if let Some(Placed { key, .. }) = placed {
            table(key).fetch_tags(key);
        }
        if let Some(Placed { key, .. }) = waiting[(turn + TOGETHER) % waiting.len()] {
            table(key).fetch_slot(key);
        }
        if let Some(placed) = mem::replace(&mut waiting[turn % waiting.len()], placed) {
            shards[placed.key.shard() - first].call(placed, batch, paired);
        }
    }
}

impl Shard {
    /// Takes a call. What nearly all come to is done here, without a block that has to lie in memory.
    #[inline(always)]
    fn call(&mut self, placed: Placed<'_>, batch: &Batch, paired: &mut Paired) {
        let Placed { call, key, .. } = placed;
        let is_plain = self.own.index.get().is_none() && self.late.is_empty();
        let table = &mut self.own.table;
        if is_plain && let Some(at) = table.find(key) {
            match call.kind {
                Kind::HandOut if table.occupy(at, &call.block()) => return,
                Kind::Release => {
                    let is_like = |family| family == call.family;
                    let block = table.release(at, call.number, &call.moment(), is_like);
                    if let Some(block) = block {
                        paired.end_of_life(placed, call.value, block);
                        return;
                    }
                }
                _ => {}
            }
        }
        self.any_call(placed, batch, paired);
    }

    #[inline(never)]
    fn any_call(&mut self, placed: Placed<'_>, batch: &Batch, paired: &mut Paired) {
        let Placed { call, position, .. } = placed;
        match call.kind {
            Kind::HandOut => {
                if let Some(Entry::Live(unseen)) = self.occupy(call.address, call.block()) {
                    paired.unseen += 1;
                    paired.end(position, unseen);
                    if batch.writes_late && batch.is_whole_since(unseen.number, position) {
                        self.late.expect(call.address);
                    }
                }
            }
            Kind::Release => {
                if let Some(block) = self.release(placed, batch, paired) {
                    paired.end_of_life(placed, call.value, block);
                }
            }
            Kind::Open => {
                let unknown = paired.unknown.len();
                let block = self.release(placed, batch, paired);
                if let Some(block) = block {
                    paired.held.push((position, call.address, block));
                }
                let open = Open {
                    address: call.address,
                    block,
                    is_unknown: paired.unknown.len() > unknown,
                };
                self.open.insert(call.number, open);
            }
            Kind::Moved | Kind::Failed | Kind::Freed => {
                self.close(placed, batch.closing(call), paired);
            }
        }
    }

    /// Closes a realloc.
    fn close(&mut self, placed: Placed<'_>, closing: Closing, paired: &mut Paired) {
        let Placed { call, position, .. } = placed;
        let open = self.open.remove(&closing.partner);
        if let Some(open) = &open
            && open.is_unknown
        {
            if call.kind == Kind::Failed {
                self.forget_release(open.address);
            } else {
                paired.closed_unknown.push(closing.partner);
            }
        }
        let block = open.and_then(|open| open.block);
        match (call.kind, block) {
            (Kind::Moved, Some(block)) => {
                let more = closing.value.saturating_sub(block.size);
                if more > 0 {
                    paired.grown.push((call.site, more));
                }
                paired.end(position, block);
            }
            (Kind::Failed, Some(block)) if !self.restore(call.address, block) => {
                paired.unseen += 1;
                paired.end(position, block);
            }
            (Kind::Freed, Some(block)) => paired.end_of_life(placed, closing.value, block),
            (Kind::Freed, None) if open.is_none() => {
                if let Some(block) = self.take(placed) {
                    paired.end_of_life(placed, closing.value, block);
                }
            }
            _ => {}
        }
    }

    /// Ends the block that the call releases, or says what is wrong with that.
    fn release(&mut self, placed: Placed<'_>, batch: &Batch, paired: &mut Paired) -> Option<Block> {
        let Placed { call, position, .. } = placed;
        if self.late.take(call.address) {
            paired.late += 1;
            return None;
        }
        if let Some(block) = self.take(placed) {
            if !block.family.is_released_by(call.family) {
                let fault = mismatch(placed, &block, batch);
                paired.faults.push((position, fault));
            }
            return Some(block);
        }
        if let Some(Entry::Released(before)) = self.get(call.address) {
            let fault = double(placed, &before, batch);
            paired.faults.push((position, fault));
            return None;
        }
        paired.unknown.push(position);
        let entry = Entry::Released(Released {
            block: None,
            number: call.number,
            released: call.moment(),
        });
        self.put(call.address, entry);
        None
    }

    /// Ends the live block at the call's address, if there is one.
    fn take(&mut self, placed: Placed<'_>) -> Option<Block> {
        let Placed { call, key, .. } = placed;
        let table = &mut self.own.table;
        let Some(at) = table.find(key) else {
            return self.take_inherited(placed);
        };
        let block = table.release(at, call.number, &call.moment(), |_| true)?;
        if let Some(index) = self.own.index.get_mut() {
            index.remove(&call.address);
        }
        Some(block)
    }

    /// As [`take`](Self::take), of an address that has no entry of its own.
    fn take_inherited(&mut self, placed: Placed<'_>) -> Option<Block> {
        let Placed { call, key, .. } = placed;
        let Some(Entry::Live(block)) = self.inherited(call.address) else {
            return None;
        };
        let released = Released {
            block: Some((block.size, block.handed_out)),
            number: call.number,
            released: call.moment(),
        };
        self.insert(key, Entry::Released(released));
        Some(block)
    }

    /// Begins a block; gives what was known of the address, unless that is a release.
    fn occupy(&mut self, address: u64, block: Block) -> Option<Entry> {
        if let Some(index) = self.own.index.get_mut() {
            index.insert(address, block.size);
        }
        let key = Key::of(address);
        let table = &mut self.own.table;
        match table.find(key) {
            Some(at) if table.occupy(at, &block) => None,
            Some(at) => Some(table.replace(at, Entry::Live(block))),
            None => {
                let before = self.inherited(address);
                self.insert(key, Entry::Live(block));
                before
            }
        }
    }

    /// Says what is known of an address.
    fn put(&mut self, address: u64, entry: Entry) {
        let key = Key::of(address);
        match self.own.table.find(key) {
            Some(at) => _ = self.own.table.replace(at, entry),
            None => self.insert(key, entry),
        }
    }

    /// Says what is known of an address that has no entry of its own.
    fn insert(&mut self, key: Key, entry: Entry) {
        // A release hides the block that is inherited, so it stays as long as that.
        let base = &self.base;
        self.own.table.insert(key, entry, |address| {
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
    pub(super) fn forget(&mut self, call: &Call) {
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

    pub(super) fn restore(&mut self, address: u64, block: Block) -> bool {
        let is_free = !matches!(self.get(address), Some(Entry::Live(_)));
        if is_free {
            self.occupy(address, block);
        }
        is_free
    }

    pub(super) fn fork(&mut self) -> Self {
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

    pub(super) fn thaw(&mut self) {
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
        iter::successors(self.base.as_deref(), |base| base.below.as_deref())
    }

    /// The live block that `address` lies in but does not begin.
    pub(super) fn containing(&self, address: u64, may_search: bool) -> Option<(u64, Block)> {
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

    /// The blocks that are live, inherited ones as well.
    pub(super) fn live_blocks(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        self.own.live().chain(self.inherited_live())
    }

    fn inherited_live(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        self.bases()
            .flat_map(|base| base.layer.live())
            .filter(|(address, block)| self.get(*address) == Some(Entry::Live(*block)))
    }
}

fn look_up(base: Option<&Base>, address: u64) -> Option<Entry> {
    iter::successors(base, |base| base.below.as_deref())
        .find_map(|base| base.layer.table.get(address))
}

impl Paired {
    /// Empties it, but for the memory that it has.
    pub(super) fn clear(&mut self) {
        let mut ends = mem::take(&mut self.ends);
        let mut positions = mem::take(&mut self.positions);
        ends.clear();
        positions.clear();
        *self = Self {
            ends,
            positions,
            ..Self::default()
        };
    }

    fn end(&mut self, position: u32, block: Block) {
        self.ends.push(End {
            block,
            position,
            is_temporary: false,
        });
    }

    /// Notes a lifetime of which one end is not known.
    #[inline(never)]
    fn note_between(&mut self, begin: u64, end: u64) {
        let least =
            time::latest(begin).map_or(0, |begin| time::earliest(end).saturating_sub(begin));
        let most =
            time::latest(end).map_or(u64::MAX, |end| end.saturating_sub(time::earliest(begin)));
        let is_known = self.lifetimes.note_between(least, most);
        self.lifetimes_unknown += u64::from(!is_known);
    }

    /// The end of a block that was released; a temporary one, if it is the one of number `last`.
    #[inline(always)]
    fn end_of_life(&mut self, placed: Placed<'_>, last: u64, block: Block) {
        let Placed { call, position, .. } = placed;
        let (begin, end) = (block.handed_out.clock, call.clock);
        if time::is_lower_bound(begin | end) {
            self.note_between(begin, end);
        } else {
            self.lifetimes.note(end.saturating_sub(begin));
        }
        self.lifetimes_in_records
            .note(call.number.saturating_sub(block.number));
        self.ends.push(End {
            block,
            position,
            is_temporary: last == block.number,
        });
    }
}

fn mismatch(placed: Placed<'_>, block: &Block, batch: &Batch) -> RawFault {
    let call = placed.call;
    let is_whole = batch.is_whole_since(block.number, placed.position);
    RawFault {
        size: Some(block.size),
        allocation: Some(block.handed_out),
        families: Some((block.family, call.family)),
        ..fault(Wrong::Mismatched, Target::Known, call, is_whole)
    }
}

fn double(placed: Placed<'_>, before: &Released, batch: &Batch) -> RawFault {
    let is_whole = batch.is_whole_since(before.number, placed.position);
    RawFault {
        size: before.block.map(|(size, _)| size),
        first_release: Some(before.released),
        first_number: before.number,
        allocation: before.block.map(|(_, handed_out)| handed_out),
        ..fault(Wrong::Double, Target::Known, placed.call, is_whole)
    }
}

pub(super) fn fault(wrong: Wrong, target: Target, call: &Call, is_whole: bool) -> RawFault {
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
        is_by_realloc: call.kind == Kind::Open,
        families: None,
    }
}

impl Layer {
    pub(super) fn live(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
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

pub(super) fn holds(begin: u64, block: &Block, address: u64) -> bool {
    begin < address && address - begin < block.size
}

#[cfg(test)]
mod tests {
    use super::Paired;
    use crate::time::{known, lower_bound};

    #[test]
    fn how_long_a_block_lived_is_not_made_up_from_a_call_in_a_pause() {
        const MS: u64 = 1_000_000;
        let mut paired = Paired::default();
        let (early, paused) = (known(10 * MS), lower_bound(10 * MS, Some(500 * MS)));
        paired.note_between(early, paused); // 0 to 500 ms
        paired.note_between(paused, lower_bound(10 * MS, None));
        paired.note_between(paused, known(2_000_000 * MS)); // 2000 s, half a second less or not
        assert_eq!(paired.lifetimes_unknown, 2);
        assert_eq!(
            paired.lifetimes.classes().collect::<Vec<_>>(),
            [(1 << 40, 1)]
        );
    }
}
