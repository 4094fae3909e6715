//! Puts the records of one stream in the order of their numbers: that is the order of events (SPEC.md 10.2).
//!
//! Sources overlap, since threads fill lanes at their own pace. Numbers are dense, so a window of them is put in order by
//! laying each record where its number says, unless sources follow one another. Of copies the first in place is taken. A window is given out once
//! all of it came, or the numbers seen are so far beyond it that none of it is to come, so what is held at one moment is bounded.

mod cover;
mod cursor;
mod gaps;
#[cfg(test)]
mod tests;

use crate::event::{Event, RawEvent};
use crate::replay::Numbers;
use crate::trace::source::{Holder, Slot};
use crate::trace::{Block, Source, Supplied, Supply, Trace, TraceError};
use cover::Cover;
use cursor::Cursor;
use gaps::{has_gap, note_gap, take_number};
use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;

/// Numbers that are put in order at once.
pub(crate) const WINDOW: u64 = 1 << 14;

/// A record is in the trace before one whose number is so much higher. Half as many more slots are held back at most.
const PATIENCE: u64 = 1 << 19;

/// After so many numbers an input that can be read again is, rather than held back.
const PATIENCE_WITH_FILES: u64 = 1 << 18;

/// The same where all copies are looked at, and what is held back can be read again.
const HELD_OF_COPIES: u64 = 1 << 17;

/// Sources that are waited with at most, where a number is missing. Their slots need not be in memory.
const WAITING: usize = 1 << 17;

/// A window with fewer records than this part of it is sorted.
const SPARSE: u64 = 16;

const NONE: u64 = u64::MAX;

/// How far the numbers of a trace may go on before a window is due.
pub(crate) fn patience(trace: &Trace) -> u64 {
    match trace.can_be_read_again() {
        true => PATIENCE_WITH_FILES,
        false => PATIENCE,
    }
}

/// Gives `each` the events of an indexed stream, one by one, until it fails. Gives how many numbers are missing, at least.
pub(crate) fn walk<E: From<TraceError>>(
    trace: &mut Trace,
    stream: usize,
    mut each: impl FnMut(&Event) -> Result<(), E>,
) -> Result<u64, E> {
    trace.held_for_copies = u64::MAX;
    let mut supply = trace.supply(stream);
    let mut order = Order::default();
    order.expect(trace.streams[stream].first);
    let mut numbers = Numbers::from(trace.streams[stream].first);
    let mut goes_on = true;
    while goes_on {
        while !order.fill(trace, &mut supply)? {}
        let mut result = Ok(());
        goes_on = order.window(u64::MAX, |event| {
            if result.is_ok() {
                let event = event.event();
                numbers.see(&event);
                result = each(&event);
            }
        });
        result?;
    }
    let claimed = &trace.streams[stream];
    numbers.note_taken(claimed.taken);
    numbers.note_culled(claimed.culled.into());
    Ok(numbers.missing)
}

/// The numbers of an indexed stream of which there are copies that differ, each with the record that is taken.
pub(crate) fn contested(
    trace: &mut Trace,
    stream: usize,
) -> Result<BTreeMap<u64, Slot>, TraceError> {
    trace.held_for_copies = u64::MAX;
    let mut supply = trace.supply(stream);
    let mut order = Order::default();
    order.expect(trace.streams[stream].first);
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
    /// Copies that came then, and were compared with nothing.
    pub(crate) late_copies: u64,
}

impl Order {
    /// Adds sources, in order of place.
    pub(crate) fn feed(&mut self, sources: Vec<Source>) {
        for source in sources {
            // Lanes lie before what was written while they were filled.
            if source.place.holder == Holder::Frame {
                self.highest = self.highest.max(source.highest);
            }
            let lowest = self.lowest.get_or_insert(source.lowest);
            *lowest = source.lowest.min(*lowest);
            if source.highest < self.next && !has_gap(&self.gaps, source.lowest, source.highest) {
                self.late_copies += u64::from(source.records);
                continue;
            }
            self.held += u64::from(source.place.slots);
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
            if self.has_late() {
                self.wake(self.next, |it| trace.read_again(it))?;
                return Ok(true);
            }
            let is_due = self.is_due(patience(trace));
            if is_due || self.may_be_whole(trace.held_for_copies) {
                let begin = self.begin().unwrap_or(0).max(self.expected());
                self.wake(begin.saturating_add(WINDOW), |it| trace.read_again(it))?;
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
            let holds_copies = trace.held_for_copies == u64::MAX && self.held >= HELD_OF_COPIES;
            if holds_copies || self.highest < self.waits_to {
                self.rest(|it| trace.can_read_again(it));
            }
        }
    }

    /// Whether it is time to give out a window.
    pub(crate) fn is_due(&self, patience: u64) -> bool {
        self.has_ended || self.has_late() || self.held >= patience + patience / 2 || {
            let begin = self.begin().unwrap_or(u64::MAX);
            let due = begin.saturating_add(WINDOW + patience);
            due.max(self.waits_to) <= self.highest
        }
    }

    /// Whether records came whose window was given out.
    fn has_late(&self) -> bool {
        let first = self.waiting.first_key_value();
        first.is_some_and(|(key, _)| key.0 < self.next)
    }

    /// Whether a window from the lowest number on came whole, before any was given out.
    pub(crate) fn has_beginning(&mut self) -> bool {
        let lowest = self.lowest.unwrap_or(u64::MAX);
        lowest.saturating_add(WINDOW) <= self.highest && self.is_whole()
    }

    /// Whether all numbers of the next window may have come, and `held` more, so that only far copies are not waited for. Where a
    /// number was found to be missing, what lies between is not looked at again before its time.
    fn may_be_whole(&self, held: u64) -> bool {
        let next = self.expected();
        let end = next.saturating_add(WINDOW).saturating_add(held);
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

    /// Has the slots of numbers below `end` again that were let go, as `read_again` gives them.
    fn wake<E>(
        &mut self,
        end: u64,
        read_again: impl Fn(&Source) -> Result<Source, E>,
    ) -> Result<(), E> {
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
        self.spans.clear();
        if self.has_late() {
            self.take_late();
            return Some((self.next, self.next));
        }
        let begin = begin.max(self.next);
        let end = begin.saturating_add(WINDOW).min(limit).max(begin);
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

    /// Has what came late given out, as much of it as there is in a window.
    fn take_late(&mut self) {
        let mut late = Vec::new();
        let mut slots = 0;
        while let Some(entry) = self.waiting.first_entry()
            && entry.key().0 < self.next
            && slots < WINDOW
        {
            let mut cursor = Cursor::new(entry.remove());
            slots += u64::from(cursor.source.place.slots);
            while let Some(number) = cursor.number
                && number < self.next
            {
                if take_number(&mut self.gaps, number) {
                    late.push((number, cursor.place(), cursor.at));
                } else {
                    self.late_copies += 1;
                }
                cursor.advance();
            }
            self.open(cursor);
        }
        self.late += late.len() as u64;
        late.sort_unstable();
        for (_, place, at) in late {
            let cursor = self.open.partition_point(|other| other.place() < place);
            self.spans.push(Span {
                cursor,
                at: at..at + 1,
            });
        }
    }

    /// Begins every source that holds a number below `end`.
    fn begin_below(&mut self, end: u64) {
        while let Some(entry) = self.waiting.first_entry()
            && entry.key().0 < end
        {
            let cursor = Cursor::new(entry.remove());
            self.open(cursor);
        }
    }

    fn open(&mut self, cursor: Cursor) {
        let place = cursor.place();
        let at = self.open.partition_point(|other| other.place() < place);
        self.open.insert(at, cursor);
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
