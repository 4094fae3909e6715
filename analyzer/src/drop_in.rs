//! `heapwire mtrace`: takes the arguments of mtrace(1), prints what it prints, and has its exit statuses.

use crate::cli::Mtrace;
use crate::reading::{Stopped, chain};
use heapwire::{TraceError, mtrace};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;

/// Blocks were left, or an option is not known.
const LEFT: u8 = 1;
/// The number of arguments is wrong.
const WRONG_NUMBER: u8 = 255;

const HELP: &str = "\
Usage: heapwire mtrace [PROG] LOG

Prints what mtrace(1) of glibc prints about a log of its mtrace(), byte for byte and with its exit status: 0, or 1
where blocks were not freed. `heapwire report LOG` says more.
";

/// Gives the exit status.
pub(crate) fn mtrace(
    asked: &Mtrace,
    out: &mut dyn Write,
    say: &mut dyn Write,
) -> Result<u8, Stopped> {
    if let Some(status) = answer_option(&asked.arguments, out)? {
        return Ok(status);
    }
    let log = match &asked.arguments[..] {
        [log] | [_, log] => Path::new(log),
        _ => {
            writeln!(
                say,
                "heapwire: mtrace takes a log, or a program and its log"
            )?;
            return Ok(WRONG_NUMBER);
        }
    };
    match mtrace::print(log, out) {
        Ok(has_leaks) => {
            out.flush()?;
            Ok(if has_leaks { LEFT } else { 0 })
        }
        Err(error) => match error.into() {
            Stopped::Trace(error) => {
                writeln!(say, "heapwire: {}", chain(&error))?;
                Ok(status(&error))
            }
            stopped => Err(stopped),
        },
    }
}

/// Answers where the first argument is an option: all others are operands to mtrace(1).
fn answer_option(arguments: &[OsString], out: &mut dyn Write) -> Result<Option<u8>, Stopped> {
    let Some(first) = arguments.first().map(OsString::as_os_str) else {
        return Ok(None);
    };
    let status = if is_short_for(first, "--version", 3) {
        writeln!(out, "heapwire mtrace {}", env!("CARGO_PKG_VERSION"))?;
        0
    } else if is_short_for(first, "--help", 3) {
        out.write_all(HELP.as_bytes())?;
        0
    } else if first.as_encoded_bytes().starts_with(b"-") {
        let name = heapwire::report::escape(&first.to_string_lossy()).into_owned();
        writeln!(out, "heapwire mtrace: unrecognized option `{name}'")?;
        writeln!(out, "Try `heapwire mtrace --help' for more information.")?;
        LEFT
    } else {
        return Ok(None);
    };
    out.flush()?;
    Ok(Some(status))
}

/// Whether `word` is `option` or its beginning, with no fewer than `least` bytes.
fn is_short_for(word: &OsStr, option: &str, least: usize) -> bool {
    let word = word.as_encoded_bytes();
    word.len() >= least && option.as_bytes().starts_with(word)
}

/// The script ends with the number of what the system said.
fn status(error: &TraceError) -> u8 {
    match error {
        TraceError::Open { source, .. } => source
            .raw_os_error()
            .and_then(|number| u8::try_from(number).ok())
            .unwrap_or(WRONG_NUMBER),
        _ => WRONG_NUMBER,
    }
}
