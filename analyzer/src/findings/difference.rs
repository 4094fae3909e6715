//! What changed between two reports, site by site. Sites are the same where their names are: addresses are not.

use crate::Selection;
use crate::report::{
    Difference, ErrorChange, FaultKind, Frame, Report, SiteChange, SiteSums, Stack,
};
use std::collections::BTreeMap;

/// Compares two reports that list every site; most growth of live bytes first.
///
/// Modules and functions are what all blocks of a site have in common. Where more is asked for, the reports must have been made with
/// the same selection, and only live blocks are compared.
#[must_use]
pub fn difference(old: &Report, new: &Report, selection: &Selection) -> Difference {
    let of_sites = Selection {
        modules: selection.modules.clone(),
        functions: selection.functions.clone(),
        ..Selection::default()
    };
    let live_only = of_sites != *selection;
    let sides = |report| {
        if live_only {
            live(report)
        } else {
            selected(report, selection)
        }
    };
    let changes = changes(&sides(old), &sides(new));
    let sums = |report: &Report, side: fn(&SiteChange) -> SiteSums| {
        if *selection == Selection::default() {
            sums(report)
        } else {
            let sides = changes.iter().map(side);
            sides.fold(SiteSums::default(), SiteSums::plus)
        }
    };
    let (old_sums, new_sums) = (
        sums(old, |change| change.old),
        sums(new, |change| change.new),
    );
    let mut sites: Vec<_> = changes
        .into_iter()
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
        errors: errors(old, new, selection),
        live_only,
        sites,
    }
}

/// The wrong releases that are not the same in both: of one kind, and released at one site.
fn errors(old: &Report, new: &Report, selection: &Selection) -> Vec<ErrorChange> {
    let mut found: BTreeMap<(FaultKind, String), ErrorChange> = BTreeMap::new();
    for (report, is_new) in [(old, false), (new, true)] {
        let errors = report.processes.iter().flat_map(|process| &process.errors);
        for error in errors.filter(|error| selection.takes_fault(error)) {
            let key = (error.kind, name(&error.stack, loose));
            let change = found.entry(key).or_insert_with(|| ErrorChange {
                kind: error.kind,
                old: 0,
                new: 0,
                stack: error.stack.clone(),
            });
            let count = if is_new {
                &mut change.new
            } else {
                &mut change.old
            };
            *count += 1;
            if is_new {
                change.stack = error.stack.clone();
            }
        }
    }
    let changed = found.into_values().filter(|it| it.old != it.new);
    let mut changed: Vec<_> = changed.collect();
    changed.sort_by_key(|it| i128::from(it.old) - i128::from(it.new));
    changed
}

fn sums(report: &Report) -> SiteSums {
    let mut all = SiteSums::default();
    for process in &report.processes {
        let totals = &process.totals;
        all.live_bytes = all.live_bytes.saturating_add(totals.live_bytes);
        all.live_blocks = all.live_blocks.saturating_add(totals.live_blocks);
        all.peak_bytes = all.peak_bytes.saturating_add(totals.peak_bytes);
        all.allocations = all.allocations.saturating_add(totals.allocations);
        all.temporary = all.temporary.saturating_add(totals.temporary);
    }
    all
}

/// The sites of a report that are asked for.
fn selected(report: &Report, selection: &Selection) -> Vec<Side> {
    let processes = report.processes.iter();
    let sites = processes.flat_map(|process| &process.usage.sites);
    let sites = sites.filter(|site| selection.takes_site(site.stack.clone()));
    let sides = sites.map(|site| Side {
        sums: site.sums,
        stack: site.stack.clone(),
    });
    sides.collect()
}

/// The live blocks that a report lists, by site.
fn live(report: &Report) -> Vec<Side> {
    let leaks = report.processes.iter().flat_map(|process| &process.leaks);
    let sides = leaks.map(|leak| Side {
        sums: SiteSums {
            live_bytes: leak.bytes,
            live_blocks: leak.blocks,
            ..SiteSums::default()
        },
        stack: leak.stack.clone(),
    });
    sides.collect()
}

/// Sums of both sides for each site. Sites of one line are the same; of what is left those of one function, in the order of
/// their lines, since lines move when a file is edited.
fn changes(old: &[Side], new: &[Side]) -> Vec<SiteChange> {
    let mut old = by_line(old);
    let mut changes = Vec::new();
    let mut moved: BTreeMap<String, [Vec<Side>; 2]> = BTreeMap::new();
    for (line, new) in by_line(new) {
        match old.remove(&line) {
            Some(old) => changes.push(change(Some(old), Some(new))),
            None => moved.entry(name(&new.stack, loose)).or_default()[1].push(new),
        }
    }
    for old in old.into_values() {
        moved.entry(name(&old.stack, loose)).or_default()[0].push(old);
    }
    for [old, new] in moved.into_values() {
        let pairs = old.len().max(new.len());
        let in_order = |mut sides: Vec<Side>| {
            sides.sort_by_key(|side| {
                side.stack
                    .iter()
                    .map(|frame| frame.line)
                    .collect::<Vec<_>>()
            });
            sides.into_iter().map(Some).chain(std::iter::repeat(None))
        };
        let both = in_order(old).zip(in_order(new)).take(pairs);
        changes.extend(both.map(|(old, new)| change(old, new)));
    }
    changes
}

