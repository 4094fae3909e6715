//! Makes what is shown of what the replays came to: names for sites, times since the begin, and what a reader must know.

mod blocks;
mod bypass;
mod clock;
mod contents;
mod difference;
mod end;
mod focus;
mod history;
mod mismatch;
mod modules;
mod pairing;
mod process;
mod selection;
mod summary;
mod usage;
mod warnings;

pub use difference::{Per, difference};
pub use focus::By;
pub use selection::{Selection, Until};

pub(crate) use blocks::live;
#[cfg(test)]
pub(crate) use contents::wholeness_of;
pub(crate) use contents::{of as contents, wholeness};
pub(crate) use focus::Focus;
pub(crate) use history::of as history;
pub(crate) use modules::list as modules;
pub(crate) use warnings::of_records;

use crate::Options;
use crate::images::{Image, Images};
use crate::naming::Names;
use crate::report::{self, Report};
use crate::sites::{SiteId, SiteTable};
use crate::trace::Trace;
use clock::Clock;
use process::{Teller, sites_of};
use std::collections::BTreeSet;
use std::io;
use summary::{saturating_sum, summary};

/// Assembles the report of `images`.
///
/// # Errors
///
/// Blocks that were laid aside cannot be read back.
pub(crate) fn report(
    trace: &Trace,
    images: &Images,
    sites: &SiteTable,
    options: &Options,
) -> io::Result<Report> {
    let asked = images.shown(&options.pids);
    let mut shown = shown_sites(&asked);
    if options.all_sites {
        let rows = asked.iter().flat_map(|image| &image.outcome.sites);
        shown.extend(rows.map(|row| row.site));
    }
    let names = Names::of(&shown, sites, &options.symbols);
    let processes = asked.iter().map(|image| {
        let teller = Teller {
            names: &names,
            sites,
            clock: Clock::of(image, images),
            options,
            exe: images.exe(image),
        };
        teller.process(image)
    });
    let processes: Vec<_> = processes.collect::<Result<_, _>>()?;
    let unsure = processes.iter().map(|process| process.unsure_blocks);
    let unsure = saturating_sum(unsure);
    let mut warnings = warnings::of_part(trace, images, &options.selection, options, unsure);
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
        pids: options.pids.clone(),
        warnings: Vec::new(),
    };
    if report.recorded_calls() == 0 {
        warnings.insert(0, warnings::no_records(trace, &asked));
    }
    report.warnings = warnings;
    Ok(report)
}

fn shown_sites(images: &[&Image]) -> BTreeSet<SiteId> {
    let mut shown = BTreeSet::new();
    for image in images {
        shown.extend(sites_of(&image.outcome));
    }
    shown
}
