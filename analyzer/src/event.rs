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

/// An event whose record lies where it was read: so it is handed on from stage to stage without being copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawEvent<'s> {
    /// As in [`Event`].
    pub(crate) number: u64,
    /// As in [`Event`].
    pub(crate) clock: u64,
    /// As in [`Event`].
    pub(crate) tid: u32,
    pub(crate) slot: &'s [u8; Record::SIZE],
}

impl RawEvent<'_> {
    #[inline(always)]
    pub(crate) fn record(self) -> Record {
        Record::decode(self.slot)
    }

    pub(crate) fn event(self) -> Event {
        Event {
            number: self.number,
            clock: self.clock,
            tid: self.tid,
            record: self.record(),
        }
    }
}
