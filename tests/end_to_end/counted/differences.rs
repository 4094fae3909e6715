//! What changed between two traces, counted again for each site.

use super::hexadecimal;
use super::made::made_of;
use super::replayed::{Stream, counted, dumped};
use heapwire_tests::run::Run;
use heapwire_tests::run::{command, json, list, number};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Live bytes and blocks, bytes at the peak of each process, calls, and blocks that were temporary, of a site.
type Sums = [u64; 5];
const NAMES: [&str; 5] = [
    "live_bytes",
    "live_blocks",
    "peak_bytes",
    "allocations",
    "temporary",
];

/// The sums of each site, over all processes.
fn sums(streams: &[(String, Stream)]) -> BTreeMap<u64, Sums> {
    let at_end = counted(streams, |_, _| true);
    let peaks: Vec<_> = at_end.iter().map(|it| it.peak).collect();
    let at_peak = counted(streams, |index, call| peaks[index] >= Some(call.number));
    let mut sites: BTreeMap<u64, Sums> = BTreeMap::new();
    for live in at_end.iter().flat_map(|it| it.own()) {
        let sums = sites.entry(live.pc).or_default();
        sums[0] += live.size;
        sums[1] += 1;
    }
    for live in at_peak.iter().flat_map(|it| it.own()) {
        sites.entry(live.pc).or_default()[2] += live.size;
    }
    for (site, count) in at_end.iter().flat_map(|it| &it.temporary) {
        sites.entry(*site).or_default()[4] += count;
    }
    for call in streams.iter().flat_map(|(_, stream)| &stream.calls) {
        if ["allocated", "realloc-new"].contains(&call.op.as_str()) {
            sites.entry(call.pc).or_default()[3] += 1;
        }
    }
    sites
}

/// A unit, and how much there is of what it is one of.
type Scale = (u64, u64);

/// For each way to scale a difference its options, and the scales of both traces.
fn scales(traces: &[PathBuf; 2]) -> [(&'static [&'static str], [Scale; 2]); 3] {
    let whole = |field: &str| {
        traces.each_ref().map(|trace| {
            let run = Run::of(command().args(["report", "--format", "json"]).arg(trace));
            number(json(&run).pointer(field).unwrap())
        })
    };
    let of = |unit: u64, whole: [u64; 2]| whole.map(|whole| (unit, whole));
    let seconds = of(1_000_000_000, whole("/trace/duration_ns"));
    assert_ne!(seconds[0], seconds[1]);
    [
        (&[], [(1, 1); 2]),
        (
            &["--per", "allocations"],
            of(1_000_000, whole("/totals/allocations")),
        ),
        (&["--per", "seconds"], seconds),
    ]
}

/// Sums for a part of the work. A peak does not grow with it.
fn scaled(mut sums: Sums, (unit, whole): Scale) -> Sums {
    let grows = |name: &str| name != "peak_bytes";
    for (sum, _) in sums.iter_mut().zip(NAMES).filter(|(_, name)| grows(name)) {
        *sum = (*sum * unit + whole / 2) / whole;
    }
    sums
}

#[test]
fn each_site_of_two_traces_is_counted_right() {
    let scratch = Scratch::new("counted-diff");
    let traces = [
        made_of(&scratch, "old.hwt", 1),
        made_of(&scratch, "new.hwt", 77),
    ];
    let counted = traces.each_ref().map(|trace| sums(&dumped(trace)));
    let sites: BTreeSet<u64> = counted.iter().flat_map(BTreeMap::keys).copied().collect();
    assert!(sites.len() > 8, "{sites:?}");
    assert!(counted[0].values().any(|sums| sums[4] > 0), "{counted:?}");
    for (per, scales) in scales(&traces) {
        let mut command = command();
        command
            .args(["diff", "--format", "json"])
            .args(per)
            .args(&traces);
        let found = json(&Run::of(&mut command));
        let changes = list(&found["sites"]).iter();
        let by_site: BTreeMap<u64, &Value> = changes
            .map(|change| (hexadecimal(&change["stack"][0]["address"]), change))
            .collect();
        for site in &sites {
            let expected = [0, 1].map(|side| {
                let sums = counted[side].get(site).copied().unwrap_or_default();
                scaled(sums, scales[side])
            });
            let Some(change) = by_site.get(site) else {
                assert_eq!(expected[0], expected[1], "{site:#x} is not listed");
                continue;
            };
            let side = |side: &Value| NAMES.map(|name| number(&side[name]));
            assert_eq!(
                [side(&change["old"]), side(&change["new"])],
                expected,
                "{site:#x}"
            );
        }
        let growth = |change: &Value| {
            let bytes = |side: &Value| i128::from(number(&side["live_bytes"]));
            bytes(&change["old"]) - bytes(&change["new"])
        };
        assert!(list(&found["sites"]).is_sorted_by_key(growth));
    }
}
