//! Which numbers of a stream no record carries (SPEC.md 10.4).

use crate::event::Event;
use heapwire_format::Op;

/// What of the numbers is missing so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// The number to come; `None` where the stream's first number is not known.
    next: Option<u64>,
    /// Numbers missing so far.
    pub(crate) missing: u64,
    /// The number after the last doubt: what lies before it may not be the whole story.
    pub(crate) doubted_to: Option<u64>,
    /// Numbers below this one that no record carries were left out on purpose.
    culled_to: u64,
    /// Records that were left out so, of those that are known where they were.
    culled: u64,
}

impl Numbers {
    /// Numbers that begin with `first`.
    pub(crate) fn from(first: Option<u64>) -> Self {
        Self {
            next: first,
            missing: 0,
            doubted_to: None,
            culled_to: 0,
            culled: 0,
        }
    }

    /// The numbers of a child that goes on with those of its parent.
    pub(crate) fn of_child(parent: Self, first: u64) -> Self {
        Self {
            next: Some(first),
            missing: 0,
            doubted_to: parent.doubted_to,
            culled_to: 0,
            culled: 0,
        }
    }

    /// Takes note of a record's number; they come in order, but for those that come late.
    #[inline]
    pub(crate) fn note(&mut self, number: u64) {
        if self.next == Some(number) {
            self.next = number.checked_add(1).or(self.next);
            return;
        }
        if self
            .next
            .is_some_and(|next| number.saturating_add(1) < next)
        {
            self.missing = self.missing.saturating_sub(1);
        }
        if self.next.is_some_and(|next| next < number) {
            self.skip_to(number);
        }
        self.next = self.next.max(Some(number.saturating_add(1)));
    }

    /// Takes note of an event.
    pub(crate) fn see(&mut self, event: &Event) {
        let record = &event.record;
        if record.op == Op::CULLED {
            self.cull(event.number, record.base, record.ptr);
        }
        self.note(event.number);
    }

    /// Takes note that all numbers below `taken` were taken by something.
    pub(crate) fn note_taken(&mut self, taken: u64) {
        if self.next.is_some_and(|next| next < taken) {
            self.skip_to(taken);
            self.next = Some(taken);
        }
    }

    /// Takes note that of the numbers from `number` on, `reach` of them, those that no record carries were left out on purpose, with
    /// `pairs` of which this record has one number.
    pub(crate) fn cull(&mut self, number: u64, reach: u64, pairs: u64) {
        self.culled_to = self.culled_to.max(number.saturating_add(reach));
        let records = pairs.saturating_mul(2).saturating_sub(1);
        self.culled = self.culled.saturating_add(records);
    }

    /// Takes note that `culled` records in all were left out on purpose. Gives how many of them nothing else told of: their numbers are
    /// not missing.
    pub(crate) fn note_culled(&mut self, culled: u64) -> u64 {
        let unseen = culled.saturating_sub(self.culled).min(self.missing);
        self.missing -= unseen;
        unseen
    }

    fn skip_to(&mut self, number: u64) {
        let from = self.next.unwrap_or(number).max(self.culled_to);
        let skipped = number.saturating_sub(from);
        if skipped == 0 {
            return;
        }
        self.missing = self.missing.saturating_add(skipped);
        self.doubt(number);
    }

    /// Events may be unseen before `number` though none is missing.
    pub(crate) fn doubt(&mut self, number: u64) {
        self.doubted_to = Some(number);
    }
}

#[cfg(test)]
mod tests {
    use super::Numbers;

    #[test]
    fn what_is_missing_is_counted_without_walking_it() {
        let mut numbers = Numbers::from(Some(1));
        numbers.note(1);
        numbers.note(2);
        assert_eq!(numbers.doubted_to, None);
        numbers.note(5);
        assert_eq!(numbers.missing, 2);
        assert_eq!(numbers.doubted_to, Some(5));
        numbers.note(3); // late
        assert_eq!(numbers.missing, 1);
        numbers.note(1 << 60);
        assert_eq!(numbers.missing, (1 << 60) - 5);
        numbers.note_taken(u64::MAX);
        numbers.note(u64::MAX);
        assert_eq!(numbers.missing, u64::MAX - 6);
    }

    #[test]
    fn what_was_left_out_on_purpose_is_not_missing() {
        let mut numbers = Numbers::from(Some(1));
        numbers.note(1);
        numbers.cull(1, 10, 4);
        numbers.note(6);
        numbers.note_taken(11);
        assert_eq!((numbers.missing, numbers.doubted_to), (0, None));
        numbers.note(13);
        assert_eq!((numbers.missing, numbers.doubted_to), (2, Some(13)));
    }

    #[test]
    fn a_gap_that_goes_on_behind_what_was_left_out_is_one() {
        let mut numbers = Numbers::from(Some(1));
        numbers.note(1);
        numbers.cull(1, 10, 4);
        numbers.note(15);
        assert_eq!((numbers.missing, numbers.doubted_to), (4, Some(15)));
    }

    #[test]
    fn what_was_left_out_of_frames_that_are_lost_is_not_missing() {
        let mut numbers = Numbers::from(Some(1));
        numbers.note(1);
        numbers.cull(1, 10, 4);
        numbers.note(31);
        assert_eq!((numbers.missing, numbers.note_culled(19)), (20, 12));
        assert_eq!((numbers.missing, numbers.doubted_to), (8, Some(31)));
        assert_eq!(numbers.note_culled(70), 8);
    }

    #[test]
    fn an_unknown_beginning_misses_nothing() {
        let mut numbers = Numbers::from(None);
        numbers.note(100);
        assert_eq!(numbers.doubted_to, None);
    }
}
