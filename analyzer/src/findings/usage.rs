//! Sums by size, lifetime, thread and module, for the report.

use crate::naming::Names;
use crate::replay::{Histogram, Outcome, SiteRow};
use crate::report::usage::{Class, Failed, Grown, ModuleUsage, SiteUsage, ThreadUsage, Usage};
use crate::report::{SiteSums, WholeSums};
use crate::sites::SiteTable;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

/// The usage of one process image; `has_time` where its clock counts time, and its threads are known.
pub(crate) fn of(
    outcome: &Outcome,
    names: &Names,
    sites: &SiteTable,
    has_time: bool,
    all_sites: bool,
) -> Usage {
    let mut failed: Vec<Failed> = outcome
        .failed
        .iter()
        .map(|(site, (calls, bytes))| Failed {
            calls: *calls,
            bytes: *bytes,
            stack: names.stack(*site),
        })
        .collect();
    failed.sort_by_key(|site| Reverse(site.calls));
    let mut grown: Vec<Grown> = outcome
        .sites
        .iter()
        .filter(|row| row.grown.0 > 0)
        .map(|row| Grown {
            blocks: row.grown.0,
            bytes: row.grown.1,
            stack: names.stack(row.site),
        })
        .collect();
    grown.sort_by_key(|site| Reverse(site.bytes));
    Usage {
        sizes: classes(&outcome.sizes),
        lifetimes_ns: if has_time {
            classes(&outcome.lifetimes)
        } else {
            Vec::new()
        },
        lifetimes_unknown: outcome.lifetimes_unknown * u64::from(has_time),
        lifetimes_records: classes(&outcome.lifetimes_in_records),
        threads: if has_time {
            threads(outcome)
        } else {
            Vec::new()
        },
        modules: modules(&outcome.sites, sites),
        failed,
        grown,
        sites: if all_sites {
            outcome.sites.iter().map(|row| site(row, names)).collect()
        } else {
            Vec::new()
        },
    }
}

fn site(row: &SiteRow, names: &Names) -> SiteUsage {
    SiteUsage {
        bytes: row.handed_out_bytes,
        sums: sums(row),
        stack: names.stack(row.site),
    }
}

fn sums(row: &SiteRow) -> SiteSums {
    SiteSums {
        live_bytes: row.live_bytes,
        live_blocks: row.live_blocks,
        whole: Some(WholeSums {
            peak_bytes: row.at_peak.0,
            allocations: Some(row.handed_out),
            temporary: row.temporary,
        }),
    }
}

fn classes(histogram: &Histogram) -> Vec<Class> {
    let classes = histogram.classes();
    classes
        .map(|(from, blocks)| Class { from, blocks })
        .collect()
}

fn threads(outcome: &Outcome) -> Vec<ThreadUsage> {
    let mut threads: Vec<_> = outcome
        .threads
        .iter()
        .map(|(usage, live)| ThreadUsage {
            thread: usage.tid.into(),
            allocations: usage.handed_out,
            bytes: usage.handed_out_bytes,
            releases: usage.releases,
            live_blocks: live.0,
            live_bytes: live.1,
        })
        .collect();
    threads.sort_by_key(|usage| (Reverse(usage.bytes), usage.thread));
    threads
}

fn modules(rows: &[SiteRow], sites: &SiteTable) -> Vec<ModuleUsage> {
    let mut by_path: BTreeMap<Option<&Path>, ModuleUsage> = BTreeMap::new();
    for row in rows {
        let module = sites.site(row.site).module;
        let path = module.and_then(|id| sites.module(id).path.as_deref());
        let of = by_path.entry(path).or_insert_with(|| ModuleUsage {
            module: path.map(|path| path.to_string_lossy().into_owned()),
            sums: sums(row).none(),
            ..ModuleUsage::default()
        });
        of.bytes = of.bytes.saturating_add(row.handed_out_bytes);
        of.sums = of.sums.plus(sums(row));
    }
    let mut modules: Vec<_> = by_path.into_values().collect();
    modules.sort_by_key(|of| Reverse(of.bytes)); // stable: they are in order of path
    modules
}
