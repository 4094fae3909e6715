//! One shard of the heap: takes the calls at its addresses in order, and pairs them.

use super::block::{Block, Entry, Released};
use super::call::{Batch, Call, Closing, Kind};
use super::fault::{RawFault, Target, Wrong};
use super::histogram::Histogram;
use super::late::Late;
use super::table::Table;
use crate::sites::SiteId;
use heapwire_format::Op;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;
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
    pub(super) lifetimes_in_records: Histogram,
    /// Blocks that the old half of a realloc took, with its position.
    pub(super) held: Vec<(u32, u64, Block)>,
    /// Positions of releases that nothing is known of.
    pub(super) unknown: Vec<u32>,
    /// Numbers of reallocs of unknown blocks that were closed.
    pub(super) closed_unknown: Vec<u64>,
    /// Positions of the calls at addresses of these shards.
    positions: Vec<u32>,
}

/// A call, its position, and where the entry of its address probably is.
#[derive(Clone, Copy)]
struct Placed<'c> {
    call: &'c Call,
    position: u32,
    hint: usize,
}

/// Pairs the calls of a batch at addresses of `shards`, of which the first is number `first`.
pub(super) fn pair(shards: &mut [Shard], first: usize, batch: &Batch, paired: &mut Paired) {
    paired.begin(batch, first..first + shards.len());
    let positions = mem::take(&mut paired.positions);
    let placed = |position: u32| {
        let at = position as usize;
        (&batch.calls[at], usize::from(batch.shards[at]) - first)
    };
    let size: usize = shards.iter().map(|shard| shard.own.table.size()).sum();
    if size <= NEAR {
        for position in &positions {
            let (call, shard) = placed(*position);
            let placed = Placed {
                call,
                position: *position,
                hint: usize::MAX,
            };
            shards[shard].call(placed, batch, paired);
        }
        paired.positions = positions;
        return;
    }
    let mut chunks = positions.chunks(TOGETHER);
    let mut fetched: &[u32] = &[]; // their tags are on the way
    let mut hinted: (&[u32], [usize; TOGETHER]) = (&[], [0; TOGETHER]); // their entries are
    loop {
        let chunk = chunks.next().unwrap_or_default();
        for position in chunk {
            let (call, shard) = placed(*position);
            shards[shard].own.table.fetch_tags(call.address);
        }
        let mut hints = [0; TOGETHER];
        for (hint, position) in hints.iter_mut().zip(fetched) {
            let (call, shard) = placed(*position);
            *hint = shards[shard].own.table.hint(call.address);
        }
        for (position, hint) in hinted.0.iter().zip(hinted.1) {
            let (call, shard) = placed(*position);
            let placed = Placed {
                call,
                position: *position,
                hint,
            };
            shards[shard].call(placed, batch, paired);
        }
        hinted = (fetched, hints);
        fetched = chunk;
        if fetched.is_empty() && hinted.0.is_empty() {
            break;
        }
    }
    paired.positions = positions;
}

