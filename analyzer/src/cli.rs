//! The command line: what can be asked for, and nothing of how it is done.

use crate::quantity::{address, duration, sizes};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Records every heap allocation of a program and tells what leaked and what was freed wrongly.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, subcommand_required = true)]
#[command(arg_required_else_help = true)]
#[command(
    override_usage = "heapwire <COMMAND> …\n       heapwire TRACE…    the same as heapwire report TRACE…"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// When to colour
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub(crate) color: Color,
    /// Columns of text reports [default: those of the terminal, else 100]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) width: Option<NonZeroUsize>,
    /// The verb that was perhaps meant, where the command line begins with a file.
    #[arg(skip)]
    pub(crate) likely_verb: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Record a program, then report on standard error
    Run(Run),
    /// Record a program into a trace file
    Record(Record),
    /// Report leaks, wrong releases and the peak of traces
    Report(Report),
    /// Report, and exit with 1 on leaks or wrong releases: for CI
    Check(Check),
    /// List single blocks of a trace, or all that happened to an address
    Blocks(Blocks),
    /// Show live bytes and blocks over time
    Timeline(Timeline),
    /// Compare two traces, site by site
    Diff(Diff),
    /// List the modules of traces, and where their symbols come from
    Symbols(Symbols),
    /// Pack traces with all files that their symbols come from, for reports elsewhere
    Bundle(Bundle),
    /// Print every record of a trace, one a line
    Dump(Dump),
    /// Say what is in a trace: versions, processes, frames, records, modules
    Info(Info),
    /// Say whether a trace is whole: 0 if so, 1 damaged, 4 not damaged but incomplete
    Verify(Verify),
    /// Write a whole trace of all that can be saved of a damaged one
    Repair(Repair),
    /// Write the recorder library out, for a device
    Recorder(Recorder),
    /// Say what would keep a program from being recorded, without running it
    Doctor(Doctor),
    /// Write a trace in another format
    Export(Export),
    /// Print what mtrace(1) prints about a log of glibc's mtrace
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Mtrace(Mtrace),
    #[command(external_subcommand)]
    Files(Vec<OsString>),
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// Keep the trace in this file; %p is the pid, %e the name of the program
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) recording: Recording,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
    #[command(flatten)]
    pub(crate) program: Program,
}

#[derive(Args, Debug)]
pub(crate) struct Record {
    /// Trace file; %p is the pid, %e the name of the program [default: %e.%p.hwt]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) recording: Recording,
    #[command(flatten)]
    pub(crate) program: Program,
}

#[derive(Args, Debug)]
pub(crate) struct Report {
    /// Trace files; - is standard input
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) filters: Filters,
    /// Sum live blocks by this
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = By::Site)]
    pub(crate) by: By,
    /// Order of the sites that leak
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Sort::Bytes)]
    pub(crate) sort: Sort,
    /// Show sizes, lifetimes, threads and modules of all blocks as well
    #[arg(long)]
    pub(crate) usage: bool,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// Which blocks and wrong releases are listed. All that is asked for must hold; of an option given more than once, one.
#[derive(Args, Debug)]
pub(crate) struct Filters {
    /// Handed out this long after the start, or later
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) from: Option<u64>,
    /// Handed out before this time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) to: Option<u64>,
    /// Look at the trace up to this time: with --from and --to, what that cycle left behind
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) until: Option<u64>,
    /// Handed to this thread; can be given more than once
    #[arg(long, value_name = "TID")]
    pub(crate) thread: Vec<u64>,
    /// Handed out to a module with this in its path; can be given more than once
    #[arg(long, value_name = "PART")]
    pub(crate) module: Vec<String>,
    /// With a function of this name in the stack; can be given more than once
    #[arg(long, value_name = "PART")]
    pub(crate) function: Vec<String>,
    /// Of this size, or from one to another: 64, 1K..64K, 1M..
    #[arg(long, value_name = "A..B", value_parser = sizes)]
    pub(crate) size: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// The call site
    Site,
    /// The innermost function that is not the system's
    Function,
    /// The module of the call
    Module,
    /// The thread that they were handed to
    Thread,
    /// Powers of two of their size
    Size,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// Most bytes first
    Bytes,
    /// Most blocks first
    Blocks,
    /// Most calls first
    Calls,
    /// Oldest first
    Age,
}

