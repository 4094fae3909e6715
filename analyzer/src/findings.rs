//! Assembles the report: what the replays came to, with names for sites and times since the begin.

use crate::bypass::Bypass;
use crate::declare::ProcessDeclaration;
use crate::focus::{By, Focus};
use crate::images::{Image, Images, Start};
use crate::mismatch::{self, Verdict};
use crate::naming::{Names, hex_address};
use crate::replay::{Moment, Outcome, RawFault, SiteRow, Wrong};
use crate::report::{self, Doubt, Fault, FaultKind, Report};
use crate::sites::{SiteId, SiteTable};
use crate::trace::Trace;
use crate::{Options, Until, mtrace, usage, warnings};
use heapwire_format::{Family, Op};
use std::collections::BTreeSet;

/// How a process image ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Normal,
    Signal(u64),
    Exec,
    Cut,
    /// A log does not say it.
    Unknown,
}

impl End {
    /// The end of an image (SPEC.md 10.5).
    pub(crate) fn of(image: &Image) -> Self {
        let ending = image.outcome.ending;
        if ending.end.is_some() {
            return Self::Normal;
        }
        if ending.is_exec {
            return Self::Exec;
        }
        match image.wait_status.and_then(signal).or(ending.fault) {
            Some(signal) => Self::Signal(signal),
            None if image.session.is_some() => Self::Unknown,
            // It ended by itself, by a call that no hook sees; lanes in the trace tell that nothing is missing then.
            None if image.has_lanes && image.wait_status.and_then(exit_status).is_some() => {
                Self::Normal
            }
            None => Self::Cut,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Signal(_) => "signal",
            Self::Exec => "exec",
            Self::Cut => "cut",
            Self::Unknown => "unknown",
        }
    }
}

/// The signal in a wait status that a process ended by one has.
fn signal(wait_status: u64) -> Option<u64> {
    Some(wait_status & 0x7F).filter(|signal| *signal != 0 && *signal != 0x7F)
}

/// The exit status in a wait status that a process ended by itself has.
fn exit_status(wait_status: u64) -> Option<u64> {
    (wait_status & 0x7F == 0).then_some(wait_status >> 8 & 0xFF)
}

/// Numbers to names and times.
struct Teller<'a> {
    names: &'a Names,
    sites: &'a SiteTable,
    clock: Clock,
    options: &'a Options,
    /// The program of a log.
    program: Option<&'a str>,
}

/// What the clock of an image counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// Nanoseconds; with those when the first recorded process began.
    Time(u64),
    /// Lines of a log, which knows no time.
    Lines,
}

impl Clock {
    pub(crate) fn of(image: &Image, images: &Images) -> Self {
        match image.session {
            Some(_) => Self::Lines,
            None => Self::Time(images.begin_clock),
        }
    }

    /// Nanoseconds since the first recorded process began.
    pub(crate) fn time_ns(self, clock: u64) -> Option<u64> {
        match self {
            Self::Time(begin) => Some(clock.saturating_sub(begin)),
            Self::Lines => None,
        }
    }

    /// Line of a log.
    pub(crate) fn line(self, clock: u64) -> Option<u64> {
        match self {
            Self::Time(_) => None,
            Self::Lines => Some(clock),
        }
    }
}

