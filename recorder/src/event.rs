//! What a hook has to say, before it has a number and a time.
#![forbid(unsafe_code)]

use heapwire_format::{Op, Record};

/// A record without its time and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) op: Op,
    pub(crate) flags: u8,
    pub(crate) ptr: u64,
    pub(crate) size: u64,
    pub(crate) pc: u64,
    pub(crate) base: u64,
}

impl Event {
    /// An event with these two fields and nothing else.
    pub(crate) const fn of(op: Op, ptr: u64, size: u64) -> Self {
        Self {
            op,
            flags: 0,
            ptr,
            size,
            pc: 0,
            base: 0,
        }
    }

    pub(crate) const fn with_pc(self, pc: usize, base: u64) -> Self {
        Self {
            pc: pc as u64,
            base,
            ..self
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a record has the low half of its number"
    )]
    pub(crate) const fn words(self, number: u64, time: Time) -> [u64; Record::WORDS] {
        let read = if self.op.is_heap() { time.read_flag } else { 0 };
        let Self {
            op,
            flags,
            ptr,
            size,
            pc,
            base,
        } = self;
        let number = number as u32;
        Record {
            op,
            flags: flags | read,
            time: time.milliseconds,
            number,
            ptr,
            size,
            pc,
            base,
        }
        .to_words()
    }
}

/// A record's time field, and the flag that says that the clock was read for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Time {
    pub(crate) milliseconds: u16,
    pub(crate) read_flag: u8,
}
