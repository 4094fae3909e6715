//! A place in a source of records, and the times of those between two readings of the clock.

use crate::event::RawEvent;
use crate::time;
use crate::trace::source::Slot;
use crate::trace::{Head, Source};
use heapwire_format::{Op, Record, flag};
use std::ops::Range;

/// Nanoseconds.
const MILLISECOND: u64 = 1_000_000;

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

/// Slots from one reading of the clock to the next. Records in between were made in between: a thread that has been quick reads the
/// clock for every sixteenth record only, however slow it is then. So that is where they are put, in equal steps, if it is no
/// longer than a few ticks of the clock; else they are put at the first reading, before which they were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stretch {
    from: usize,
    pub(super) to: usize,
    /// Nanoseconds of the clock.
    begin: u64,
    /// Nanoseconds that pass.
    length: u64,
    /// Records from this slot on may be much later than their times.
    open_from: usize,
    /// By how many nanoseconds, if that is known.
    within: Option<u64>,
}

impl Stretch {
    /// Slots that are looked through for the next reading.
    const MOST: usize = 64;
    /// Milliseconds that times may be off by.
    const SHORT: u16 = 10;

    /// The stretch that begins at a slot, which is one of those that `is_record` is true of, where times count from `clock`. Without a reading at both ends times stand as they
    /// are, and are open if the one behind is far, or is missing and what holds the slots `is_late`.
    #[inline(never)]
    pub(super) fn at(
        slots: &[Slot],
        is_record: impl Fn(usize) -> bool,
        from: usize,
        clock: u64,
        is_late: bool,
    ) -> Self {
        let time = |slot: &Slot| u16::from_le_bytes([slot[2], slot[3]]);
        let is_heap = |slot: &Slot| Op(slot[0]).is_heap();
        let is_reading = |slot: &Slot| is_heap(slot) && slot[1] & flag::TIME_READ != 0;
        let first = slots.get(from);
        let begin = first.map_or(0, time);
        let alone = Self {
            from,
            to: from + 1,
            begin: clock.saturating_add(u64::from(begin) * MILLISECOND),
            length: 0,
            open_from: usize::MAX,
            within: None,
        };
        if !first.is_some_and(is_heap) {
            return alone;
        }
        if !first.is_some_and(is_reading) {
            let is_alike = |slot: &Slot| is_heap(slot) && !is_reading(slot) && time(slot) == begin;
            let mut others = slots.iter().enumerate().skip(from).take(Self::MOST);
            let after = others.find(|(at, slot)| is_record(*at) && !is_alike(slot));
            let most = slots.len().min(from + Self::MOST);
            let to = after.map_or(most, |(at, _)| at);
            // The reading before them is in another frame; one after them, which the end has as well, tells as much as it does there.
            let after = after.filter(|(_, slot)| is_reading(slot) || Op(slot[0]) == Op::END);
            let length = after.map(|(_, slot)| time(slot).saturating_sub(begin));
            let is_open = length.map_or(is_late, |length| length > Self::SHORT);
            return Self {
                to,
                open_from: if is_open { from } else { usize::MAX },
                within: length.map(|length| u64::from(length) * MILLISECOND),
                ..alone
            };
        }
        let mut after = slots.iter().enumerate().skip(from + 1).take(Self::MOST);
        let tells = |slot: &Slot| is_reading(slot) || time(slot) != begin;
        match after.find(|(at, slot)| tells(slot) && is_record(*at)) {
            // Others than heap records have no room for the flag.
            Some((to, slot)) if is_reading(slot) || !is_heap(slot) => {
                let length = time(slot).saturating_sub(begin);
                let is_short = length <= Self::SHORT;
                Self {
                    to,
                    length: u64::from(if is_short { length } else { 0 }) * MILLISECOND,
                    open_from: if is_short { usize::MAX } else { from + 1 },
                    within: Some(u64::from(length) * MILLISECOND),
                    ..alone
                }
            }
            _ => alone,
        }
    }

