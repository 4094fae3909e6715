//! The report as JSON: the types of [`report`](super) as they are.

use serde::Serialize;

/// One object, with a line feed at its end.
///
/// # Panics
///
/// Never for the types of a report: their maps have string keys, and writing to memory does not fail.
#[must_use]
pub fn render(report: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(report).expect("the types of a report are plain");
    text.push('\n');
    text
}
