//! A source: a run of record slots in one place, filled by one lane, and what a first look at it tells.

use super::frames::Block;
use super::possible::{is_heap_record, is_possible};
use heapwire_format::{Op, Record};

/// Numbers that other threads take, at most, while a call is between its slot and its number and a signal handler makes a
/// record of its own (SPEC.md 12).
const STRAY: u64 = 1 << 19;

/// A slot as it lies in the input.
pub(crate) type Slot = [u8; Record::SIZE];

/// Where a run of slots lies, and what its records are relative to.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// What holds the slots.
    pub(crate) block: Block,
    /// Offset of the first slot in it.
    pub(crate) at: usize,
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
    /// The last records may be much later than the last reading of the clock.
    pub(crate) is_late: bool,
    /// Input and offset of the frame that holds the run.
    pub(crate) frame: (u32, u64),
    /// Whose slots they are.
    pub(crate) holder: Holder,
    /// Which lane of its frame it is.
    pub(crate) lane: u32,
    /// The writer was of a newer version: a slot that this version does not know is not damage.
    pub(crate) is_newer: bool,
}

impl Place {
    /// What places are in order by.
    pub(crate) fn order(&self) -> ((u32, u64), u32) {
        (self.frame, self.lane)
    }
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
#[derive(Clone, Debug)]
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
    /// A record in it says that there is a forked child.
    pub(crate) has_fork: bool,
    /// Slot of the first process declaration.
    pub(crate) process_slot: Option<u32>,
    /// Slots that no writer can have left so.
    pub(crate) impossible: u32,
}

impl Source {
    /// A source with the range of its numbers found out.
    pub(crate) fn survey(place: Place) -> Self {
        let source = Self {
            lowest: u64::MAX,
            highest: 0,
            records: 0,
            is_rising: true,
            has_fork: false,
            process_slot: None,
            impossible: 0,
            place,
        };
        match rising(&source.place) {
            Some((lowest, highest)) => Self {
                lowest,
                highest,
                records: source.place.slots,
                ..source
            },
            None => source.look_at_each(),
        }
    }

    fn look_at_each(mut self) -> Self {
        let (reference, is_newer) = (self.place.reference, self.place.is_newer);
        let (mut lowest, mut highest) = (u64::MAX, 0);
        for (index, slot) in (0u32..).zip(slots(&self.place)) {
            let head = Head::of(slot);
            if !is_newer && !is_possible(slot, reference) {
                self.impossible += 1;
                continue;
            }
            if !head.is_record() {
                continue;
            }
            let number = head.full_number(reference);
            // The last one was the highest, as long as they rise.
            self.is_rising &= self.records == 0 || highest < number;
            lowest = number.min(lowest);
            highest = number.max(highest);
            self.records += 1;
            if !head.op.is_heap() {
                self.has_fork |= head.op == Op::FORK;
                if head.op == Op::PROCESS && self.process_slot.is_none() {
                    self.process_slot = Some(index);
                }
            }
        }
        Self {
            lowest,
            highest,
            ..self
        }
    }

    /// Counts a record as impossible whose number is far below that of one before it, which the same thread made earlier: one
    /// of the two was changed, and would seem to tell of millions of records that nobody wrote.
    pub(crate) fn look_for_strays(&mut self) {
        if self.is_rising || self.place.is_mixed {
            return;
        }
        let mut highest = 0;
        for number in (0..self.slots().len()).filter_map(|index| self.number(index)) {
            if number.saturating_add(STRAY) <= highest {
                self.impossible += 1;
                return;
            }
            highest = number.max(highest);
        }
    }

    /// Whether its records are to be believed: those of a frame are as a whole or not at all.
    pub(crate) fn is_kept(&self) -> bool {
        self.records > 0 && (self.impossible == 0 || self.place.holder == Holder::Lane)
    }

    /// The full number of the record at `index` of its slots, if there is one to be believed. What came over a slot
    /// that cannot be came over those beside it as well, where it may look like a record.
    pub(crate) fn number(&self, index: usize) -> Option<u64> {
        let slots = self.slots();
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

    /// Whether it has all numbers between its lowest and its highest, in order.
    pub(crate) fn is_dense(&self) -> bool {
        let numbers = self.highest.saturating_sub(self.lowest).saturating_add(1);
        let is_plain = self.is_rising && self.impossible == 0 && !self.place.is_mixed;
        is_plain && self.records == self.place.slots && numbers == u64::from(self.records)
    }

    /// Its slots in the input.
    pub(crate) fn slots(&self) -> &[Slot] {
        slots(&self.place)
    }

    /// The same source with its records in memory of their own, without those that are none.
    pub(crate) fn detached(mut self) -> Self {
        let kept: Vec<Slot> = (0..self.slots().len())
            .filter(|index| self.number(*index).is_some())
            .map(|index| self.slots()[index])
            .collect();
        self.process_slot = (0u32..)
            .zip(&kept)
            .find(|(_, slot)| Head::of(slot).op == Op::PROCESS)
            .map(|(index, _)| index);
        self.place.at = 0;
        self.place.slots = u32::try_from(kept.len()).unwrap_or(0);
        self.place.block = Block::new(kept.concat());
        self.records = self.place.slots;
        self.impossible = 0;
        self
    }
}

/// The first and the last number, if there are only heap records that can be, and their numbers rise: so it is with nearly all.
fn rising(place: &Place) -> Option<(u64, u64)> {
    let slots = slots(place);
    let reference = place.reference;
    let mut last = None;
    for slot in slots {
        let head = Head::of(slot);
        let number = head.full_number(reference);
        if !is_heap_record(slot) || last.is_some_and(|last| number <= last) {
            return None;
        }
        last = Some(number);
    }
    // All between those are as near.
    let (first, last) = (slots.first()?, slots.last()?);
    let are_near = is_possible(first, reference) && is_possible(last, reference);
    let number = |slot| Head::of(slot).full_number(reference);
    are_near.then(|| (number(first), number(last)))
}

fn slots(place: &Place) -> &[Slot] {
    let length = place.slots as usize * Record::SIZE;
    place.block[place.at..][..length].as_chunks().0
}

/// The first word of a record: all that the order of records needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) op: Op,
    pub(crate) number: u32,
}

impl Head {
    #[inline]
    pub(crate) fn of(slot: &Slot) -> Self {
        Self {
            op: Op(slot[0]),
            number: u32::from_le_bytes([slot[4], slot[5], slot[6], slot[7]]),
        }
    }

    /// Whether the slot holds a record that takes a number.
    #[inline]
    pub(crate) fn is_record(self) -> bool {
        // Both at once: one is all zeros, the other all ones.
        const { assert!(Op::HOLE.0 == 0 && Op::VOID.0 == 0xFF) };
        self.op.0.wrapping_add(1) > 1
    }

    /// As [`Record::full_number`].
    #[inline]
    pub(crate) fn full_number(self, reference: u64) -> u64 {
        reference.wrapping_add_signed(self.distance(reference))
    }

    /// From `reference` to the full number.
    #[inline]
    pub(crate) fn distance(self, reference: u64) -> i64 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low half is what is compared"
        )]
        let distance = self.number.wrapping_sub(reference as u32).cast_signed();
        i64::from(distance)
    }
}
