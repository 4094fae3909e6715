//! The verbs that read traces, and how their results reach a person.

use crate::cli::{self, Cli, Color, Dump, Format, Places, Report as Asked, Reporting, Sort};
use heapwire::report::text::{TextOptions, render};
use heapwire::report::{Leak, Report, Warning, escape, json};
use heapwire::{
    BundleError, By, DumpError, Options, RepairError, SplitError, TraceError, Until, symbols,
};
use serde::Serialize;
use std::cmp::Reverse;
use std::env;
use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use terminal_size::terminal_size_of;

/// Columns where nothing else is known.
const WIDTH: usize = 100;
/// Exit status of a reading verb that has nothing to tell.
pub(crate) const NOTHING: u8 = 3;

/// Where text goes, and what that place can show.
pub(crate) struct Terminal {
    pub(crate) is_terminal: bool,
    width: usize,
    color: bool,
}

impl Terminal {
    /// What `stream` can show, unless the user decided.
    pub(crate) fn of(stream: &(impl AsFd + IsTerminal), cli: &Cli) -> Self {
        let is_terminal = stream.is_terminal();
        let given = cli.width.map(|width| width.get());
        let found = || terminal_size_of(stream).map(|(width, _)| usize::from(width.0));
        let wanted = || {
            let refused = env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
            is_terminal && !refused && env::var_os("TERM").is_none_or(|term| term != "dumb")
        };
        Self {
            is_terminal,
            width: given
                .or_else(found)
                .filter(|width| *width > 0)
                .unwrap_or(WIDTH),
            color: match cli.color {
                Color::Always => true,
                Color::Never => false,
                Color::Auto => wanted(),
            },
        }
    }

    pub(crate) fn options(&self) -> TextOptions {
        TextOptions {
            width: self.width,
            color: self.color,
            base: env::current_dir().ok(),
            ..TextOptions::default()
        }
    }

    pub(crate) fn options_for(&self, asked: &Reporting) -> TextOptions {
        TextOptions {
            top: asked.top.get(),
            depth: asked.depth.get(),
            ..self.options()
        }
    }
}

/// Why a reading verb stopped.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// No report can be made of the input.
    Trace(TraceError),
    /// The result could not be written.
    Write(io::Error),
    /// No bundle could be made.
    Bundle(BundleError),
    /// Something else, of which there is no more to know than what it says.
    Other(anyhow::Error),
}

impl From<RepairError> for Stopped {
    fn from(error: RepairError) -> Self {
        match error {
            RepairError::Trace(error) => Self::Trace(error),
            error => Self::Other(error.into()),
        }
    }
}

impl From<SplitError> for Stopped {
    fn from(error: SplitError) -> Self {
        match error {
            SplitError::Trace(error) => Self::Trace(error),
            SplitError::Write(error) => Self::Write(error),
            error @ SplitError::NoLine { .. } => Self::Other(error.into()),
        }
    }
}

impl From<BundleError> for Stopped {
    fn from(error: BundleError) -> Self {
        match error {
            BundleError::Trace(error) => Self::Trace(error),
            error => Self::Bundle(error),
        }
    }
}