#[derive(Args, Debug)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) report: Report,
    /// Count leaks in libraries of the system as well
    #[arg(long)]
    pub(crate) system: bool,
    /// Exit with 4 where nothing was found but the trace is not complete
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Blocks {
    /// Trace files; - is standard input
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// Blocks that were never released
    #[arg(long, required_unless_present_any = ["at", "until", "ptr"])]
    pub(crate) live: bool,
    /// Blocks that are live then: a time such as 90s, the peak, or the end
    #[arg(long, value_name = "WHEN", value_parser = at, conflicts_with = "live")]
    pub(crate) at: Option<At>,
    /// The same, for a cycle: blocks of --from to --to that are not released then
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["live", "at"])]
    pub(crate) until: Option<u64>,
    /// All that happened to this address
    #[arg(long, value_name = "ADDRESS", value_parser = address, conflicts_with_all = ["live", "at", "until"])]
    pub(crate) ptr: Option<u64>,
    /// Handed out this long after the start, or later
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) from: Option<u64>,
    /// Handed out before this time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) to: Option<u64>,
    /// Handed to this thread; can be given more than once
    #[arg(long, value_name = "TID")]
    pub(crate) thread: Vec<u64>,
    /// Handed out to a module with this in its path; can be given more than once
    #[arg(long, value_name = "PART")]
    pub(crate) module: Vec<String>,
    /// With a function of this name in the stack; can be given more than once
    #[arg(long, value_name = "PART")]
    pub(crate) function: Vec<String>,
    /// Handed out at this function, FILE:LINE or address
    #[arg(long, value_name = "SITE")]
    pub(crate) site: Option<String>,
    /// Of this size, or from one to another: 64, 1K..64K, 1M..
    #[arg(long, value_name = "A..B", value_parser = sizes)]
    pub(crate) size: Option<(u64, u64)>,
    /// At least so old
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) min_age: Option<u64>,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// A moment at which blocks are live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Time(u64),
    Peak,
    End,
}

fn at(text: &str) -> Result<At, String> {
    match text {
        "peak" => Ok(At::Peak),
        "end" => Ok(At::End),
        time => duration(time).map(At::Time),
    }
}

