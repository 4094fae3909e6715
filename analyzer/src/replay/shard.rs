//! One shard of the heap: takes the calls at its addresses in order, and pairs them.

use super::block::{Block, Entry, Released};
use super::call::{Batch, Call, Kind};
use super::fault::{RawFault, Target, Wrong};
use super::histogram::Histogram;
use super::late::Late;
use super::table::Table;
use crate::sites::SiteId;
use heapwire_format::Op;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, OnceLock};

/// Calls that are looked up together, so that their cache misses overlap.
pub(super) const TOGETHER: usize = 32;

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
    pub(super) held: Vec<(u32, u64, Block)>,
    /// Places among the calls of releases that nothing is known of.
    pub(super) unknown: Vec<usize>,
    /// Numbers of reallocs of unknown blocks that were closed.
    pub(super) closed_unknown: Vec<u64>,
}

impl Shard {
    pub(super) fn pair(&mut self, calls: &[Call], batch: &Batch) -> Paired {
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
