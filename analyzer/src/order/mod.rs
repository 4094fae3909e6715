//! Puts the records of one stream in the order of their numbers: that is the order of events (SPEC.md 10.2).
//!
//! Sources overlap, since threads fill lanes at their own pace. Numbers are dense, so a window of them is put in order by
//! laying each record where its number says, unless sources follow one another. Of copies the first in place is taken. A window is given out once
//! all of it came, or the numbers seen are so far beyond it that none of it is to come, so what is held at one moment is bounded.

mod cover;
mod cursor;
mod gaps;

use crate::event::{Event, RawEvent};
use crate::trace::source::{Holder, Slot};
use crate::trace::{Block, Source, Supplied, Supply, Trace, TraceError};
use cover::Cover;
use cursor::Cursor;
use gaps::{note_gap, take_number};
use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;

/// Numbers that are put in order at once.
pub(crate) const WINDOW: u64 = 1 << 14;

/// A record is in the trace before one whose number is so much higher.
const PATIENCE: u64 = 1 << 19;

/// Slots that are held back at most.
const HELD: u64 = 3 << 18;

/// Sources that are waited with at most, where a number is missing. Their slots need not be in memory.
const WAITING: usize = 1 << 17;

/// A window with fewer records than this part of it is sorted.
const SPARSE: u64 = 16;

const NONE: u64 = u64::MAX;

/// Gives `each` the events of an indexed stream, one by one, until it fails.
pub(crate) fn walk<E: From<TraceError>>(
    trace: &mut Trace,
    stream: usize,
    mut each: impl FnMut(&Event) -> Result<(), E>,
) -> Result<(), E> {
    let mut supply = trace.supply(stream);
    let mut order = Order::default();
    let mut goes_on = true;
    while goes_on {
        while !order.fill(trace, &mut supply)? {}
        let mut result = Ok(());
        goes_on = order.window(u64::MAX, |event| {
            if result.is_ok() {
                result = each(&event.event());
            }
        });
        result?;
    }
    Ok(())
}

/// The numbers of an indexed stream of which there are copies that differ, each with the record that is taken.
pub(crate) fn contested(
    trace: &mut Trace,
    stream: usize,
) -> Result<BTreeMap<u64, Slot>, TraceError> {
    let mut supply = trace.supply(stream);
    let mut order = Order::default();
    order.copies.taken = Some(BTreeMap::new());
    loop {
        while !order.fill(trace, &mut supply)? {}
        if !order.window(u64::MAX, |_| ()) {
            return Ok(order.copies.taken.unwrap_or_default());
        }
    }
}

/// Copies that differ from the record that was taken.
#[derive(Default)]
pub(crate) struct Copies {
    /// How many they are.
    pub(crate) differing: u64,
    /// The records that were taken, by number, if they are asked for.
    taken: Option<BTreeMap<u64, Slot>>,
}

impl Copies {
    /// Takes note of a copy that comes later than the `first`, which is taken.
    fn note(&mut self, number: u64, first: &Slot, later: &Slot) {
        if differ(first, later) {
            self.differing += 1;
            if let Some(taken) = &mut self.taken {
                taken.entry(number).or_insert(*first);
            }
        }
    }
}

/// Records that lie one after the other in a source.
struct Span {
    cursor: usize,
    at: Range<usize>,
}

/// The sources of one stream, given out as events.
#[derive(Default)]
pub(crate) struct Order {
    /// Sources not yet begun, by their lowest number, then by place.
    waiting: BTreeMap<(u64, (u32, u64), u32), Source>,
    /// Sources begun and not yet at their end, in order of place.
    open: Vec<Cursor>,
    /// Slots of all of these.
    held: u64,
    /// Numbers below this one were given out.
    next: u64,
    first: Option<u64>,
    /// Lowest number seen, and highest one in a frame.
    lowest: Option<u64>,
    highest: u64,
    /// What is missing of the next window was not among the numbers up to here, and is waited for up to here.
    waits_to: u64,
    has_ended: bool,
    /// Numbers that were not there when their window was given out.
    gaps: BTreeMap<u64, u64>,
    /// For each number of a window where its record lies: cursor and index.
    places: Vec<u64>,
    sparse: Vec<(u64, u64)>,
    /// Sources of a window by the first number that is left in them, if they do not overlap.
    line: Vec<(u64, usize)>,
    /// What a window gives out, in order.
    spans: Vec<Span>,
    cover: Cover,
    pub(crate) copies: Copies,
    /// Records that came when their window had been given out.
    pub(crate) late: u64,
}

