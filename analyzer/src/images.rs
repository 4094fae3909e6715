//! Replays all process images of a trace, each child from the moment of its fork in the parent's replay.

use crate::declare::{Began, ForkPoint, ProcessDeclaration};
use crate::mtrace::Session;
use crate::order::{Event, Merge};
use crate::replay::{Beginning, Outcome, Replay};
use crate::sessions::{self, Log};
use crate::sites::SiteTable;
use crate::trace::{Stream, Trace};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::iter::Peekable;
use std::vec::IntoIter;

/// Events that are put in order while as many before them are replayed.
const BATCH: usize = 1 << 14;

/// Generations of forks that are followed; a child beyond counts as one whose parent is missing.
const GENERATIONS: usize = 256;

/// Modules and stack nodes that children take over from their parents in one analysis.
const COPIED: usize = 1 << 24;

/// One process image and what its replay came to.
pub(crate) struct Image {
    pub(crate) declaration: Option<ProcessDeclaration>,
    /// Pid, from the declaration or from its lanes.
    pub(crate) pid: Option<u64>,
    pub(crate) outcome: Outcome,
    /// As `waitpid` gave it to an observer.
    pub(crate) wait_status: Option<u64>,
    /// A forked child whose parent is not in the trace.
    pub(crate) lacks_parent: bool,
    /// Its lanes are in the trace: whatever it recorded is there when it ends.
    pub(crate) has_lanes: bool,
    pub(crate) start: Start,
    /// What the recorder counted as lost, and as holes.
    pub(crate) lost: u64,
    pub(crate) void: u64,
    pub(crate) differing_copies: u64,
    /// What a log says of it besides its records, if it is from one.
    pub(crate) session: Option<Session>,
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
    /// Wall clock at that moment, ns since 1970.
    pub(crate) begin_wall: Option<u64>,
}

impl Images {
    /// The path of the program, where the image is from a log.
    pub(crate) fn program(&self, image: &Image) -> Option<&str> {
        let input = image.session?.input;
        let log = self.logs.iter().find(|log| log.input == input)?;
        log.program()
    }

    /// Replays everything; `want_blocks` keeps the single live blocks.
    pub(crate) fn of(trace: &Trace, want_blocks: bool, sites: &mut SiteTable) -> Self {
        let plan = Plan::of(trace);
        let mut outcomes: Vec<Option<Image>> = Vec::new();
        outcomes.resize_with(trace.streams.len(), || None);
        let begin_clock = plan.begin_clock;
        let begin_wall = plan.begin_wall;
        let mut run = Run {
            trace,
            plan,
            want_blocks,
            images: outcomes,
            copied: 0,
        };
        for stream in 0..trace.streams.len() {
            if run.plan.parents[stream].is_none() {
                run.tree(stream, sites);
            }
        }
        // What is left names each other as parents in a circle: the first of them begins.
        for stream in 0..trace.streams.len() {
            if run.images[stream].is_none() {
                run.tree(stream, sites);
            }
        }
        let found = run.images.into_iter().zip(&trace.streams);
        let mut images: Vec<Image> = found
            .filter(|(_, stream)| !stream.is_empty())
            .filter_map(|(image, _)| image)
            .collect();
        let logs = trace.logs.iter();
        let logs = logs
            .map(|input| sessions::replay(trace, *input, want_blocks, sites, &mut images))
            .collect();
        Self {
            images,
            logs,
            begin_clock,
            begin_wall,
        }
    }
}

/// Who is whose child, and when all began.
struct Plan {
    declarations: Vec<Option<ProcessDeclaration>>,
    /// Parent's place among the streams.
    parents: Vec<Option<usize>>,
    /// Fork points and children of each stream, in order.
    children: Vec<Vec<(u64, usize)>>,
    wait_statuses: Vec<Option<u64>>,
    begin_clock: u64,
    begin_wall: Option<u64>,
}

impl Plan {
    fn of(trace: &Trace) -> Self {
        let declarations: Vec<_> = trace
            .streams
            .par_iter()
            .map(|stream| ProcessDeclaration::find(trace, stream))
            .collect();
        let by_tag: FxHashMap<u32, usize> = (0..)
            .zip(&trace.streams)
            .map(|(index, stream)| (stream.tag, index))
            .collect();
        let mut parents = vec![None; declarations.len()];
        let mut children = vec![Vec::new(); declarations.len()];
        for (index, declaration) in declarations.iter().enumerate() {
            let Some(ForkPoint { parent, number }) = declaration.as_ref().and_then(|it| it.fork)
            else {
                continue;
            };
            if let Some(parent) = by_tag.get(&parent).copied().filter(|it| *it != index) {
                parents[index] = Some(parent);
                children[parent].push((number, index));
            }
        }
        for siblings in &mut children {
            siblings.sort_unstable();
        }
        let first = declarations.iter().flatten().min_by_key(|it| it.clock);
        Self {
            begin_clock: first.map_or_else(|| first_clock(trace), |it| it.clock),
            begin_wall: first.map(|it| it.wall_clock).filter(|wall| *wall != 0),
            wait_statuses: wait_statuses(trace, &declarations),
            declarations,
            parents,
            children,
        }
    }

    fn beginning(&self, stream: usize) -> Beginning {
        let declaration = self.declarations[stream].as_ref();
        let first_number = match declaration {
            Some(it) if it.began == Began::Fork && it.fork.is_none() => None,
            Some(it) => Some(it.first_number()),
            None => Some(1),
        };
        Beginning {
            first_number,
            is_late: declaration.is_none_or(|it| it.began != Began::Exec),
            writes_late: false,
            machine: declaration
                .map(ProcessDeclaration::machine)
                .unwrap_or_default(),
            clock: self.begin_clock,
        }
    }
}

