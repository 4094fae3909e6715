//! `heapwire export`: writes traces in formats of others.

use super::files::refuse_input;
use super::reading::{self, NOTHING, Stopped};
use crate::cli::{Export, ExportFormat};
use heapwire::mtrace::{Exporter, Part};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What stands for the pid in the name of an output.
const PID: &[u8] = b"%p";

/// Gives the exit status.
pub(crate) fn export(
    asked: &Export,
    out: &mut dyn Write,
    say: &mut dyn Write,
) -> Result<u8, Stopped> {
    match asked.to {
        ExportFormat::Mtrace => as_logs(asked, out, say),
    }
}

fn as_logs(asked: &Export, out: &mut dyn Write, say: &mut dyn Write) -> Result<u8, Stopped> {
    let mut exporter = Exporter::open(&asked.traces)?;
    let parts = exporter.parts();
    let output = asked
        .output
        .as_deref()
        .filter(|path| *path != Path::new("-"));
    let mut written = Vec::new();
    let mut lines = 0;
    for part in &parts {
        let done = match output {
            None => exporter.write(*part, out)?,
            Some(path) => {
                let path = with_pid(path, part);
                for input in &asked.traces {
                    refuse_input(input, &path)?;
                }
                let mut file = file(&path, written.contains(&path))?;
                written.push(path);
                exporter.write(*part, &mut file)?
            }
        };
        lines += done.lines;
    }
    out.flush()?;
    let is_mixed = output.is_none_or(|path| find_pid(path.as_os_str()).is_none());
    if parts.len() > 1 && is_mixed {
        let number = parts.len();
        writeln!(
            say,
            "heapwire: {number} processes in one log, which mtrace(1) takes for one; %p in the name of the output parts them"
        )?;
    }
    reading::warn(&exporter.warnings(), say)?;
    if lines == 0 {
        writeln!(say, "heapwire: no call was recorded")?;
        return Ok(NOTHING);
    }
    Ok(0)
}

/// Begins a file, or goes on with one that was begun before.
fn file(path: &Path, goes_on: bool) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).write(true);
    if goes_on {
        options.append(true).open(path)
    } else {
        options.truncate(true).open(path)
    }
}

fn find_pid(name: &OsStr) -> Option<usize> {
    let bytes = name.as_bytes();
    bytes.windows(PID.len()).position(|part| part == PID)
}

/// The path with the pid in its place; 0 where it is not known.
fn with_pid(path: &Path, part: &Part) -> PathBuf {
    let Some(at) = find_pid(path.as_os_str()) else {
        return path.to_owned();
    };
    let name = path.as_os_str().as_bytes();
    let pid = part.pid.unwrap_or(0).to_string();
    let parts = [&name[..at], pid.as_bytes(), &name[at + PID.len()..]];
    OsString::from_vec(parts.concat()).into()
}
