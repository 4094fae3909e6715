//! The command `heapwire`. Only this file prints and decides the exit status.

mod cli;
mod quantity;
mod record;
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
use verbs::reading::{NOTHING, Stopped, Terminal};

/// Exit status of a command line that says nothing sensible.
const USAGE: u8 = 2;
/// The same from a verb that gives the status of a program: as `env` does it.
const USAGE_OF_RECORDING: u8 = 125;

fn main() -> ExitCode {
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
    let mut out = BufWriter::new(io::stdout().lock());
    let mut say = io::stderr();
    let terminal = Terminal::of(&io::stdout(), cli);
    match &cli.command {
        Command::Run(run) => ran(verbs::run::run(
            run,
            &Terminal::of(&io::stderr(), cli),
            &mut say,
        )),
        Command::Record(record) => ran(verbs::run::record(
            record,
            &Terminal::of(&io::stderr(), cli),
            &mut say,
        )),
        Command::Report(report) => {
            let result = verbs::reading::report(report, &terminal, &mut out, &mut say);
            match (&result, &cli.likely_verb) {
                (Err(Stopped::Trace(error)), Some(verb)) if is_missing(&report.traces) => {
                    let line = verbs::reading::chain(error);
                    tell(&format!("{line}; did you mean `heapwire {verb}`?"));
                    error.exit_status()
                }
                _ => read(result),
            }
        }
        Command::Check(check) => read(verbs::reading::check(check, &terminal, &mut out, &mut say)),
        Command::Blocks(blocks) => {
            read(verbs::blocks::blocks(blocks, &terminal, &mut out, &mut say))
        }
        Command::Timeline(asked) => read(verbs::blocks::timeline(asked, &mut out, &mut say)),
        Command::Diff(asked) => read(verbs::blocks::diff(asked, &terminal, &mut out, &mut say)),
        Command::Symbols(symbols) => read(verbs::modules::symbols(symbols, &terminal, &mut out)),
        Command::Bundle(bundle) => read(verbs::modules::bundle(bundle, &terminal, &mut out)),
        Command::Info(asked) => read(verbs::files::info(asked, &terminal, &mut out, &mut say)),
        Command::Verify(asked) => read(verbs::files::verify(asked, &terminal, &mut out, &mut say)),
        Command::Repair(asked) => read(verbs::files::repair(asked, &terminal, &mut out)),
        Command::Dump(dump) => read(verbs::reading::dump(dump, &mut out, &mut say)),
        Command::Recorder(recorder) => match write_recorder(recorder, &mut out) {
            Ok(()) => 0,
            Err(error) => complain(&*error, NOTHING),
        },
        Command::Doctor(doctor) => read(examine(doctor, &mut out)),
        Command::Export(asked) => read(verbs::export::export(asked, &mut out, &mut say)),
        Command::Mtrace(asked) => read(verbs::mtrace::mtrace(asked, &mut out, &mut say)),
        // `from_arguments` made a report of it.
        Command::Files(_) => USAGE,
    }
}

fn ran(result: Result<u8, NotRun>) -> u8 {
    result.unwrap_or_else(|NotRun { status, error }| complain(&*error, status))
}

fn read(result: Result<u8, Stopped>) -> u8 {
    match result {
        Ok(status) => status,
        Err(Stopped::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(Stopped::Write(error)) => complain(
            &*anyhow::Error::new(error).context("cannot write the result"),
            NOTHING,
        ),
        Err(Stopped::Trace(error)) => complain(&error, error.exit_status()),
        Err(Stopped::Bundle(error)) => complain(&error, NOTHING),
        Err(Stopped::Other(error)) => complain(&*error, NOTHING),
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
    match &asked.output {
        None => {
            for (target, library) in record::CARRIED {
                writeln!(out, "{target}  {} bytes", library.len())?;
            }
        }
        Some(path) if path == Path::new("-") => {
            out.write_all(record::carried(asked.target.as_deref())?)?;
        }
        Some(path) => {
            let library = record::carried(asked.target.as_deref())?;
            write_library(path, library)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    out.flush().context("cannot write the result")
}

/// Makes the file anew: one that a program has loaded must not change under it.
fn write_library(path: &Path, library: &[u8]) -> io::Result<()> {
    if path.metadata().is_ok_and(|found| found.is_file()) {
        std::fs::remove_file(path)?;
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o755)
        .open(path)?;
    file.write_all(library)?;
    if file.metadata()?.is_file() {
        file.set_permissions(PermissionsExt::from_mode(0o755))?;
    }
    Ok(())
}
