//! What changed between two reports, site by site. Sites are the same where their names are: addresses are not.

use super::pairing::paired;
use crate::Selection;
use crate::report::{
    Difference, ErrorChange, FaultKind, Frame, Report, SiteChange, SiteSums, Stack, WholeSums,
};
use std::collections::BTreeMap;

/// What sums of traces of different length are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// A million allocations.
    Allocations,
    /// A second.
    Second,
}

/// Compares two reports that list every site; most growth of live bytes first.
///
/// Modules and functions are what all blocks of a site have in common. Where more is asked for, the reports must have been made with
/// the same selection, and only live blocks are compared.
#[must_use]
pub fn difference(
    old: &Report,
    new: &Report,
    selection: &Selection,
    per: Option<Per>,
) -> Difference {
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
    let is_whole = *selection == Selection::default();
    let sums = |report: &Report, side: fn(&SiteChange) -> SiteSums| {
        let sides = || changes.iter().map(side);
        let all = match is_whole {
            true => sums(report),
            false => of_part(sides(), live_only),
        };
        scaled(all, report, per)
    };
    let (old_sums, new_sums) = (
        sums(old, |change| change.old),
        sums(new, |change| change.new),
    );
    let scaled = changes.into_iter().map(|change| SiteChange {
        old: scaled(change.old, old, per),
        new: scaled(change.new, new, per),
        ..change
    });
    let mut sites: Vec<_> = scaled.filter(|change| change.old != change.new).collect();
    sites.sort_by_key(|change| {
        let growth =
            |of: fn(&SiteSums) -> u64| i128::from(of(&change.new)) - i128::from(of(&change.old));
        let (live, calls) = (growth(|it| it.live_bytes), growth(SiteSums::allocations));
        (-live, -calls, u64::MAX - change.new.peak_bytes())
    });
    Difference {
        filter: selection.words(),
        per: per.map(Per::word),
        old: old_sums,
        new: new_sums,
        old_processes: old.processes.len() as u64,
        new_processes: new.processes.len() as u64,
        old_duration_ns: old.trace.duration_ns,
        new_duration_ns: new.trace.duration_ns,
        errors: errors(old, new, selection),
        live_only,
        sites,
        old_files: old.trace.files.clone(),
        new_files: new.trace.files.clone(),
        old_warnings: old.warnings.clone(),
        new_warnings: new.warnings.clone(),
    }
}

impl Per {
    /// What it is called in a report.
    const fn word(self) -> &'static str {
        match self {
            Self::Allocations => "million allocations",
            Self::Second => "second",
        }
    }
}