/// The trace's clock when the first recorded process began.
pub(crate) fn begin_clock(trace: &Trace) -> u64 {
    Plan::of(trace).begin_clock
}

/// The first reference of times, which stands in for the begin where no process is declared.
fn first_clock(trace: &Trace) -> u64 {
    let sources = trace.streams.iter().flat_map(|stream| &stream.sources);
    let clocks = sources.map(|source| source.place.clock);
    clocks.min().unwrap_or(0)
}

/// For each stream what an observer said of its end: it speaks of the last stream with that pid before it.
fn wait_statuses(trace: &Trace, declarations: &[Option<ProcessDeclaration>]) -> Vec<Option<u64>> {
    let mut statuses = vec![None; declarations.len()];
    let mut by_pid: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    for (index, (stream, declaration)) in trace.streams.iter().zip(declarations).enumerate() {
        if let Some(pid) = pid(stream, declaration.as_ref()) {
            by_pid.entry(pid).or_default().push(index);
        }
    }
    for observed in &trace.observed {
        let streams = by_pid.get(&observed.pid).map_or(&[][..], Vec::as_slice);
        let before = streams.partition_point(|index| *index < observed.streams_before);
        let meant = streams[..before].last().or(streams.last());
        if let Some(index) = meant {
            statuses[*index] = Some(observed.wait_status);
        }
    }
    statuses
}

fn pid(stream: &Stream, declaration: Option<&ProcessDeclaration>) -> Option<u64> {
    let declared = declaration.map(|it| it.pid);
    declared.or(stream.lanes_pid.map(u64::from))
}

struct Run<'t> {
    trace: &'t Trace,
    plan: Plan,
    want_blocks: bool,
    images: Vec<Option<Image>>,
    /// Modules and stack nodes that children took over.
    copied: usize,
}

impl<'t> Run<'t> {
    /// Replays the image of `root` and those of all its descendants.
    ///
    /// A parent waits at the fork while its child is replayed, so that only one line of descent is in memory.
    fn tree(&mut self, root: usize, sites: &mut SiteTable) {
        let beginning = self.plan.beginning(root);
        let mut line = vec![self.running(root, Replay::new(beginning))];
        loop {
            let depth = line.len();
            let Some(running) = line.last_mut() else {
                return;
            };
            match running.advance(sites) {
                // A circle of parents comes back to its root.
                Some((_, child)) if child == root => {}
                Some((_, child)) if depth >= GENERATIONS => self.plan.parents[child] = None,
                Some((number, child)) => {
                    let beginning = self.plan.beginning(child);
                    // Children declare their modules anew, so past a limit they do without their parent's.
                    self.copied = self.copied.saturating_add(running.replay.code_size());
                    let takes_code = self.copied <= COPIED;
                    let replay = running.replay.fork(number, beginning, takes_code);
                    let next = self.running(child, replay);
                    line.push(next);
                }
                None => {
                    if let Some(done) = line.pop() {
                        self.finish(done, sites);
                    }
                    if let Some(parent) = line.last_mut() {
                        parent.replay.resume();
                    }
                }
            }
        }
    }

    fn running(&mut self, stream: usize, replay: Replay) -> Running<'t> {
        let children = std::mem::take(&mut self.plan.children[stream]);
        Running {
            stream,
            replay,
            merge: Merge::new(self.trace, &self.trace.streams[stream]),
            batch: Vec::new(),
            at: 0,
            next: Vec::new(),
            children: children.into_iter().peekable(),
        }
    }

    fn finish(&mut self, running: Running<'t>, sites: &mut SiteTable) {
        let stream = &self.trace.streams[running.stream];
        let declaration = self.plan.declarations[running.stream].take();
        let outcome = running.replay.finish(stream.taken, self.want_blocks, sites);
        let first = stream.sources.first().map(|source| source.lowest);
        self.images[running.stream] = Some(Image {
            pid: pid(stream, declaration.as_ref()),
            has_lanes: stream.lanes_pid.is_some(),
            lacks_parent: declaration
                .as_ref()
                .is_some_and(|it| it.began == Began::Fork)
                && self.plan.parents[running.stream].is_none(),
            start: Start::of(declaration.as_ref(), first),
            declaration,
            outcome,
            wait_status: self.plan.wait_statuses[running.stream],
            lost: stream.lost.into(),
            void: stream.void.into(),
            differing_copies: running.merge.differing_copies,
            session: None,
        });
    }
}

/// A replay under way.
struct Running<'t> {
    stream: usize,
    replay: Replay,
    merge: Merge<'t>,
    batch: Vec<Event>,
    /// Events of the batch already replayed.
    at: usize,
    next: Vec<Event>,
    children: Peekable<IntoIter<(u64, usize)>>,
}

impl Running<'_> {
    /// Replays up to the next fork point and gives it, with the child; `None` when all is replayed.
    fn advance(&mut self, sites: &mut SiteTable) -> Option<(u64, usize)> {
        loop {
            let rest = &self.batch[self.at..];
            let fork = self.children.peek().map(|(number, _)| *number);
            let before = match fork {
                Some(fork) => rest.partition_point(|event| event.number < fork),
                None => rest.len(),
            };
            if before < rest.len() {
                self.replay.apply(&rest[..before], sites);
                self.at += before;
                return self.children.next();
            }
            self.next.clear();
            let merge = &mut self.merge;
            let next = &mut self.next;
            let replay = &mut self.replay;
            rayon::join(|| merge.fill(next, BATCH), || replay.apply(rest, sites));
            std::mem::swap(&mut self.batch, &mut self.next);
            self.at = 0;
            if self.batch.is_empty() {
                return self.children.next();
            }
        }
    }
}
