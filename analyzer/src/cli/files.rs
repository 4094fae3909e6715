//! What the verbs take that are about files: traces, symbols, the recorder, programs before they run.

use super::options::{Format, Places};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct Symbols {
    /// Trace files; - is standard input
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// How to write the list
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) places: Places,
}

#[derive(Args, Debug)]
pub(crate) struct Bundle {
    /// Trace files; - is standard input
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// Folder to pack them into; every verb that reads traces takes it for them
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) places: Places,
}

#[derive(Args, Debug)]
pub(crate) struct Dump {
    /// Trace file; - is standard input
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct Info {
    /// Trace file; - is standard input
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// How to write it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Rows of each list
    #[arg(long, value_name = "N", default_value = "10")]
    pub(crate) top: NonZeroUsize,
}

#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// Trace file; - is standard input
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// How to write it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Args, Debug)]
pub(crate) struct Repair {
    /// Trace file, which stays as it is; - is standard input
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// Where to write the repaired trace; what is no trace is never overwritten
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct Split {
    /// What came over the terminal, as its program logged it; - is standard input
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,
    /// Where to write the text that is no trace; - is standard output
    #[arg(long, value_name = "FILE", required_unless_present = "output")]
    pub(crate) text: Option<PathBuf>,
    /// Where to write the trace; what is no trace is never overwritten
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Recv {
    /// tcp://HOST:PORT, listen://ADDRESS:PORT, telnet://HOST:PORT, serial:///dev/ttyUSB0?baud=115200, or - for standard input
    #[arg(value_name = "SOURCE", value_parser = crate::verbs::recv::Source::parse)]
    pub(crate) source: crate::verbs::recv::Source,
    /// Where to write the trace; what is no trace is never overwritten
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Go on with the trace that is in FILE
    #[arg(long)]
    pub(crate) append: bool,
    /// Connect again when the line is cut, until Ctrl-C
    #[arg(long)]
    pub(crate) reconnect: bool,
    /// Bytes of trace and text at which to end
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = crate::quantity::bytes)]
    pub(crate) max_size: u64,
}

#[derive(Args, Debug)]
pub(crate) struct Recorder {
    /// Where to write the library; - is standard output
    #[arg(short, long, value_name = "FILE", required_unless_present = "list")]
    pub(crate) output: Option<PathBuf>,
    /// Machine to record on [default: this one]
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Write libheapwire.a, for a program that is linked statically, and print what the compiler that links it must be told
    #[arg(long = "static", conflicts_with = "list")]
    pub(crate) is_static: bool,
    /// List the targets
    #[arg(long, conflicts_with_all = ["output", "target"])]
    pub(crate) list: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Export {
    /// Trace files; - is standard input
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// The format to write
    #[arg(long, value_enum)]
    pub(crate) to: ExportFormat,
    /// Where to write it; %p is the pid [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Log of glibc's mtrace
    Mtrace,
}

/// Arguments as mtrace(1) takes them: what is an option is decided by its rules.
#[derive(Args, Debug)]
pub(crate) struct Mtrace {
    /// The program, if its files are to name callers, and the log
    #[arg(value_name = "[PROG] LOG")]
    pub(crate) arguments: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// The program to look at
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}