/// Sums of a report as they are for as much of the program's work as is asked for. A peak does not grow with it.
fn scaled(sums: SiteSums, report: &Report, per: Option<Per>) -> SiteSums {
    let (unit, whole) = match per {
        None => return sums,
        Some(Per::Allocations) => (1_000_000, report.totals.allocations),
        Some(Per::Second) => (1_000_000_000, report.trace.duration_ns),
    };
    let whole = u128::from(whole.max(1));
    let scale = |value: u64| {
        let scaled = (u128::from(value) * unit + whole / 2) / whole;
        u64::try_from(scaled).unwrap_or(u64::MAX)
    };
    SiteSums {
        live_bytes: scale(sums.live_bytes),
        live_blocks: scale(sums.live_blocks),
        whole: sums.whole.map(|whole| WholeSums {
            peak_bytes: whole.peak_bytes,
            allocations: whole.allocations.map(scale),
            temporary: scale(whole.temporary),
        }),
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
    let processes = report.processes.iter().map(|process| {
        let totals = &process.totals;
        SiteSums {
            live_bytes: totals.live_bytes,
            live_blocks: totals.live_blocks,
            whole: Some(WholeSums {
                peak_bytes: totals.peak_bytes,
                allocations: Some(totals.allocations),
                temporary: totals.temporary,
            }),
        }
    });
    processes.reduce(SiteSums::plus).unwrap_or_default()
}

/// Sums of the sites that were asked for, which count reallocations as well.
fn of_part(sites: impl Iterator<Item = SiteSums>, live_only: bool) -> SiteSums {
    let all = sites.reduce(SiteSums::plus).unwrap_or(SiteSums {
        whole: (!live_only).then(WholeSums::default),
        ..SiteSums::default()
    });
    SiteSums {
        whole: all.whole.map(|whole| WholeSums {
            allocations: None,
            ..whole
        }),
        ..all
    }
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

/// Sums of both sides for each site. Sites of one line are the same; of what is left those of one function in a file of one
/// name, since lines move when a file is edited; and then those of one function, where either side knows one file of it, since
/// files get other names.
fn changes(old: &[Side], new: &[Side]) -> Vec<SiteChange> {
    let mut pairs = Pairs {
        left: [by_line(old), by_line(new)],
        changes: Vec::new(),
    };
    pairs.find(exact, |_| true);
    pairs.find(loose, |_| true);
    pairs.find(placeless, |sides| sides.iter().all(|it| is_of_one_file(it)));
    let [old, new] = pairs.left;
    let gone = old.into_iter().map(|side| change(Some(side), None));
    let came = new.into_iter().map(|side| change(None, Some(side)));
    pairs.changes.into_iter().chain(gone).chain(came).collect()
}

/// Sites that are in both reports, and what is left of either.
struct Pairs {
    left: [Vec<Side>; 2],
    changes: Vec<SiteChange>,
}

impl Pairs {
    /// Pairs what is left and has one name by `of`, in the order of lines, where that is clear.
    fn find(&mut self, of: fn(&Frame) -> String, is_clear: fn(&[Vec<Side>; 2]) -> bool) {
        let mut named: BTreeMap<String, [Vec<Side>; 2]> = BTreeMap::new();
        for (which, sides) in std::mem::take(&mut self.left).into_iter().enumerate() {
            for side in sides {
                named.entry(name(&side.stack, of)).or_default()[which].push(side);
            }
        }
        for mut sides in named.into_values() {
            if is_clear(&sides) {
                sides.iter_mut().for_each(|it| in_order_of_lines(it));
                let [old, new] = sides;
                let (pairs, left) = paired(old, new, |one, other| one.sums == other.sums);
                let pairs = pairs.into_iter();
                let changes = pairs.map(|(old, new)| change(Some(old), Some(new)));
                self.changes.extend(changes);
                sides = left;
            }
            for (left, sides) in self.left.iter_mut().zip(&mut sides) {
                left.append(sides);
            }
        }
    }
}

fn in_order_of_lines(sides: &mut [Side]) {
    sides.sort_by_key(|side| {
        let lines = side.stack.iter().map(|frame| frame.line);
        lines.collect::<Vec<_>>()
    });
}

/// Whether the innermost frames of all are in one file, or in one module where no file is known.
fn is_of_one_file(sides: &[Side]) -> bool {
    let mut places = sides.iter().filter_map(|side| {
        let frame = side.stack.first()?;
        Some(frame.file.as_ref().or(frame.module.as_ref()))
    });
    let first = places.next();
    places.all(|place| Some(place) == first)
}

/// A site in one of the reports.
#[derive(Clone)]
struct Side {
    sums: SiteSums,
    stack: Stack,
}

fn change(old: Option<Side>, new: Option<Side>) -> SiteChange {
    let sums = |side: &Option<Side>| side.as_ref().map(|side| side.sums);
    let none = sums(&old).or(sums(&new)).unwrap_or_default().none();
    SiteChange {
        old: sums(&old).unwrap_or(none),
        new: sums(&new).unwrap_or(none),
        stack: new
            .or(old)
            .map_or_else(|| Vec::new().into(), |side| side.stack),
    }
}

/// Sums by what the sites' lines are called.
fn by_line(sites: &[Side]) -> Vec<Side> {
    let mut by_line: BTreeMap<String, Side> = BTreeMap::new();
    for site in sites {
        let side = by_line
            .entry(name(&site.stack, exact))
            .or_insert_with(|| Side {
                sums: site.sums.none(),
                stack: site.stack.clone(),
            });
        side.sums = side.sums.plus(site.sums);
    }
    by_line.into_values().collect()
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

/// A frame as it is called wherever its function stands.
fn placeless(frame: &Frame) -> String {
    frame.function.clone().unwrap_or_else(|| loose(frame))
}

#[cfg(test)]
mod tests {
    use super::{Per, Side, changes, difference};
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
    fn a_line_that_came_or_went_before_others_leaves_them_what_they_are() {
        let old: Vec<_> = [(10, 100), (20, 7), (30, 50)]
            .map(|(line, live)| site("push", "/v1/list.c", line, live))
            .into();
        let new: Vec<_> = [(10, 1), (11, 100), (21, 7), (31, 50)]
            .map(|(line, live)| site("push", "/v2/list.c", line, live))
            .into();
        let changed = |old: &[Side], new: &[Side]| -> Vec<(u64, u64)> {
            let changes = changes(old, new).into_iter();
            let live = changes.map(|it| (it.old.live_bytes, it.new.live_bytes));
            live.filter(|(old, new)| old != new).collect()
        };
        assert_eq!(changed(&old, &new), [(0, 1)]);
        assert_eq!(changed(&new, &old), [(1, 0)]);
        assert_eq!(changed(&old, &new[1..]), []);
        assert_eq!(changed(&old, &new[..1]), [(100, 1), (7, 0), (50, 0)]);
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
    fn a_file_that_got_another_name_has_the_same_sites() {
        let old = [
            site("push", "/v1/list.c", 10, 100),
            site("init", "/v1/list.c", 20, 7),
        ];
        let new = [
            site("push", "/v2/deque.c", 14, 90),
            site("init", "/v2/one.c", 20, 5),
            site("init", "/v2/two.c", 20, 6),
        ];
        let mut found: Vec<_> = changes(&old, &new)
            .iter()
            .map(|it| (it.old.live_bytes, it.new.live_bytes))
            .collect();
        found.sort_unstable();
        // Which of the two functions was in the old file, nobody knows.
        assert_eq!(found, [(0, 5), (0, 6), (7, 0), (100, 90)]);
    }

    #[test]
    fn what_is_compared_is_for_as_much_work() {
        let made = |stream, rounds| {
            let mut made = Made::new(stream);
            made.malloc(0x1000, 60, 0x10);
            for address in 0..rounds {
                made.malloc(0x2000 + 64 * address, 8, 0x20);
            }
            report(&made)
        };
        let (old, new) = (made(0xA0, 3), made(0xB0, 11));
        let compared = |selection: &Selection, per| {
            let found = difference(&old, &new, selection, per);
            let sides = found
                .sites
                .iter()
                .map(|it| (it.old.live_bytes, it.new.live_bytes));
            (found.old, found.new, sides.collect::<Vec<_>>())
        };
        let (before, after, sites) = compared(&Selection::default(), None);
        assert_eq!((before.live_bytes, after.live_bytes), (84, 148));
        assert_eq!(sites, [(24, 88)]);
        let per = Some(Per::Allocations);
        let (before, after, sites) = compared(&Selection::default(), per);
        assert_eq!(
            (before.allocations(), after.allocations()),
            (1_000_000, 1_000_000)
        );
        assert_eq!(
            (before.live_bytes, after.live_bytes),
            (21_000_000, 12_333_333)
        );
        assert_eq!((before.peak_bytes(), after.peak_bytes()), (84, 148));
        assert_eq!(sites, [(6_000_000, 7_333_333), (15_000_000, 5_000_000)]);
        // Of a part, for as much work of all.
        let part = Selection {
            sizes: Some((60, 60)),
            ..Selection::default()
        };
        let (mut small_old, mut small_new) = (old.clone(), new.clone());
        for report in [&mut small_old, &mut small_new] {
            report.processes[0].leaks.retain(|leak| leak.bytes == 60);
        }
        let found = difference(&small_old, &small_new, &part, per);
        assert_eq!(
            (found.old.live_bytes, found.new.live_bytes),
            (15_000_000, 5_000_000)
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
        let found = difference(&report(&old), &report(&new), &Selection::default(), None);
        let errors: Vec<_> = found
            .errors
            .iter()
            .map(|it| (it.kind, it.old, it.new))
            .collect();
        let (double, invalid) = (FaultKind::DoubleFree, FaultKind::InvalidFree);
        assert_eq!(errors[2], (double, 1, 0));
        assert_eq!(errors[..2], [(invalid, 1, 2), (invalid, 0, 1)]);
        let same = difference(&report(&old), &report(&old), &Selection::default(), None);
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
        let found = difference(&report(&old), &report(&new), &Selection::default(), None);
        let growth: Vec<_> = found
            .sites
            .iter()
            .map(|it| (it.old.live_bytes, it.new.live_bytes))
            .collect();
        assert_eq!(growth, [(20, 50), (5, 0)]);
        assert_eq!((found.old.live_bytes, found.new.live_bytes), (35, 60));
        assert_eq!(found.new.allocations(), 3);
        new.realloc(0x2000, Some(0x8000), 60, 0x50);
        let grown = difference(&report(&old), &report(&new), &Selection::default(), None);
        assert_eq!(grown.new.allocations(), 3, "as a report counts them");
        let same = difference(&report(&old), &report(&old), &Selection::default(), None);
        assert!(same.sites.is_empty());
    }
}
