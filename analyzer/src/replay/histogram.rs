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
        self.0[(u64::BITS - value.leading_zeros()) as usize] += 1;
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

#[cfg(test)]
mod tests {
    use super::Histogram;

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
