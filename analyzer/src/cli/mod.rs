//! The command line: what can be asked for, and nothing of how it is done.

mod files;
mod options;
mod reports;

pub(crate) use files::*;
pub(crate) use options::*;
pub(crate) use reports::*;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
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
    /// Take a trace as it comes from a device: over TCP, telnet, a serial line or standard input
    Recv(Recv),
    /// Report leaks, wrong releases and the peak of traces
    Report(Report),
    /// Report, and exit with 1 on leaks or wrong releases: for CI
    Check(Check),
    /// List single blocks of a trace, or all that happened to an address
    Blocks(Blocks),
    /// Show the most live bytes and blocks in each step of time, which is named by its begin
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
    /// Part the log of a terminal into a program's own output and its trace
    Split(Split),
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
    /// Keep the trace in this file, in place of an older one; %p is the pid, %e the name of the program
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
    /// Trace file, in place of an older one; %p is the pid, %e the name of the program [default: %e.%p.hwt]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) recording: Recording,
    #[command(flatten)]
    pub(crate) program: Program,
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
            return cli.without_contradiction();
        };
        let asked = ["heapwire".into(), "report".into()];
        let likely_verb = rest.first().and_then(|first| likely_verb(first));
        let report = Self::try_parse_from(asked.into_iter().chain(rest))?;
        let report = report.without_contradiction()?;
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

impl Cli {
    /// Refuses times between which there is nothing.
    fn without_contradiction(self) -> Result<Self, clap::Error> {
        let (from, to, until) = match &self.command {
            Command::Report(asked) => (asked.filters.from, asked.filters.to, asked.until),
            Command::Check(asked) => {
                let asked = &asked.report;
                (asked.filters.from, asked.filters.to, asked.until)
            }
            Command::Blocks(asked) => (asked.filters.from, asked.filters.to, asked.last()),
            Command::Timeline(asked) => (asked.from, asked.to, None),
            Command::Diff(asked) => (asked.filters.from, asked.filters.to, None),
            _ => (None, None, None),
        };
        let what = if from.zip(to).is_some_and(|(from, to)| from >= to) {
            "nothing is between them: --from is not before --to"
        } else if from.zip(until).is_some_and(|(from, until)| from > until) {
            "nothing is between them: --from is after the moment up to which the trace is looked at"
        } else {
            return Ok(self);
        };
        Err(Self::command().error(ErrorKind::ArgumentConflict, what))
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
            assert_eq!(report.inputs.traces, [PathBuf::from("a.hwt")]);
        }
        let cli = parsed("heapwire --color never - b.hwt --top 3 --format json").unwrap();
        assert_eq!(cli.color, Color::Never);
        let Command::Report(report) = cli.command else {
            panic!("no report");
        };
        assert_eq!(
            report.inputs.traces,
            [PathBuf::from("-"), PathBuf::from("b.hwt")]
        );
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
            "heapwire split",
            "heapwire recv tcp://device:4000",
            "heapwire recv -o x device:4000",
            "heapwire recv -o x serial:///dev/ttyUSB0?baud=fast",
            "heapwire split log",
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
        assert_eq!(report.reporting.places.map, pairs);
    }
}
