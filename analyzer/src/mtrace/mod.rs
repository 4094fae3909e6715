//! Logs of glibc's mtrace: the text itself, and the report that mtrace(1) makes of it.
//!
//! `line` reads one line and `caller` the text in it that names a caller; `callers` keeps these, and `reader` makes
//! events of a log, which are replayed as those of a trace are; `placing` finds out where modules lay. `script` is the script's own view, line by line.

mod caller;
mod callers;
mod line;
mod mcheck;
mod placing;
mod reader;
mod script;

pub(crate) use callers::Seen;
pub(crate) use placing::{is_library, place_modules};
pub(crate) use reader::{Batch, Condition, Reader, Session};

use crate::DumpError;
use line::{Line, Read};
use script::{Log, Names};
use std::io::Write;
use std::path::Path;

/// Whether there is a mark or a record of a log in `bytes`.
pub(crate) fn is_log(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    lines.any(|line| {
        let read = Read::of(line).line;
        matches!(read, Line::Start | Line::End | Line::Record(_))
    })
}

/// Prints what mtrace(1) prints of `log` without a program, and gives whether blocks were left: that decides its
/// exit status.
///
/// # Errors
///
/// The log cannot be read, or `out` cannot be written.
pub fn print(log: &Path, out: &mut dyn Write) -> Result<bool, DumpError> {
    let log = Log::open(log)?;
    let findings = log.findings();
    let names = Names::as_the_script(findings.callers(), |_| None);
    findings.print(&names, out)?;
    Ok(findings.has_leaks())
}