#[derive(Args, Debug)]
pub(crate) struct Timeline {
    /// Trace files; - is standard input
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// Length of a step, such as 100ms [default: one that makes a few hundred]
    #[arg(long, value_name = "TIME", value_parser = step)]
    pub(crate) step: Option<u64>,
    /// Leave out steps before this time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) from: Option<u64>,
    /// Leave out steps from this time on
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) to: Option<u64>,
    /// Commas between columns, and times in nanoseconds
    #[arg(long)]
    pub(crate) csv: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Diff {
    /// Trace file to compare with
    #[arg(value_name = "OLD")]
    pub(crate) old: PathBuf,
    /// Trace file that is compared
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,
    /// Compare sums per million allocations or per second
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) per: Option<Per>,
    /// Compare sites in modules with this in their path; can be given more than once
    #[arg(long, value_name = "PART")]
    pub(crate) module: Vec<String>,
    /// Compare sites with a function of this name in the stack; can be given more than once
    #[arg(long, value_name = "PART")]
    pub(crate) function: Vec<String>,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Per {
    /// Per million allocations
    Allocations,
    /// Per second of the trace
    Seconds,
}

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
pub(crate) struct Recorder {
    /// Where to write the library; - is standard output
    #[arg(short, long, value_name = "FILE", required_unless_present = "list")]
    pub(crate) output: Option<PathBuf>,
    /// Machine to record on [default: this one]
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<String>,
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

/// The program to record.
#[derive(Args, Debug)]
pub(crate) struct Program {
    /// The program and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// The program to look at
    #[arg(value_name = "CMD", trailing_var_arg = true)]
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
    /// Rows of each table
    #[arg(long, value_name = "N", default_value = "10")]
    pub(crate) top: NonZeroUsize,
    /// Frames of each stack
    #[arg(long, value_name = "N", default_value = "4")]
    pub(crate) depth: NonZeroUsize,
    #[command(flatten)]
    pub(crate) places: Places,
    /// Show source files below OLD as below NEW; can be given more than once
    #[arg(long, value_name = "OLD=NEW", value_parser = mapping)]
    pub(crate) map: Vec<(String, String)>,
    /// Show C++ and Rust names as the linker sees them
    #[arg(long)]
    pub(crate) no_demangle: bool,
}

/// Where files with symbols are.
#[derive(Args, Debug)]
pub(crate) struct Places {
    /// Folder that holds the file system of the traced machine
    #[arg(long, value_name = "DIR")]
    pub(crate) sysroot: Option<PathBuf>,
    /// Look for debug files here as well; can be given more than once
    #[arg(long, value_name = "DIR")]
    pub(crate) debug_dir: Vec<PathBuf>,
    /// The program's file, where a log of glibc's mtrace names it otherwise
    #[arg(long, value_name = "FILE")]
    pub(crate) exe: Option<PathBuf>,
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

impl Cli {
    /// Reads a command line; one that begins with a file asks for its report.
    pub(crate) fn from_arguments(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, clap::Error> {
        let mut arguments: Vec<OsString> = arguments.into_iter().collect();
        if arguments.get(1).is_some_and(|verb| verb == "mtrace") {
            arguments.insert(2, "--".into()); // nothing after it is an option of ours
        }
        let cli = Self::try_parse_from(arguments)?;
        let Command::Files(rest) = cli.command else {
            return Ok(cli);
        };
        let asked = ["heapwire".into(), "report".into()];
        let likely_verb = rest.first().and_then(|first| likely_verb(first));
        let report = Self::try_parse_from(asked.into_iter().chain(rest))?;
        Ok(Self {
            command: report.command,
            color: match report.color {
                Color::Auto => cli.color,
                given => given,
            },
            width: report.width.or(cli.width),
            likely_verb,
        })
    }
}

/// The verb that `word` is close to.
fn likely_verb(word: &OsStr) -> Option<String> {
    const MOST_EDITS: usize = 2;
    let word = word
        .to_str()
        .filter(|word| word.bytes().all(|byte| byte.is_ascii_alphabetic()))?;
    let cli = Cli::command();
    let verbs = cli.get_subcommands().map(clap::Command::get_name);
    let closest = verbs.min_by_key(|verb| edits(word, verb))?;
    (edits(word, closest) <= MOST_EDITS).then(|| closest.to_owned())
}

/// How many letters must be put in, left out or replaced to make one word the other.
fn edits(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, from) in one.bytes().enumerate() {
        let mut diagonal = line;
        row[0] = line + 1;
        for (column, to) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

fn mapping(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .filter(|(old, _)| !old.is_empty())
        .map(|(old, new)| (old.to_owned(), new.to_owned()))
        .ok_or_else(|| "expected OLD=NEW".to_owned())
}

/// A length that is not nothing.
fn step(text: &str) -> Result<u64, String> {
    match duration(text)? {
        0 => Err("a step is longer than nothing".to_owned()),
        length => Ok(length),
    }
}

#[cfg(test)]
mod tests {
    use super::{Cli, Color, Command, Format, OnFull, likely_verb};
    use clap::CommandFactory;
    use std::path::PathBuf;

    fn parsed(line: &str) -> Result<Cli, clap::Error> {
        Cli::from_arguments(line.split(' ').map(Into::into))
    }

    #[test]
    fn definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_file_alone_is_reported() {
        for line in ["heapwire a.hwt", "heapwire report a.hwt"] {
            let Command::Report(report) = parsed(line).unwrap().command else {
                panic!("{line}");
            };
            assert_eq!(report.traces, [PathBuf::from("a.hwt")]);
        }
        let cli = parsed("heapwire --color never - b.hwt --top 3 --format json").unwrap();
        assert_eq!(cli.color, Color::Never);
        let Command::Report(report) = cli.command else {
            panic!("no report");
        };
        assert_eq!(report.traces, [PathBuf::from("-"), PathBuf::from("b.hwt")]);
        assert_eq!(report.reporting.top.get(), 3);
        assert_eq!(report.reporting.format, Format::Json);
    }

    #[test]
    fn options_after_a_file_count() {
        let cli = parsed("heapwire a.hwt --color always --width 60").unwrap();
        assert_eq!(cli.color, Color::Always);
        assert_eq!(cli.width.map(std::num::NonZero::get), Some(60));
    }

    #[test]
    fn options_after_the_program_are_its_own() {
        for line in [
            "heapwire record -o x --on-full drop --wait 3 -- prog -o y --sum",
            "heapwire record -o x --on-full drop --wait 3 prog -o y --sum",
        ] {
            let Command::Record(record) = parsed(line).unwrap().command else {
                panic!("{line}");
            };
            assert_eq!(record.output, Some(PathBuf::from("x")));
            assert_eq!(record.recording.on_full, Some(OnFull::Drop));
            assert_eq!(record.recording.wait, Some(3));
            assert!(!record.recording.sum);
            assert_eq!(record.program.command, ["prog", "-o", "y", "--sum"]);
        }
    }

    #[test]
    fn arguments_of_mtrace_are_left_to_its_rules() {
        for rest in ["", "--help", "-- log", "--color never", "prog log --top"] {
            let line = format!("heapwire mtrace {rest}");
            let Command::Mtrace(asked) = parsed(line.trim_end()).unwrap().command else {
                panic!("{line}");
            };
            assert_eq!(asked.arguments.join(" ".as_ref()), rest);
        }
    }

    #[test]
    fn half_given_requests_are_refused() {
        for line in [
            "heapwire",
            "heapwire run",
            "heapwire record -o x --",
            "heapwire report",
            "heapwire report a --top 0",
            "heapwire report a --map noequals",
            "heapwire blocks a",
            "heapwire symbols",
            "heapwire bundle a",
            "heapwire record --nonsense prog",
            "heapwire check",
            "heapwire recorder",
            "heapwire recorder --list -o x",
            "heapwire a.hwt --nonsense",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn mistyped_verbs_are_known() {
        let likely = |word: &str| likely_verb(word.as_ref());
        assert_eq!(likely("reprot").as_deref(), Some("report"));
        assert_eq!(likely("recrod").as_deref(), Some("record"));
        assert_eq!(likely("chek").as_deref(), Some("check"));
        assert_eq!(likely("runn").as_deref(), Some("run"));
        assert_eq!(likely("trace").as_deref(), Some("mtrace"));
        for word in ["a.hwt", "run.c", "-", "server", "heap", ""] {
            assert_eq!(likely(word), None, "{word}");
        }
    }

    #[test]
    fn mappings_are_pairs() {
        let Command::Report(report) = parsed("heapwire a --map /build=/src --map /x=")
            .unwrap()
            .command
        else {
            panic!("no report");
        };
        let pairs = [("/build", "/src"), ("/x", "")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(report.reporting.map, pairs);
    }
}
