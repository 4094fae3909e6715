//! How a process used its heap in all: by size, lifetime, thread and module, and what was refused or grew.

use super::{SiteSums, Stack, is_zero};
use serde::Serialize;

/// Sums over all blocks of a process, released or not.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Usage {
    /// Blocks by requested size.
    pub sizes: Vec<Class>,
    /// Released blocks by the nanoseconds that they were live; empty where there is no time.
    pub lifetimes_ns: Vec<Class>,
    /// Released blocks that are in no class of these, since one of their calls came somewhere in a pause.
    #[serde(skip_serializing_if = "is_zero")]
    pub lifetimes_unknown: u64,
    /// Released blocks by the records from the one that handed them out to that of the release.
    pub lifetimes_records: Vec<Class>,
    /// Threads, most bytes first; empty where they are not known.
    pub threads: Vec<ThreadUsage>,
    /// Modules that call the allocator, most bytes first.
    pub modules: Vec<ModuleUsage>,
    /// Calls that returned no memory, by site, most first.
    pub failed: Vec<Failed>,
    /// Blocks that a realloc made larger, by site, most bytes first.
    pub grown: Vec<Grown>,
    /// Every site, where all are asked for; in order of address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<SiteUsage>,
}

/// Blocks with values from one power of two up to the next; from 0 up to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Class {
    /// The lowest value.
    pub from: u64,
    /// How many there are.
    pub blocks: u64,
}

/// What one thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadUsage {
    /// Kernel tid.
    pub thread: u64,
    /// Blocks that it was handed, by reallocs as well.
    pub allocations: u64,
    /// Requested bytes of these.
    pub bytes: u64,
    /// Blocks that it released.
    pub releases: u64,
    /// Of the blocks that it was handed, those never released.
    pub live_blocks: u64,
    /// Requested bytes of these.
    pub live_bytes: u64,
}

/// What the call sites of one module were handed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ModuleUsage {
    /// Its path; null for code outside of any known module.
    pub module: Option<String>,
    /// Requested bytes of all blocks.
    pub bytes: u64,
    /// The rest.
    #[serde(flatten)]
    pub sums: SiteSums,
}

/// What one site was handed.
#[derive(Clone, Debug, Serialize)]
pub struct SiteUsage {
    /// Requested bytes of all blocks.
    pub bytes: u64,
    /// The rest.
    #[serde(flatten)]
    pub sums: SiteSums,
    /// The site.
    pub stack: Stack,
}

/// Calls of one site that returned no memory.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// How many.
    pub calls: u64,
    /// Bytes that they asked for.
    pub bytes: u64,
    /// The site.
    pub stack: Stack,
}

/// Blocks that reallocs of one site made larger.
#[derive(Clone, Debug, Serialize)]
pub struct Grown {
    /// How often.
    pub blocks: u64,
    /// By how many bytes in all.
    pub bytes: u64,
    /// The site.
    pub stack: Stack,
}
