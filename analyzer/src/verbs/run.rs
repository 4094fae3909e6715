//! What `record` and `run` do around a program: before, a word on what cannot be recorded; after, what was found.

use super::reading::{self, Terminal};
use crate::cli::{Format, Record, Reporting, Run};
use crate::record::{self, Ended, Looked, NotRun, Output, Writer};
use anyhow::{Context, Result};
use heapwire::report::format::counted;
use heapwire::report::text::{Ended as Summary, TextOptions, render, render_summary};
use heapwire::report::{Process, Report};
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, process};

/// `heapwire record`: gives the exit status of the program.
pub(crate) fn record(
    asked: &Record,
    terminal: &Terminal,
    say: &mut dyn Write,
) -> Result<u8, NotRun> {
    let command = &asked.program.command;
    let looked = before(command, say)?;
    let output = Output::of(asked.output.as_deref())?;
    let name = looked.name.clone().unwrap_or_default();
    let mut ended = record::record(command, looked, &output, &asked.recording, |pid| {
        if terminal.is_terminal {
            let place = heapwire::report::escape(&output.shown(pid, &name)).into_owned();
            let _ = writeln!(
                say,
                "heapwire: recording to {place} (Ctrl-C stops the program, not the trace)"
            );
        }
    })?;
    let analyzed = analyzed(&ended, None);
    ended.look_for_writers(&output);
    let text = match (&output, analyzed) {
        (Output::Elsewhere(place), _) => format!(
            "heapwire: {} {}; its trace went to {}, as far as it could be written\n",
            heapwire::report::escape(&command[0].to_string_lossy()),
            ended.how(),
            heapwire::report::escape(&place.to_string_lossy())
        ),
        (_, Ok(report)) => {
            let summary = summary(&report, command, &ended, &terminal.options());
            gap(&report, &ended) + &running(&ended, &output, true) + &summary
        }
        (_, Err(reason)) => running(&ended, &output, true) + &format!("heapwire: {reason}\n"),
    };
    let _ = say.write_all(text.as_bytes()); // nobody listens: the status still says how it went
    Ok(ended.exit_status())
}

/// `heapwire run`: as `record`, and the whole report in place of the summary.
pub(crate) fn run(asked: &Run, terminal: &Terminal, say: &mut dyn Write) -> Result<u8, NotRun> {
    let command = &asked.program.command;
    let looked = before(command, say)?;
    let scratch = asked.output.is_none().then(Scratch::new).transpose()?;
    let file = scratch.as_ref().map(|scratch| scratch.0.join("trace.hwt"));
    let output = match file {
        Some(file) => Output::File(file),
        None => Output::of(asked.output.as_deref())?,
    };
    let is_kept = scratch.is_none();
    let mut ended = record::record(command, looked, &output, &asked.recording, |_| {})?;
    let options = TextOptions {
        source: scratch.as_ref().map(|_| String::new()), // nobody is to look for that file
        takes_pid: false,
        ..terminal.options_for(&asked.reporting)
    };
    let analyzed = analyzed(&ended, Some(&asked.reporting));
    ended.look_for_writers(&output);
    let text = match analyzed {
        Ok(report) if asked.reporting.format == Format::Json => {
            heapwire::report::json::render(&report)
        }
        Ok(report) => {
            render(&report, &options) + &gap(&report, &ended) + &running(&ended, &output, is_kept)
        }
        Err(reason) => running(&ended, &output, is_kept) + &format!("heapwire: {reason}\n"),
    };
    let _ = say.write_all(text.as_bytes()); // as above
    Ok(ended.exit_status())
}

/// Says what is known to keep the recorder out of the program, which is run all the same.
fn before(command: &[OsString], say: &mut dyn Write) -> Result<Looked, NotRun> {
    let looked = record::look_at(command)?;
    if let Some(obstacle) = &looked.obstacle {
        let name = heapwire::report::escape(&command[0].to_string_lossy()).into_owned();
        let _ = writeln!(
            say,
            "heapwire: {name} {obstacle}: nothing will be recorded of it"
        );
    }
    Ok(looked)
}

