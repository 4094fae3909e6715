//! The replay of all images, each child from the moment of its fork in the parent's replay.

use super::plan::{Head, Plan, observed, pid};
use super::{Image, Images, Pauses, Shelf, Start, Stop, Stops};
use crate::declare::Began;
use crate::event::Event;
use crate::order::{self, Order};
use crate::replay::{Beginning, Chart, Replay};
use crate::sites::SiteTable;
use crate::time;
use crate::trace::{Supplied, Supply, Trace, TraceError};
use std::iter::Peekable;
use std::mem;
use std::vec::IntoIter;

/// Generations of forks that are followed; a child beyond counts as one whose parent is missing.
const GENERATIONS: usize = 256;

/// Modules and stack nodes that children take over from their parents in one analysis.
const COPIED: usize = 1 << 24;

struct Run<'t> {
    stops: &'t Stops,
    chart: &'t Chart,
    trace: &'t mut Trace,
    sites: &'t mut SiteTable,
    plan: Plan,
    shelf: &'t mut Shelf,
    images: Vec<Option<Image>>,
    /// Modules and stack nodes that children took over.
    copied: usize,
    /// The first stream, if some of it was read before it was known that there are others.
    first: Option<Running>,
}

/// Replays all streams of a trace; see [`Images::charted`].
///
/// # Errors
///
/// An input can no longer be read.
pub(super) fn all(
    trace: &mut Trace,
    shelf: &mut Shelf,
    stops: &Stops,
    chart: &Chart,
    sites: &mut SiteTable,
) -> Result<Images, TraceError> {
    let mut run = Run {
        stops,
        chart,
        shelf,
        plan: Plan::default(),
        images: Vec::new(),
        copied: 0,
        first: None,
        sites,
        trace,
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
    Ok(run.result())
}

impl Run<'_> {
    /// Replays the one stream that the trace seems to have, and if there are others, all of its tree.
    fn alone(&mut self, supply: Supply) -> Result<(), TraceError> {
        let mut running = Running::new(supply);
        // Its declaration is among the first records, if it is there at all.
        let mut is_alone = true;
        let patience = order::patience(self.trace);
        while is_alone && !running.order.is_due(patience) && !running.is_declared() {
            is_alone = running.feed(self.trace)?;
        }
        if is_alone {
            let head = Head::in_sources(running.order.untouched());
            // A parent's stream, or the declaration itself may lie elsewhere.
            let is_all = match &head.declaration {
                Some(declaration) => declaration.fork.is_none(),
                None => !self.trace.can_be_read_again(),
            };
            if is_all {
                let clock = head.clock.unwrap_or(0);
                self.plan = Plan::with(self.trace, vec![head], clock);
                if self.trace.streams.is_empty() {
                    return Ok(());
                }
                self.plan.chart = self.chart.clone();
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
        self.plan.chart = self.chart.clone();
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
            match running.advance(stop, self.chart, self.trace, self.sites)? {
                // A circle of parents comes back to its root.
                Next::Fork(_, child) if child == root => {}
                Next::Fork(_, child) if depth >= GENERATIONS => self.plan.parents[child] = None,
                Next::Fork(number, child) => {
                    // Children declare their modules anew, so past a limit they do without their parent's.
                    self.copied = self.copied.saturating_add(running.replay.code_size());
                    let takes_code = self.copied <= COPIED;
                    let mut next = self.running(child);
                    if !running.is_stopped {
                        running.replay.note_taken(number); // by the parent, of whose records all below were looked at
                    }
                    let from = Some((number, takes_code, &mut running.replay));
                    next.begin(&mut self.plan, from);
                    line.push(next);
                    // What was read ahead for the one that waits would be in the way.
                    if let Some(parent) = line.iter_mut().nth_back(1) {
                        let trace = &*self.trace;
                        parent.order.rest(|it| trace.can_read_again(it));
                    }
                }
                // Others may come later in the input, with calls before that moment.
                Next::Stopped if running.supply.is_alone() => {
                    self.trace.expect_several(&mut running.supply)?;
                    self.plan_anew(root, running)?;
                }
                Next::Several => self.plan_anew(root, running)?,
                Next::Stopped => {
                    running.has_stand_in = true;
                    if let Some(next) = running.stand_in(&mut self.plan, stop) {
                        line.push(next);
                    }
                }
                Next::End => {
                    match (line.pop(), line.last_mut()) {
                        (Some(done), Some(stopped)) if done.stands_in => stopped.take_back(done),
                        (Some(done), _) => self.finish(done),
                        _ => {}
                    }
                    // What is done no longer holds what its parent has.
                    if let Some(parent) = line.last_mut() {
                        parent.replay.resume();
                    }
                }
            }
        }
    }

    /// Takes other streams into account, which turned up while that of `root` was replayed.
    fn plan_anew(&mut self, root: usize, running: &mut Running) -> Result<(), TraceError> {
        let declaration = self.plan.declarations[root].take();
        let begin = (self.plan.begin_clock, self.plan.begin_wall);
        self.plan = Plan::of(self.trace, None)?;
        self.plan.declarations[root] = declaration;
        (self.plan.begin_clock, self.plan.begin_wall) = begin;
        let children = mem::take(&mut self.plan.children[root]);
        running.children = children.into_iter().peekable();
        Ok(())
    }

    fn finish(&mut self, running: Running) {
        let stream = running.supply.stream;
        if stream >= self.images.len() {
            self.images.resize_with(stream + 1, || None);
        }
        let claimed = &self.trace.streams[stream];
        let (_, knows_first) = self.plan.first_number(stream);
        let declaration = self.plan.declarations[stream].take();
        let order = &running.order;
        let first = order.lowest();
        let (differing_copies, late_copies) = (order.copies.differing, order.late_copies);
        let late = order.late;
        let (taken, culled) = match running.is_stopped {
            true => (0, 0),
            false => (claimed.taken, claimed.culled),
        };
        let replay = running.replay;
        let mut outcome = replay.finish(taken, culled, self.shelf.wanted, self.sites);
        let blocks = self.shelf.put(mem::take(&mut outcome.blocks));
        self.images[stream] = Some(Image {
            tag: claimed.tag,
            pid: pid(claimed, declaration.as_ref()),
            has_lanes: claimed.lanes_pid.is_some(),
            lacks_frames: claimed.lacks_frames(),
            lacks_parent: declaration
                .as_ref()
                .is_some_and(|it| it.began == Began::Fork)
                && self.plan.parents[stream].is_none(),
            start: Start::of(declaration.as_ref(), first),
            knows_first,
            declaration,
            outcome,
            blocks,
            wait_status: None,
            seen_to_end: None,
            is_stopped: running.is_stopped,
            pauses: running.pauses,
            lost: claimed.lost.into(),
            void: claimed.void.into(),
            differing_copies,
            late_copies,
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
        let ends = observed(self.trace, &pids);
        let images = self.images.into_iter().zip(ends);
        let images = images.zip(&self.trace.streams);
        Images {
            images: images
                .filter(|(_, stream)| !stream.is_empty())
                .filter_map(|((image, observed), _)| {
                    Some(Image {
                        wait_status: observed.map(|it| it.wait_status),
                        seen_to_end: observed.map(|it| it.clock),
                        ..image?
                    })
                })
                .collect(),
            logs: Vec::new(),
            begin_clock: self.plan.begin_clock,
            end_clock: self.trace.observed.iter().map(|seen| seen.clock).max(),
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
    pauses: Pauses,
    /// What of the last window came after that.
    beyond: Vec<Event>,
    /// It goes on for one that is stopped, for what later children inherit.
    stands_in: bool,
    /// There is, or was, one that does so for this one.
    has_stand_in: bool,
}

/// Where a replay stopped.
enum Next {
    /// At a fork point, with the child.
    Fork(u64, usize),
    /// Where nothing more is asked for, before the fork of children of which something is.
    Stopped,
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
            pauses: Pauses::default(),
            beyond: Vec::new(),
            stands_in: false,
            has_stand_in: false,
        }
    }

    /// One that goes on where this one is stopped, up to the last fork of a child of which something is asked for.
    fn stand_in(&mut self, plan: &mut Plan, stop: Stop) -> Option<Self> {
        let begins = |child: usize| plan.begins.get(child).copied().flatten();
        let (asked, rest): (Vec<_>, Vec<_>) = self
            .children
            .by_ref()
            .partition(|(_, child)| begins(*child).is_none_or(|clock| clock <= stop.clock));
        self.children = rest.into_iter().peekable();
        let (last, _) = asked.last()?;
        let number = self.beyond.first().map(|event| event.number);
        let number = number.or_else(|| self.order.begin());
        let beginning = plan.beginning(self.supply.stream);
        let from = Supply::ended(self.supply.stream);
        Some(Self {
            replay: self.replay.stand_in(number.unwrap_or(*last), beginning),
            supply: mem::replace(&mut self.supply, from),
            order: mem::take(&mut self.order),
            children: asked.into_iter().peekable(),
            is_stopped: false,
            pauses: Pauses::default(),
            beyond: mem::take(&mut self.beyond),
            stands_in: true,
            has_stand_in: false,
        })
    }

    /// Ends one that stood in.
    fn take_back(&mut self, other: Self) {
        self.supply = other.supply;
        self.order = other.order;
    }

    /// Begins as the plan says; a forked child with what its parent has.
    fn begin(&mut self, plan: &mut Plan, parent: Option<(u64, bool, &mut Replay)>) {
        let stream = self.supply.stream;
        let beginning = plan.beginning(stream);
        self.order.expect(beginning.first_number);
        self.replay = match parent {
            Some((number, takes_code, parent)) => parent.fork(number, beginning, takes_code),
            None => Replay::new(beginning),
        };
        let children = mem::take(&mut plan.children[stream]);
        self.children = children.into_iter().peekable();
    }

    /// Whether the first records came, and begin with the declaration of the process.
    fn is_declared(&mut self) -> bool {
        self.order.has_beginning()
            && Head::in_sources(self.order.untouched()).is_first(self.order.lowest())
    }

    /// Reads on. `false`: there are other streams.
    fn feed(&mut self, trace: &mut Trace) -> Result<bool, TraceError> {
        feed(trace, &mut self.supply, &mut self.order)
    }

    /// Replays up to the next fork point, or to the end.
    fn advance(
        &mut self,
        stop: Stop,
        chart: &Chart,
        trace: &mut Trace,
        sites: &mut SiteTable,
    ) -> Result<Next, TraceError> {
        let fork = self.children.peek().map(|(number, _)| *number);
        if self.stands_in && fork.is_none() {
            return Ok(Next::End);
        }
        let stop = match self.stands_in {
            true => Stop::NOWHERE,
            false => stop,
        };
        let limit = fork.unwrap_or(u64::MAX).min(stop.number);
        let reading = self.supply.reading();
        let read_ahead = || reading.as_ref().is_some_and(|it| it.read_ahead());
        let (supply, order) = (&mut self.supply, &mut self.order);
        let (is_stopped, beyond) = (&mut self.is_stopped, &mut self.beyond);
        let pauses = &mut self.pauses;
        let sees_pauses = chart.shows_pauses || stop.clock != u64::MAX;
        let threads = rayon::current_num_threads();
        let are_several = self
            .replay
            .run(threads, &read_ahead, move |events, mut batch| {
                if !*is_stopped && !beyond.is_empty() {
                    for event in beyond.drain(..) {
                        events.apply(&event, sites, &mut batch);
                    }
                    return Ok(batch);
                }
                if !*is_stopped {
                    match order.fill(trace, supply) {
                        Ok(true) => {}
                        Ok(false) => return Err(Ok(true)),
                        Err(error) => return Err(Err(error)),
                    }
                }
                let found = !*is_stopped
                    && order.window(limit, |event| {
                        if time::is_after(event.clock, stop.clock) && !*is_stopped {
                            *is_stopped = true;
                            pauses.stop(event.clock);
                        }
                        if *is_stopped {
                            beyond.push(event.event());
                        } else {
                            if sees_pauses {
                                pauses.see(event.clock);
                            }
                            events.take(event, sites, &mut batch);
                        }
                    });
                // What is beyond the last number that is asked for stays where it is.
                *is_stopped |= !found && limit == stop.number && limit != u64::MAX;
                if found { Ok(batch) } else { Err(Ok(false)) }
            })?;
        Ok(if are_several {
            Next::Several
        } else if self.is_stopped && !self.has_stand_in {
            Next::Stopped
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
