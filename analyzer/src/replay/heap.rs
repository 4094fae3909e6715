//! What is known of each address: the live block that begins there, or the last release.

use crate::sites::SiteId;
use heapwire_format::Family;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

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
}

// With its address an entry is one cache line.
const _: () = assert!(size_of::<Entry>() <= 56);

/// All addresses that were handed out or released. Grows with the distinct addresses, not with the trace.
///
/// The heap of a forked child lies on that of its parent, which stays as it was at the fork until the child is done.
#[derive(Default)]
pub(crate) struct Heap {
    own: Layer,
    base: Option<Arc<Base>>,
    /// Entries looked at by searches without an index.
    searched: usize,
}

#[derive(Default)]
struct Layer {
    entries: FxHashMap<u64, Entry>,
    /// Live blocks by address, from the moment on that searching without it became dear.
    index: OnceLock<BTreeMap<u64, u64>>,
}

/// A heap that others lie on.
struct Base {
    layer: Layer,
    below: Option<Arc<Base>>,
}

/// Entries that searches may look at before an index pays.
const SEARCH_BUDGET: usize = 1 << 22;

impl Heap {
    pub(crate) fn get(&self, address: u64) -> Option<Entry> {
        match self.own.entries.get(&address) {
            Some(entry) => Some(*entry),
            None => self.inherited(address),
        }
    }

    fn inherited(&self, address: u64) -> Option<Entry> {
        self.bases()
            .find_map(|base| base.layer.entries.get(&address).copied())
    }

    /// What this heap lies on, uppermost first.
    fn bases(&self) -> impl Iterator<Item = &Base> {
        std::iter::successors(self.base.as_deref(), |base| base.below.as_deref())
    }

    /// A heap that begins as this one is now. This one should rest until it is [thawed](Self::thaw).
    pub(crate) fn fork(&mut self) -> Self {
        let base = Arc::new(Base {
            layer: std::mem::take(&mut self.own),
            below: self.base.take(),
        });
        self.base = Some(Arc::clone(&base));
        Self {
            base: Some(base),
            ..Self::default()
        }
    }