/// A site in one of the reports.
#[derive(Clone)]
struct Side {
    sums: SiteSums,
    stack: Stack,
}

fn change(old: Option<Side>, new: Option<Side>) -> SiteChange {
    let sums = |side: &Option<Side>| side.as_ref().map(|side| side.sums).unwrap_or_default();
    SiteChange {
        old: sums(&old),
        new: sums(&new),
        stack: new
            .or(old)
            .map_or_else(|| Vec::new().into(), |side| side.stack),
    }
}

/// Sums by what the sites' lines are called.
fn by_line(sites: &[Side]) -> BTreeMap<String, Side> {
    let mut by_line: BTreeMap<String, Side> = BTreeMap::new();
    for site in sites {
        let side = by_line
            .entry(name(&site.stack, exact))
            .or_insert_with(|| Side {
                sums: SiteSums::default(),
                stack: site.stack.clone(),
            });
        side.sums = side.sums.plus(site.sums);
    }
    by_line
}

/// What a stack is called, frame by frame.
fn name(stack: &Stack, of: fn(&Frame) -> String) -> String {
    stack.iter().map(of).collect::<Vec<_>>().join("\n")
}

/// A frame with its line.
fn exact(frame: &Frame) -> String {
    format!("{} {:?} {:?}", loose(frame), frame.file, frame.line)
}

/// A frame as it is called in another build of the program, perhaps in another folder.
fn loose(frame: &Frame) -> String {
    let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    match (&frame.function, &frame.file, &frame.module) {
        (Some(function), Some(file), _) => format!("{function} {}", last(file)),
        (Some(function), None, module) => {
            format!(
                "{function} {}",
                module.as_deref().map_or_else(String::new, last)
            )
        }
        (None, _, Some(module)) => {
            format!("{} {}", last(module), frame.offset.as_deref().unwrap_or(""))
        }
        (None, _, None) => frame.address.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Side, changes, difference};
    use crate::report::{FaultKind, Frame, Report, SiteSums};
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

    /// A site of `bytes` in a function that others called it.
    fn site(function: &str, file: &str, line: u64, live_bytes: u64) -> Side {
        Side {
            stack: [Frame {
                address: format!("{line:#x}"),
                module: Some("/opt/app".into()),
                build_id: None,
                offset: None,
                function: Some(function.into()),
                file: Some(file.into()),
                line: Some(u32::try_from(line).unwrap()),
                column: None,
                inlined: false,
            }]
            .into(),
            sums: SiteSums {
                live_bytes,
                ..SiteSums::default()
            },
        }
    }

    #[test]
    fn a_line_that_moved_is_the_same_site() {
        let old = [
            site("push", "/v1/list.c", 10, 100),
            site("push", "/v1/list.c", 20, 7),
            site("gone", "/v1/list.c", 40, 5),
        ];
        let new = [
            site("push", "/v2/list.c", 13, 100),
            site("push", "/v2/list.c", 23, 9),
            site("push", "/v2/list.c", 30, 1),
            site("push", "/v2/other.c", 20, 2),
        ];
        let sums = |old: &[Side], new: &[Side]| {
            let mut found: Vec<_> = changes(old, new)
                .iter()
                .map(|it| (it.old.live_bytes, it.new.live_bytes, it.stack[0].line))
                .collect();
            found.sort_unstable();
            found
        };
        assert_eq!(
            sums(&old, &new),
            [
                (0, 1, Some(30)),
                (0, 2, Some(20)),
                (5, 0, Some(40)),
                (7, 9, Some(23)),
                (100, 100, Some(13)),
            ]
        );
        // Where a line is the same, nothing else is taken for it.
        let same = [
            site("push", "/v1/list.c", 20, 8),
            site("push", "/v1/list.c", 5, 3),
        ];
        assert_eq!(
            sums(&old[..2], &same),
            [(7, 8, Some(20)), (100, 3, Some(5))]
        );
    }

    #[test]
    fn errors_that_came_or_went_are_listed() {
        let mut old = Made::new(0xA0);
        old.malloc(0x1000, 8, 0x10)
            .free(0x1000, 0x20)
            .free(0x1000, 0x30);
        old.free(0x1001, 0x40);
        let mut new = Made::new(0xB0);
        new.free(0x1001, 0x40).free(0x1001, 0x40).free(0x2001, 0x50);
        let found = difference(&report(&old), &report(&new), &Selection::default());
        let errors: Vec<_> = found
            .errors
            .iter()
            .map(|it| (it.kind, it.old, it.new))
            .collect();
        let (double, invalid) = (FaultKind::DoubleFree, FaultKind::InvalidFree);
        assert_eq!(errors[2], (double, 1, 0));
        assert_eq!(errors[..2], [(invalid, 1, 2), (invalid, 0, 1)]);
        let same = difference(&report(&old), &report(&old), &Selection::default());
        assert!(same.errors.is_empty());
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
        new.realloc(0x2000, Some(0x8000), 60, 0x50);
        let grown = difference(&report(&old), &report(&new), &Selection::default());
        assert_eq!(grown.new.allocations, 3, "as a report counts them");
        let same = difference(&report(&old), &report(&old), &Selection::default());
        assert!(same.sites.is_empty());
    }
}
