//! What is remembered of a block, and of an address.

use crate::sites::SiteId;
use heapwire_format::Family;

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
