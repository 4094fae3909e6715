//! What a timeline is asked to show.

use super::block::Block;
use crate::sites::SiteId;
use std::sync::Arc;

/// Steps, and the blocks that count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chart {
    /// Nanoseconds of a step, where that is asked for.
    pub(crate) step: Option<u64>,
    /// All blocks, where nothing else is asked for.
    pub(crate) only: Option<Arc<Only>>,
    /// Say where times are not known.
    pub(crate) shows_pauses: bool,
}

/// What a block must be like to count. All of it must hold.
#[derive(Clone, Debug)]
pub(crate) struct Only {
    /// Whether a site does, by its index.
    pub(crate) sites: Vec<bool>,
    /// It was handed to one of these threads, if there are any.
    pub(crate) threads: Vec<u64>,
    /// Lowest and highest size.
    pub(crate) sizes: Option<(u64, u64)>,
}

impl Only {
    pub(super) fn takes(&self, site: SiteId, tid: u32, size: u64) -> bool {
        self.sites.get(site.index()).copied().unwrap_or(false)
            && (self.threads.is_empty() || self.threads.contains(&u64::from(tid)))
            && self
                .sizes
                .is_none_or(|(least, most)| (least..=most).contains(&size))
    }

    pub(super) fn takes_block(&self, block: &Block) -> bool {
        let at = block.handed_out;
        self.takes(at.site, at.tid, block.size)
    }
}
