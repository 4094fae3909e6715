//! What mtrace(1) makes of a log, and logs made of traces.
//!
//! `script` is the script's own view, line by line, and `naming` puts lines of source into it; `placing` finds out where the
//! modules of a log lay; `export` writes logs.

mod export;
mod naming;
mod placing;
mod script;

pub use export::{Exported, Exporter, Part};

pub(crate) use placing::place_modules;

use crate::{DumpError, symbols};
use script::{Blanks, Log, Names};
use std::io::Write;
use std::path::Path;

/// The program of a log, for names of callers.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Its file.
    pub file: &'a Path,
    /// Where else to look for symbols; `None` for the very names that mtrace(1) gives.
    pub options: Option<&'a symbols::Options>,
}

/// What was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Printed {
    /// Blocks were left: that decides the exit status of mtrace(1).
    pub has_leaks: bool,
    /// Callers with another name than mtrace(1) gives them.
    pub differing: u64,
    /// Records with blanks in the path of the caller, which mtrace(1) passes over.
    pub with_blanks: u64,
}

/// Prints what mtrace(1) prints of `log`, with lines for callers if `program` is given.
///
/// Nothing is run for that, whatever the log or the program say.
///
/// # Errors
///
/// The log cannot be read, or `out` cannot be written.
pub fn print(
    log: &Path,
    program: Option<Program<'_>>,
    out: &mut dyn Write,
) -> Result<Printed, DumpError> {
    let log = Log::open(log)?;
    let may_differ = program.is_some_and(|program| program.options.is_some());
    let findings = log.findings(if may_differ {
        Blanks::Read
    } else {
        Blanks::PassOver
    });
    let callers: Vec<&[u8]> = findings.callers().collect();
    let (names, differing) = match program {
        None => {
            let names = Names::as_the_script(callers.into_iter(), |_| None);
            (names, 0)
        }
        Some(Program {
            file,
            options: None,
        }) => (naming::of_script(&callers, file), 0),
        Some(Program {
            file,
            options: Some(options),
        }) => naming::better(&callers, log.bytes(), file, options),
    };
    findings.print(&names, out)?;
    Ok(Printed {
        has_leaks: findings.has_leaks(),
        differing,
        with_blanks: findings.with_blanks,
    })
}
