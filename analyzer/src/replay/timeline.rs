//! Most live bytes in each of a bounded number of equal steps of time, without knowing beforehand how long it takes.

const COLUMNS: usize = 256;
const FIRST_STEP_BITS: u32 = 20; // about a millisecond

/// Columns so far. Where they run out, neighbours merge and steps double.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// Nanoseconds of the clock where the first column begins.
    begin: u64,
    step_bits: u32,
    columns: Vec<u64>,
    /// Live bytes before the last moment that was noted.
    last: u64,
    /// Where the last column ends.
    column_end: u64,
}

impl Timeline {
    pub(crate) fn new(begin: u64) -> Self {
        Self {
            begin,
            step_bits: FIRST_STEP_BITS,
            columns: vec![0],
            last: 0,
            column_end: begin.saturating_add(1 << FIRST_STEP_BITS),
        }
    }

    /// Goes on to a moment before whose event `live_bytes` are live. Clocks of threads differ a little: what comes late
    /// counts as now.
    pub(crate) fn advance_to(&mut self, clock: u64, live_bytes: u64) {
        self.last = live_bytes;
        if clock >= self.column_end && self.column_end != u64::MAX {
            self.advance(clock);
        }
    }

    /// Notes live bytes after an event.
    pub(crate) fn note(&mut self, live_bytes: u64) {
        if let Some(column) = self.columns.last_mut() {
            *column = (*column).max(live_bytes);
        }
    }

    fn advance(&mut self, clock: u64) {
        let since = clock - self.begin;
        while since >> self.step_bits >= COLUMNS as u64 {
            self.step_bits += 1;
            self.columns = self
                .columns
                .chunks(2)
                .map(|pair| pair.iter().copied().max().unwrap_or(0))
                .collect();
        }
        let column = usize::try_from(since >> self.step_bits).unwrap_or(COLUMNS);
        if column >= self.columns.len() {
            self.columns.resize(column + 1, self.last);
        }
        self.column_end = (column as u64 + 1)
            .checked_mul(1 << self.step_bits)
            .map_or(u64::MAX, |end| self.begin.saturating_add(end));
    }

    /// Nanoseconds of a step, and the most live bytes in each; none where nothing was live.
    pub(crate) fn finish(self) -> (u64, Vec<u64>) {
        let columns = if self.columns.iter().all(|column| *column == 0) {
            Vec::new()
        } else {
            self.columns
        };
        (1 << self.step_bits, columns)
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Timeline};

    #[test]
    fn steps_double_and_values_stay() {
        let at = |timeline: &mut Timeline, clock, before, after| {
            timeline.advance_to(clock, before);
            timeline.note(after);
        };
        let mut timeline = Timeline::new(1000);
        at(&mut timeline, 1000, 0, 5);
        at(&mut timeline, 1001, 5, 2);
        at(&mut timeline, 1000 + (10 << 20), 2, 3);
        let (step, columns) = timeline.finish();
        assert_eq!(step, 1 << 20);
        assert_eq!(columns, [5, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3]);

        let mut timeline = Timeline::new(0);
        at(&mut timeline, 0, 0, 7);
        at(&mut timeline, 300 << 20, 7, 1);
        let (step, columns) = timeline.finish();
        assert_eq!(step, 2 << 20);
        assert_eq!(columns.len(), 151);
        assert_eq!((columns[0], columns[150]), (7, 7));
    }

    #[test]
    fn any_clock_is_taken() {
        let mut timeline = Timeline::new(5);
        for clock in [0, u64::MAX, 3, u64::MAX - 1, 1 << 40] {
            timeline.advance_to(clock, 1);
            timeline.note(1);
        }
        let (_, columns) = timeline.finish();
        assert!(columns.len() <= COLUMNS);
    }
}
