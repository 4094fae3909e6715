//! A wrong release, in numbers: what it names is looked up later.

use super::heap::Moment;
use heapwire_format::{Family, Op};

/// The kinds of wrong release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Double,
    Invalid,
    Mismatched,
}

/// One wrong release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawFault {
    pub(crate) wrong: Wrong,
    /// Nothing is missing that could explain it.
    pub(crate) is_certain: bool,
    pub(crate) address: u64,
    /// Requested bytes of the block, where one was meant.
    pub(crate) size: Option<u64>,
    pub(crate) at: Moment,
    pub(crate) first_release: Option<Moment>,
    pub(crate) allocation: Option<Moment>,
    /// Offset in the live block that the address lies in, and its size.
    pub(crate) inside: Option<(u64, u64)>,
    /// How the block was handed out, and how it was released: family and op.
    pub(crate) families: Option<(Family, Family, Op)>,
}
