//! What the verbs take that report on blocks.

use super::options::{Places, Reporting};
use crate::quantity::{address, duration, sizes};
use clap::{ArgGroup, Args, ValueEnum};
use heapwire::Selection;
use std::path::PathBuf;

/// Traces, and which processes of them.
#[derive(Args, Debug)]
pub(crate) struct Inputs {
    /// Trace files; - is standard input
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// Of this process only; can be given more than once
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct Report {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    #[command(flatten)]
    pub(crate) filters: Filters,
    /// Look at the trace up to this time: with --from and --to, what that cycle left behind
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) until: Option<u64>,
    /// Sum live blocks by this
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = By::Site)]
    pub(crate) by: By,
    /// What each cycle between two marks of the program left behind: the same as --by mark
    #[arg(long, conflicts_with = "by")]
    pub(crate) per_mark: bool,
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
    #[command(flatten)]
    pub(crate) like: Like,
}

/// What blocks must be like, whenever they were handed out.
#[derive(Args, Debug)]
pub(crate) struct Like {
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

impl Filters {
    /// What the library is asked for.
    pub(crate) fn selection(&self) -> Selection {
        Selection {
            from: self.from,
            to: self.to,
            ..self.like.selection()
        }
    }
}

impl Like {
    /// What the library is asked for.
    pub(crate) fn selection(&self) -> Selection {
        Selection {
            threads: self.thread.clone(),
            modules: self.module.clone(),
            functions: self.function.clone(),
            sizes: self.size,
            ..Selection::default()
        }
    }
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
    /// The mark of the program that they were handed out after
    Mark,
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
#[command(group(ArgGroup::new("which").required(true).args(["live", "at", "until", "ptr"])))]
pub(crate) struct Blocks {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Blocks that were never released
    #[arg(long)]
    pub(crate) live: bool,
    /// Blocks that are live then: a time such as 90s, the peak, or the end
    #[arg(long, value_name = "WHEN", value_parser = at)]
    pub(crate) at: Option<At>,
    /// The same, for a cycle: blocks of --from to --to that are not released then
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) until: Option<u64>,
    /// All that happened to this address
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) ptr: Option<u64>,
    #[command(flatten)]
    pub(crate) filters: Filters,
    /// Handed out at this function, FILE:LINE or address
    #[arg(long, value_name = "SITE")]
    pub(crate) site: Option<String>,
    /// At least so old when the process, or what is looked at of it, ends
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) min_age: Option<u64>,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

impl Blocks {
    /// The time up to which the trace is looked at, if that is given.
    pub(super) fn last(&self) -> Option<u64> {
        match self.at {
            Some(At::Time(time)) => Some(time),
            _ => self.until,
        }
    }
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
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// Length of a step, such as 100ms [default: one that makes a few hundred]
    #[arg(long, value_name = "TIME", value_parser = step)]
    pub(crate) step: Option<u64>,
    /// Leave out steps before this time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) from: Option<u64>,
    /// Leave out steps from this time on
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) to: Option<u64>,
    #[command(flatten)]
    pub(crate) like: Like,
    #[command(flatten)]
    pub(crate) places: Places,
    /// Commas between columns, times in nanoseconds, 1 in the last column where calls may belong to a step beside
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
    #[command(flatten)]
    pub(crate) filters: Filters,
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

/// A length that is not nothing.
fn step(text: &str) -> Result<u64, String> {
    match duration(text)? {
        0 => Err("a step is longer than nothing".to_owned()),
        length => Ok(length),
    }
}
