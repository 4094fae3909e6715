//! What happened to one address.

use super::{Stack, Warning, is_false};
use serde::Serialize;

/// All that happened to an address.
#[derive(Clone, Debug, Serialize)]
pub struct History {
    /// The address, as `0x…`.
    pub address: String,
    /// What calls must be like to be listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<String>,
    /// In order, process image by process image.
    pub events: Vec<HistoryEvent>,
    /// Why other calls there may be missing.
    pub warnings: Vec<Warning>,
}

/// One call on a block at the address or around it.
#[derive(Clone, Debug, Serialize)]
pub struct HistoryEvent {
    /// The process.
    pub pid: Option<u64>,
    /// `allocated`, `released`, `realloc-old` …
    pub event: &'static str,
    /// Where the block begins.
    pub address: String,
    /// Requested bytes, where the call says them.
    pub size: Option<u64>,
    /// Number of the record.
    pub number: u64,
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
