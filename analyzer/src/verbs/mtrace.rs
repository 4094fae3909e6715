//! `heapwire mtrace`: takes the arguments of mtrace(1), prints what it prints, and has its exit statuses.

use super::reading::{Stopped, chain};
use crate::cli::Mtrace;
use heapwire::mtrace::{self, Printed, Program};
use heapwire::report::escape;
use heapwire::report::format::counted;
use heapwire::{TraceError, symbols};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Blocks were left, or an option is not known.
const LEFT: u8 = 1;
/// The number of arguments is wrong.
const WRONG_NUMBER: u8 = 255;

const HELP: &str = "\
Usage: heapwire mtrace [OPTIONS] [PROG] LOG

Prints what mtrace(1) of glibc prints about a log of its mtrace(), byte for byte and with its exit status: 0, or 1
where blocks were not freed. With PROG, callers are named by file and line; no program is run for that. `heapwire report
LOG` says more.

  --strict-compat    name callers just as mtrace(1) does, where that is wrong as well
  --sysroot DIR      folder that holds the file system of the traced machine
  --debug-dir DIR    look for debug files here as well; can be given more than once
  --map OLD=NEW      show source files below OLD as below NEW; can be given more than once
  --help, --version  print this, or the version

Options come before PROG and LOG.
";

/// What is asked for.
#[derive(Debug, Default)]
struct Request<'a> {
    is_strict: bool,
    symbols: symbols::Options,
    operands: &'a [OsString],
}

/// Gives the exit status.
pub(crate) fn mtrace(
    asked: &Mtrace,
    out: &mut dyn Write,
    say: &mut dyn Write,
) -> Result<u8, Stopped> {
    let request = Request::of(&asked.arguments);
    if let Some(status) = answer_option(request.operands, out)? {
        return Ok(status);
    }
    let (program, log) = match request.operands {
        [log] => (None, Path::new(log)),
        [program, log] if request.is_strict => (Some(PathBuf::from(program)), Path::new(log)),
        [program, log] => (Some(found(program)), Path::new(log)),
        _ => {
            writeln!(
                say,
                "heapwire: mtrace takes a log, or a program and its log"
            )?;
            return Ok(WRONG_NUMBER);
        }
    };
    let options = (!request.is_strict).then_some(&request.symbols);
    let program = program.as_deref().map(|file| Program { file, options });
    match mtrace::print(log, program, out) {
        Ok(printed) => {
            out.flush()?;
            tell_differences(&printed, request.is_strict || program.is_none(), say)?;
            Ok(if printed.has_leaks { LEFT } else { 0 })
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

/// Says where the output is not that of mtrace(1), or that it is where that is wrong.
fn tell_differences(printed: &Printed, is_same: bool, say: &mut dyn Write) -> io::Result<()> {
    if printed.with_blanks > 0 {
        let records = counted(printed.with_blanks, "record");
        let (done, hint) = if is_same {
            ("passed over", "heapwire report reads them")
        } else {
            ("read", "mtrace(1) passes them over")
        };
        writeln!(
            say,
            "heapwire: {records} with a blank in the path of the caller {done}; {hint}"
        )?;
    }
    if printed.differing > 0 {
        let callers = counted(printed.differing, "caller");
        writeln!(
            say,
            "heapwire: {callers} named otherwise than by mtrace(1); --strict-compat gives its very output"
        )?;
    }
    Ok(())
}

impl<'a> Request<'a> {
    /// Takes the options of ours that come first.
    fn of(arguments: &'a [OsString]) -> Self {
        let mut request = Self {
            operands: arguments,
            ..Self::default()
        };
        while let Some((option, rest)) = request.operands.split_first() {
            let option = option.to_str().unwrap_or_default();
            if option == "--strict-compat" {
                request.is_strict = true;
                request.operands = rest;
                continue;
            }
            let (name, value, rest) = match (option.split_once('='), rest.split_first()) {
                (Some((name, value)), _) => (name, OsString::from(value), rest),
                (None, Some((value, rest))) => (option, value.clone(), rest),
                (None, None) => break,
            };
            let symbols = &mut request.symbols;
            match name {
                "--sysroot" => symbols.sysroot = Some(value.into()),
                "--debug-dir" => symbols.debug_dirs.push(value.into()),
                "--map" => {
                    let Some(pair) = value.to_str().and_then(|pair| pair.split_once('=')) else {
                        break;
                    };
                    symbols.map.push((pair.0.to_owned(), pair.1.to_owned()));
                }
                _ => break,
            }
            request.operands = rest;
        }
        request
    }
}

/// The file of the program: in this folder or by its path, else where a shell would find it.
fn found(program: &OsStr) -> PathBuf {
    let here = PathBuf::from(program);
    let is_name = !program.as_encoded_bytes().contains(&b'/');
    if !is_name || here.exists() {
        return here;
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut files = env::split_paths(&folders).map(|folder| folder.join(program));
    files.find(|file| file.is_file()).unwrap_or(here)
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
        let name = escape(&first.to_string_lossy()).into_owned();
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
