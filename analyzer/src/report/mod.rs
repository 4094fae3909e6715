//! What an analysis found, ready to be shown: the one thing that every renderer reads.
//!
//! The field names are those of the JSON contract; `json` writes these types as they are. Nothing here knows
//! how a trace is laid out or how an address is resolved.

mod blocks;
pub(crate) mod columns;
mod contents;
mod difference;
mod faults;
pub mod format;
mod history;
pub mod json;
mod modules;
pub(crate) mod names;
pub mod system;
pub mod text;
pub mod usage;

pub use blocks::{Address, Block, BlockList, BlockSource, LiveAt, LiveBlocks, ProcessBlocks};
pub use columns::escape;
pub use contents::{Contents, Defect, ProcessContents, State, Tally, Wholeness};
pub use difference::{Difference, ErrorChange, SiteChange, SiteSums, WholeSums};
pub use faults::{Doubt, Families, Fault, FaultKind, Inside, Moment};
pub use history::{History, HistoryEvent};
pub use modules::{ModuleList, ModuleSymbols, SymbolFile, Tried};

use serde::Serialize;
use std::sync::Arc;

/// The whole result for one or more inputs.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of the JSON contract; 1.
    pub schema: u32,
    /// What was read, and how much of it was whole.
    pub trace: TraceSummary,
    /// One entry a process image, in order of appearance.
    pub processes: Vec<Process>,
    /// Sums of the totals of all processes. Peaks are added up, though they may have been at different moments.
    pub totals: Totals,
    /// Nanoseconds since the first recorded process began that the trace was followed for, where not to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ns: Option<u64>,
    /// What leaks and errors must be like to be listed; sums are of all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<String>,
    /// Pids of the processes that are listed, where not all are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u64>,
    /// What groups are made by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<&'static str>,
    /// What the reader of the report must know before trusting it.
    pub warnings: Vec<Warning>,
}

impl Report {
    /// Calls that the trace holds. Where there are none, nothing can be said of leaks.
    #[must_use]
    pub fn recorded_calls(&self) -> u64 {
        let calls = |process: &Process| {
            let totals = &process.totals;
            [
                totals.allocations,
                totals.releases,
                totals.reallocations,
                totals.failed,
            ]
            .into_iter()
            .fold(0, u64::saturating_add)
        };
        let processes = self.processes.iter();
        processes.map(calls).fold(0, u64::saturating_add)
    }
}

/// What was read.
#[derive(Clone, Debug, Serialize)]
pub struct TraceSummary {
    /// `hwt` or `mtrace`.
    pub kind: &'static str,
    /// Paths of the inputs as given.
    pub files: Vec<String>,
    /// The begin was seen, every process ended normally, by signal or exec; nothing lost, nothing damaged.
    pub complete: bool,
    /// Records read.
    pub records: u64,
    /// Numbers that no record carries, of the processes that are in the trace.
    pub lost_records: u64,
    /// More of these may be lost: the end of a process was not seen, or bytes are damaged.
    pub lost_is_lower_bound: bool,
    /// Of these, what the recorder itself counted as lost.
    pub lost_by_recorder: u64,
    /// Bytes of damaged frames.
    pub damaged_bytes: u64,
    /// Bytes outside frames.
    pub foreign_bytes: u64,
    /// Wall clock when the first recorded process began, ns since 1970.
    pub start_unix_ns: Option<u64>,
    /// Nanoseconds from that moment to the last record.
    pub duration_ns: u64,
}

/// Something that the reader of a report must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Stable name of the kind, such as `lost-records`.
    pub kind: &'static str,
    /// How often it happened; 1 where it cannot be counted.
    pub count: u64,
    /// One sentence.
    pub text: String,
}

/// One process image.
#[derive(Clone, Debug, Serialize)]
pub struct Process {
    /// Its pid; null where the input does not say.
    pub pid: Option<u64>,
    /// Pid of its parent.
    pub parent_pid: Option<u64>,
    /// Its command line.
    pub command: Option<Vec<String>>,
    /// Its executable.
    pub exe: Option<String>,
    /// `normal`, `signal`, `exec`, `cut` or `unknown`.
    pub end: &'static str,
    /// Whether it is a session of a log, whose end is that of the recording.
    #[serde(skip)]
    pub is_session: bool,
    /// The signal, where `end` is `signal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<u64>,
    /// Exit status, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<u64>,
    /// Machine it ran on, as `uname -m` would say, where known.
    pub machine: Option<String>,
    /// Threads that made records; 0 where the input does not say.
    pub threads: u64,
    /// Modules declared, and for how many of them symbols were found among those that were asked for.
    pub modules: ModuleCount,
    /// Sums over the whole process.
    pub totals: Totals,
    /// The moment of most live bytes.
    pub peak: Peak,
    /// Live bytes over time, a value a column; empty where there is no time.
    pub timeline: Timeline,
    /// Blocks never released, by site, most bytes first.
    pub leaks: Vec<Leak>,
    /// The same blocks by what was asked for, most bytes first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// How many of these blocks may not fit what was asked for, as of their times only lower bounds are known.
    #[serde(skip_serializing_if = "is_zero")]
    pub unsure_blocks: u64,
    /// Releases that were wrong, in order of number.
    pub errors: Vec<Fault>,
    /// Sites by blocks that were released before the same thread allocated again, most first.
    pub temporaries: Vec<Temporary>,
    /// Sums over all blocks.
    pub usage: usage::Usage,
}

