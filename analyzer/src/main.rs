//! The command `heapwire`. Only this file prints and decides the exit status.

mod allocator;
mod cli;
mod quantity;
mod record;
mod signals;
mod stdout;
mod verbs;

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use cli::{Cli, Command, Doctor, Recorder};
use record::NotRun;
use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use stdout::Stdout;
use verbs::reading::{NOTHING, Stopped, Terminal};
use verbs::waiting::Waiting;

/// Exit status of a command line that says nothing sensible.
const USAGE: u8 = 2;
/// The same from a verb that gives the status of a program: as `env` does it.
const USAGE_OF_RECORDING: u8 = 125;

fn main() -> ExitCode {
    allocator::share();
    let arguments: Vec<OsString> = env::args_os().collect();
    let status = match Cli::from_arguments(arguments.iter().cloned()) {
        Ok(cli) => answer(&cli),
        Err(error) => {
            let _ = error.print(); // no place is left to complain
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => 0,
                _ if is_recording(&arguments) => USAGE_OF_RECORDING,
                _ => USAGE,
            }
        }
    };
    ExitCode::from(status)
}

fn is_recording(arguments: &[OsString]) -> bool {
    arguments
        .get(1)
        .is_some_and(|verb| verb == "record" || verb == "run")
}

fn answer(cli: &Cli) -> u8 {
    match &cli.command {
        Command::Run(run) => {
            let terminal = Terminal::of(&io::stderr(), cli);
            ran(verbs::run::run(run, &terminal, &mut io::stderr()))
        }
        Command::Record(record) => {
            let terminal = Terminal::of(&io::stderr(), cli);
            ran(verbs::run::record(record, &terminal, &mut io::stderr()))
        }
        Command::Recv(asked) => {
            let done = verbs::recv::recv(asked, &mut Stdout::lock(), &mut io::stderr());
            done.unwrap_or_else(|stopped| failed(cli, stopped))
        }
        _ => {
            let waiting = Waiting::begin();
            let result = answer_reading(cli, &waiting);
            waiting.end();
            result.unwrap_or_else(|stopped| failed(cli, stopped))
        }
    }
}

/// The verbs that read.
fn answer_reading(cli: &Cli, waiting: &Waiting) -> Result<u8, Stopped> {
    let mut out = waiting.until(BufWriter::new(Stdout::lock()));
    let mut say = waiting.until(io::stderr());
    let terminal = Terminal::of(&io::stdout(), cli);
    match &cli.command {
        Command::Report(report) => verbs::reading::report(report, &terminal, &mut out, &mut say),
        Command::Check(check) => verbs::check::check(check, &terminal, &mut out, &mut say),
        Command::Blocks(blocks) => verbs::blocks::blocks(blocks, &terminal, &mut out, &mut say),
        Command::Timeline(asked) => verbs::blocks::timeline(asked, &terminal, &mut out, &mut say),
        Command::Diff(asked) => verbs::blocks::diff(asked, &terminal, &mut out, &mut say),
        Command::Symbols(symbols) => verbs::modules::symbols(symbols, &terminal, &mut out),
        Command::Bundle(bundle) => verbs::modules::bundle(bundle, &terminal, &mut out),
        Command::Info(asked) => verbs::files::info(asked, &terminal, &mut out, &mut say),
        Command::Verify(asked) => verbs::files::verify(asked, &terminal, &mut out, &mut say),
        Command::Repair(asked) => verbs::files::repair(asked, &terminal, &mut out),
        Command::Split(asked) => verbs::split::split(asked, &mut out, &mut say),
        Command::Dump(dump) => verbs::reading::dump(dump, &mut out, &mut say),
        Command::Recorder(recorder) => write_recorder(recorder, &mut out)
            .map(|()| 0)
            .map_err(Stopped::Other),
        Command::Doctor(doctor) => examine(doctor, &mut out),
        Command::Export(asked) => verbs::export::export(asked, &mut out, &mut say),
        Command::Mtrace(asked) => verbs::mtrace::mtrace(asked, &mut out, &mut say),
        // `from_arguments` made a report of it; the others do not read.
        Command::Files(_) | Command::Run(_) | Command::Record(_) | Command::Recv(_) => Ok(USAGE),
    }
}

fn ran(result: Result<u8, NotRun>) -> u8 {
    result.unwrap_or_else(|NotRun { status, error }| complain(&*error, status))
}

fn failed(cli: &Cli, stopped: Stopped) -> u8 {
    match stopped {
        Stopped::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Stopped::Write(error) => complain(
            &*anyhow::Error::new(error).context("cannot write the result"),
            NOTHING,
        ),
        Stopped::Trace(error) => {
            let line = verbs::reading::chain(&error);
            match (&cli.command, &cli.likely_verb) {
                (Command::Report(report), Some(verb)) if is_missing(&report.inputs.traces) => {
                    tell(&format!("{line}; did you mean `heapwire {verb}`?"));
                }
                _ => tell(&line),
            }
            error.exit_status()
        }
        Stopped::Bundle(error) => complain(&error, NOTHING),
        Stopped::Other(error) => complain(&*error, NOTHING),
    }
}

/// Status 1 where something would keep the program from being recorded.
fn examine(doctor: &Doctor, out: &mut dyn Write) -> Result<u8, Stopped> {
    let diagnosis = record::diagnose(&doctor.command);
    for line in &diagnosis.lines {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(u8::from(diagnosis.is_hindered))
}

fn complain(what: &(dyn Error + 'static), status: u8) -> u8 {
    tell(&verbs::reading::chain(what));
    status
}

fn tell(what: &str) {
    let line = format!("heapwire: {what}\n");
    let _ = io::stderr().write_all(line.as_bytes()); // the status says it as well
}

/// Whether the first of the files is not there.
fn is_missing(files: &[PathBuf]) -> bool {
    files
        .first()
        .is_some_and(|file| file.symlink_metadata().is_err())
}

/// `heapwire recorder`.
fn write_recorder(asked: &Recorder, out: &mut dyn Write) -> Result<()> {
    let Some(path) = &asked.output else {
        for recorder in record::CARRIED {
            writeln!(out, "{}  {} bytes", recorder.name, recorder.library.len())?;
        }
        return out.flush().context("cannot write the result");
    };
    let recorder = record::carried(asked.target.as_deref())?;
    if asked.is_static {
        write_library(path, &record::archive(recorder.object)?, 0o644)?;
        out.write_all(&record::link_options(path, recorder.object)?)?;
    } else if path == Path::new("-") {
        out.write_all(recorder.library)?;
    } else {
        write_library(path, recorder.library, 0o755)?;
    }
    out.flush().context("cannot write the result")
}

/// Makes the file anew: one that a program has loaded must not change under it.
fn write_library(path: &Path, library: &[u8], mode: u32) -> Result<()> {
    write_anew(path, library, mode).with_context(|| format!("cannot write {}", path.display()))
}

fn write_anew(path: &Path, library: &[u8], mode: u32) -> io::Result<()> {
    if path.metadata().is_ok_and(|found| found.is_file()) {
        std::fs::remove_file(path)?;
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)?;
    file.write_all(library)?;
    if file.metadata()?.is_file() {
        file.set_permissions(PermissionsExt::from_mode(mode))?;
    }
    Ok(())
}
