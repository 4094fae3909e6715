//! A place in a source of records, and the times of those between two readings of the clock.

use super::Event;
use crate::trace::source::Slot;
use crate::trace::{Head, Source};
use heapwire_format::{Op, Record, flag};

/// A place in a source.
pub(super) struct Cursor {
    pub(super) source: Source,
    /// For a source whose numbers do not rise, or that threads share: number, slot and tid in the order of numbers.
    pub(super) sorted: Option<Vec<(u64, u32, u32)>>,
    pub(super) at: usize,
    /// The number at `at`; `None` at the end.
    pub(super) number: Option<u64>,
    pub(super) stretch: Stretch,
}

/// Slots from one reading of the clock to the next. Records in between were made in between, so that is where they are put, in equal
/// steps: a thread that has been quick reads the clock for every sixteenth record only, however slow it is then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stretch {
    from: usize,
    pub(super) to: usize,
    /// Milliseconds.
    begin: u16,
    /// Milliseconds that pass.
    length: u16,
}

impl Stretch {
    /// Slots that are looked through for the next reading.
    const MOST: usize = 64;

    /// The stretch that begins at a slot. Without a reading at both ends, times stand as they are.
    pub(super) fn at(slots: &[Slot], from: usize) -> Self {
        let time = |slot: &Slot| u16::from_le_bytes([slot[2], slot[3]]);
        let is_heap = |slot: &Slot| Op(slot[0]).is_heap();
        let is_reading = |slot: &Slot| is_heap(slot) && slot[1] & flag::TIME_READ != 0;
        let alone = Self {
            from,
            to: from + 1,
            begin: slots.get(from).map_or(0, time),
            length: 0,
        };
        if !slots.get(from).is_some_and(is_reading) {
            return alone;
        }
        let mut after = slots.iter().enumerate().skip(from + 1).take(Self::MOST);
        match after.find(|(_, slot)| is_reading(slot) || time(slot) != alone.begin) {
            // Others than heap records have no room for the flag.
            Some((to, slot)) if is_reading(slot) || !is_heap(slot) => Self {
                to,
                length: time(slot).saturating_sub(alone.begin),
                ..alone
            },
            _ => alone,
        }
    }

    /// Nanoseconds at a slot of it.
    #[inline]
    pub(super) fn nanoseconds(&self, at: usize) -> u64 {
        const MILLISECOND: u64 = 1_000_000;
        let begin = u64::from(self.begin) * MILLISECOND;
        if self.length == 0 {
            return begin;
        }
        let passed = u64::from(self.length) * MILLISECOND;
        begin + passed * (at - self.from) as u64 / (self.to - self.from) as u64
    }
}

impl Cursor {
    pub(super) fn new(source: Source) -> Self {
        let is_plain = source.is_rising && !source.place.is_mixed;
        let sorted = (!is_plain).then(|| in_order(&source));
        let mut cursor = Self {
            source,
            sorted,
            at: 0,
            number: None,
            stretch: Stretch::default(),
        };
        cursor.settle();
        cursor
    }

    pub(super) fn place(&self) -> ((u32, u64), usize) {
        (self.source.place.frame, self.source.place.at)
    }

    /// Records that may be left.
    pub(super) fn left(&self) -> u64 {
        let all = match &self.sorted {
            Some(sorted) => sorted.len(),
            None => self.source.place.slots as usize,
        };
        all.saturating_sub(self.at) as u64
    }

    pub(super) fn advance(&mut self) {
        self.at += 1;
        self.settle();
    }

    /// Moves on to the next record from `at` on.
    pub(super) fn settle(&mut self) {
        if let Some(sorted) = &self.sorted {
            self.number = sorted.get(self.at).map(|(number, ..)| *number);
            return;
        }
        let slots = self.source.place.slots as usize;
        self.number = None;
        while self.at < slots {
            self.number = self.source.number(self.at);
            if self.number.is_some() {
                return;
            }
            self.at += 1;
        }
    }

    /// Moves on over all records with numbers below `end`.
    pub(super) fn each_below(&mut self, end: u64, mut each: impl FnMut(&Self, usize, u64)) {
        if self.is_plain() {
            let reference = self.source.place.reference;
            for (at, slot) in self.source.slots().iter().enumerate().skip(self.at) {
                let head = Head::of(slot);
                if !head.is_record() {
                    continue;
                }
                let number = head.full_number(reference);
                if number >= end {
                    self.at = at;
                    self.number = Some(number);
                    return;
                }
                each(self, at, number);
            }
            self.at = self.source.place.slots as usize;
            self.number = None;
            return;
        }
        while let Some(number) = self.number
            && number < end
        {
            each(self, self.at, number);
            self.advance();
        }
    }

