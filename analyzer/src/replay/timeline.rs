//! Most live bytes and blocks in each of a bounded number of equal steps of time, without knowing beforehand how long it
//! takes.

/// Steps where none are asked for.
const COLUMNS: usize = 256;
const FIRST_STEP: u64 = 1 << 20; // about a millisecond
/// Steps of a length that was asked for.
const MOST_COLUMNS: usize = 1 << 20;

/// Live bytes and blocks.
pub(crate) type Live = (u64, u64);

/// Columns so far. Where they run out, neighbours merge and steps double.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// Nanoseconds of the clock where the first column begins.
    begin: u64,
    step: u64,
    most: usize,
    columns: Vec<Live>,
    /// What was live before the last moment that was noted.
    last: Live,
    /// Where the last column ends.
    column_end: u64,
}

impl Timeline {
    /// Steps of `step` nanoseconds; where none is given, of a length that makes a few hundred.
    pub(crate) fn new(begin: u64, step: Option<u64>) -> Self {
        let most = step.map_or(COLUMNS, |_| MOST_COLUMNS);
        let step = step.unwrap_or(FIRST_STEP).max(1);
        Self {
            begin,
            step,
            most,
            columns: vec![(0, 0)],
            last: (0, 0),
            column_end: begin.saturating_add(step),
        }
    }

    /// Goes on to a moment before whose event `live` is. Clocks of threads differ a little: what comes late counts as now.
    pub(crate) fn advance_to(&mut self, clock: u64, live: Live) {
        self.last = live;
        if clock >= self.column_end && self.column_end != u64::MAX {
            self.advance(clock);
        }
    }

    /// Notes what is live after an event.
    pub(crate) fn note(&mut self, live: Live) {
        if let Some(column) = self.columns.last_mut() {
            *column = higher(*column, live);
        }
    }

    fn advance(&mut self, clock: u64) {
        let since = clock - self.begin;
        while since / self.step >= self.most as u64 {
            self.step = self.step.saturating_mul(2);
            self.columns = self
                .columns
                .chunks(2)
                .map(|pair| pair.iter().copied().fold((0, 0), higher))
                .collect();
        }
        let column = usize::try_from(since / self.step).unwrap_or(self.most);
        if column >= self.columns.len() {
            self.columns.resize(column + 1, self.last);
        }
        self.column_end = (column as u64 + 1)
            .checked_mul(self.step)
            .map_or(u64::MAX, |end| self.begin.saturating_add(end));
    }

    /// Nanoseconds of a step, and the most live bytes and blocks in each up to `end`, or to the last moment that was noted;
    /// none where nothing was live.
    pub(crate) fn up_to(&self, end: u64) -> (u64, Vec<Live>) {
        let mut whole = self.clone();
        whole.advance_to(end, self.last);
        if whole.columns.iter().all(|column| *column == (0, 0)) {
            whole.columns.clear();
        }
        (whole.step, whole.columns)
    }
}

fn higher(one: Live, other: Live) -> Live {
    (one.0.max(other.0), one.1.max(other.1))
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Timeline};

    #[test]
    fn steps_double_and_values_stay() {
        let at = |timeline: &mut Timeline, clock, before, after| {
            timeline.advance_to(clock, (before, 1));
            timeline.note((after, 1));
        };
        let mut timeline = Timeline::new(1000, None);
        at(&mut timeline, 1000, 0, 5);
        at(&mut timeline, 1001, 5, 2);
        at(&mut timeline, 1000 + (10 << 20), 2, 3);
        let (step, columns) = timeline.up_to(0);
        assert_eq!(step, 1 << 20);
        let bytes: Vec<_> = columns.iter().map(|it| it.0).collect();
        assert_eq!(bytes, [5, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3]);

        let mut timeline = Timeline::new(0, None);
        at(&mut timeline, 0, 0, 7);
        at(&mut timeline, 300 << 20, 7, 1);
        let (step, columns) = timeline.up_to(0);
        assert_eq!(step, 2 << 20);
        assert_eq!(columns.len(), 151);
        assert_eq!((columns[0], columns[150]), ((7, 1), (7, 1)));
    }

    #[test]
    fn steps_of_a_given_length_are_kept() {
        let mut timeline = Timeline::new(0, Some(1000));
        timeline.advance_to(500_000, (0, 0));
        timeline.note((3, 2));
        let (step, columns) = timeline.up_to(0);
        assert_eq!((step, columns.len(), columns[500]), (1000, 501, (3, 2)));
    }

    #[test]
    fn what_is_live_stays_so_to_the_end() {
        let mut timeline = Timeline::new(0, Some(10));
        timeline.advance_to(5, (0, 0));
        timeline.note((3, 1));
        timeline.advance_to(31, (2, 1));
        assert_eq!(timeline.up_to(12).1, [(3, 1), (2, 1), (2, 1), (2, 1)]);
        assert_eq!(timeline.up_to(49).1.len(), 5);
        assert_eq!(Timeline::new(0, Some(10)).up_to(49).1, []);
    }

    #[test]
    fn any_clock_is_taken() {
        let mut timeline = Timeline::new(5, None);
        for clock in [0, u64::MAX, 3, u64::MAX - 1, 1 << 40] {
            timeline.advance_to(clock, (1, 1));
            timeline.note((1, 1));
        }
        let (_, columns) = timeline.up_to(0);
        assert!(columns.len() <= COLUMNS);
    }
}
