//! What stages hand on: a record of a trace, or a line of a log made one.

use heapwire_format::Record;

/// A record with what its place says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Full number.
    pub(crate) number: u64,
    /// Nanoseconds of the traced machine's clock, see [`crate::time`]; of a log, its line.
    pub(crate) clock: u64,
    /// Kernel tid; 0 = unknown.
    pub(crate) tid: u32,
    pub(crate) record: Record,
}