impl Shard {
    #[inline]
    fn call(&mut self, placed: Placed<'_>, batch: &Batch, paired: &mut Paired) {
        let Placed { call, position, .. } = placed;
        match call.kind {
            Kind::HandOut => {
                let block = Block {
                    size: call.value,
                    number: call.number,
                    handed_out: call.moment(),
                    family: call.family,
                };
                if let Some(Entry::Live(unseen)) = self.occupy(call.address, block, placed.hint) {
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
                if let Ok(block) = self.take(placed) {
                    paired.end_of_life(placed, closing.value, block);
                }
            }
            _ => {}
        }
    }

    /// Ends the block that the call releases, or says what is wrong with that.
    #[inline]
    fn release(&mut self, placed: Placed<'_>, batch: &Batch, paired: &mut Paired) -> Option<Block> {
        let Placed { call, position, .. } = placed;
        if self.late.take(call.address) {
            paired.late += 1;
            return None;
        }
        match self.take(placed) {
            Ok(block) => {
                if !block.family.is_released_by(call.family) {
                    let fault = mismatch(placed, &block, batch);
                    paired.faults.push((position, fault));
                }
                Some(block)
            }
            Err(Some(before)) => {
                let fault = double(placed, &before, batch);
                paired.faults.push((position, fault));
                None
            }
            Err(None) => {
                paired.unknown.push(position);
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
    #[inline]
    fn take(&mut self, placed: Placed<'_>) -> Result<Block, Option<Released>> {
        let Placed { call, hint, .. } = placed;
        let address = call.address;
        let table = &mut self.own.table;
        if let Some(at) = table.find_near(address, hint) {
            let Some(block) = table.release(at, call.number, &call.moment()) else {
                return Err(match table.entry(at) {
                    Entry::Released(before) => Some(before),
                    _ => None,
                });
            };
            if let Some(index) = self.own.index.get_mut() {
                index.remove(&address);
            }
            return Ok(block);
        }
        self.take_inherited(call)
    }

    /// As [`take`](Self::take), of an address that has no entry of its own.
    #[inline(never)]
    fn take_inherited(&mut self, call: &Call) -> Result<Block, Option<Released>> {
        let address = call.address;
        match self.inherited(address) {
            Some(Entry::Live(block)) => {
                let released = Released {
                    block: Some((block.size, block.handed_out)),
                    number: call.number,
                    released: call.moment(),
                };
                self.insert(address, Entry::Released(released));
                Ok(block)
            }
            Some(Entry::Released(before)) => Err(Some(before)),
            _ => Err(None),
        }
    }

    /// Begins a block; gives what was known of the address, unless that is a release.
    #[inline(always)]
    fn occupy(&mut self, address: u64, block: Block, hint: usize) -> Option<Entry> {
        if let Some(index) = self.own.index.get_mut() {
            index.insert(address, block.size);
        }
        let table = &mut self.own.table;
        let entry = Entry::Live(block);
        if let Some(at) = table.find_near(address, hint) {
            if table.occupy(at, &block) {
                return None;
            }
            return Some(table.replace(at, entry));
        }
        let before = self.inherited(address);
        self.insert(address, entry);
        before
    }

    /// Says what is known of an address.
    fn put(&mut self, address: u64, entry: Entry) {
        match self.own.table.find(address) {
            Some(at) => _ = self.own.table.replace(at, entry),
            None => self.insert(address, entry),
        }
    }

    /// Says what is known of an address that has no entry of its own.
    fn insert(&mut self, address: u64, entry: Entry) {
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
            self.occupy(address, block, usize::MAX);
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
        std::iter::successors(self.base.as_deref(), |base| base.below.as_deref())
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

    pub(super) fn inherited_live(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
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
    /// Empties it, for the calls of a batch at addresses of some shards.
    fn begin(&mut self, batch: &Batch, shards: Range<usize>) {
        let mut positions = mem::take(&mut self.positions);
        let mut ends = mem::take(&mut self.ends);
        ends.clear();
        positions.clear();
        positions.resize(batch.calls.len(), 0);
        let mut mine = 0;
        for (position, shard) in (0..).zip(&batch.shards) {
            positions[mine] = position;
            mine += usize::from(shards.contains(&usize::from(*shard)));
        }
        positions.truncate(mine);
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

    /// The end of a block that was released; a temporary one, if it is the one of number `last`.
    #[inline]
    fn end_of_life(&mut self, placed: Placed<'_>, last: u64, block: Block) {
        let Placed { call, position, .. } = placed;
        let lived = call.clock.saturating_sub(block.handed_out.clock);
        self.lifetimes.note(lived);
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
    let op = match call.kind {
        Kind::Open => Op::REALLOC_OLD,
        _ => Op::RELEASED,
    };
    let is_whole = batch.is_whole_since(block.number, placed.position);
    RawFault {
        size: Some(block.size),
        allocation: Some(block.handed_out),
        families: Some((block.family, call.family, op)),
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
