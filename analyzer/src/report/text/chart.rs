//! Live bytes over time, drawn with block characters.

use super::page::Page;
use crate::report::columns::{columns, left, right};
use crate::report::format::{bytes, duration};
use crate::report::{Process, Timeline};

/// Lines of the chart.
const ROWS: u64 = 4;
/// Steps that one line can show, by its character.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const STEPS: u64 = 8;
/// Columns of the numbers on the left.
const LABELS: usize = 9;
/// Marks on the time axis after the first.
const MARKS: usize = 4;

/// Draws the timeline. A trace without times has none; neither has a process that held nothing.
pub(super) fn timeline(page: &mut Page<'_>, process: &Process) {
    let timeline = &process.timeline;
    let highest = timeline.bytes.iter().copied().max().unwrap_or(0);
    if highest == 0 || timeline.bytes.len() < 2 {
        return;
    }
    let indent = if page.is_wide() { 2 } else { 0 };
    let width = page
        .width()
        .saturating_sub(indent + LABELS + 3)
        .min(2 * super::WIDE);
    if width < 2 * MARKS {
        return;
    }
    let heights = heights(&timeline.bytes, highest, width);
    let margin = " ".repeat(indent);
    page.blank();
    page.line(&format!("{margin}live bytes"));
    for row in 0..ROWS {
        let label = match row {
            0 => bytes(highest),
            2 => bytes(highest / 2),
            _ => String::new(),
        };
        let floor = (ROWS - 1 - row) * STEPS;
        let bars: String = heights.iter().map(|height| bar(*height, floor)).collect();
        page.line(&format!("{margin}{} │{bars}", right(&label, LABELS)));
    }
    let axis = "─".repeat(heights.len());
    page.line(&format!("{margin}{} └{axis}", right("", LABELS)));
    let marks = marks(timeline, heights.len());
    page.line(&format!("{margin}{}  {marks}", right("", LABELS)));
}

/// The height of each column in steps; a value above 0 shows at least one.
fn heights(values: &[u64], highest: u64, width: usize) -> Vec<u64> {
    (0..width)
        .map(|column| {
            let begin = column * values.len() / width;
            let end = ((column + 1) * values.len() / width).clamp(begin + 1, values.len());
            let value = values[begin..end].iter().copied().max().unwrap_or(0);
            let steps = u128::from(value) * u128::from(ROWS * STEPS);
            u64::try_from(steps.div_ceil(u128::from(highest))).unwrap_or(ROWS * STEPS)
        })
        .collect()
}

fn bar(height: u64, floor: u64) -> char {
    let steps = usize::try_from(height.saturating_sub(floor)).unwrap_or(usize::MAX);
    BLOCKS[steps.min(BLOCKS.len() - 1)]
}

/// The line below the axis: moments, each below its column, the last one ending with the axis.
fn marks(timeline: &Timeline, width: usize) -> String {
    let whole = u128::from(timeline.step_ns) * timeline.bytes.len() as u128;
    let mut line = String::new();
    for mark in 0..=MARKS {
        let ns = whole * mark as u128 / MARKS as u128;
        let text = match mark {
            0 => "0 s".to_owned(),
            _ => duration(u64::try_from(ns).unwrap_or(u64::MAX)),
        };
        let place = width * mark / MARKS;
        let begin = if mark == MARKS {
            place.saturating_sub(columns(&text))
        } else {
            place
        };
        if begin >= columns(&line) + usize::from(mark > 0) {
            line = left(&line, begin) + &text;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::{bar, heights, marks};
    use crate::report::Timeline;

    #[test]
    fn columns_show_the_most_of_what_they_cover() {
        assert_eq!(heights(&[0, 1, 50, 100, 0, 25], 100, 3), [1, 32, 8]);
        assert_eq!(heights(&[0, 100], 100, 4), [0, 0, 32, 32]);
        assert_eq!(heights(&[u64::MAX], u64::MAX, 2), [32, 32]);
    }

    #[test]
    fn a_column_is_filled_from_below() {
        let column = |height| {
            [24, 16, 8, 0]
                .map(|floor| bar(height, floor))
                .iter()
                .collect::<String>()
        };
        assert_eq!(column(0), "    ");
        assert_eq!(column(1), "   ▁");
        assert_eq!(column(12), "  ▄█");
        assert_eq!(column(32), "████");
    }

    #[test]
    fn moments_stand_below_their_columns() {
        let timeline = Timeline {
            unsure: Vec::new(),
            step_ns: 60_000_000_000,
            blocks: Vec::new(),
            bytes: vec![1; 12],
        };
        let line = marks(&timeline, 40);
        assert_eq!(line, "0 s       3 m 00 s  6 m 00 s  9 m 00 s");
    }
}
