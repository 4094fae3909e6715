//! Logs of glibc's mtrace: the text itself, and the report that mtrace(1) makes of it.

mod script;

use crate::DumpError;
use script::{Log, Names};
use std::io::Write;
use std::path::Path;

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