    /// Makes the heap whole again once the one forked off is gone.
    pub(crate) fn thaw(&mut self) {
        if !self.own.entries.is_empty() {
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

    /// Begins a block; gives what was known of the address.
    pub(crate) fn occupy(&mut self, address: u64, block: Block) -> Option<Entry> {
        if let Some(index) = self.own.index.get_mut() {
            index.insert(address, block.size);
        }
        let before = self.own.entries.insert(address, Entry::Live(block));
        before.or_else(|| self.inherited(address))
    }

    /// Ends the live block at `address`, if there is one; else gives what is known of the address.
    pub(crate) fn release(
        &mut self,
        address: u64,
        number: u64,
        released: Moment,
    ) -> Result<Block, Option<Released>> {
        let entry = |block: &Block| {
            Entry::Released(Released {
                block: Some((block.size, block.handed_out)),
                number,
                released,
            })
        };
        match self.own.entries.get_mut(&address) {
            Some(own) => match *own {
                Entry::Live(block) => {
                    *own = entry(&block);
                    if let Some(index) = self.own.index.get_mut() {
                        index.remove(&address);
                    }
                    Ok(block)
                }
                Entry::Released(before) => Err(Some(before)),
            },
            None => match self.inherited(address) {
                Some(Entry::Live(block)) => {
                    self.own.entries.insert(address, entry(&block));
                    Ok(block)
                }
                Some(Entry::Released(before)) => Err(Some(before)),
                None => Err(None),
            },
        }
    }

    /// Notes the release of a block that is older than the recording.
    pub(crate) fn release_earlier(&mut self, address: u64, number: u64, released: Moment) {
        let entry = Entry::Released(Released {
            block: None,
            number,
            released,
        });
        self.own.entries.insert(address, entry);
    }

    /// Takes the release of a block older than the recording back.
    pub(crate) fn forget_release(&mut self, address: u64) {
        if matches!(self.get(address), Some(Entry::Released(_))) {
            self.own.entries.remove(&address);
        }
    }

    /// Takes a release back, unless the address was handed out since. Gives whether it did.
    pub(crate) fn restore(&mut self, address: u64, block: Block) -> bool {
        let is_free = !matches!(self.get(address), Some(Entry::Live(_)));
        if is_free {
            self.occupy(address, block);
        }
        is_free
    }

    /// The live block that `address` lies in but does not begin.
    pub(crate) fn containing(&mut self, address: u64) -> Option<(u64, Block)> {
        self.searched = self.searched.saturating_add(self.own.entries.len());
        let own = if self.searched <= SEARCH_BUDGET && self.own.index.get().is_none() {
            self.own.search(address)
        } else {
            self.own.look_up(address)
        };
        let found = own.or_else(|| self.bases().find_map(|base| base.layer.look_up(address)));
        let (begin, block) = found?;
        // An inherited block may have been released since.
        (self.get(begin) == Some(Entry::Live(block))).then_some((begin, block))
    }

    /// The blocks that are live, without inherited ones, in no order that may show.
    pub(crate) fn own_live(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        self.own.live()
    }

    /// The inherited blocks that are live, in no order that may show.
    pub(crate) fn inherited_live(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        self.bases()
            .flat_map(|base| base.layer.live())
            .filter(|(address, block)| self.get(*address) == Some(Entry::Live(*block)))
    }
}

impl Layer {
    fn live(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        self.entries
            .iter()
            .filter_map(|(address, entry)| match entry {
                Entry::Live(block) => Some((*address, *block)),
                Entry::Released(_) => None,
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
        match self.entries.get(begin) {
            Some(Entry::Live(block)) => holds(*begin, block, address).then_some((*begin, *block)),
            _ => None,
        }
    }
}

fn holds(begin: u64, block: &Block, address: u64) -> bool {
    begin < address && address - begin < block.size
}

#[cfg(test)]
mod tests {
    use super::{Block, Heap, Moment, SEARCH_BUDGET};
    use crate::address::{ReturnAddress, RuntimeAddress};
    use crate::sites::{Site, SiteTable};
    use heapwire_format::Family;

    fn moment() -> Moment {
        let site = SiteTable::default().add(Site {
            call: ReturnAddress(RuntimeAddress(1)),
            module: None,
            parent: None,
        });
        Moment {
            clock: 0,
            site,
            tid: 1,
        }
    }

    fn block(size: u64) -> Block {
        Block {
            size,
            number: 1,
            handed_out: moment(),
            family: Family::Malloc,
        }
    }

    #[test]
    fn blocks_are_found_by_an_address_inside_with_and_without_index() {
        for searched in [0, SEARCH_BUDGET] {
            let mut heap = Heap {
                searched,
                ..Heap::default()
            };
            heap.occupy(0x1000, block(0x20));
            heap.occupy(0x1040, block(0x20));
            let found = |heap: &mut Heap, address| heap.containing(address).map(|found| found.0);
            assert_eq!(found(&mut heap, 0x1010), Some(0x1000));
            assert_eq!(found(&mut heap, 0x1020), None);
            assert_eq!(found(&mut heap, 0x1041), Some(0x1040));
            assert_eq!(found(&mut heap, 0x1040), None);
            assert_eq!(heap.own.index.get().is_some(), searched > 0);
            heap.release(0x1000, 2, moment()).unwrap();
            assert_eq!(found(&mut heap, 0x1010), None);
            heap.occupy(0x0F00, block(0x120));
            assert_eq!(found(&mut heap, 0x1010), Some(0x0F00));
            heap.release(0x0F00, 3, moment()).unwrap();
            heap.occupy(0x1000, block(0x18));
            assert_eq!(found(&mut heap, 0x1017), Some(0x1000));
            assert_eq!(found(&mut heap, 0x1018), None);
        }
    }

    #[test]
    fn a_child_sees_the_parents_blocks_and_leaves_them_alone() {
        let mut parent = Heap::default();
        parent.occupy(0x1000, block(0x20));
        parent.occupy(0x2000, block(0x20));
        let mut child = parent.fork();
        assert_eq!(child.containing(0x2008).map(|found| found.0), Some(0x2000));
        assert!(child.release(0x1000, 2, moment()).is_ok());
        assert!(matches!(child.release(0x1000, 3, moment()), Err(Some(_))));
        assert_eq!(child.containing(0x1008), None);
        child.occupy(0x3000, block(1));
        assert_eq!(child.inherited_live().count(), 1);
        assert_eq!(child.own_live().count(), 1);
        drop(child);
        parent.thaw();
        assert!(parent.base.is_none());
        assert_eq!(parent.own_live().count(), 2);
        assert_eq!(parent.containing(0x1008).map(|found| found.0), Some(0x1000));
        parent.release(0x1000, 2, moment()).unwrap();
        assert_eq!(parent.containing(0x1008), None);
    }

    #[test]
    fn a_release_can_be_taken_back_only_while_the_address_is_free() {
        let mut heap = Heap::default();
        heap.occupy(0x1000, block(1));
        let old = heap.release(0x1000, 2, moment()).unwrap();
        assert!(heap.restore(0x1000, old));
        let old = heap.release(0x1000, 3, moment()).unwrap();
        heap.occupy(0x1000, block(2));
        assert!(!heap.restore(0x1000, old));
    }
}
