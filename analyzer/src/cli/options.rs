//! Options that several verbs share.

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// The program to record.
#[derive(Args, Debug)]
pub(crate) struct Program {
    /// The program and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

/// What the recorder is told.
#[derive(Args, Debug)]
pub(crate) struct Recording {
    /// What the recorder does when the reader of the trace is too slow
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) on_full: Option<OnFull>,
    /// Seconds to wait for a slow reader before records are dropped
    #[arg(long, value_name = "SECONDS")]
    pub(crate) wait: Option<u32>,
    /// Protect records with a check sum
    #[arg(long)]
    pub(crate) sum: bool,
}

/// What a report shows, and where symbols come from.
#[derive(Args, Debug)]
pub(crate) struct Reporting {
    /// How to write the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Rows of each table or list, and processes shown in full, in text; JSON has all
    #[arg(long, value_name = "N", default_value = "10")]
    pub(crate) top: NonZeroUsize,
    /// Frames of each stack
    #[arg(long, value_name = "N", default_value = "4")]
    pub(crate) depth: NonZeroUsize,
    #[command(flatten)]
    pub(crate) places: Places,
    /// Show C++ and Rust names as the linker sees them
    #[arg(long)]
    pub(crate) no_demangle: bool,
}

/// Where files with symbols are.
#[derive(Args, Debug)]
pub(crate) struct Places {
    /// Folder that holds the file system of the traced machine
    #[arg(long, value_name = "DIR", value_parser = PathBufValueParser::new().try_map(folder))]
    pub(crate) sysroot: Option<PathBuf>,
    /// Look for debug files here as well; can be given more than once
    #[arg(long, value_name = "DIR", value_parser = PathBufValueParser::new().try_map(folder))]
    pub(crate) debug_dir: Vec<PathBuf>,
    /// The program's file, where a log of glibc's mtrace names it otherwise
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(file))]
    pub(crate) exe: Option<PathBuf>,
    /// Show source files below OLD as below NEW; can be given more than once
    #[arg(long, value_name = "OLD=NEW", value_parser = mapping)]
    pub(crate) map: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFull {
    /// Wait for the reader
    Block,
    /// Drop records and count them
    Drop,
}

/// A folder that is there: symbols that are looked for nowhere would only be missing.
fn folder(path: PathBuf) -> Result<PathBuf, &'static str> {
    match (path.is_dir(), path.exists()) {
        (true, _) => Ok(path),
        (false, true) => Err("it is not a folder"),
        (false, false) => Err("there is no such folder"),
    }
}

/// A file that is there.
fn file(path: PathBuf) -> Result<PathBuf, &'static str> {
    match (path.is_file(), path.exists()) {
        (true, _) => Ok(path),
        (false, true) => Err("it is not a file"),
        (false, false) => Err("there is no such file"),
    }
}

fn mapping(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .filter(|(old, _)| !old.is_empty())
        .map(|(old, new)| (old.to_owned(), new.to_owned()))
        .ok_or_else(|| "expected OLD=NEW".to_owned())
}
