//! Stretches of time in which it is not known when calls were made, as busy threads had paused and not read the clock again.

use crate::time;

/// Stretches that are kept; later ones are joined to the last.
const MOST: usize = 1 << 16;

/// What the times of a process image's events leave open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pauses {
    /// Clocks between which calls were made that may have been made at any time between.
    pub(crate) stretches: Vec<(u64, u64)>,
    /// Events since a time was known last, of which a lower bound is known.
    pub(crate) open: u64,
    /// The lowest clock that these can have.
    since: u64,
    /// The highest of those that are known: what comes in the order of numbers was made later.
    known: u64,
}

impl Pauses {
    /// Takes note of the next event's time. Whatever was before it was made before it.
    #[inline]
    pub(crate) fn see(&mut self, clock: u64) {
        if time::is_lower_bound(clock) {
            if self.open == 0 {
                self.since = clock.max(self.known);
            }
            self.open += 1;
            return;
        }
        self.known = self.known.max(clock);
        if self.open > 0 {
            self.end();
        }
    }

    fn end(&mut self) {
        self.open = 0;
        if time::since(self.since, self.known) <= time::SHORT {
            return;
        }
        let stretch = (time::earliest(self.since), self.known);
        let is_full = self.stretches.len() >= MOST;
        match self.stretches.last_mut() {
            Some(last) if stretch.0 <= last.1 || is_full => {
                last.1 = self.known;
            }
            _ => self.stretches.push(stretch),
        }
    }

    /// Of so many steps from `begin` on those that calls of others may belong to; `end` is when the process was seen to end.
    pub(crate) fn steps(&self, begin: u64, step: u64, number: u64, end: Option<u64>) -> Vec<u64> {
        let last = (self.since, end.unwrap_or(u64::MAX));
        let is_open = self.open > 0 && time::since(last.0, last.1) > time::SHORT;
        let step_of = |clock| time::since(begin, clock) / step.max(1);
        let mut steps = Vec::new();
        for (from, to) in self.stretches.iter().chain(is_open.then_some(&last)) {
            let (first, last) = (step_of(*from), step_of(*to));
            if first < last {
                let next = steps.last().map_or(0, |last| last + 1);
                steps.extend(first.max(next)..last.saturating_add(1).min(number));
            }
        }
        steps
    }

    /// Stops before an event that is not seen.
    pub(crate) fn stop(&mut self, clock: u64) {
        if !time::is_lower_bound(clock) && time::since(self.since, clock) <= time::SHORT {
            self.open = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pauses;
    use crate::time;

    #[test]
    fn a_known_time_tells_what_was_before_it() {
        const MS: u64 = 1_000_000;
        let mut pauses = Pauses::default();
        let (known, bound) = (
            |ms: u64| time::known(ms * MS),
            |ms: u64| time::lower_bound(ms * MS, None),
        );
        for clock in [known(0), bound(1), bound(1), known(9), bound(10), bound(12)] {
            pauses.see(clock);
        }
        assert_eq!((pauses.open, &pauses.stretches[..]), (2, &[][..]));
        let mut stopped = pauses.clone();
        stopped.stop(known(15));
        assert_eq!(stopped.open, 0);
        pauses.stop(known(50));
        assert_eq!(pauses.open, 2);
        for clock in [known(50), bound(45), known(90)] {
            pauses.see(clock);
        }
        assert_eq!(pauses.stretches, [(time::earliest(bound(10)), 90 * MS)]);
        assert_eq!(pauses.steps(0, 100 * MS, 9, None), [0; 0]);
        assert_eq!(pauses.steps(0, 30 * MS, 9, None), [0, 1, 2, 3]);
        assert_eq!(pauses.steps(0, 30 * MS, 3, None), [0, 1, 2]);
        // Another thread's call was made after one at 90 ms, and before one at 95.
        pauses.see(bound(20));
        pauses.see(known(95));
        assert_eq!(pauses.stretches.len(), 1);
        pauses.see(bound(100));
        pauses.see(known(300));
        assert_eq!(pauses.stretches.len(), 2);
        pauses.see(bound(400));
        assert_eq!(pauses.steps(350 * MS, 20 * MS, 9, Some(405 * MS)), [0; 0]);
        assert_eq!(
            pauses.steps(350 * MS, 20 * MS, 9, Some(435 * MS)),
            [2, 3, 4]
        );
        assert_eq!(pauses.steps(350 * MS, 20 * MS, 4, None), [2, 3]);
    }
}
