//! A source: a run of record slots in one place, filled by one lane, and what a first look at it tells.

use super::Trace;
use super::possible::is_possible;
use heapwire_format::{Op, Record};

/// Slots as they lie in the input.
pub(crate) type Slots<'t> = &'t [[u8; Record::SIZE]];

/// Where a run of slots lies, and what its records are relative to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Index of the input.
    pub(crate) input: u32,
    /// Offset of the first slot in it.
    pub(crate) offset: usize,
    /// Number of slots.
    pub(crate) slots: u32,
    /// Reference of the full numbers.
    pub(crate) reference: u64,
    /// Nanoseconds that times count from.
    pub(crate) clock: u64,
    /// Kernel tid of the thread that made the records.
    pub(crate) tid: u32,
    /// Thread records in the run say who made those after them.
    pub(crate) is_mixed: bool,
    /// Offset of the frame that holds the run.
    pub(crate) frame: usize,
    /// Whose slots they are.
    pub(crate) holder: Holder,
    /// The writer was of a newer version: a slot that this version does not know is not damage.
    pub(crate) is_newer: bool,
}

/// What a run of slots is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A frame that was written at once: it is whole, or damaged as a whole.
    Frame,
    /// A lane, whose slots were written one by one.
    Lane,
}

/// A run of slots and the range of its numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) place: Place,
    /// Lowest number in it.
    pub(crate) lowest: u64,
    /// Highest number in it.
    pub(crate) highest: u64,
    /// Records in it.
    pub(crate) records: u32,
    /// Numbers rise from slot to slot.
    pub(crate) is_rising: bool,
    /// Slot of the first process declaration.
    pub(crate) process_slot: Option<u32>,
    /// Slots that no writer can have left so.
    pub(crate) impossible: u32,
}

impl Source {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            lowest: u64::MAX,
            highest: 0,
            records: 0,
            is_rising: true,
            process_slot: None,
            impossible: 0,
        }
    }

    /// The source with the range of its numbers found out.
    pub(crate) fn surveyed(mut self, trace: &Trace) -> Self {
        let mut last = None;
        for (index, slot) in (0u32..).zip(self.slots(trace)) {
            let head = Head::of(slot);
            if !self.place.is_newer && !is_possible(slot, self.place.reference) {
                self.impossible += 1;
                continue;
            }
            if !head.is_record() {
                continue;
            }
            let number = head.full_number(self.place.reference);
            self.lowest = self.lowest.min(number);
            self.highest = self.highest.max(number);
            self.records += 1;
            self.is_rising &= last.is_none_or(|last| last < number);
            last = Some(number);
            if head.op == Op::PROCESS && self.process_slot.is_none() {
                self.process_slot = Some(index);
            }
        }
        self
    }

    /// The full number of the record at `index` of its slots, if there is one to be believed. What came over a slot
    /// that cannot be came over those beside it as well, where it may look like a record.
    pub(crate) fn number(&self, slots: Slots<'_>, index: usize) -> Option<u64> {
        let head = Head::of(slots.get(index)?);
        let reference = self.place.reference;
        let beside = index.saturating_sub(1)..slots.len().min(index + 2);
        let is_believed = head.is_record()
            && (self.impossible == 0
                || slots[beside]
                    .iter()
                    .all(|slot| is_possible(slot, reference)));
        is_believed.then(|| head.full_number(reference))
    }

    /// Its slots in the input.
    pub(crate) fn slots<'t>(&self, trace: &'t Trace) -> Slots<'t> {
        let length = self.place.slots as usize * Record::SIZE;
        let bytes = &trace.bytes(self.place.input)[self.place.offset..][..length];
        bytes.as_chunks().0
    }
}

/// The first word of a record: all that the order of records needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) op: Op,
    pub(crate) number: u32,
}

impl Head {
    pub(crate) fn of(slot: &[u8; Record::SIZE]) -> Self {
        Self {
            op: Op(slot[0]),
            number: u32::from_le_bytes([slot[4], slot[5], slot[6], slot[7]]),
        }
    }

    /// Whether the slot holds a record that takes a number.
    pub(crate) fn is_record(self) -> bool {
        self.op != Op::HOLE && self.op != Op::VOID
    }

    /// As [`Record::full_number`].
    pub(crate) fn full_number(self, reference: u64) -> u64 {
        reference.wrapping_add_signed(self.distance(reference))
    }

    /// From `reference` to the full number.
    pub(crate) fn distance(self, reference: u64) -> i64 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low half is what is compared"
        )]
        let distance = self.number.wrapping_sub(reference as u32).cast_signed();
        i64::from(distance)
    }
}
