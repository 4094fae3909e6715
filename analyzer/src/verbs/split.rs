//! `heapwire split`: the text of a terminal's log in one file, the trace in another.

use super::files::{afresh, refuse_input};
use super::reading::Stopped;
use crate::cli::Split;
use anyhow::{Context, anyhow};
use heapwire::report::format::{bytes, count, counted};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Gives the exit status.
pub(crate) fn split(
    asked: &Split,
    out: &mut dyn Write,
    say: &mut dyn Write,
) -> Result<u8, Stopped> {
    let log = &asked.log;
    let mut frames: Box<dyn Write> = match &asked.output {
        Some(path) => Box::new(afresh(log, path)?),
        None => Box::new(io::sink()),
    };
    let mut text: Box<dyn Write + '_> = match asked.text.as_deref() {
        Some(path) if path == Path::new("-") => Box::new(out),
        Some(path) => {
            if let Some(trace) = &asked.output {
                refuse_both(trace, path)?;
            }
            Box::new(BufWriter::new(text_file(log, path)?))
        }
        None => Box::new(io::sink()),
    };
    let done = heapwire::split(log, &mut text, &mut frames)?;
    writeln!(
        say,
        "heapwire: {} of text, {} of frames in {}; {} came again, {} damaged",
        bytes(done.text),
        bytes(done.frames),
        counted(done.lines, "line"),
        count(done.repeated),
        count(done.damaged),
    )?;
    Ok(0)
}

/// Refuses one place for both.
fn refuse_both(trace: &Path, text: &Path) -> Result<(), Stopped> {
    refuse_input(trace, text).map_err(|_| {
        Stopped::Other(anyhow!(
            "{} is to have the trace: name another file for the text",
            text.display()
        ))
    })
}

fn text_file(log: &Path, place: &Path) -> Result<File, Stopped> {
    refuse_input(log, place)?;
    let file = File::create(place);
    let file = file.with_context(|| format!("cannot write the text to {}", place.display()));
    file.map_err(Stopped::Other)
}