/// Assembles the report of `images`.
pub(crate) fn report(
    trace: &Trace,
    images: &Images,
    sites: &SiteTable,
    options: &Options,
) -> Report {
    let mut shown = shown_sites(images);
    if options.all_sites {
        let rows = images.images.iter().flat_map(|image| &image.outcome.sites);
        shown.extend(rows.map(|row| row.site));
    }
    let names = Names::of(&shown, sites, &options.symbols);
    let processes = images.images.iter().map(|image| {
        let teller = Teller {
            names: &names,
            sites,
            clock: Clock::of(image, images),
            options,
            program: images.program(image),
        };
        teller.process(image)
    });
    let processes: Vec<_> = processes.collect();
    let mut warnings = warnings::of(trace, images);
    if options.until.is_some() {
        warnings::forget_ends(&mut warnings);
    }
    warnings.extend(names.warnings());
    let mut report = Report {
        schema: 1,
        trace: summary(trace, images),
        totals: processes
            .iter()
            .fold(report::Totals::default(), |sum, process| {
                sum.plus(&process.totals)
            }),
        processes,
        until_ns: match options.until {
            Some(Until::Time(time)) => Some(time),
            _ => None,
        },
        filter: options.selection.words(),
        by: options.by.map(By::word),
        warnings: Vec::new(),
    };
    if report.recorded_calls() == 0 {
        warnings.insert(0, warnings::no_records(&images.images));
    }
    report.warnings = warnings;
    report
}

fn shown_sites(images: &Images) -> BTreeSet<SiteId> {
    let mut shown = BTreeSet::new();
    for image in &images.images {
        shown.extend(sites_of(&image.outcome));
    }
    shown
}

/// The sites that the report of one process shows.
fn sites_of(outcome: &Outcome) -> BTreeSet<SiteId> {
    let rows = outcome.sites.iter();
    let shown = rows.filter(|row| {
        row.live_blocks > 0 || row.at_peak.1 > 0 || row.temporary > 0 || row.grown.0 > 0
    });
    let failed = outcome.failed.iter().map(|(site, _)| *site);
    let faults = outcome.faults.iter().flat_map(|fault| {
        let moments = [Some(fault.at), fault.first_release, fault.allocation];
        moments.into_iter().flatten()
    });
    shown
        .map(|row| row.site)
        .chain(faults.map(|moment| moment.site))
        .chain(failed)
        .collect()
}

pub(crate) fn summary(trace: &Trace, images: &Images) -> report::TraceSummary {
    let condition = &trace.condition;
    let of_logs = |of: fn(&mtrace::Condition) -> u64| {
        saturating_sum(images.logs.iter().map(|log| of(&log.condition)))
    };
    let damaged_bytes = condition
        .damaged_bytes
        .saturating_add(of_logs(|it| it.damaged_bytes));
    let foreign_bytes = condition
        .foreign_bytes
        .saturating_add(of_logs(|it| it.foreign_bytes));
    let outcomes = || images.images.iter().map(|image| &image.outcome);
    let lost_records = saturating_sum(outcomes().map(|it| it.missing));
    let is_whole = lost_records == 0
        && damaged_bytes == 0
        && trace.broken().next().is_none()
        && condition.damaged_frames == 0
        && condition.unknown_frames == 0
        && images.images.iter().all(|image| {
            image.start == Start::Seen
                && !matches!(End::of(image), End::Cut | End::Unknown)
                && image.outcome.counts.unknown_ops == 0
                && image.differing_copies == 0
        });
    let timed = images.images.iter().filter(|it| it.session.is_none());
    let last = timed.map(|it| it.outcome.last_clock).max().unwrap_or(0);
    report::TraceSummary {
        kind: if trace.streams.is_empty() && !trace.logs.is_empty() {
            "mtrace"
        } else {
            "hwt"
        },
        files: trace
            .paths()
            .map(|path| path.display().to_string())
            .collect(),
        complete: is_whole && !images.images.is_empty(),
        records: outcomes().map(|it| it.counts.records).sum(),
        lost_records,
        lost_is_lower_bound: is_lower_bound(trace, &images.images) || damaged_bytes > 0,
        lost_by_recorder: saturating_sum(
            images
                .images
                .iter()
                .map(|image| image.lost.min(image.outcome.missing)),
        ),
        damaged_bytes,
        foreign_bytes,
        start_unix_ns: images.begin_wall,
        duration_ns: last.saturating_sub(images.begin_clock),
    }
}

/// Whether more records may be lost than there are numbers missing: how far the numbers went is not known.
pub(crate) fn is_lower_bound(trace: &Trace, images: &[Image]) -> bool {
    trace.condition.damaged_bytes > 0 || images.iter().any(|image| End::of(image) == End::Cut)
}

