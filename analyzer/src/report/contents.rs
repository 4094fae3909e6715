//! What is in an input, and whether all of it is there.

use serde::Serialize;

/// What is in an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// Version of this layout.
    pub schema: u32,
    /// The input as given.
    pub file: String,
    /// `hwt` or `mtrace`.
    pub kind: &'static str,
    /// Versions of the format of its frames, such as `1.0`.
    pub versions: Vec<String>,
    /// Bytes that the file has; null where it is none.
    pub file_bytes: Option<u64>,
    /// Bytes of the trace, unpacked.
    pub bytes: u64,
    /// The file is packed with gzip or zstd.
    pub packed: bool,
    /// Wall clock when the first recorded process began, ns since 1970.
    pub start_unix_ns: Option<u64>,
    /// Nanoseconds from that moment to the last record.
    pub duration_ns: u64,
    /// Process images, in order of appearance.
    pub processes: Vec<ProcessContents>,
    /// Whole frames, by kind.
    pub frames: Vec<Tally>,
    /// Records, by op; copies count as often as they are there.
    pub records: Vec<Tally>,
    /// Paths of the modules that are declared, each once, in order.
    pub modules: Vec<String>,
}

/// One process image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessContents {
    /// Its pid.
    pub pid: Option<u64>,
    /// Its command line.
    pub command: Option<Vec<String>>,
    /// As in [`Process`](super::Process).
    pub end: &'static str,
    /// Its exit status, where it is known.
    pub exit_status: Option<u64>,
    /// The signal that ended it.
    pub signal: Option<u64>,
    /// Recorded calls.
    pub calls: u64,
}

/// How many of a kind there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// The name of the kind, or its number.
    pub kind: String,
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Whether all of an input is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wholeness {
    /// Version of this layout.
    pub schema: u32,
    /// The input as given.
    pub file: String,
    /// What it comes to.
    pub state: State,
    /// Bytes that are not as they were written, by kind.
    pub damage: Vec<Defect>,
    /// What the input says that it does not have, by kind.
    pub missing: Vec<Defect>,
    /// What is there besides and does no harm, by kind.
    pub remarks: Vec<Defect>,
}

/// What an input comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing is damaged and nothing is missing.
    Whole,
    /// Nothing is damaged, but something is missing.
    Incomplete,
    /// Something is damaged.
    Damaged,
}

/// One kind of damage or loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Defect {
    /// Stable name of the kind, such as `wrong-sums`.
    pub kind: &'static str,
    /// How often it is there.
    pub count: u64,
    /// Where first: offset in the input as it was unpacked, or line of a log; null where it has no place.
    pub first: Option<u64>,
    /// One sentence.
    pub text: String,
}
