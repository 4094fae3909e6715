//! Counts by powers of two.

/// How many values were noted: those that are 0, those from 1 on, from 2 on, from 4 on and so forth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Histogram([u64; 65]);

impl Default for Histogram {
    fn default() -> Self {
        Self([0; 65])
    }
}

impl Histogram {
    #[inline]
    pub(crate) fn note(&mut self, value: u64) {
        self.0[class(value)] += 1;
    }

    /// Notes a value from `least` to `most`; `false` where these are of different classes.
    pub(crate) fn note_between(&mut self, least: u64, most: u64) -> bool {
        let is_known = class(least) == class(most);
        self.0[class(least)] += u64::from(is_known);
        is_known
    }

    pub(crate) fn absorb(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    /// The lowest value of each class that has any, and how many there are.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let lowest = std::iter::once(0).chain((0..64).map(|bit| 1 << bit));
        lowest.zip(self.0).filter(|(_, count)| *count > 0)
    }
}

fn class(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use super::Histogram;

    #[test]
    fn a_value_between_two_is_noted_where_both_are_of_one_class() {
        let mut histogram = Histogram::default();
        assert!(histogram.note_between(4, 7) && histogram.note_between(0, 0));
        assert!(!histogram.note_between(3, 4) && !histogram.note_between(0, u64::MAX));
        assert_eq!(histogram.classes().collect::<Vec<_>>(), [(0, 1), (4, 1)]);
    }

    #[test]
    fn classes_begin_at_powers_of_two() {
        let mut histogram = Histogram::default();
        for value in [0, 1, 2, 3, 4, 7, 8, u64::MAX] {
            histogram.note(value);
        }
        let mut twice = histogram;
        twice.absorb(&histogram);
        let classes: Vec<_> = twice.classes().collect();
        assert_eq!(
            classes,
            [(0, 2), (1, 2), (2, 4), (4, 4), (8, 2), (1 << 63, 2)]
        );
    }
}