impl From<TraceError> for Stopped {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl From<DumpError> for Stopped {
    fn from(error: DumpError) -> Self {
        match error {
            DumpError::Trace(error) => Self::Trace(error),
            DumpError::Write(error) => Self::Write(error),
        }
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// `heapwire report`: gives the exit status.
pub(crate) fn report(
    asked: &Asked,
    terminal: &Terminal,
    out: &mut dyn Write,
    say: &mut dyn Write,
) -> Result<u8, Stopped> {
    let report = shown(asked, terminal, out)?;
    answered(&report.warnings, say)
}

/// Analyzes and shows the result.
pub(super) fn shown(
    asked: &Asked,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<Report, Stopped> {
    let options = Options {
        until: asked.until.map(Until::Time),
        selection: asked.filters.selection(),
        by: match asked.by {
            _ if asked.per_mark => Some(By::Mark),
            cli::By::Mark => Some(By::Mark),
            cli::By::Site => None,
            cli::By::Function => Some(By::Function),
            cli::By::Module => Some(By::Module),
            cli::By::Thread => Some(By::Thread),
            cli::By::Size => Some(By::Size),
        },
        pids: asked.inputs.pid.clone(),
        ..options(Some(&asked.reporting))
    };
    let mut report = heapwire::analyze(&asked.inputs.traces, &options)?;
    for process in &mut report.processes {
        sort(&mut process.leaks, asked.sort);
    }
    print(out, asked.reporting.format, &report, || {
        let text_options = TextOptions {
            usage: asked.usage,
            ..terminal.options_for(&asked.reporting)
        };
        render(&report, &text_options)
    })?;
    Ok(report)
}

/// Prints a report as JSON, or the text of it.
pub(super) fn print(
    out: &mut dyn Write,
    format: Format,
    report: &impl Serialize,
    text: impl FnOnce() -> String,
) -> io::Result<()> {
    match format {
        Format::Json => json::write(report, out)?,
        Format::Text => out.write_all(text().as_bytes())?,
    }
    out.flush()
}

/// Puts leaks, which come by bytes, in another order.
fn sort(leaks: &mut [Leak], by: Sort) {
    match by {
        Sort::Bytes => {}
        Sort::Blocks => leaks.sort_by_key(|leak| Reverse(leak.blocks)),
        Sort::Calls => leaks.sort_by_key(|leak| Reverse(leak.allocations)),
        Sort::Age => leaks.sort_by_key(|leak| leak.oldest_ns.or(leak.oldest_line)),
    }
}

/// The exit status of a verb that has shown its result: that of success only if a call was recorded.
pub(crate) fn answered(warnings: &[Warning], say: &mut dyn Write) -> Result<u8, Stopped> {
    let Some(why) = no_records(warnings) else {
        return Ok(0);
    };
    writeln!(say, "heapwire: nothing to report: {}", escape(why))?;
    Ok(NOTHING)
}

/// Says what the reader of a result must know that has no room for it.
pub(crate) fn warn(warnings: &[Warning], say: &mut dyn Write) -> Result<(), Stopped> {
    const ELSEWHERE: [&str; 2] = ["no-records", "module-missing-symbols"];
    for warning in warnings.iter().filter(|it| !ELSEWHERE.contains(&it.kind)) {
        writeln!(say, "heapwire: warning: {}", escape(&warning.text))?;
    }
    Ok(())
}

/// Why a trace has no recorded call, if it has none.
pub(crate) fn no_records(warnings: &[Warning]) -> Option<&str> {
    let warning = warnings
        .iter()
        .find(|warning| warning.kind == "no-records")?;
    Some(&warning.text)
}

/// `heapwire dump`: gives the exit status.
pub(crate) fn dump(asked: &Dump, out: &mut dyn Write, say: &mut dyn Write) -> Result<u8, Stopped> {
    let dumped = heapwire::dump(&asked.trace, out)?;
    out.flush()?;
    warn(&dumped.warnings, say)?;
    if dumped.calls > 0 {
        return Ok(0);
    }
    writeln!(say, "heapwire: no call was recorded")?;
    Ok(NOTHING)
}

/// What the analysis is told.
pub(crate) fn options(asked: Option<&Reporting>) -> Options {
    let symbols = asked.map_or_else(symbols::Options::default, |asked| symbols::Options {
        demangle: !asked.no_demangle,
        ..places(&asked.places)
    });
    Options {
        symbols,
        ..Options::default()
    }
}

/// Where the analysis is to look for symbols.
pub(crate) fn places(asked: &Places) -> symbols::Options {
    symbols::Options {
        sysroot: asked.sysroot.clone(),
        debug_dirs: asked.debug_dir.clone(),
        exe: asked.exe.clone(),
        map: asked.map.clone(),
        ..symbols::Options::default()
    }
}

/// An error and its causes in one line, each said once.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    // What the system said is for people; its number is not.
    let said = text
        .split_once(" (os error ")
        .map_or(&*text, |(said, _)| said);
    escape(said).into_owned()
}

#[cfg(test)]
mod tests {
    use super::chain;
    use anyhow::Context;
    use std::io;

    #[test]
    fn causes_are_said_in_one_line() {
        let cause = io::Error::from_raw_os_error(libc::ENOENT);
        let error = Err::<(), _>(cause).context("cannot open a\nb").unwrap_err();
        assert_eq!(
            chain(&*error),
            "cannot open a\\nb: No such file or directory"
        );
    }
}
