//! `heapwire record`: runs a program with the recorder in it, then says what came of it.

mod archive;
mod child;
mod declared;
mod doctor;
mod library;
mod observed;
mod output;
mod program;
mod running;

pub(crate) use archive::{archive, link_options};
pub(crate) use child::is_ignored;
pub(crate) use doctor::diagnose;
pub(crate) use library::{CARRIED, carried};
pub(crate) use output::{Output, go_on_with, make_afresh};
pub(crate) use program::Looked;
pub(crate) use running::Writer;

use crate::cli::{OnFull, Recording};
use anyhow::{Context, Error, Result};
use heapwire::report::format;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant, SystemTime};

/// Exit statuses of `env`, `nohup` and the like.
const TROUBLE: u8 = 125;
const CANNOT_EXECUTE: u8 = 126;
const NOT_FOUND: u8 = 127;
/// Added to the number of a signal that ended the program.
const BY_SIGNAL: i32 = 128;

/// Why the program was not run, and the exit status that says so.
#[derive(Debug)]
pub(crate) struct NotRun {
    pub(crate) status: u8,
    pub(crate) error: Error,
}

impl From<Error> for NotRun {
    fn from(error: Error) -> Self {
        Self {
            status: TROUBLE,
            error,
        }
    }
}

/// A program that has been run.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) pid: u32,
    pub(crate) status: ExitStatus,
    pub(crate) elapsed: Duration,
    begun: SystemTime,
    /// What was known of the program before.
    pub(crate) looked: Looked,
    /// Traces that it and its children left, its own first.
    pub(crate) traces: Vec<PathBuf>,
    /// Processes that go on, and are recorded into one of these, when they were last looked for.
    pub(crate) writers: Vec<Writer>,
}

impl Ended {
    /// Looks again for processes that go on: those on the way to become a daemon have ended, and the daemon has begun a trace.
    pub(crate) fn look_for_writers(&mut self, output: &Output) {
        self.writers = running::writers(&output.traces(self.pid, self.begun));
    }

    /// The exit status that passes the program's own on.
    pub(crate) fn exit_status(&self) -> u8 {
        let status = self
            .status
            .code()
            .or_else(|| self.status.signal().map(|by| BY_SIGNAL + by));
        status
            .and_then(|status| u8::try_from(status).ok())
            .unwrap_or(TROUBLE)
    }

    /// How it ended, in two words.
    pub(crate) fn how(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exited {code}"),
            (None, Some(signal)) => {
                let signal = u64::try_from(signal).unwrap_or(0);
                format!("was killed by {}", format::signal(signal))
            }
            (None, None) => "ended".to_owned(),
        }
    }
}

/// Looks at the program that `command` names, without running it.
pub(crate) fn look_at(command: &[OsString]) -> Result<Looked, NotRun> {
    let name = name(command)?;
    let path = program::find(name).map_err(|error| not_executed(name, error))?;
    Ok(program::look_at(&path))
}

/// Runs `command` with the recorder in it and waits for its end. `started` learns the pid.
pub(crate) fn record(
    command: &[OsString],
    looked: Looked,
    output: &Output,
    options: &Recording,
    started: impl FnOnce(u32),
) -> Result<Ended, NotRun> {
    let name = name(command)?;
    let library = library::installed()?;
    output.start()?;
    let mut program = Command::new(name);
    program.args(&command[1..]);
    // One for another machine would only draw a complaint of the dynamic linker, and a sanitizer would end the program.
    use program::Obstacle::{Machine, Sanitizer};
    if !matches!(looked.obstacle, Some(Machine | Sanitizer(_))) {
        // Two recorders in one process would record each other.
        let is_inside = looked.is_linked && looked.is_dynamic;
        program.envs(environment(
            (!is_inside).then_some(&*library),
            output,
            options,
        ));
    }
    let (clock, begun) = (Instant::now(), SystemTime::now());
    let mut pid = 0;
    let ran = child::run(program, |child| {
        pid = child;
        started(child);
    });
    output.discard_if_empty();
    let status = ran.map_err(|error| not_executed(name, error))?;
    let elapsed = clock.elapsed();
    let traces = output.traces(pid, begun);
    let writers = running::writers(&traces);
    for trace in &traces {
        // Without it the report knows less of the end; the trace is as good as before.
        let _ = observed::append(trace, pid, status.into_raw());
    }
    Ok(Ended {
        pid,
        status,
        elapsed,
        begun,
        looked,
        traces,
        writers,
    })
}

fn name(command: &[OsString]) -> Result<&OsStr> {
    command
        .first()
        .map(OsString::as_os_str)
        .context("no program was named")
}

fn not_executed(name: &OsStr, error: io::Error) -> NotRun {
    let status = match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => CANNOT_EXECUTE,
    };
    let error = Error::new(error).context(format!("cannot execute {}", Path::new(name).display()));
    NotRun { status, error }
}

/// What the dynamic linker and the recorder are told. All else is the program's own environment.
fn environment(
    library: Option<&Path>,
    output: &Output,
    options: &Recording,
) -> Vec<(&'static str, OsString)> {
    let mut variables = vec![("HEAPWIRE_OUT", output.variable())];
    if let Some(library) = library {
        let mut preload = library.as_os_str().to_owned();
        if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        variables.push(("LD_PRELOAD", preload));
    }
    if let Some(what) = options.on_full {
        let what = match what {
            OnFull::Block => "block",
            OnFull::Drop => "drop",
        };
        variables.push(("HEAPWIRE_ON_FULL", what.into()));
    }
    if let Some(seconds) = options.wait {
        variables.push(("HEAPWIRE_WAIT", seconds.to_string().into()));
    }
    if options.sum {
        variables.push(("HEAPWIRE_SUM", "1".into()));
    }
    variables
}
