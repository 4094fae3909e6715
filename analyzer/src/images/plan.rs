//! Who is whose child, and when all began: what must be known of a trace before images are replayed.

use crate::declare::{Began, ForkPoint, ProcessDeclaration};
use crate::order::Order;
use crate::replay::{Beginning, Chart};
use crate::trace::source::Source;
use crate::trace::{Observed, Stream, Trace, TraceError};
use rustc_hash::FxHashMap;

/// Records at the start of a stream that its declaration is looked for among.
const HEAD: u64 = 1 << 17;

/// Who is whose child, and when all began.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) chart: Chart,
    pub(super) declarations: Vec<Option<ProcessDeclaration>>,
    /// Parent's place among the streams.
    pub(super) parents: Vec<Option<usize>>,
    /// Fork points and children of each stream, in order.
    pub(super) children: Vec<Vec<(u64, usize)>>,
    /// When each of them began, as far as that is known.
    pub(super) begins: Vec<Option<u64>>,
    /// Lowest number that a header of each says.
    firsts: Vec<Option<u64>>,
    pub(super) begin_clock: u64,
    pub(super) begin_wall: Option<u64>,
}

impl Plan {
    /// The plan of an indexed trace; `first` are sources of its first stream that were taken out of it before.
    pub(super) fn of(trace: &Trace, first: Option<&Order>) -> Result<Self, TraceError> {
        let heads = (0..trace.streams.len())
            .map(|stream| {
                let taken = first.filter(|_| stream == 0);
                Head::of(trace, stream, taken)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let clocks = heads.iter().filter_map(|head| head.clock);
        let begin_clock = clocks.min().unwrap_or(0);
        Ok(Self::with(trace, heads, begin_clock))
    }

    pub(super) fn with(trace: &Trace, heads: Vec<Head>, begin_clock: u64) -> Self {
        let begins = heads.iter().map(Head::begin).collect();
        let declarations: Vec<_> = heads.into_iter().map(|head| head.declaration).collect();
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
            chart: Chart::default(),
            begin_clock: first.map_or(begin_clock, |it| it.clock),
            begin_wall: first.map(|it| it.wall_clock).filter(|wall| *wall != 0),
            declarations,
            parents,
            children,
            begins,
            firsts: trace.streams.iter().map(|stream| stream.first).collect(),
        }
    }

    /// Has a place for each of `streams`.
    pub(super) fn fit(&mut self, streams: usize) {
        self.declarations.resize(streams, None);
        self.parents.resize(streams, None);
        self.children.resize(streams, Vec::new());
        self.begins.resize(streams, None);
        self.firsts.resize(streams, None);
    }

    /// The first number of a stream, as far as it is known, and whether there can be no lower one.
    pub(super) fn first_number(&self, stream: usize) -> (Option<u64>, bool) {
        match &self.declarations[stream] {
            // Nothing tells where its parent's numbers end.
            Some(it) if it.began == Began::Fork && it.fork.is_none() => (None, true),
            Some(it) => (Some(it.first_number()), true),
            // A child goes on with the numbers of its parent; where there is one process, it is taken for none.
            None if self.declarations.len() == 1 => (Some(1), true),
            None => {
                let first = self.firsts.get(stream).copied().flatten();
                (first, first == Some(1))
            }
        }
    }

    pub(super) fn beginning(&self, stream: usize) -> Beginning {
        let declaration = self.declarations[stream].as_ref();
        Beginning {
            first_number: self.first_number(stream).0,
            is_late: declaration.is_none_or(|it| it.began != Began::Exec),
            has_culled: false,
            writes_late: false,
            machine: declaration
                .map(ProcessDeclaration::machine)
                .unwrap_or_default(),
            clock: self.begin_clock,
            chart: self.chart.clone(),
        }
    }
}

/// What the first records of a stream tell.
#[derive(Default)]
pub(super) struct Head {
    pub(super) declaration: Option<ProcessDeclaration>,
    /// Lowest reference of times, which stands in for the begin where no process is declared.
    pub(super) clock: Option<u64>,
}

impl Head {
    /// When the process began, or earlier: no record has a lower time.
    fn begin(&self) -> Option<u64> {
        let declared = self.declaration.as_ref().map(|it| it.clock);
        declared.into_iter().chain(self.clock).min()
    }

    /// Reads as much of an indexed stream as is needed.
    pub(super) fn of(
        trace: &Trace,
        stream: usize,
        taken: Option<&Order>,
    ) -> Result<Self, TraceError> {
        let mut supply = trace.supply(stream);
        let mut sources: Vec<Source> = taken
            .map(|order| order.untouched().cloned().collect())
            .unwrap_or_default();
        sources.extend(trace.first_sources(stream)?);
        let mut records = 0;
        loop {
            let head = Self::in_sources(sources.iter());
            let lowest = sources.iter().map(|source| source.lowest).min();
            if head.is_first(lowest) || records >= HEAD {
                return Ok(head);
            }
            let Some(more) = trace.peek_sources(&mut supply)? else {
                return Ok(head);
            };
            records += more.iter().map(|it| u64::from(it.records)).sum::<u64>();
            sources.extend(more);
        }
    }

    /// Whether there is a declaration, of which the `lowest` number of all is.
    pub(super) fn is_first(&self, lowest: Option<u64>) -> bool {
        self.declaration.as_ref().is_some_and(|it| {
            Some(it.number) == lowest && (it.exe.is_some() || !it.arguments.is_empty())
        })
    }

    pub(super) fn in_sources<'s>(sources: impl Iterator<Item = &'s Source> + Clone) -> Self {
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
pub(super) fn observed(trace: &Trace, pids: &[Option<u64>]) -> Vec<Option<Observed>> {
    let mut ends = vec![None; pids.len()];
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
            ends[*index] = Some(*observed);
        }
    }
    ends
}

pub(super) fn pid(stream: &Stream, declaration: Option<&ProcessDeclaration>) -> Option<u64> {
    let declared = declaration.map(|it| it.pid);
    declared.or(stream.lanes_pid.map(u64::from))
}
