//! A wrong release, in numbers: what it names is looked up later.

use super::block::Moment;
use heapwire_format::Family;

/// The kinds of wrong release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Double,
    Invalid,
    Mismatched,
}

/// What was released wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// What no allocator hands out: the address is crooked.
    Crooked,
    /// An address where a block was, or inside one.
    Known,
    /// An address of which nothing is known, where blocks were left out on purpose: perhaps one of these.
    LeftOut,
    /// An address of which nothing is known: never handed out, or handed out past the recorder.
    Stranger,
}

/// One wrong release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawFault {
    pub(crate) wrong: Wrong,
    /// Number of the record.
    pub(crate) number: u64,
    /// Nothing is missing that could explain it.
    pub(crate) is_whole: bool,
    /// What the address was to those who look at the blocks.
    pub(crate) target: Target,
    /// The thread made no further call. Known at the end.
    pub(crate) is_last: bool,
    pub(crate) address: u64,
    /// Requested bytes of the block, where one was meant.
    pub(crate) size: Option<u64>,
    pub(crate) at: Moment,
    pub(crate) first_release: Option<Moment>,
    /// Number of that release.
    pub(crate) first_number: u64,
    pub(crate) allocation: Option<Moment>,
    /// Offset in the live block that the address lies in, and its size.
    pub(crate) inside: Option<(u64, u64)>,
    /// It was the old half of a realloc.
    pub(crate) is_by_realloc: bool,
    /// How the block was handed out, and how it was released.
    pub(crate) families: Option<(Family, Family)>,
}