impl Order {
    /// Adds sources, in order of place.
    pub(crate) fn feed(&mut self, sources: Vec<Source>) {
        for source in sources {
            self.held += u64::from(source.place.slots);
            // Lanes lie before what was written while they were filled.
            if source.place.holder == Holder::Frame {
                self.highest = self.highest.max(source.highest);
            }
            let lowest = self.lowest.get_or_insert(source.lowest);
            *lowest = source.lowest.min(*lowest);
            let key = (source.lowest, source.place.frame, source.place.lane);
            self.waiting.insert(key, source);
        }
    }

    /// Says that no source is to come.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Takes note of the first number that the stream is said to have.
    pub(crate) fn expect(&mut self, first: Option<u64>) {
        self.first = first;
    }

    /// The number that is to be given out next; 0 = not known. What is said of the first one does not hold where there are lower ones.
    fn expected(&self) -> u64 {
        let first = self
            .first
            .filter(|first| self.lowest.is_some_and(|lowest| *first <= lowest));
        match self.next {
            0 => first.unwrap_or(0),
            next => next,
        }
    }

    /// Reads on until a window can be given out: when all of it came, or when that is no longer waited for. `false`: there are
    /// other streams.
    pub(crate) fn fill(
        &mut self,
        trace: &mut Trace,
        supply: &mut Supply,
    ) -> Result<bool, TraceError> {
        loop {
            let is_due = self.is_due();
            if is_due || self.may_be_whole() {
                self.wake(|it| trace.read_again(it))?;
                if self.has_ended || self.waiting.len() >= WAITING || self.is_whole() {
                    return Ok(true);
                }
            }
            if is_due {
                if supply.is_alone() {
                    // What is missing may be anywhere in the rest, which can be read twice from here on.
                    trace.expect_several(supply)?;
                    return Ok(false);
                }
                self.rest(|it| trace.can_read_again(it));
                self.waits_to = self.highest.saturating_add(PATIENCE);
            }
            match trace.next_sources(supply)? {
                Supplied::Sources(sources) => self.feed(sources),
                Supplied::Several => return Ok(false),
                Supplied::End => self.end(),
            }
            if self.highest < self.waits_to {
                self.rest(|it| trace.can_read_again(it));
            }
        }
    }

    /// Whether it is time to give out a window.
    pub(crate) fn is_due(&self) -> bool {
        self.has_ended || self.held >= HELD || {
            let begin = self.begin().unwrap_or(u64::MAX);
            let due = begin.saturating_add(WINDOW + PATIENCE);
            due.max(self.waits_to) <= self.highest
        }
    }

    /// Whether a window from the lowest number on came whole, before any was given out.
    pub(crate) fn has_beginning(&mut self) -> bool {
        let lowest = self.lowest.unwrap_or(u64::MAX);
        lowest.saturating_add(WINDOW) <= self.highest && self.is_whole()
    }

    /// Whether all numbers of the next window may have come, so that it need not be waited for what else there is of it: copies. Where a
    /// number was found to be missing, what lies between is not looked at again before its time.
    fn may_be_whole(&self) -> bool {
        let next = self.expected();
        let end = next.saturating_add(WINDOW);
        next != 0 && end <= self.highest && self.waits_to <= self.highest
    }

    /// Whether all numbers of the next window came. Its sources must be awake.
    fn is_whole(&mut self) -> bool {
        let Some(first) = self.begin() else {
            return false;
        };
        let next = self.expected();
        let begin = first.max(next);
        if next != 0 && next < begin {
            return false;
        }
        let cover = &mut self.cover;
        cover.clear(begin);
        for cursor in &self.open {
            cover.add_left(cursor);
        }
        let end = begin.saturating_add(WINDOW);
        for (_, source) in self.waiting.range(..(end, (0, 0), 0)) {
            cover.add(source);
        }
        cover.is_whole()
    }

    /// The lowest number that any source has.
    pub(crate) fn lowest(&self) -> Option<u64> {
        self.lowest
    }

