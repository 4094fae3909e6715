//! What changed between two reports, site by site. Sites are the same where their names are: addresses are not.

use crate::Selection;
use crate::report::usage::SiteUsage;
use crate::report::{Block, Difference, Frame, Report, SiteChange, SiteSums, Stack};
use std::collections::BTreeMap;

/// Compares two reports that list every site; most growth of live bytes first. Of `selection` modules and functions count, which
/// all blocks of a site have in common.
#[must_use]
pub fn difference(old: &Report, new: &Report, selection: &Selection) -> Difference {
    let selection = Selection {
        modules: selection.modules.clone(),
        functions: selection.functions.clone(),
        ..Selection::default()
    };
    let mut by_name: BTreeMap<String, SiteChange> = BTreeMap::new();
    add(&mut by_name, &selected(old, &selection), |change| {
        &mut change.old
    });
    add(&mut by_name, &selected(new, &selection), |change| {
        &mut change.new
    });
    let sums = |report: &Report, side: fn(&SiteChange) -> SiteSums| {
        if selection == Selection::default() {
            sums(report)
        } else {
            let sides = by_name.values().map(side);
            sides.fold(SiteSums::default(), SiteSums::plus)
        }
    };
    let (old_sums, new_sums) = (
        sums(old, |change| change.old),
        sums(new, |change| change.new),
    );
    let mut sites: Vec<_> = by_name
        .into_values()
        .filter(|change| change.old != change.new)
        .collect();
    sites.sort_by_key(|change| {
        let growth = i128::from(change.new.live_bytes) - i128::from(change.old.live_bytes);
        (-growth, u64::MAX - change.new.peak_bytes)
    });
    Difference {
        filter: selection.words(),
        old: old_sums,
        new: new_sums,
        old_duration_ns: old.trace.duration_ns,
        new_duration_ns: new.trace.duration_ns,
        sites,
    }
}

fn sums(report: &Report) -> SiteSums {
    let mut all = SiteSums::default();
    for process in &report.processes {
        let totals = &process.totals;
        all.live_bytes = all.live_bytes.saturating_add(totals.live_bytes);
        all.live_blocks = all.live_blocks.saturating_add(totals.live_blocks);
        all.peak_bytes = all.peak_bytes.saturating_add(totals.peak_bytes);
        all.allocations = all
            .allocations
            .saturating_add(totals.allocations)
            .saturating_add(totals.reallocations);
        all.temporary = all.temporary.saturating_add(totals.temporary);
    }
    all
}

/// The sites of a report that are asked for.
fn selected<'r>(report: &'r Report, selection: &Selection) -> Vec<&'r SiteUsage> {
    let processes = report.processes.iter();
    let sites = processes.flat_map(|process| &process.usage.sites);
    sites
        .filter(|site| {
            let block = Block {
                address: String::new(),
                size: 0,
                thread: None,
                time_ns: None,
                log_line: None,
                inherited: false,
                stack: site.stack.clone(),
            };
            selection.takes(&block, 0)
        })
        .collect()
}

fn add(
    by_name: &mut BTreeMap<String, SiteChange>,
    sites: &[&SiteUsage],
    side: impl Fn(&mut SiteChange) -> &mut SiteSums,
) {
    for site in sites {
        let change = by_name
            .entry(key(&site.stack))
            .or_insert_with(|| SiteChange {
                old: SiteSums::default(),
                new: SiteSums::default(),
                stack: site.stack.clone(),
            });
        let sums = side(change);
        *sums = sums.plus(site.sums);
    }
}

/// What a stack is called.
fn key(stack: &Stack) -> String {
    stack.iter().map(name).collect::<Vec<_>>().join("\n")
}

fn name(frame: &Frame) -> String {
    match (&frame.function, &frame.file, &frame.module) {
        (Some(function), Some(file), _) => format!("{function} {file}"),
        (Some(function), None, module) => format!("{function} {}", module.as_deref().unwrap_or("")),
        (None, _, Some(module)) => {
            format!("{module} {}", frame.offset.as_deref().unwrap_or(""))
        }
        (None, _, None) => frame.address.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::difference;
    use crate::report::Report;
    use crate::tests::made::Made;
    use crate::{Options, Selection, analyze_trace};

    fn report(made: &Made) -> Report {
        let trace = crate::trace::Trace::of_bytes([made.bytes()]).unwrap();
        let options = Options {
            all_sites: true,
            ..Options::default()
        };
        analyze_trace(trace, &options).unwrap()
    }

    #[test]
    fn sites_that_changed_are_listed_by_growth() {
        let mut old = Made::new(0xA0);
        old.malloc(0x1000, 10, 0x10)
            .malloc(0x2000, 20, 0x20)
            .malloc(0x3000, 5, 0x30);
        let mut new = Made::new(0xB0);
        new.malloc(0x9000, 10, 0x10)
            .malloc(0x2000, 50, 0x20)
            .malloc(0x3000, 5, 0x30)
            .free(0x3000, 0x40);
        let found = difference(&report(&old), &report(&new), &Selection::default());
        let growth: Vec<_> = found
            .sites
            .iter()
            .map(|it| (it.old.live_bytes, it.new.live_bytes))
            .collect();
        assert_eq!(growth, [(20, 50), (5, 0)]);
        assert_eq!((found.old.live_bytes, found.new.live_bytes), (35, 60));
        assert_eq!(found.new.allocations, 3);
        let same = difference(&report(&old), &report(&old), &Selection::default());
        assert!(same.sites.is_empty());
    }
}
