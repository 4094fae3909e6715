//! Replays all process images of a trace, each child from the moment of its fork in the parent's replay.

mod pauses;
mod plan;
mod run;
mod sessions;
mod shelf;

pub(crate) use pauses::Pauses;
pub(crate) use plan::{begin_clock, pids};

use crate::declare::{Began, ProcessDeclaration};
use crate::log::Session;
use crate::replay::{Chart, Outcome, Wanted};
use crate::sites::SiteTable;
use crate::trace::{Trace, TraceError};
use rustc_hash::FxHashMap;
pub(crate) use sessions::Log;
pub(crate) use shelf::Listed;
use shelf::Shelf;

/// One process image and what its replay came to.
pub(crate) struct Image {
    /// Tag of its stream.
    pub(crate) tag: u32,
    pub(crate) declaration: Option<ProcessDeclaration>,
    /// Pid, from the declaration or from its lanes.
    pub(crate) pid: Option<u64>,
    pub(crate) outcome: Outcome,
    /// Its live blocks, as far as they are wanted.
    pub(crate) blocks: Listed,
    /// As `waitpid` gave it to an observer, and the clock then.
    pub(crate) wait_status: Option<u64>,
    pub(crate) seen_to_end: Option<u64>,
    /// Nothing of what came later was looked at.
    pub(crate) is_stopped: bool,
    /// Where its times are not known, if that is asked for or it was looked at up to a time.
    pub(crate) pauses: Pauses,
    /// A forked child whose parent is not in the trace.
    pub(crate) lacks_parent: bool,
    /// Its lanes are in the trace: whatever it recorded is there when it ends.
    pub(crate) has_lanes: bool,
    /// Frames of it are missing.
    pub(crate) lacks_frames: bool,
    pub(crate) start: Start,
    /// No record of it can have a lower number than those that are known to be missing.
    pub(crate) knows_first: bool,
    /// What the recorder counted as lost, and as holes.
    pub(crate) lost: u64,
    pub(crate) void: u64,
    pub(crate) differing_copies: u64,
    /// Copies that were compared with nothing, since they came late.
    pub(crate) late_copies: u64,
    /// Records that came too late for their place.
    pub(crate) late: u64,
    /// What a log says of it besides its records, if it is from one.
    pub(crate) session: Option<Session>,
}

impl Image {
    /// The command line, where it is known.
    pub(crate) fn command(&self) -> Option<Vec<String>> {
        let arguments = &self.declaration.as_ref()?.arguments;
        (!arguments.is_empty()).then(|| arguments.clone())
    }

    /// Whether it is of a process that is asked for; without pids all are.
    fn is_one_of(&self, pids: &[u64]) -> bool {
        pids.is_empty() || self.pid.is_some_and(|pid| pids.contains(&pid))
    }
}

/// What the trace has of the start of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// All of it.
    Seen,
    /// The program had begun before the recording.
    Late,
    /// The first record is missing.
    Missing,
}

impl Start {
    fn of(declaration: Option<&ProcessDeclaration>, first_number: Option<u64>) -> Self {
        match declaration {
            Some(it) if it.began == Began::Late => Self::Late,
            Some(it) if Some(it.number) == first_number => Self::Seen,
            _ => Self::Missing,
        }
    }
}

/// All process images of a trace, in order of appearance.
pub(crate) struct Images {
    pub(crate) images: Vec<Image>,
    /// The logs among the inputs.
    pub(crate) logs: Vec<Log>,
    /// The trace's clock when the first recorded process began.
    pub(crate) begin_clock: u64,
    /// The same when who watched the processes saw the last of them end.
    pub(crate) end_clock: Option<u64>,
    /// Wall clock at the begin, ns since 1970.
    pub(crate) begin_wall: Option<u64>,
}

/// Where replays stop before the end.
#[derive(Default)]
pub(crate) enum Stops {
    #[default]
    Nowhere,
    /// So many nanoseconds after the first recorded process began.
    At(u64),
    /// After the record of this number, for each stream tag and for each session of a log in order.
    After(FxHashMap<u32, u64>, Vec<u64>),
}

/// Where one replay stops.
#[derive(Clone, Copy)]
struct Stop {
    /// The first number that is not replayed.
    number: u64,
    /// The highest clock that is.
    clock: u64,
}

impl Stop {
    const NOWHERE: Self = Self {
        number: u64::MAX,
        clock: u64::MAX,
    };
}

impl Stops {
    fn of(&self, tag: u32, begin_clock: u64) -> Stop {
        let mut stop = Stop::NOWHERE;
        match self {
            Self::Nowhere => {}
            Self::At(time) => stop.clock = begin_clock.saturating_add(*time),
            Self::After(numbers, _) => {
                stop.number = numbers.get(&tag).map_or(0, |last| last.saturating_add(1));
            }
        }
        stop
    }

    /// The last number that is replayed of a session of a log, of those after `before` others.
    fn of_session(&self, before: usize) -> Option<u64> {
        match self {
            Self::Nowhere | Self::At(_) => None, // a log knows no time
            Self::After(_, sessions) => sessions.get(before).copied(),
        }
    }
}

impl Images {
    /// Each image's moment of most live bytes.
    pub(crate) fn peaks(&self) -> Stops {
        let (sessions, streams): (Vec<_>, Vec<_>) =
            self.images.iter().partition(|it| it.session.is_some());
        let peak = |image: &Image| image.outcome.peak.number;
        Stops::After(
            streams.into_iter().map(|it| (it.tag, peak(it))).collect(),
            sessions.into_iter().map(peak).collect(),
        )
    }

    /// Those that are asked for; all where no pid is.
    pub(crate) fn shown(&self, pids: &[u64]) -> Vec<&Image> {
        let images = self.images.iter();
        images.filter(|image| image.is_one_of(pids)).collect()
    }

    /// The executable, where it is declared or a log names it.
    pub(crate) fn exe(&self, image: &Image) -> Option<String> {
        let of_log = || {
            let index = image.session?.log;
            let log = self.logs.iter().find(|log| log.index == index)?;
            Some(log.program()?.to_string_lossy().into_owned())
        };
        let declared = image.declaration.as_ref().and_then(|it| it.exe.clone());
        declared.or_else(of_log)
    }

    /// Replays everything, and keeps the single live blocks that are wanted.
    ///
    /// # Errors
    ///
    /// An input can no longer be read.
    pub(crate) fn of(
        trace: &mut Trace,
        wanted: Wanted,
        stops: &Stops,
        sites: &mut SiteTable,
    ) -> Result<Self, TraceError> {
        Self::charted(trace, wanted, stops, &Chart::default(), sites)
    }

    /// The same with timelines as they are asked for.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub(crate) fn charted(
        trace: &mut Trace,
        wanted: Wanted,
        stops: &Stops,
        chart: &Chart,
        sites: &mut SiteTable,
    ) -> Result<Self, TraceError> {
        let shelf = &mut Shelf::of(wanted);
        let mut found = run::all(trace, shelf, stops, chart, sites)?;
        for input in &trace.logs {
            let images = &mut found.images;
            let logs = sessions::replay(trace, *input, shelf, stops, chart, sites, images);
            found.logs.extend(logs);
        }
        Ok(found)
    }
}
