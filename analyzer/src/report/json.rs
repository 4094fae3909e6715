//! The report as JSON: the types of [`report`](super) as they are.

use serde::Serialize;
use std::io::{self, BufWriter, Write};

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

/// Writes the same as it is made: lists may be longer than what they were made of.
///
/// # Errors
///
/// `out` cannot be written.
pub fn write(report: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    serde_json::to_writer_pretty(&mut out, report)?;
    out.write_all(b"\n")?;
    out.flush()
}
