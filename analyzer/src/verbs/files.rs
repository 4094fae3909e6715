//! The verbs about a trace as a file: what is in it, whether it is whole, and a whole one of what can be saved.

use super::reading::{NOTHING, Stopped, Terminal, print};
use crate::cli::{Info, Repair, Verify};
use crate::record;
use anyhow::{Context, anyhow};
use heapwire::report::format::{bytes, counted};
use heapwire::report::text::{TextOptions, render_contents, render_wholeness};
use heapwire::report::{Defect, State, escape};
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Exit status of `verify` where something is damaged.
const DAMAGED: u8 = 1;
/// Exit status of `verify` where nothing is damaged, but something is missing.
const INCOMPLETE: u8 = 4;

/// `heapwire info`: gives the exit status.
pub(crate) fn info(
    asked: &Info,
    terminal: &Terminal,
    out: &mut dyn Write,
    say: &mut dyn Write,
) -> Result<u8, Stopped> {
    let contents = heapwire::contents(&asked.trace)?;
    let options = TextOptions {
        top: asked.top.get(),
        ..terminal.options()
    };
    print(out, asked.format, &contents, || {
        render_contents(&contents, &options)
    })?;
    if contents.processes.iter().any(|process| process.calls > 0) {
        return Ok(0);
    }
    writeln!(say, "heapwire: no call was recorded")?;
    Ok(NOTHING)
}

/// `heapwire verify`: gives the exit status, which says what the input comes to.
pub(crate) fn verify(
    asked: &Verify,
    terminal: &Terminal,
    out: &mut dyn Write,
    say: &mut dyn Write,
) -> Result<u8, Stopped> {
    let wholeness = heapwire::wholeness(&asked.trace)?;
    print(out, asked.format, &wholeness, || {
        render_wholeness(&wholeness, &terminal.options())
    })?;
    let mut remarks = wholeness.remarks.iter();
    let no_records = remarks.find(|remark| remark.kind == "no-records");
    if wholeness.state != State::Damaged
        && let Some(Defect { text, .. }) = no_records
    {
        writeln!(say, "heapwire: nothing to report: {}", escape(text))?;
        return Ok(NOTHING);
    }
    Ok(match wholeness.state {
        State::Whole => 0,
        State::Incomplete => INCOMPLETE,
        State::Damaged => DAMAGED,
    })
}

/// `heapwire repair`: gives the exit status.
pub(crate) fn repair(
    asked: &Repair,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<u8, Stopped> {
    let repair = heapwire::Repair::open(&asked.trace)?;
    let place = &asked.output;
    let mut file = afresh(&asked.trace, place)?;
    let repaired = repair.write(&mut file).inspect_err(|_| take_away(place))?; // half of it would look like all
    drop(file);
    writeln!(
        out,
        "{}: {} in {}, {}; {} left out\n",
        escape(&place.to_string_lossy()),
        counted(repaired.records, "record"),
        counted(repaired.frames, "frame"),
        bytes(repaired.bytes),
        counted(repaired.left_out, "frame"),
    )?;
    let wholeness = heapwire::wholeness(place)?;
    let text = render_wholeness(&wholeness, &terminal.options());
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(0)
}

/// Makes the file for a trace, which is not `input` and nothing but a trace before.
pub(super) fn afresh(input: &Path, place: &Path) -> Result<BufWriter<File>, Stopped> {
    refuse_input(input, place)?;
    let cannot = || format!("cannot write the trace to {}", place.display());
    record::make_afresh(place)
        .and_then(|()| Ok(OpenOptions::new().append(true).open(place)?))
        .with_context(cannot)
        .map(BufWriter::new)
        .map_err(Stopped::Other)
}

/// Removes what was begun, if it is a file: a device was there before.
fn take_away(place: &Path) {
    if fs::metadata(place).is_ok_and(|found| found.is_file()) {
        let _ = fs::remove_file(place); // the error that is told came first
    }
}

/// Refuses to write where `input` lies.
pub(super) fn refuse_input(input: &Path, place: &Path) -> Result<(), Stopped> {
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    let input = match input.as_os_str() == "-" {
        true => Path::new("/dev/stdin"),
        false => input,
    };
    match (identity(input), identity(place)) {
        (Ok(one), Ok(other)) if one == other => Err(Stopped::Other(anyhow!(
            "{} is the input itself, which stays as it is: name another file",
            place.display()
        ))),
        _ => Ok(()),
    }
}