/// The sum of counts that a hostile trace can make any size.
pub(crate) fn saturating_sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

impl Teller<'_> {
    fn process(&self, image: &Image) -> report::Process {
        let outcome = &image.outcome;
        let declaration = image.declaration.as_ref();
        let end = End::of(image);
        let shown = sites_of(outcome);
        let bypass = Bypass::of(image);
        let (leaks, groups) = self.live(image);
        let command = declaration
            .map(|it| it.arguments.clone())
            .filter(|arguments| !arguments.is_empty());
        report::Process {
            pid: image.pid,
            parent_pid: declaration.and_then(|it| it.parent_pid),
            command,
            exe: declaration
                .and_then(|it| it.exe.clone())
                .or(self.program.map(str::to_owned)),
            end: end.name(),
            signal: match end {
                End::Signal(signal) => Some(signal),
                _ => None,
            },
            exit_status: outcome
                .ending
                .end
                .flatten()
                .or_else(|| image.wait_status.and_then(exit_status)),
            machine: declaration.and_then(ProcessDeclaration::machine_name),
            threads: match self.clock {
                Clock::Time(_) => outcome.threads.len() as u64,
                Clock::Lines => 0,
            },
            modules: self.names.count_modules(&shown, self.sites),
            totals: totals(outcome),
            peak: report::Peak {
                time_ns: self
                    .clock
                    .time_ns(outcome.peak.clock)
                    .filter(|_| outcome.peak.bytes > 0),
                sites: self.rows(&outcome.peak_sites(), Self::peak_site),
            },
            timeline: self.timeline(outcome),
            leaks,
            groups,
            errors: outcome
                .faults
                .iter()
                .filter_map(|it| self.fault(it, &bypass))
                .filter(|fault| self.options.selection.takes_fault(fault))
                .collect(),
            temporaries: self.rows(&outcome.temporaries(), Self::temporary),
            usage: usage::of(
                outcome,
                self.names,
                self.sites,
                image.session.is_none(),
                self.options.all_sites,
            ),
        }
    }

    /// The live blocks that are asked for, by site and in groups.
    fn live(&self, image: &Image) -> (Vec<report::Leak>, Vec<report::Group>) {
        if !Focus::is_asked(self.options) {
            return (self.rows(&image.outcome.leaks(), Self::leak), Vec::new());
        }
        let focus = Focus::on(image, self.clock, self.names, self.options);
        (self.rows(&focus.leaks, Self::leak), focus.groups)
    }

    fn timeline(&self, outcome: &Outcome) -> report::Timeline {
        match self.clock {
            Clock::Time(_) => report::Timeline {
                step_ns: outcome.timeline.0,
                bytes: outcome.timeline.1.iter().map(|live| live.0).collect(),
                blocks: outcome.timeline.1.iter().map(|live| live.1).collect(),
            },
            Clock::Lines => report::Timeline::default(),
        }
    }

    fn rows<T>(&self, rows: &[SiteRow], show: impl Fn(&Self, &SiteRow) -> T) -> Vec<T> {
        rows.iter().map(|row| show(self, row)).collect()
    }

    fn peak_site(&self, row: &SiteRow) -> report::PeakSite {
        report::PeakSite {
            bytes: row.at_peak.0,
            blocks: row.at_peak.1,
            stack: self.names.stack(row.site),
        }
    }

    fn leak(&self, row: &SiteRow) -> report::Leak {
        report::Leak {
            bytes: row.live_bytes,
            blocks: row.live_blocks,
            allocations: row.handed_out,
            oldest_ns: row.oldest.and_then(|clock| self.clock.time_ns(clock)),
            oldest_line: row.oldest.and_then(|clock| self.clock.line(clock)),
            stack: self.names.stack(row.site),
        }
    }

    fn temporary(&self, row: &SiteRow) -> report::Temporary {
        report::Temporary {
            temporary: row.temporary,
            allocations: row.handed_out,
            stack: self.names.stack(row.site),
        }
    }

    /// The fault, unless the names of its calls say that it is none.
    fn fault(&self, fault: &RawFault, bypass: &Bypass) -> Option<Fault> {
        let verdict = self.verdict(fault);
        let doubt = if !fault.is_whole {
            Some(Doubt::MissingRecords)
        } else if verdict == Verdict::Unsure {
            Some(Doubt::NamelessCall)
        } else {
            bypass.explains(fault).then_some(Doubt::UnseenAllocations)
        };
        (verdict != Verdict::NoFault).then(|| Fault {
            kind: match fault.wrong {
                Wrong::Double => FaultKind::DoubleFree,
                Wrong::Invalid => FaultKind::InvalidFree,
                Wrong::Mismatched => FaultKind::MismatchedFree,
            },
            certain: doubt.is_none(),
            doubt,
            address: hex_address(fault.address),
            size: fault.size,
            thread: thread(fault.at),
            time_ns: self.clock.time_ns(fault.at.clock),
            log_line: self.clock.line(fault.at.clock),
            stack: self.names.stack(fault.at.site),
            first_release: fault.first_release.map(|moment| self.moment(moment)),
            allocation: fault.allocation.map(|moment| self.moment(moment)),
            inside: fault
                .inside
                .map(|(offset, size)| report::Inside { offset, size }),
            families: fault
                .families
                .map(|(allocated, released, op)| report::Families {
                    allocated: allocated_by(allocated),
                    released: released_by(released, op),
                }),
        })
    }

    fn verdict(&self, fault: &RawFault) -> Verdict {
        match (fault.families, fault.allocation) {
            (Some((allocated, released, _)), Some(allocation)) => mismatch::verdict(
                (allocated, &self.names.stack(allocation.site)),
                (released, &self.names.stack(fault.at.site)),
            ),
            _ => Verdict::Fault,
        }
    }

    fn moment(&self, moment: Moment) -> report::Moment {
        report::Moment {
            thread: thread(moment),
            time_ns: self.clock.time_ns(moment.clock),
            log_line: self.clock.line(moment.clock),
            stack: self.names.stack(moment.site),
        }
    }
}

