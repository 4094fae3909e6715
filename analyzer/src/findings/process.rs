//! What a report says of one process: the outcome of its replay, with names for sites and times since the begin.

use super::bypass::Bypass;
use super::clock::{Clock, thread};
use super::end::End;
use super::focus::Focus;
use super::mismatch::{self, Verdict};
use super::usage;
use crate::declare::ProcessDeclaration;
use crate::images::Image;
use crate::naming::{Names, hex_address};
use crate::replay::{Moment, Outcome, RawFault, SiteRow, Target, Wrong};
use crate::report::{self, Doubt, Fault, FaultKind};
use crate::sites::{SiteId, SiteTable};
use crate::{Options, Until};
use heapwire_format::Family;
use std::collections::BTreeSet;
use std::io;

/// Numbers to names and times.
pub(super) struct Teller<'a> {
    pub(super) names: &'a Names,
    pub(super) sites: &'a SiteTable,
    pub(super) clock: Clock,
    pub(super) options: &'a Options,
    pub(super) exe: Option<String>,
}

impl Teller<'_> {
    /// All that is told of an image.
    ///
    /// # Errors
    ///
    /// Its blocks cannot be read back.
    pub(super) fn process(&self, image: &Image) -> io::Result<report::Process> {
        let outcome = &image.outcome;
        let declaration = image.declaration.as_ref();
        let end = End::of(image);
        let shown = sites_of(outcome);
        let bypass = Bypass::of(image);
        let focus = self.focus(image)?;
        Ok(report::Process {
            pid: image.pid,
            parent_pid: declaration.and_then(|it| it.parent_pid),
            command: image.command(),
            exe: self.exe.clone(),
            end: end.name(),
            signal: end.signal(),
            is_session: image.session.is_some(),
            exit_status: End::status(image),
            machine: declaration.and_then(ProcessDeclaration::machine_name),
            threads: match self.clock {
                Clock::Time { .. } => outcome.threads.len() as u64,
                Clock::Lines => 0,
            },
            modules: self.names.count_modules(&shown, self.sites),
            totals: totals(outcome),
            peak: self.peak(outcome),
            timeline: self.timeline(image),
            leaks: self.rows(&focus.leaks, Self::leak),
            groups: focus.groups,
            unsure_blocks: focus.unsure,
            errors: outcome
                .faults
                .iter()
                .filter_map(|it| self.fault(it, &bypass, outcome.has_culled))
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
        })
    }

    /// The live blocks that are asked for, by site and in groups.
    fn focus(&self, image: &Image) -> io::Result<Focus> {
        if Focus::is_asked(self.options) {
            return Focus::on(image, self.clock, self.names, self.options);
        }
        Ok(Focus {
            leaks: image.outcome.leaks(),
            groups: Vec::new(),
            unsure: 0,
        })
    }

    fn timeline(&self, image: &Image) -> report::Timeline {
        match self.clock {
            Clock::Time { begin, .. } => {
                let (step, columns) = image.outcome.timeline.up_to(self.end(image, begin));
                report::Timeline {
                    step_ns: step,
                    bytes: columns.iter().map(|live| live.0).collect(),
                    blocks: columns.iter().map(|live| live.1).collect(),
                    unsure: image.pauses.steps(
                        begin,
                        step,
                        columns.len() as u64,
                        image.seen_to_end,
                    ),
                }
            }
            Clock::Lines => report::Timeline::default(),
        }
    }

    /// The last clock at which the image is known to have been there, of what is looked at.
    fn end(&self, image: &Image, begin: u64) -> u64 {
        let stop = match self.options.until {
            Some(Until::Time(time)) => begin.saturating_add(time),
            Some(Until::Peak) => return image.outcome.last_clock,
            None => u64::MAX,
        };
        match image.is_stopped {
            true => stop,
            false => image.seen_to_end.unwrap_or(0).min(stop),
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

    fn peak(&self, outcome: &Outcome) -> report::Peak {
        let clock = Some(outcome.peak.clock).filter(|_| outcome.peak.bytes > 0);
        report::Peak {
            time_ns: clock.and_then(|clock| self.clock.time_ns(clock)),
            time_is_lower_bound: clock.is_some_and(|clock| self.clock.is_lower_bound(clock)),
            sites: self.rows(&outcome.peak_sites(), Self::peak_site),
        }
    }

    fn leak(&self, row: &SiteRow) -> report::Leak {
        report::Leak {
            bytes: row.live_bytes,
            blocks: row.live_blocks,
            allocations: row.handed_out,
            oldest_ns: row.oldest.and_then(|clock| self.clock.time_ns(clock)),
            oldest_is_lower_bound: row
                .oldest
                .is_some_and(|clock| self.clock.is_lower_bound(clock)),
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
    fn fault(&self, fault: &RawFault, bypass: &Bypass, has_culled: bool) -> Option<Fault> {
        let verdict = self.verdict(fault);
        let doubt = if !fault.is_whole {
            Some(Doubt::MissingRecords)
        } else if verdict == Verdict::Unsure {
            Some(Doubt::NamelessCall)
        } else if fault.target == Target::LeftOut {
            Some(Doubt::CulledBlocks)
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
            time_is_lower_bound: self.clock.is_lower_bound(fault.at.clock),
            log_line: self.clock.line(fault.at.clock),
            stack: self.names.stack(fault.at.site),
            first_release: fault.first_release.map(|moment| self.moment(moment)),
            first_release_may_be_later: has_culled && fault.first_release.is_some(),
            allocation: fault.allocation.map(|moment| self.moment(moment)),
            inside: fault
                .inside
                .map(|(offset, size)| report::Inside { offset, size }),
            by_realloc: fault.is_by_realloc,
            families: fault
                .families
                .map(|(allocated, released)| report::Families {
                    allocated: allocated_by(allocated),
                    released: released_by(released, fault.is_by_realloc),
                }),
        })
    }

    fn verdict(&self, fault: &RawFault) -> Verdict {
        match (fault.families, fault.allocation) {
            (Some((allocated, released)), Some(allocation)) => mismatch::verdict(
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
            time_is_lower_bound: self.clock.is_lower_bound(moment.clock),
            log_line: self.clock.line(moment.clock),
            stack: self.names.stack(moment.site),
        }
    }
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

fn released_by(family: Family, is_by_realloc: bool) -> &'static str {
    match family {
        Family::Malloc | Family::Aligned if is_by_realloc => "realloc",
        Family::Malloc | Family::Aligned => "free",
        Family::New | Family::NewAligned => "delete",
        Family::NewArray | Family::NewArrayAligned => "delete[]",
        Family::Unknown => "unknown",
    }
}

/// The sites that the report of one process shows.
pub(super) fn sites_of(outcome: &Outcome) -> BTreeSet<SiteId> {
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
