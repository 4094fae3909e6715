//! Replays all process images of a trace, each child from the moment of its fork in the parent's replay.

use crate::declare::{Began, ForkPoint, ProcessDeclaration};
use crate::mtrace::Session;
use crate::order::Order;
use crate::replay::{Beginning, Outcome, Replay};
use crate::sessions::{self, Log};
use crate::sites::SiteTable;
use crate::trace::source::Source;
use crate::trace::{Stream, Supplied, Supply, Trace, TraceError};
use rustc_hash::FxHashMap;
use std::iter::Peekable;
use std::mem;
use std::vec::IntoIter;

/// Records at the start of a stream that its declaration is looked for among.
const HEAD: u64 = 1 << 17;

/// Generations of forks that are followed; a child beyond counts as one whose parent is missing.
const GENERATIONS: usize = 256;

/// Modules and stack nodes that children take over from their parents in one analysis.
const COPIED: usize = 1 << 24;

/// One process image and what its replay came to.
pub(crate) struct Image {
    /// Tag of its stream.
    pub(crate) tag: u32,
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
    /// Records that came too late for their place.
    pub(crate) late: u64,
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

/// Where replays stop before the end.
#[derive(Default)]
pub(crate) enum Stops {
    #[default]
    Nowhere,
    /// So many nanoseconds after the first recorded process began.
    At(u64),
    /// For each stream tag after the record of this number.
    After(FxHashMap<u32, u64>),
}

/// Where one replay stops.
#[derive(Clone, Copy)]
struct Stop {
    /// The first number that is not replayed.
    number: u64,
    /// The highest clock that is.
    clock: u64,
}

impl Stops {
    fn of(&self, tag: u32, begin_clock: u64) -> Stop {
        let mut stop = Stop {
            number: u64::MAX,
            clock: u64::MAX,
        };
        match self {
            Self::Nowhere => {}
            Self::At(time) => stop.clock = begin_clock.saturating_add(*time),
            Self::After(numbers) => {
                stop.number = numbers.get(&tag).map_or(0, |last| last.saturating_add(1));
            }
        }
        stop
    }
}

impl Images {
    /// Each image's moment of most live bytes.
    pub(crate) fn peaks(&self) -> Stops {
        let images = self.images.iter();
        Stops::After(
            images
                .map(|image| (image.tag, image.outcome.peak.number))
                .collect(),
        )
    }

    /// The path of the program, where the image is from a log.
    pub(crate) fn program(&self, image: &Image) -> Option<&str> {
        let index = image.session?.log;
        let log = self.logs.iter().find(|log| log.index == index)?;
        log.program()
    }

    /// Replays everything; `want_blocks` keeps the single live blocks.
    ///
    /// # Errors
    ///
    /// An input can no longer be read.
    pub(crate) fn of(
        trace: &mut Trace,
        want_blocks: bool,
        stops: &Stops,
        sites: &mut SiteTable,
    ) -> Result<Self, TraceError> {
        Self::in_steps(trace, want_blocks, stops, None, sites)
    }

    /// The same with timelines in steps of so many nanoseconds.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub(crate) fn in_steps(
        trace: &mut Trace,
        want_blocks: bool,
        stops: &Stops,
        step: Option<u64>,
        sites: &mut SiteTable,
    ) -> Result<Self, TraceError> {
        let mut run = Run {
            stops,
            step,
            want_blocks,
            plan: Plan::default(),
            images: Vec::new(),
            copied: 0,
            first: None,
            sites: &mut *sites,
            trace: &mut *trace,
        };
        if let Some(supply) = run.trace.alone() {
            run.alone(supply)?;
        } else {
            run.plan = Plan::of(run.trace, None)?;
        }
        run.images.resize_with(run.trace.streams.len(), || None);
        run.plan.fit(run.trace.streams.len());
        for stream in 0..run.trace.streams.len() {
            if run.images[stream].is_none() && run.plan.parents[stream].is_none() {
                run.tree(stream)?;
            }
        }
        // What is left names each other as parents in a circle: the first of them begins.
        for stream in 0..run.trace.streams.len() {
            if run.images[stream].is_none() {
                run.tree(stream)?;
            }
        }
        let mut found = run.result();
        for input in &trace.logs {
            let logs = sessions::replay(trace, *input, want_blocks, sites, &mut found.images);
            found.logs.extend(logs);
        }
        Ok(found)
    }
}