    /// Whether its records can be given out as they lie.
    pub(super) fn is_plain(&self) -> bool {
        self.sorted.is_none() && self.source.impossible == 0
    }

    /// The events with numbers below `end` of a plain one, as they lie.
    #[inline(always)]
    pub(super) fn events_below(&mut self, end: u64, mut each: impl FnMut(Event)) {
        let place = &self.source.place;
        let slots = self.source.slots();
        let mut stretch = self.stretch;
        let from = self.at;
        self.at = slots.len();
        self.number = None;
        for (at, slot) in slots.iter().enumerate().skip(from) {
            let head = Head::of(slot);
            if !head.is_record() {
                continue;
            }
            let number = head.full_number(place.reference);
            if number >= end {
                self.at = at;
                self.number = Some(number);
                break;
            }
            if at >= stretch.to || at < stretch.from {
                stretch = Stretch::at(slots, at);
            }
            each(Event {
                number,
                clock: place.clock.saturating_add(stretch.nanoseconds(at)),
                tid: place.tid,
                record: Record::decode(slot),
            });
        }
        self.stretch = stretch;
    }

    #[inline]
    pub(super) fn slot(&self, at: usize) -> &Slot {
        match &self.sorted {
            Some(sorted) => &self.source.slots()[sorted[at].1 as usize],
            None => &self.source.slots()[at],
        }
    }

    #[inline(always)]
    pub(super) fn event(&mut self, at: usize, number: u64) -> Event {
        let record = Record::decode(self.slot(at));
        let since = if self.sorted.is_some() {
            u64::from(record.time) * 1_000_000
        } else {
            if at >= self.stretch.to || at < self.stretch.from {
                self.stretch = Stretch::at(self.source.slots(), at);
            }
            self.stretch.nanoseconds(at)
        };
        Event {
            number,
            clock: self.source.place.clock.saturating_add(since),
            tid: match &self.sorted {
                Some(sorted) => sorted[at].2,
                None => self.source.place.tid,
            },
            record,
        }
    }
}

/// Number, slot and tid of each record, in the order of numbers; equal ones in order of place.
fn in_order(source: &Source) -> Vec<(u64, u32, u32)> {
    let mut tid = source.place.tid;
    let mut sorted = Vec::with_capacity(source.records as usize);
    for ((index, at), slot) in (0u32..).zip(0..).zip(source.slots()) {
        let Some(number) = source.number(at) else {
            continue;
        };
        if source.place.is_mixed && Head::of(slot).op == Op::THREAD {
            tid = u32::try_from(Record::decode(slot).ptr).unwrap_or(0);
        }
        sorted.push((number, index, tid));
    }
    sorted.sort_unstable();
    sorted
}

#[cfg(test)]
mod tests {
    use super::Stretch;
    use crate::tests::made::{ALLOCATED, record};

    /// A slot of an allocation with this time, at which the clock was read or not.
    fn slot(time: u16, is_reading: bool) -> [u8; 40] {
        let flags = if is_reading { 1 << 5 } else { 0 };
        let mut slot = record(ALLOCATED, flags, 1, [0x1000, 1, 2, 3]);
        slot[2..4].copy_from_slice(&time.to_le_bytes());
        slot
    }

    #[test]
    fn what_lies_between_two_readings_is_spread_over_the_time_between() {
        let mut slots = vec![slot(100, true), slot(100, false), slot(100, false)];
        slots.extend([slot(400, true), slot(400, false)]);
        let stretch = Stretch::at(&slots, 0);
        let times: Vec<_> = (0..3)
            .map(|at| stretch.nanoseconds(at) / 1_000_000)
            .collect();
        assert_eq!((times, stretch.to), (vec![100, 200, 300], 3));
        // Nothing is known of what comes after the last reading.
        assert_eq!(Stretch::at(&slots, 3).to, 4);
        assert_eq!(Stretch::at(&slots, 4).nanoseconds(4), 400_000_000);
        // A clock that seems to run backwards is one that stands still.
        slots.extend([slot(300, true)]);
        assert_eq!(Stretch::at(&slots, 3).nanoseconds(4), 400_000_000);
    }
}
