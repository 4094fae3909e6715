//! What the blocks that were never released come to.

use super::block::Block;
use crate::sites::SiteId;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// The allocation that came first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Oldest {
    number: u64,
    /// Nanoseconds of the traced machine's clock.
    pub(super) clock: u64,
}

/// Sums over live blocks, in whatever order they are added.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Of each site.
    pub(super) oldest: FxHashMap<SiteId, Oldest>,
    /// Blocks and bytes, by the tid that they were handed to.
    pub(super) by_thread: FxHashMap<u32, (u64, u64)>,
}

impl Kept {
    pub(super) fn add(&mut self, block: &Block) {
        let at = block.handed_out;
        let oldest = Oldest {
            number: block.number,
            clock: at.clock,
        };
        self.note(at.site, oldest);
        self.count(at.tid, (1, block.size));
    }

    /// The sums of both.
    #[expect(
        clippy::iter_over_hash_type,
        reason = "the least and the sums are the same in any order"
    )]
    pub(super) fn and(mut self, other: Self) -> Self {
        for (site, oldest) in other.oldest {
            self.note(site, oldest);
        }
        for (tid, held) in other.by_thread {
            self.count(tid, held);
        }
        self
    }

    fn note(&mut self, site: SiteId, this: Oldest) {
        match self.oldest.entry(site) {
            Entry::Vacant(entry) => _ = entry.insert(this),
            Entry::Occupied(mut entry) => {
                if this.number < entry.get().number {
                    entry.insert(this);
                }
            }
        }
    }

    fn count(&mut self, tid: u32, held: (u64, u64)) {
        let (blocks, bytes) = self.by_thread.entry(tid).or_default();
        *blocks += held.0;
        *bytes = bytes.saturating_add(held.1);
    }
}
