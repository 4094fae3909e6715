//! Wrong releases.

use super::{Stack, is_false};
use serde::Serialize;

/// One wrong release.
#[derive(Clone, Debug, Serialize)]
pub struct Fault {
    /// What was wrong.
    pub kind: FaultKind,
    /// Whether nothing else explains it.
    pub certain: bool,
    /// What could explain it, unless it is certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    /// The address given, as `0x…`.
    pub address: String,
    /// Size of the block that was meant, where known.
    pub size: Option<u64>,
    /// Kernel tid of the thread that released.
    pub thread: Option<u64>,
    /// Nanoseconds since the first recorded process began.
    pub time_ns: Option<u64>,
    /// The call was then or later: the thread did not read the clock for it.
    #[serde(skip_serializing_if = "is_false")]
    pub time_is_lower_bound: bool,
    /// Line of a text log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_line: Option<u64>,
    /// Where it was released.
    pub stack: Stack,
    /// The release before, of a double free.
    pub first_release: Option<Moment>,
    /// Blocks were left out on purpose: one at this address may have been released since, which was the release before then.
    #[serde(skip_serializing_if = "is_false")]
    pub first_release_may_be_later: bool,
    /// Where the block was handed out.
    pub allocation: Option<Moment>,
    /// The live block that the address lies in, of an invalid free.
    pub inside: Option<Inside>,
    /// It was `realloc` that released.
    #[serde(skip_serializing_if = "is_false")]
    pub by_realloc: bool,
    /// How the block was allocated and released, of a mismatched free: `malloc`, `new`, `new[]` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub families: Option<Families>,
}

/// What could explain a wrong release away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// Records are missing.
    MissingRecords,
    /// A call without a name may be in an operator of the program.
    NamelessCall,
    /// The program may have been handed the block past the recorder.
    UnseenAllocations,
    /// It may be a block that was left out on purpose, released a second time.
    CulledBlocks,
}

/// The kinds of wrong release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Released already and not handed out again.
    DoubleFree,
    /// Never handed out, or inside a block.
    InvalidFree,
    /// Released by another family than allocated.
    MismatchedFree,
}

/// How a block was allocated, and how it was released.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Families {
    /// `malloc`, `new` or `new[]`.
    pub allocated: &'static str,
    /// `free`, `realloc`, `delete` or `delete[]`.
    pub released: &'static str,
}

/// A call at a moment.
#[derive(Clone, Debug, Serialize)]
pub struct Moment {
    /// Kernel tid.
    pub thread: Option<u64>,
    /// Nanoseconds since the first recorded process began.
    pub time_ns: Option<u64>,
    /// The call was then or later: the thread did not read the clock for it.
    #[serde(skip_serializing_if = "is_false")]
    pub time_is_lower_bound: bool,
    /// Line of a text log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_line: Option<u64>,
    /// The call.
    pub stack: Stack,
}

/// Where in a live block an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Inside {
    /// Bytes from the start of the block.
    pub offset: u64,
    /// Requested size of the block.
    pub size: u64,
}
