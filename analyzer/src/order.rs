//! Puts the records of one stream in the order of their numbers: that is the order of events (SPEC.md 10.2).
//!
//! Sources overlap, since threads fill lanes at their own pace, so this is a merge. Of copies the first in place
//! is taken. Holds no more than the sources that overlap at one moment.

use crate::trace::source::Slots;
use crate::trace::{Head, Source, Stream, Trace};
use heapwire_format::{Op, Record};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A record with what its place says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Full number.
    pub(crate) number: u64,
    /// Nanoseconds of the traced machine's clock.
    pub(crate) clock: u64,
    /// Kernel tid; 0 = unknown.
    pub(crate) tid: u32,
    pub(crate) record: Record,
}

/// The records of one stream, given out in batches.
pub(crate) struct Merge<'t> {
    trace: &'t Trace,
    /// Sources not yet begun, in order of their lowest number.
    waiting: std::slice::Iter<'t, Source>,
    /// Sources begun and not yet at their end; free places are `None`.
    cursors: Vec<Option<Cursor<'t>>>,
    free: Vec<usize>,
    heads: BinaryHeap<Reverse<Next>>,
    last: Option<(u64, &'t [u8; Record::SIZE])>,
    /// Copies that differ from the record that was taken.
    pub(crate) differing_copies: u64,
}

/// The next record of a cursor. Of equal numbers the first in place comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Next {
    number: u64,
    /// Input and offset of the source.
    place: (u32, usize),
    cursor: usize,
}

impl<'t> Merge<'t> {
    pub(crate) fn new(trace: &'t Trace, stream: &'t Stream) -> Self {
        Self {
            trace,
            waiting: stream.sources.iter(),
            cursors: Vec::new(),
            free: Vec::new(),
            heads: BinaryHeap::new(),
            last: None,
            differing_copies: 0,
        }
    }

    /// Appends up to `most` further events to `batch`; nothing is left once it appends none.
    pub(crate) fn fill(&mut self, batch: &mut Vec<Event>, most: usize) {
        let full = batch.len().saturating_add(most);
        while batch.len() < full {
            self.begin_due();
            let Some(Reverse(next)) = self.heads.pop() else {
                return;
            };
            let limit = self.next_elsewhere();
            let Some(mut cursor) = self.cursors[next.cursor].take() else {
                continue;
            };
            while batch.len() < full {
                self.take(&cursor, batch);
                cursor.advance();
                if cursor.number.is_none_or(|number| number >= limit) {
                    break;
                }
            }
            match cursor.number {
                Some(number) => {
                    self.heads.push(Reverse(Next { number, ..next }));
                    self.cursors[next.cursor] = Some(cursor);
                }
                None => self.free.push(next.cursor),
            }
        }
    }

    /// Begins every source that may hold the next number.
    fn begin_due(&mut self) {
        while let Some(source) = self.waiting.as_slice().first() {
            let is_due = self
                .heads
                .peek()
                .is_none_or(|Reverse(next)| source.lowest <= next.number);
            if !is_due {
                return;
            }
            self.waiting.next();
            let cursor = Cursor::new(source, self.trace);
            let Some(number) = cursor.number else {
                continue;
            };
            let free = self.free.pop().unwrap_or_else(|| {
                self.cursors.push(None);
                self.cursors.len() - 1
            });
            self.cursors[free] = Some(cursor);
            self.heads.push(Reverse(Next {
                number,
                place: (source.place.input, source.place.offset),
                cursor: free,
            }));
        }
    }

    /// The lowest number that may be in another source than the one just popped.
    fn next_elsewhere(&self) -> u64 {
        let head = self.heads.peek().map(|Reverse(next)| next.number);
        let waiting = self.waiting.as_slice().first().map(|source| source.lowest);
        head.into_iter().chain(waiting).min().unwrap_or(u64::MAX)
    }

    fn take(&mut self, cursor: &Cursor<'t>, batch: &mut Vec<Event>) {
        let Some(number) = cursor.number else {
            return;
        };
        let slot = cursor.slot();
        if let Some((last, taken)) = self.last
            && last == number
        {
            self.differing_copies += u64::from(differ(taken, slot));
            return;
        }
        self.last = Some((number, slot));
        let record = Record::decode(slot);
        batch.push(Event {
            number,
            clock: cursor.clock(&record),
            tid: cursor.tid(),
            record,
        });
    }
}

/// Whether two copies differ in any byte but the time.
fn differ(one: &[u8; Record::SIZE], other: &[u8; Record::SIZE]) -> bool {
    one[..2] != other[..2] || one[4..] != other[4..]
}

/// A place in a source.
struct Cursor<'t> {
    slots: Slots<'t>,
    source: Source,
    /// For a source whose numbers do not rise, or that threads share: number, slot and tid in the order of numbers.
    sorted: Option<Vec<(u64, u32, u32)>>,
    at: usize,
    /// The number at `at`; `None` at the end.
    number: Option<u64>,
}

impl<'t> Cursor<'t> {
    fn new(source: &Source, trace: &'t Trace) -> Self {
        let slots = source.slots(trace);
        let is_plain = source.is_rising && !source.place.is_mixed;
        let sorted = (!is_plain).then(|| in_order(source, slots));
        let mut cursor = Self {
            slots,
            source: *source,
            sorted,
            at: 0,
            number: None,
        };
        cursor.settle();
        cursor
    }

    fn advance(&mut self) {
        self.at += 1;
        self.settle();
    }

    /// Moves on to the next record from `at` on.
    fn settle(&mut self) {
        if let Some(sorted) = &self.sorted {
            self.number = sorted.get(self.at).map(|(number, ..)| *number);
            return;
        }
        while self.at < self.slots.len() {
            self.number = self.source.number(self.slots, self.at);
            if self.number.is_some() {
                return;
            }
            self.at += 1;
        }
        self.number = None;
    }

    fn slot(&self) -> &'t [u8; Record::SIZE] {
        match &self.sorted {
            Some(sorted) => &self.slots[sorted[self.at].1 as usize],
            None => &self.slots[self.at],
        }
    }

    fn tid(&self) -> u32 {
        match &self.sorted {
            Some(sorted) => sorted[self.at].2,
            None => self.source.place.tid,
        }
    }

    fn clock(&self, record: &Record) -> u64 {
        let since = u64::from(record.time) * 1_000_000;
        self.source.place.clock.saturating_add(since)
    }
}

/// Number, slot and tid of each record, in the order of numbers; equal ones in order of place.
fn in_order(source: &Source, slots: Slots<'_>) -> Vec<(u64, u32, u32)> {
    let mut tid = source.place.tid;
    let mut sorted = Vec::with_capacity(source.records as usize);
    for ((index, at), slot) in (0u32..).zip(0..).zip(slots) {
        let Some(number) = source.number(slots, at) else {
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