/// The report on what was recorded, or the reason why there is none.
fn analyzed(ended: &Ended, reporting: Option<&Reporting>) -> Result<Report, String> {
    if ended.traces.is_empty() {
        return Err(reason(ended, false));
    }
    let options = reading::options(reporting);
    let report =
        heapwire::analyze(&ended.traces, &options).map_err(|error| reading::chain(&error))?;
    if reading::no_records(&report.warnings).is_none() {
        Ok(report)
    } else {
        Err(reason(ended, true))
    }
}

/// A line on the image that came after the last recorded one, if the program replaced itself.
fn gap(report: &Report, ended: &Ended) -> String {
    let own = |process: &&Process| process.pid == Some(u64::from(ended.pid));
    let mut images = report.processes.iter().filter(own).peekable();
    if images.peek().is_none() || images.any(|image| image.end != "exec") {
        return String::new();
    }
    "heapwire: the program replaced itself by another one (exec), of which nothing was recorded: that is \
     statically linked, set-user-ID, or was given another environment\n"
        .to_owned()
}

/// A line on processes that go on when the program has ended: nobody knows yet what they will do.
///
/// One that has a trace is named with it. Another may never have one, where it ends soon or does not allocate any more.
fn running(ended: &Ended, output: &Output, is_kept: bool) -> String {
    let has_trace = |writer: &&Writer| output.is_begun(writer.pid, &writer.name);
    let writers = &ended.writers;
    let traced = writers.iter().find(has_trace);
    let Some(named) = traced.or(writers.first()) else {
        return String::new();
    };
    let (goes, is, it) = match writers.len() {
        1 => (format!("process {} goes", named.pid), "is", "it"),
        all => {
            let number = counted(all as u64 - 1, "other");
            let goes = format!("process {} and {number} go", named.pid);
            (goes, "are", "they")
        }
    };
    if is_kept {
        let into = traced.map_or_else(String::new, |writer| {
            let into = output.shown(writer.pid, &writer.name);
            format!(", into {}", heapwire::report::escape(&into))
        });
        format!(
            "heapwire: {goes} on and {is} still recorded{into}: this is what was recorded so far\n"
        )
    } else {
        format!(
            "heapwire: {goes} on, and of what {it} does from now on nothing is kept: `heapwire record` keeps a trace\n"
        )
    }
}

/// Why nothing was recorded, as far as that is known.
fn reason(ended: &Ended, loaded: bool) -> String {
    if !ended.writers.is_empty() {
        return "nothing was recorded so far, so nothing is known of leaks".to_owned();
    }
    let looked = &ended.looked;
    let why = match (&looked.obstacle, looked.own, loaded) {
        (Some(obstacle), _, _) => format!("the program {obstacle}"),
        (None, Some(function), _) => format!(
            "no allocation passed through the recorder: the program defines {function} itself"
        ),
        (None, None, true) => {
            "the recorder was loaded, but no allocation passed through it".to_owned()
        }
        (None, None, false) => {
            "the recorder did not start: it was not loaded, or could not write its trace".to_owned()
        }
    };
    format!("nothing was recorded, so nothing is known of leaks: {why}")
}

fn summary(report: &Report, command: &[OsString], ended: &Ended, options: &TextOptions) -> String {
    let program = Path::new(&command[0]).file_name().unwrap_or(&command[0]);
    let sizes = ended
        .traces
        .iter()
        .filter_map(|trace| fs::metadata(trace).ok());
    let summary = Summary {
        program: program.to_string_lossy().into_owned(),
        how: ended.how(),
        elapsed_ns: u64::try_from(ended.elapsed.as_nanos()).unwrap_or(u64::MAX),
        trace_bytes: sizes.map(|found| found.len()).sum(),
        traces: ended.traces.iter().map(|trace| shown(trace)).collect(),
    };
    render_summary(report, &summary, options)
}

/// A trace as one would name it on a command line.
fn shown(trace: &Path) -> String {
    let here = env::current_dir().unwrap_or_default();
    let trace = trace.strip_prefix(&here).unwrap_or(trace);
    trace.to_string_lossy().into_owned()
}

/// A folder that only this user can look into, removed when it is no longer needed.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let name = format!("heapwire-run-{}-{}", process::id(), now.as_nanos());
        let path = env::temp_dir().join(name);
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // left behind, it only takes room
    }
}
