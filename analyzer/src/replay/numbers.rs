//! Which numbers of a stream no record carries (SPEC.md 10.4).

/// What of the numbers is missing so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// The number to come; `None` where the stream's first number is not known.
    next: Option<u64>,
    /// Numbers missing so far.
    pub(crate) missing: u64,
    /// The number after the last doubt: what lies before it may not be the whole story.
    pub(crate) doubted_to: Option<u64>,
}

impl Numbers {
    /// Numbers that begin with `first`.
    pub(crate) fn from(first: Option<u64>) -> Self {
        Self {
            next: first,
            missing: 0,
            doubted_to: None,
        }
    }

    /// The numbers of a child that goes on with those of its parent.
    pub(crate) fn of_child(parent: Self, first: u64) -> Self {
        Self {
            next: Some(first),
            missing: 0,
            doubted_to: parent.doubted_to,
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

    /// Takes note that all numbers below `taken` were taken by something.
    pub(crate) fn note_taken(&mut self, taken: u64) {
        if self.next.is_some_and(|next| next < taken) {
            self.skip_to(taken);
            self.next = Some(taken);
        }
    }

    fn skip_to(&mut self, number: u64) {
        let skipped = number - self.next.unwrap_or(number).min(number);
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
    fn an_unknown_beginning_misses_nothing() {
        let mut numbers = Numbers::from(None);
        numbers.note(100);
        assert_eq!(numbers.doubted_to, None);
    }
}