    /// The sources that no event was given out of.
    pub(crate) fn untouched(&self) -> impl Iterator<Item = &Source> + Clone {
        self.waiting.values()
    }

    /// Lets go of the slots that can be read again, each until [`wake`](Self::wake).
    pub(crate) fn rest(&mut self, can_read_again: impl Fn(&Source) -> bool) {
        let waiting = self.waiting.values_mut();
        let is_awake = |source: &&mut Source| !source.place.block.is_empty();
        for source in waiting.filter(is_awake) {
            if can_read_again(source) {
                source.place.block = Block::default();
                self.held -= u64::from(source.place.slots);
            }
        }
    }

    /// Has the slots of the next window again that were let go, as `read_again` gives them.
    fn wake<E>(&mut self, read_again: impl Fn(&Source) -> Result<Source, E>) -> Result<(), E> {
        let end = self.begin().unwrap_or(0).saturating_add(WINDOW);
        let next = self.waiting.range_mut(..(end, (0, 0), 0));
        for (_, source) in next.filter(|(_, source)| source.place.block.is_empty()) {
            *source = read_again(source)?;
            self.held += u64::from(source.place.slots);
        }
        Ok(())
    }

    /// Gives `each` the events of the next window, as far as their numbers are below `limit`. `false`: there are none
    /// below `limit`, of those that came so far.
    #[inline(always)]
    pub(crate) fn window(&mut self, limit: u64, mut each: impl FnMut(RawEvent<'_>)) -> bool {
        let Some((begin, end)) = self.begin_window(limit) else {
            return false;
        };
        let mut next = begin;
        if self.next != 0 && self.next < begin {
            note_gap(&mut self.gaps, self.next, begin);
        }
        let gaps = &mut self.gaps;
        for span in &self.spans {
            self.open[span.cursor].events(span.at.clone(), |event| {
                if next < event.number {
                    note_gap(gaps, next, event.number);
                }
                next = next.max(event.number.saturating_add(1));
                each(event);
            });
        }
        if next < end {
            note_gap(gaps, next, end);
        }
        self.end_window(end);
        true
    }

    /// Finds the spans of the next window. Gives where it begins and ends.
    #[inline(never)]
    fn begin_window(&mut self, limit: u64) -> Option<(u64, u64)> {
        let begin = self.begin().filter(|begin| *begin < limit)?;
        self.next = self.expected();
        // What is below came late.
        let begin = begin.max(self.next);
        let end = begin.saturating_add(WINDOW).min(limit).max(begin);
        self.spans.clear();
        self.begin_below(end);
        if self.line_up(end) {
            for (_, cursor) in &self.line {
                let at = self.open[*cursor].pass_below(end);
                self.spans.push(Span {
                    cursor: *cursor,
                    at,
                });
            }
            return Some((begin, end));
        }
        let records: u64 = self.open.iter().map(Cursor::left).sum();
        if records < WINDOW / SPARSE {
            self.sort(end);
            let places = self.sparse.iter().map(|(_, place)| *place);
            join(&mut self.spans, places);
        } else {
            self.lay_out(begin, end);
            join(&mut self.spans, self.places.iter().copied());
        }
        Some((begin, end))
    }

    #[inline(never)]
    fn end_window(&mut self, end: u64) {
        let held = &mut self.held;
        self.open.retain(|cursor| {
            let goes_on = cursor.number.is_some();
            *held -= u64::from(cursor.source.place.slots) * u64::from(!goes_on);
            goes_on
        });
        self.next = end;
    }

    /// The lowest number that was not given out.
    pub(crate) fn begin(&self) -> Option<u64> {
        let waiting = self.waiting.first_key_value().map(|(key, _)| key.0);
        let open = self.open.iter().filter_map(|cursor| cursor.number);
        waiting.into_iter().chain(open).min()
    }

    /// Begins every source that holds a number below `end`; what comes late is to be given out first.
    fn begin_below(&mut self, end: u64) {
        let mut late = Vec::new();
        while let Some(entry) = self.waiting.first_entry()
            && entry.key().0 < end
        {
            let mut cursor = Cursor::new(entry.remove());
            let place = cursor.place();
            while let Some(number) = cursor.number
                && number < self.next
            {
                if take_number(&mut self.gaps, number) {
                    late.push((place, cursor.at));
                }
                cursor.advance();
            }
            let at = self.open.partition_point(|other| other.place() < place);
            self.open.insert(at, cursor);
        }
        self.late += late.len() as u64;
        for (place, at) in late {
            let cursor = self.open.partition_point(|other| other.place() < place);
            self.spans.push(Span {
                cursor,
                at: at..at + 1,
            });
        }
    }

    /// Puts the sources with numbers below `end` in line. `false`: they overlap, or have to be put in order themselves.
    fn line_up(&mut self, end: u64) -> bool {
        self.line.clear();
        let open = self.open.iter().enumerate();
        let numbers = open.filter_map(|(index, cursor)| Some((cursor.number?, index)));
        self.line
            .extend(numbers.filter(|(number, _)| *number < end));
        self.line.sort_unstable();
        let mut last = 0;
        self.line.iter().all(|(number, index)| {
            let cursor = &self.open[*index];
            let is_after = last < *number;
            last = cursor.source.highest.min(end);
            is_after && cursor.is_plain()
        })
    }

    fn lay_out(&mut self, begin: u64, end: u64) {
        self.places.clear();
        self.places
            .resize(usize::try_from(end - begin).unwrap_or(0), NONE);
        let copies = &mut self.copies;
        for index in 0..self.open.len() {
            let (before, rest) = self.open.split_at_mut(index);
            let cursor = &mut rest[0];
            let places = &mut self.places;
            cursor.each_below(end, |cursor, at, number| {
                let place = (index as u64) << 32 | at as u64;
                let Some(taken) =
                    places.get_mut(usize::try_from(number - begin).unwrap_or(usize::MAX))
                else {
                    return;
                };
                if *taken == NONE {
                    *taken = place;
                    return;
                }
                let (other, other_at) = (index_of(*taken), at_of(*taken));
                let first = before.get(other).unwrap_or(cursor).slot(other_at);
                copies.note(number, first, cursor.slot(at));
            });
        }
    }

    fn sort(&mut self, end: u64) {
        let mut sparse = mem::take(&mut self.sparse);
        sparse.clear();
        for (index, cursor) in self.open.iter_mut().enumerate() {
            cursor.each_below(end, |_, at, number| {
                sparse.push((number, (index as u64) << 32 | at as u64));
            });
        }
        sparse.sort_unstable();
        let copies = &mut self.copies;
        sparse.dedup_by(|later, first| {
            let is_copy = later.0 == first.0;
            if is_copy {
                let slot = |place: u64| self.open[index_of(place)].slot(at_of(place));
                copies.note(first.0, slot(first.1), slot(later.1));
            }
            is_copy
        });
        self.sparse = sparse;
    }
}

/// Joins places, of which some are none, to spans.
fn join(spans: &mut Vec<Span>, places: impl Iterator<Item = u64>) {
    for place in places.filter(|place| *place != NONE) {
        let (cursor, at) = (index_of(place), at_of(place));
        match spans.last_mut() {
            Some(last) if last.cursor == cursor && last.at.end == at => last.at.end += 1,
            _ => spans.push(Span {
                cursor,
                at: at..at + 1,
            }),
        }
    }
}

fn index_of(place: u64) -> usize {
    (place >> 32) as usize
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the two halves are what was put together"
)]
fn at_of(place: u64) -> usize {
    place as u32 as usize
}