/// Modules of a process, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ModuleCount {
    /// Modules that a shown address lies in.
    pub used: u64,
    /// Of these, modules with debug information or symbols.
    pub resolved: u64,
}

/// Sums, by the counting rules of the contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Successful allocations.
    pub allocations: u64,
    /// Releases of non-null pointers, wrong ones included.
    pub releases: u64,
    /// Successful reallocations of a block to a size above 0.
    pub reallocations: u64,
    /// Requested bytes of allocations and new sizes of reallocations.
    pub allocated_bytes: u64,
    /// Calls that returned no memory.
    pub failed: u64,
    /// Of these, reallocations.
    pub failed_reallocations: u64,
    /// Blocks live at the end, without inherited ones.
    pub live_blocks: u64,
    /// Requested bytes of these.
    pub live_bytes: u64,
    /// Most live bytes at one moment.
    pub peak_bytes: u64,
    /// Blocks live at that moment.
    pub peak_blocks: u64,
    /// Allocations released before the same thread allocated again.
    pub temporary: u64,
    /// Releases of blocks older than the recording.
    pub earlier_releases: u64,
    /// Blocks taken over from the parent and never released here.
    pub inherited_blocks: u64,
    /// Requested bytes of these.
    pub inherited_bytes: u64,
}

impl Totals {
    /// The sums of both.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        let add = u64::saturating_add;
        Self {
            allocations: add(self.allocations, other.allocations),
            releases: add(self.releases, other.releases),
            reallocations: add(self.reallocations, other.reallocations),
            allocated_bytes: add(self.allocated_bytes, other.allocated_bytes),
            failed: add(self.failed, other.failed),
            failed_reallocations: add(self.failed_reallocations, other.failed_reallocations),
            live_blocks: add(self.live_blocks, other.live_blocks),
            live_bytes: add(self.live_bytes, other.live_bytes),
            peak_bytes: add(self.peak_bytes, other.peak_bytes),
            peak_blocks: add(self.peak_blocks, other.peak_blocks),
            temporary: add(self.temporary, other.temporary),
            earlier_releases: add(self.earlier_releases, other.earlier_releases),
            inherited_blocks: add(self.inherited_blocks, other.inherited_blocks),
            inherited_bytes: add(self.inherited_bytes, other.inherited_bytes),
        }
    }
}

/// The moment of most live bytes, and who held them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Peak {
    /// Nanoseconds since the first recorded process began.
    pub time_ns: Option<u64>,
    /// The call was then or later: the thread did not read the clock for it.
    #[serde(skip_serializing_if = "is_false")]
    pub time_is_lower_bound: bool,
    /// Sites that held blocks then, most bytes first.
    pub sites: Vec<PeakSite>,
}

/// What one site held at the peak.
#[derive(Clone, Debug, Serialize)]
pub struct PeakSite {
    /// Requested bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// The site.
    pub stack: Stack,
}

/// Live bytes over time in equal steps.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timeline {
    /// Nanoseconds of one step.
    pub step_ns: u64,
    /// Most live bytes in each step.
    pub bytes: Vec<u64>,
    /// Most live blocks in each step.
    pub blocks: Vec<u64>,
    /// Steps, counted from 0, in which it is not known when calls were made: they may belong to another one of these that follow
    /// each other. Only where that is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsure: Vec<u64>,
}

/// Blocks of one site that were never released.
#[derive(Clone, Debug, Serialize)]
pub struct Leak {
    /// Requested bytes never released.
    pub bytes: u64,
    /// Blocks never released.
    pub blocks: u64,
    /// Blocks that the site ever handed out.
    pub allocations: u64,
    /// When the oldest of the blocks was handed out, ns since the first recorded process began.
    pub oldest_ns: Option<u64>,
    /// It was then or later: the thread did not read the clock for it.
    #[serde(skip_serializing_if = "is_false")]
    pub oldest_is_lower_bound: bool,
    /// Line of a text log where the oldest of the blocks was handed out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_line: Option<u64>,
    /// The site.
    pub stack: Stack,
}

/// Blocks never released that have something in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// What that is.
    pub name: String,
    /// Requested bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
}

/// Blocks of one site that were released at once.
#[derive(Clone, Debug, Serialize)]
pub struct Temporary {
    /// Blocks released before the same thread allocated again.
    pub temporary: u64,
    /// Blocks that the site ever handed out.
    pub allocations: u64,
    /// The site.
    pub stack: Stack,
}

/// Frames of one or more call sites, innermost first; shared, since many rows name the same.
pub type Stack = Arc<[Frame]>;

/// One function at one call site, or one that was inlined there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// Raw return address, as `0x…`.
    pub address: String,
    /// Path of the module on the target.
    pub module: Option<String>,
    /// Its build id in hex.
    pub build_id: Option<String>,
    /// ELF virtual address: address minus load bias, as `0x…`.
    pub offset: Option<String>,
    /// Function, demangled.
    pub function: Option<String>,
    /// Absolute path of the source file.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// Whether the compiler merged this function into the next frame's.
    pub inlined: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
const fn is_false(is: &bool) -> bool {
    !*is
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