/// The thread of a call, where the trace says which it was.
pub(crate) fn thread(moment: Moment) -> Option<u64> {
    Some(moment.tid.into()).filter(|tid| *tid != 0)
}

fn totals(outcome: &Outcome) -> report::Totals {
    let counts = &outcome.counts;
    report::Totals {
        allocations: counts.allocations,
        releases: counts.releases,
        reallocations: counts.reallocations,
        allocated_bytes: counts.allocated_bytes,
        failed: counts.failed,
        failed_reallocations: counts.failed_reallocations,
        live_blocks: outcome.live_blocks,
        live_bytes: outcome.live_bytes,
        peak_bytes: outcome.peak.bytes,
        peak_blocks: outcome.peak.blocks,
        temporary: counts.temporary,
        earlier_releases: counts.earlier_releases,
        inherited_blocks: counts.inherited_blocks,
        inherited_bytes: counts.inherited_bytes,
    }
}

fn allocated_by(family: Family) -> &'static str {
    match family {
        Family::Malloc => "malloc",
        Family::Aligned => "aligned_alloc",
        Family::New | Family::NewAligned => "new",
        Family::NewArray | Family::NewArrayAligned => "new[]",
        Family::Unknown => "unknown",
    }
}

fn released_by(family: Family, op: Op) -> &'static str {
    match family {
        Family::Malloc | Family::Aligned if op == Op::REALLOC_OLD => "realloc",
        Family::Malloc | Family::Aligned => "free",
        Family::New | Family::NewAligned => "delete",
        Family::NewArray | Family::NewArrayAligned => "delete[]",
        Family::Unknown => "unknown",
    }
}