/// Whether two copies differ in any byte but the time.
pub(crate) fn differ(one: &Slot, other: &Slot) -> bool {
    one[..2] != other[..2] || one[4..] != other[4..]
}

#[cfg(test)]
mod tests {
    use super::{Event, Order, WINDOW};
    use crate::tests::made::{ALLOCATED, Made, record};
    use crate::trace::Trace;
    use crate::trace::source::{Holder, Place, Source};
    use proptest::prelude::proptest;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    /// A source of records with these numbers; what they hold tells where they stand.
    fn source(offset: u64, numbers: &[u64]) -> Source {
        let slots = (0..).zip(numbers).map(|(at, number)| {
            let ptr = 0x1000 + offset * 1000 + at;
            record(ALLOCATED, 0, *number, [ptr, 1, 2, 3])
        });
        let slots: Vec<_> = slots.collect();
        Source::survey(Place {
            block: Arc::new(slots.concat()),
            at: 0,
            slots: u32::try_from(slots.len()).unwrap(),
            reference: numbers.first().copied().unwrap_or(1),
            clock: 7,
            tid: 9,
            is_mixed: false,
            is_late: false,
            frame: (0, offset),
            holder: Holder::Frame,
            lane: 0,
            is_newer: false,
        })
    }

    fn events(order: &mut Order) -> Vec<Event> {
        let mut events = Vec::new();
        while order.is_due() && order.window(u64::MAX, |event| events.push(event.event())) {}
        events
    }