/// Who is whose child, and when all began.
#[derive(Default)]
struct Plan {
    /// Nanoseconds of a step of timelines.
    step: Option<u64>,
    declarations: Vec<Option<ProcessDeclaration>>,
    /// Parent's place among the streams.
    parents: Vec<Option<usize>>,
    /// Fork points and children of each stream, in order.
    children: Vec<Vec<(u64, usize)>>,
    begin_clock: u64,
    begin_wall: Option<u64>,
}

impl Plan {
    /// The plan of an indexed trace; `first` are sources of its first stream that were taken out of it before.
    fn of(trace: &Trace, first: Option<&Order>) -> Result<Self, TraceError> {
        let heads = (0..trace.streams.len())
            .map(|stream| {
                let taken = first.filter(|_| stream == 0);
                Head::of(trace, stream, taken)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let clocks = heads.iter().filter_map(|head| head.clock);
        let begin_clock = clocks.min().unwrap_or(0);
        let declarations = heads.into_iter().map(|head| head.declaration);
        Ok(Self::with(trace, declarations.collect(), begin_clock))
    }

    fn with(
        trace: &Trace,
        declarations: Vec<Option<ProcessDeclaration>>,
        begin_clock: u64,
    ) -> Self {
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
            step: None,
            begin_clock: first.map_or(begin_clock, |it| it.clock),
            begin_wall: first.map(|it| it.wall_clock).filter(|wall| *wall != 0),
            declarations,
            parents,
            children,
        }
    }

    /// Has a place for each of `streams`.
    fn fit(&mut self, streams: usize) {
        self.declarations.resize(streams, None);
        self.parents.resize(streams, None);
        self.children.resize(streams, Vec::new());
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
            step: self.step,
        }
    }
}

/// What the first records of a stream tell.
#[derive(Default)]
struct Head {
    declaration: Option<ProcessDeclaration>,
    /// Lowest reference of times, which stands in for the begin where no process is declared.
    clock: Option<u64>,
}

impl Head {
    /// Reads as much of an indexed stream as is needed.
    fn of(trace: &Trace, stream: usize, taken: Option<&Order>) -> Result<Self, TraceError> {
        let mut supply = trace.supply(stream);
        let mut sources: Vec<Source> = taken
            .map(|order| order.untouched().cloned().collect())
            .unwrap_or_default();
        let mut records = 0;
        loop {
            let head = Self::in_sources(sources.iter());
            let lowest = sources.iter().map(|source| source.lowest).min();
            let is_found = head.declaration.as_ref().is_some_and(|it| {
                Some(it.number) == lowest && (it.exe.is_some() || !it.arguments.is_empty())
            });
            if is_found || records >= HEAD {
                return Ok(head);
            }
            let Some(more) = trace.peek_sources(&mut supply)? else {
                return Ok(head);
            };
            records += more.iter().map(|it| u64::from(it.records)).sum::<u64>();
            sources.extend(more);
        }
    }

    fn in_sources<'s>(sources: impl Iterator<Item = &'s Source> + Clone) -> Self {
        Self {
            declaration: ProcessDeclaration::find(sources.clone()),
            clock: sources.map(|source| source.place.clock).min(),
        }
    }
}

/// Makes an index of the trace's streams; gives the clock when the first recorded process began.
pub(crate) fn begin_clock(trace: &Trace) -> Result<u64, TraceError> {
    Ok(Plan::of(trace, None)?.begin_clock)
}

/// The pid of each indexed stream, where it is known.
pub(crate) fn pids(trace: &Trace) -> Result<Vec<Option<u64>>, TraceError> {
    let plan = Plan::of(trace, None)?;
    let declared = plan.declarations.iter().zip(&trace.streams);
    Ok(declared
        .map(|(declaration, stream)| pid(stream, declaration.as_ref()))
        .collect())
}

