//! What changed between two reports, site by site. Sites are the same where their names are: addresses are not.

use crate::report::{Difference, Frame, Report, SiteChange, SiteSums, Stack};
use std::collections::BTreeMap;

/// Compares two reports; most growth of live bytes first.
#[must_use]
pub fn difference(old: &Report, new: &Report) -> Difference {
    let mut by_name: BTreeMap<String, SiteChange> = BTreeMap::new();
    add(&mut by_name, old, |change| &mut change.old);
    add(&mut by_name, new, |change| &mut change.new);
    let mut sites: Vec<_> = by_name
        .into_values()
        .filter(|change| change.old != change.new)
        .collect();
    sites.sort_by_key(|change| {
        let growth = i128::from(change.new.live_bytes) - i128::from(change.old.live_bytes);
        (-growth, u64::MAX - change.new.peak_bytes)
    });
    Difference {
        old: sums(old),
        new: sums(new),
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

fn add(
    by_name: &mut BTreeMap<String, SiteChange>,
    report: &Report,
    side: impl Fn(&mut SiteChange) -> &mut SiteSums,
) {
    for site in report
        .processes
        .iter()
        .flat_map(|process| &process.usage.sites)
    {
        let change = by_name
            .entry(key(&site.stack))
            .or_insert_with(|| SiteChange {
                old: SiteSums::default(),
                new: SiteSums::default(),
                stack: site.stack.clone(),
            });
        let sums = side(change);
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut sums.live_bytes, site.live_bytes);
        add(&mut sums.live_blocks, site.live_blocks);
        add(&mut sums.peak_bytes, site.peak_bytes);
        add(&mut sums.allocations, site.allocations);
        add(&mut sums.temporary, site.temporary);
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
    use crate::{Options, analyze_trace};

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
        let found = difference(&report(&old), &report(&new));
        let growth: Vec<_> = found
            .sites
            .iter()
            .map(|it| (it.old.live_bytes, it.new.live_bytes))
            .collect();
        assert_eq!(growth, [(20, 50), (5, 0)]);
        assert_eq!((found.old.live_bytes, found.new.live_bytes), (35, 60));
        assert_eq!(found.new.allocations, 3);
        assert!(difference(&report(&old), &report(&old)).sites.is_empty());
    }
}