    /// Number and address of each record, the first in place of each number, in order of numbers.
    fn naive(runs: &[Vec<u64>]) -> Vec<(u64, u64)> {
        let mut first = BTreeMap::new();
        for (offset, numbers) in (0u64..).zip(runs) {
            for (at, number) in (0..).zip(numbers) {
                let ptr = 0x1000 + offset * 1000 + at;
                first.entry(*number).or_insert(ptr);
            }
        }
        first.into_iter().collect()
    }

    proptest! {
        #[test]
        fn events_come_by_number_and_of_copies_the_first(
            runs in proptest::collection::vec(proptest::collection::vec(1u64..4000, 0..60), 0..120),
            spread in 1u64..200,
        ) {
            let runs: Vec<Vec<u64>> = runs
                .into_iter()
                .map(|run| run.into_iter().map(|it| it * spread).collect())
                .collect();
            let mut order = Order::default();
            for (offset, run) in (0..).zip(&runs).filter(|(_, run)| !run.is_empty()) {
                order.feed(vec![source(offset, run)]);
            }
            order.end();
            let found: Vec<_> = events(&mut order)
                .iter()
                .map(|event| (event.number, event.record.ptr))
                .collect();
            assert_eq!(found, naive(&runs));
            assert_eq!(order.late, 0);
        }
    }

    proptest! {
        #[test]
        fn sources_that_follow_one_another_need_no_laying_out(
            lengths in proptest::collection::vec(1usize..50, 1..40),
            gap in 1u64..700,
            moved in 0usize..40,
            (twice, back) in (0usize..40, 0u64..3),
        ) {
            let mut next = 1;
            let mut runs = Vec::new();
            for length in lengths {
                let run: Vec<u64> = (0..length as u64).map(|it| next + it * gap).collect();
                next = run[length - 1] + gap;
                runs.push(run);
            }
            let first = moved % runs.len();
            runs.rotate_left(first);
            let with_copy = twice % runs.len();
            let copy = runs[with_copy][0].saturating_sub(back).max(1);
            runs[with_copy].insert(0, copy);
            let mut order = Order::default();
            for (offset, run) in (0..).zip(&runs) {
                order.feed(vec![source(offset, run)]);
            }
            order.end();
            let found: Vec<_> = events(&mut order)
                .iter()
                .map(|event| (event.number, event.record.ptr))
                .collect();
            assert_eq!(found, naive(&runs));
            let missing: u64 = order.gaps.iter().map(|(begin, end)| end - begin).sum();
            assert_eq!(missing, order.next - found[0].0 - found.len() as u64);
        }
    }

    #[test]
    fn a_window_that_came_whole_need_not_wait() {
        let mut order = Order::default();
        order.expect(Some(1));
        let odd: Vec<u64> = (1..3 * WINDOW).step_by(2).collect();
        order.feed(vec![source(0, &odd)]);
        assert!(order.may_be_whole() && !order.is_whole());
        // Copies do not make up for what is missing.
        order.feed(vec![source(1, &odd)]);
        assert!(!order.is_whole());
        let even: Vec<u64> = (2..3 * WINDOW).step_by(2).collect();
        order.feed(vec![source(2, &even)]);
        assert!(order.is_whole() && !order.is_due());
        let mut numbers = Vec::new();
        while order.may_be_whole() && order.is_whole() {
            assert!(order.window(u64::MAX, |event| numbers.push(event.number)));
        }
        assert!(numbers.into_iter().eq(1..2 * WINDOW + 1));
    }

