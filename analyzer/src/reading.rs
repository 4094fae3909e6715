//! The verbs that read traces, and how their results reach a person.

use crate::cli::{Blocks, Cli, Color, Dump, Format, Report as Asked, Reporting};
use heapwire::report::text::{TextOptions, render, render_blocks};
use heapwire::report::{Report, escape, json};
use heapwire::{Options, TraceError, symbols};
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
}

impl From<TraceError> for Stopped {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
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
    let report = heapwire::analyze(&asked.traces, &options(Some(&asked.reporting)))?;
    let text = match asked.reporting.format {
        Format::Json => json::render(&report),
        Format::Text => render(&report, &terminal.options_for(&asked.reporting)),
    };
    out.write_all(text.as_bytes())?;
    out.flush()?;
    if has_calls(&report) {
        return Ok(0);
    }
    let why = report
        .warnings
        .iter()
        .find(|warning| warning.kind == "no-records");
    let why = why.map_or("no call was recorded", |warning| &warning.text);
    writeln!(say, "heapwire: nothing to report: {}", escape(why))?;
    Ok(NOTHING)
}

/// `heapwire blocks`: gives the exit status.
pub(crate) fn blocks(
    asked: &Blocks,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<u8, Stopped> {
    let live = heapwire::live_blocks(&asked.traces, &options(Some(&asked.reporting)))?;
    let text = match asked.reporting.format {
        Format::Json => json::render(&live),
        Format::Text => render_blocks(&live, &terminal.options_for(&asked.reporting)),
    };
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(0)
}

/// `heapwire dump`: gives the exit status.
pub(crate) fn dump(asked: &Dump, out: &mut dyn Write) -> Result<u8, Stopped> {
    heapwire::dump(&asked.trace, out)?;
    out.flush()?;
    Ok(0)
}

/// What the analysis is told.
pub(crate) fn options(asked: Option<&Reporting>) -> Options {
    let symbols = asked.map_or_else(symbols::Options::default, |asked| symbols::Options {
        sysroot: asked.sysroot.clone(),
        debug_dirs: asked.debug_dir.clone(),
        map: asked.map.clone(),
        demangle: !asked.no_demangle,
    });
    Options {
        symbols,
        ..Options::default()
    }
}

/// Whether any call was recorded.
pub(crate) fn has_calls(report: &Report) -> bool {
    report.processes.iter().any(|process| {
        let totals = &process.totals;
        [
            totals.allocations,
            totals.releases,
            totals.reallocations,
            totals.failed,
        ]
        .iter()
        .any(|number| *number > 0)
    })
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
    escape(&text).into_owned()
}