/// For each stream what an observer said of its end: it speaks of the last stream with that pid before it.
fn wait_statuses(trace: &Trace, pids: &[Option<u64>]) -> Vec<Option<u64>> {
    let mut statuses = vec![None; pids.len()];
    let mut by_pid: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    for (index, pid) in pids.iter().enumerate() {
        if let Some(pid) = pid {
            by_pid.entry(*pid).or_default().push(index);
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
    stops: &'t Stops,
    step: Option<u64>,
    trace: &'t mut Trace,
    sites: &'t mut SiteTable,
    plan: Plan,
    want_blocks: bool,
    images: Vec<Option<Image>>,
    /// Modules and stack nodes that children took over.
    copied: usize,
    /// The first stream, if some of it was read before it was known that there are others.
    first: Option<Running>,
}

impl Run<'_> {
    /// Replays the one stream that the trace seems to have, and if there are others, all of its tree.
    fn alone(&mut self, supply: Supply) -> Result<(), TraceError> {
        let mut running = Running::new(supply);
        // Its declaration is among the first records, if it is there at all.
        let mut is_alone = true;
        while is_alone && !running.order.is_ready() {
            is_alone = running.feed(self.trace)?;
        }
        if is_alone {
            let head = Head::in_sources(running.order.untouched());
            let has_parent = head
                .declaration
                .as_ref()
                .is_some_and(|it| it.fork.is_some());
            if !has_parent {
                let clock = head.clock.unwrap_or(0);
                self.plan = Plan::with(self.trace, vec![head.declaration], clock);
                if self.trace.streams.is_empty() {
                    return Ok(());
                }
                self.plan.step = self.step;
                running.begin(&mut self.plan, None);
                return self.line(running);
            }
            self.trace.expect_several(&mut running.supply)?;
        }
        self.plan = Plan::of(self.trace, Some(&running.order))?;
        self.first = Some(running);
        Ok(())
    }

    /// Replays the image of `root` and those of all its descendants.
    fn tree(&mut self, root: usize) -> Result<(), TraceError> {
        let mut running = self.running(root);
        running.begin(&mut self.plan, None);
        self.line(running)
    }

    /// A stream of which nothing was replayed.
    fn running(&mut self, stream: usize) -> Running {
        self.plan.step = self.step;
        match self.first.take() {
            Some(first) if first.supply.stream == stream => first,
            other => {
                self.first = other;
                Running::new(self.trace.supply(stream))
            }
        }
    }

    /// A parent waits at the fork while its child is replayed, so that only one line of descent is in memory.
    fn line(&mut self, first: Running) -> Result<(), TraceError> {
        let root = first.supply.stream;
        let mut line = vec![first];
        loop {
            let depth = line.len();
            let Some(running) = line.last_mut() else {
                return Ok(());
            };
            let tag = self.trace.streams.get(running.supply.stream);
            let stop = self
                .stops
                .of(tag.map_or(0, |stream| stream.tag), self.plan.begin_clock);
            match running.advance(stop, self.trace, self.sites)? {
                // A circle of parents comes back to its root.
                Next::Fork(_, child) if child == root => {}
                Next::Fork(_, child) if depth >= GENERATIONS => self.plan.parents[child] = None,
                Next::Fork(number, child) => {
                    // Children declare their modules anew, so past a limit they do without their parent's.
                    self.copied = self.copied.saturating_add(running.replay.code_size());
                    let takes_code = self.copied <= COPIED;
                    let mut next = self.running(child);
                    let from = Some((number, takes_code, &mut running.replay));
                    next.begin(&mut self.plan, from);
                    line.push(next);
                }
                Next::Several => {
                    let declaration = self.plan.declarations[root].take();
                    let begin = (self.plan.begin_clock, self.plan.begin_wall);
                    self.plan = Plan::of(self.trace, None)?;
                    self.plan.declarations[root] = declaration;
                    (self.plan.begin_clock, self.plan.begin_wall) = begin;
                    let children = mem::take(&mut self.plan.children[root]);
                    running.children = children.into_iter().peekable();
                }
                Next::End => {
                    if let Some(done) = line.pop() {
                        self.finish(done);
                    }
                    if let Some(parent) = line.last_mut() {
                        parent.replay.resume();
                    }
                }
            }
        }
    }

    fn finish(&mut self, running: Running) {
        let stream = running.supply.stream;
        if stream >= self.images.len() {
            self.images.resize_with(stream + 1, || None);
        }
        let claimed = &self.trace.streams[stream];
        let declaration = self.plan.declarations[stream].take();
        let order = &running.order;
        let first = order.lowest();
        let (differing_copies, late) = (order.differing_copies, order.late);
        let taken = if running.is_stopped { 0 } else { claimed.taken };
        let outcome = running.replay.finish(taken, self.want_blocks, self.sites);
        self.images[stream] = Some(Image {
            tag: claimed.tag,
            pid: pid(claimed, declaration.as_ref()),
            has_lanes: claimed.lanes_pid.is_some(),
            lacks_parent: declaration
                .as_ref()
                .is_some_and(|it| it.began == Began::Fork)
                && self.plan.parents[stream].is_none(),
            start: Start::of(declaration.as_ref(), first),
            declaration,
            outcome,
            wait_status: None,
            lost: claimed.lost.into(),
            void: claimed.void.into(),
            differing_copies,
            late,
            session: None,
        });
    }

    fn result(self) -> Images {
        let pids: Vec<_> = self
            .images
            .iter()
            .map(|image| image.as_ref().and_then(|image| image.pid))
            .collect();
        let statuses = wait_statuses(self.trace, &pids);
        let images = self.images.into_iter().zip(statuses);
        let images = images.zip(&self.trace.streams);
        Images {
            images: images
                .filter(|(_, stream)| !stream.is_empty())
                .filter_map(|((image, wait_status), _)| {
                    Some(Image {
                        wait_status,
                        ..image?
                    })
                })
                .collect(),
            logs: Vec::new(),
            begin_clock: self.plan.begin_clock,
            begin_wall: self.plan.begin_wall,
        }
    }
}

/// A replay under way.
struct Running {
    supply: Supply,
    order: Order,
    replay: Replay,
    children: Peekable<IntoIter<(u64, usize)>>,
    /// Nothing more is to be replayed.
    is_stopped: bool,
}

/// Where a replay stopped.
enum Next {
    /// At a fork point, with the child.
    Fork(u64, usize),
    /// Where it turned out that there are other streams.
    Several,
    End,
}

impl Running {
    fn new(supply: Supply) -> Self {
        Self {
            supply,
            order: Order::default(),
            replay: Replay::new(Beginning::default()),
            children: Vec::new().into_iter().peekable(),
            is_stopped: false,
        }
    }

    /// Begins as the plan says; a forked child with what its parent has.
    fn begin(&mut self, plan: &mut Plan, parent: Option<(u64, bool, &mut Replay)>) {
        let stream = self.supply.stream;
        let beginning = plan.beginning(stream);
        self.replay = match parent {
            Some((number, takes_code, parent)) => parent.fork(number, beginning, takes_code),
            None => Replay::new(beginning),
        };
        let children = mem::take(&mut plan.children[stream]);
        self.children = children.into_iter().peekable();
    }

    /// Reads on. `false`: there are other streams.
    fn feed(&mut self, trace: &mut Trace) -> Result<bool, TraceError> {
        feed(trace, &mut self.supply, &mut self.order)
    }

    /// Replays up to the next fork point, or to the end.
    fn advance(
        &mut self,
        stop: Stop,
        trace: &mut Trace,
        sites: &mut SiteTable,
    ) -> Result<Next, TraceError> {
        let fork = self.children.peek().map(|(number, _)| *number);
        let limit = fork.unwrap_or(u64::MAX).min(stop.number);
        let (supply, order) = (&mut self.supply, &mut self.order);
        let is_stopped = &mut self.is_stopped;
        let threads = rayon::current_num_threads();
        let are_several = self.replay.run(threads, move |events, mut batch| {
            while !*is_stopped && !order.is_ready() {
                match feed(trace, supply, order) {
                    Ok(true) => {}
                    Ok(false) => return Err(Ok(true)),
                    Err(error) => return Err(Err(error)),
                }
            }
            let found = !*is_stopped
                && order.window(limit, |event| {
                    *is_stopped |= event.clock > stop.clock;
                    if !*is_stopped {
                        events.apply(&event, sites, &mut batch);
                    }
                });
            // What is beyond the last number that is asked for stays where it is.
            *is_stopped |= !found && limit == stop.number && limit != u64::MAX;
            if found { Ok(batch) } else { Err(Ok(false)) }
        })?;
        Ok(if are_several {
            Next::Several
        } else {
            match self.children.next() {
                Some((number, child)) => Next::Fork(number, child),
                None => Next::End,
            }
        })
    }
}

fn feed(trace: &mut Trace, supply: &mut Supply, order: &mut Order) -> Result<bool, TraceError> {
    match trace.next_sources(supply)? {
        Supplied::Sources(sources) => order.feed(sources),
        Supplied::Several => return Ok(false),
        Supplied::End => order.end(),
    }
    Ok(true)
}