    /// The clock at a slot of it.
    #[inline(always)]
    pub(super) fn clock(&self, at: usize) -> u64 {
        if self.length == 0 {
            return if at >= self.open_from {
                time::lower_bound(self.begin, self.within)
            } else {
                time::known(self.begin)
            };
        }
        let passed = self.length * (at - self.from) as u64 / (self.to - self.from) as u64;
        time::known(self.begin.saturating_add(passed))
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

    pub(super) fn place(&self) -> ((u32, u64), u32) {
        self.source.place.order()
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

    /// Moves a plain one on over all records with numbers below `end`; gives where they lie.
    pub(super) fn pass_below(&mut self, end: u64) -> Range<usize> {
        let from = self.at;
        if self.source.highest < end {
            self.at = self.source.place.slots as usize;
            self.number = None;
        } else {
            self.each_below(end, |_, _, _| {});
        }
        from..self.at
    }

    /// The events at these places, as they lie.
    #[inline(always)]
    pub(super) fn events(&mut self, range: Range<usize>, mut each: impl FnMut(RawEvent<'_>)) {
        let place = &self.source.place;
        let slots = self.source.slots();
        let source = &self.source;
        let is_record = |at: usize| {
            let is_one = slots.get(at).is_some_and(|slot| Head::of(slot).is_record());
            is_one && (source.impossible == 0 || source.number(at).is_some())
        };
        let mut stretch = self.stretch;
        for at in range {
            let sorted = self.sorted.as_ref().and_then(|sorted| sorted.get(at));
            let (lies_at, tid) =
                sorted.map_or((at, place.tid), |(_, slot, tid)| (*slot as usize, *tid));
            let Some(slot) = slots.get(lies_at) else {
                break;
            };
            let head = Head::of(slot);
            if !head.is_record() {
                continue;
            }
            let clock = if sorted.is_some() {
                let stretch = Stretch::at(slots, is_record, lies_at, place.clock, place.is_late);
                stretch.clock(lies_at)
            } else {
                if at >= stretch.to || at < stretch.from {
                    stretch = Stretch::at(slots, is_record, at, place.clock, place.is_late);
                }
                stretch.clock(at)
            };
            each(RawEvent {
                number: head.full_number(place.reference),
                clock,
                tid,
                slot,
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
    use crate::time;

    /// A slot of an allocation with this time, at which the clock was read or not.
    fn slot(time: u16, is_reading: bool) -> [u8; 40] {
        let flags = if is_reading { 1 << 5 } else { 0 };
        let mut slot = record(ALLOCATED, flags, 1, [0x1000, 1, 2, 3]);
        slot[2..4].copy_from_slice(&time.to_le_bytes());
        slot
    }

    /// Milliseconds of each slot, and whether they are a lower bound.
    fn times(slots: &[[u8; 40]], is_late: bool) -> Vec<(u64, bool)> {
        let mut stretch = Stretch::default();
        (0..slots.len())
            .map(|at| {
                if at >= stretch.to {
                    stretch = Stretch::at(slots, |_| true, at, 7, is_late);
                }
                let clock = stretch.clock(at);
                (
                    time::since(7, clock) / 1_000_000,
                    time::is_lower_bound(clock),
                )
            })
            .collect()
    }

    #[test]
    fn what_lies_between_two_readings_is_spread_over_the_time_between() {
        let slots = [
            slot(100, true),
            slot(100, false),
            slot(100, false),
            slot(109, true),
            slot(109, false),
            slot(99, true), // a clock that seems to run backwards is one that stands still
        ];
        let expected = [100, 103, 106, 109, 109, 99].map(|time| (time, false));
        assert_eq!(times(&slots, false), expected);
    }

    #[test]
    fn a_frame_may_begin_after_a_pause_with_records_that_read_no_clock() {
        let slots = [
            slot(5, false),
            slot(5, false),
            slot(1829, true),
            slot(1829, false),
        ];
        for is_late in [false, true] {
            let expected = [(5, true), (5, true), (1829, false), (1829, is_late)];
            assert_eq!(times(&slots, is_late), expected);
        }
        let latest = time::latest(Stretch::at(&slots, |_| true, 0, 7, false).clock(1)).unwrap();
        assert!((1_829_000_000..2_100_000_000).contains(&latest));
        let short = [slot(5, false), slot(14, true)];
        assert_eq!(times(&short, true), [(5, false), (14, false)]);
    }

    #[test]
    fn where_in_a_pause_a_record_was_made_nobody_knows() {
        let slots = [
            slot(100, true),
            slot(100, false),
            slot(100, false),
            slot(3100, true),
            slot(6100, true),
            slot(6100, false),
        ];
        let mut expected = [
            (100, false),
            (100, true),
            (100, true),
            (3100, false),
            (6100, false),
            (6100, false),
        ];
        assert_eq!(times(&slots, false), expected);
        // What was written late may end with records that are as late.
        expected[5].1 = true;
        assert_eq!(times(&slots, true), expected);
        let latest =
            |at| time::latest(Stretch::at(&slots, |_| true, 0, 7, false).clock(at)).unwrap();
        assert!((3_100_000_000..3_600_000_000).contains(&latest(1)));
        assert_eq!(latest(0), time::known(7 + 100_000_000));
    }
}
