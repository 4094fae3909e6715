//! Where in stored inputs the frames of each stream lie.

use super::frames::Rest;
use std::mem;

/// Runs that are kept apart; where there are more, neighbours are read as one.
const RUNS: usize = 1 << 18;

/// For each stream the runs of bytes that hold its frames.
#[derive(Default)]
pub(super) struct Index {
    pub(super) rests: Vec<Rest>,
    streams: Vec<Vec<Run>>,
    runs: usize,
}

/// Bytes that frames of a stream begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Place among the index's rests.
    pub(super) rest: usize,
    pub(super) begin: u64,
    pub(super) end: u64,
}

impl Index {
    /// Adds a frame.
    pub(super) fn add(&mut self, stream: usize, rest: usize, offset: u64, length: u64) {
        if stream >= self.streams.len() {
            self.streams.resize_with(stream + 1, Vec::new);
        }
        let end = offset + length;
        match self.streams[stream].last_mut() {
            Some(last) if last.rest == rest && last.end == offset => last.end = end,
            _ => {
                self.streams[stream].push(Run {
                    rest,
                    begin: offset,
                    end,
                });
                self.runs += 1;
                if self.runs > RUNS {
                    self.coarsen();
                }
            }
        }
    }

    /// The runs of a stream, in order.
    pub(super) fn runs(&self, stream: usize) -> Vec<Run> {
        self.streams.get(stream).cloned().unwrap_or_default()
    }

    /// Joins neighbours: what lies between them is read and passed over.
    fn coarsen(&mut self) {
        self.runs = 0;
        for runs in &mut self.streams {
            let mut joined: Vec<Run> = Vec::with_capacity(runs.len() / 2 + 1);
            for (index, run) in mem::take(runs).into_iter().enumerate() {
                match joined.last_mut() {
                    Some(last) if index % 2 == 1 && last.rest == run.rest => last.end = run.end,
                    _ => joined.push(run),
                }
            }
            self.runs += joined.len();
            *runs = joined;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Index, RUNS};

    #[test]
    fn neighbours_are_one_run_and_runs_are_bounded() {
        let mut index = Index::default();
        index.add(0, 0, 0, 10);
        index.add(0, 0, 10, 10);
        index.add(1, 0, 20, 10);
        index.add(0, 0, 30, 10);
        let spans = |index: &Index, stream| -> Vec<_> {
            let runs = index.runs(stream);
            runs.iter().map(|run| (run.begin, run.end)).collect()
        };
        assert_eq!(spans(&index, 0), [(0, 20), (30, 40)]);
        assert_eq!(spans(&index, 1), [(20, 30)]);
        for frame in 0..RUNS as u64 * 2 {
            index.add(2, 0, 100 + 20 * frame, 10);
        }
        assert!(index.runs(2).len() <= RUNS);
        assert_eq!(index.runs(2).first().map(|run| run.begin), Some(100));
        assert!(
            index
                .runs(2)
                .windows(2)
                .all(|pair| pair[0].end <= pair[1].begin)
        );
    }
}