    #[test]
    fn a_window_is_not_whole_before_the_first_number_is_known() {
        let mut order = Order::default();
        let dense: Vec<u64> = (5..3 * WINDOW).collect();
        order.feed(vec![source(0, &dense)]);
        assert!(!order.may_be_whole() && order.has_beginning());
        order.expect(Some(2));
        assert!(!order.is_whole());
        order.expect(Some(5));
        assert!(order.may_be_whole() && order.is_whole());
    }

    #[test]
    fn of_a_trace_without_gaps_little_is_held() {
        let mut made = Made::new(0xA0);
        for _ in 0..1 << 16 {
            made.malloc(0x1000, 8, 0x10).free(0x1000, 0x10);
        }
        let mut trace = Trace::of_bytes([made.bytes()]).unwrap();
        let mut supply = trace.alone().unwrap();
        let mut order = Order::default();
        order.expect(Some(1));
        let (mut most, mut count) = (0, 0);
        while order.fill(&mut trace, &mut supply).unwrap() {
            most = most.max(order.held);
            if !order.window(u64::MAX, |_| count += 1) {
                break;
            }
        }
        assert!(count > 1 << 17, "{count}");
        assert!(most < 6 * WINDOW, "{most}");
    }

    #[test]
    fn a_window_waits_for_what_may_still_come() {
        let mut order = Order::default();
        let dense: Vec<u64> = (1..=3 * WINDOW).filter(|it| it % 2 == 0).collect();
        order.feed(vec![source(1, &dense)]);
        assert!(!order.is_due());
        let rest: Vec<u64> = (1..=3 * WINDOW).filter(|it| it % 2 == 1).collect();
        order.feed(vec![source(0, &rest)]);
        order.end();
        let numbers: Vec<_> = events(&mut order).iter().map(|it| it.number).collect();
        assert!(numbers.into_iter().eq(1..=3 * WINDOW));
        assert_eq!(order.held, 0);
    }

    #[test]
    fn what_comes_late_brings_no_copy_of_what_was_given_out() {
        let mut order = Order::default();
        let far = 1 << 20;
        order.feed(vec![source(0, &[1, 3, 4, 5, far])]);
        assert_eq!(events(&mut order).len(), 4);
        order.feed(vec![source(1, &[2])]);
        assert_eq!(events(&mut order).len(), 1);
        order.feed(vec![source(2, &[4, far + 1])]);
        order.end();
        let numbers: Vec<_> = events(&mut order).iter().map(|it| it.number).collect();
        assert_eq!(numbers, [far, far + 1]);
        assert_eq!(order.late, 1);
    }

    #[test]
    fn numbers_below_the_one_that_is_said_to_be_the_first_count() {
        for (first, missing) in [(None, 0), (Some(100), 0), (Some(1), 3)] {
            let mut order = Order::default();
            order.expect(first);
            order.feed(vec![source(0, &[4, 5, 6])]);
            order.end();
            let numbers: Vec<_> = events(&mut order).iter().map(|it| it.number).collect();
            assert_eq!(numbers, [4, 5, 6], "{first:?}");
            let before = order.gaps.range(..4).map(|(begin, end)| end - begin);
            assert_eq!(before.sum::<u64>(), missing, "{first:?}");
        }
    }

    #[test]
    fn lanes_of_one_frame_that_begin_with_one_number_are_all_read() {
        let mut order = Order::default();
        let mut lanes = [source(0, &[1, 2]), source(0, &[1, 3])];
        for (index, lane) in (0..).zip(&mut lanes) {
            (lane.place.holder, lane.place.lane) = (Holder::Lane, index);
        }
        order.feed(lanes.into());
        order.end();
        let numbers: Vec<_> = events(&mut order).iter().map(|it| it.number).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert_eq!(order.held, 0);
    }

    #[test]
    fn what_was_missing_comes_late_once() {
        let mut order = Order::default();
        let far = 1 << 20;
        order.feed(vec![source(0, &[1, 2, 5, far])]);
        assert_eq!(events(&mut order).len(), 3);
        order.feed(vec![source(1, &[2, 3, 4]), source(2, &[4, far + 1])]);
        order.end();
        let numbers: Vec<_> = events(&mut order).iter().map(|it| it.number).collect();
        assert_eq!(numbers, [3, 4, far, far + 1]);
        assert_eq!(order.late, 2);
    }
}
