//! Which numbers of a window came.

use super::WINDOW;
use super::cursor::Cursor;
use crate::trace::Source;
use std::ops::Range;

const BITS: u64 = u64::BITS as u64;

/// A bit for each number of a window.
#[derive(Default)]
pub(super) struct Cover {
    begin: u64,
    bits: Vec<u64>,
}

impl Cover {
    /// None of the numbers from `begin` on.
    pub(super) fn clear(&mut self, begin: u64) {
        self.begin = begin;
        self.bits.clear();
        self.bits.resize((WINDOW / BITS) as usize, 0);
    }

    /// Whether all are there.
    pub(super) fn is_whole(&self) -> bool {
        self.bits.iter().all(|word| *word == u64::MAX)
    }

    /// Adds what is left at a place in a source.
    pub(super) fn add_left(&mut self, cursor: &Cursor) {
        match (&cursor.sorted, cursor.number) {
            (_, None) => {}
            (Some(sorted), _) => {
                let left = sorted.get(cursor.at..).unwrap_or_default();
                let numbers = left.iter().map(|(number, ..)| *number);
                self.add_rising(numbers);
            }
            (None, Some(next)) => self.add_from(&cursor.source, cursor.at, next),
        }
    }

    /// Adds all of a source.
    pub(super) fn add(&mut self, source: &Source) {
        self.add_from(source, 0, source.lowest);
    }

    /// Adds the records of a source from a slot on, whose lowest number is `next`.
    fn add_from(&mut self, source: &Source, slot: usize, next: u64) {
        if source.is_dense() {
            self.add_range(next..source.highest.saturating_add(1));
            return;
        }
        let slots = slot..source.place.slots as usize;
        let numbers = slots.filter_map(|at| source.number(at));
        if source.is_rising {
            self.add_rising(numbers);
        } else {
            numbers.for_each(|number| self.add_number(number));
        }
    }

    fn add_rising(&mut self, numbers: impl Iterator<Item = u64>) {
        let end = self.begin.saturating_add(WINDOW);
        let in_window = numbers.take_while(|number| *number < end);
        in_window.for_each(|number| self.add_number(number));
    }

    #[inline]
    fn add_number(&mut self, number: u64) {
        let at = number.wrapping_sub(self.begin); // far beyond for one that is below
        let word = usize::try_from(at / BITS).unwrap_or(usize::MAX);
        if let Some(word) = self.bits.get_mut(word) {
            *word |= 1 << (at % BITS);
        }
    }

    fn add_range(&mut self, numbers: Range<u64>) {
        let from = numbers.start.saturating_sub(self.begin);
        let to = numbers.end.saturating_sub(self.begin).min(WINDOW);
        let mut at = from;
        while at < to {
            let bit = at % BITS;
            let length = (to - at).min(BITS - bit);
            if let Some(word) = self.bits.get_mut((at / BITS) as usize) {
                *word |= u64::MAX >> (BITS - length) << bit;
            }
            at += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cover, WINDOW};
    use proptest::prelude::proptest;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn ranges_are_their_numbers(
            begin in 1u64..1000,
            ranges in proptest::collection::vec((0u64..WINDOW + 2000, 0u64..WINDOW), 0..9),
        ) {
            let mut cover = Cover::default();
            cover.clear(begin);
            let mut numbers = BTreeSet::new();
            for (from, length) in ranges {
                cover.add_range(from..from + length);
                numbers.extend(from..from + length);
            }
            let in_window = begin..begin + WINDOW;
            for number in in_window.clone() {
                let at = number - begin;
                let is_there = cover.bits[(at / 64) as usize] >> (at % 64) & 1 == 1;
                assert_eq!(is_there, numbers.contains(&number), "{number}");
            }
            assert_eq!(cover.is_whole(), in_window.clone().all(|it| numbers.contains(&it)));
            for number in in_window {
                cover.add_number(number);
            }
            assert!(cover.is_whole());
        }
    }
}
