//! What changed between two traces, counted again for each site.

use super::hexadecimal;
use super::made::made_of;
use super::replayed::{Stream, counted, dumped};
use heapwire_tests::run::Run;
use heapwire_tests::run::{command, json, list, number};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Live bytes and blocks, bytes at the peak of each process, and calls, of a site.
type Sums = [u64; 4];
const NAMES: [&str; 4] = ["live_bytes", "live_blocks", "peak_bytes", "allocations"];

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
    for call in streams.iter().flat_map(|(_, stream)| &stream.calls) {
        if ["allocated", "realloc-new"].contains(&call.op.as_str()) {
            sites.entry(call.pc).or_default()[3] += 1;
        }
    }
    sites
}

#[test]
fn each_site_of_two_traces_is_counted_right() {
    let scratch = Scratch::new("counted-diff");
    let traces = [
        made_of(&scratch, "old.hwt", 1),
        made_of(&scratch, "new.hwt", 77),
    ];
    let counted = traces.each_ref().map(|trace| sums(&dumped(trace)));
    let totals = traces.each_ref().map(|trace| {
        let report = json(&Run::of(
            command().args(["report", "--format", "json"]).arg(trace),
        ));
        number(&report["totals"]["allocations"])
    });
    let sites: BTreeSet<u64> = counted.iter().flat_map(BTreeMap::keys).copied().collect();
    assert!(sites.len() > 8, "{sites:?}");
    for per in [&[][..], &["--per", "allocations"]] {
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
                let mut sums = counted[side].get(site).copied().unwrap_or_default();
                for (at, sum) in sums.iter_mut().enumerate() {
                    let whole = totals[side];
                    let is_scaled = !per.is_empty() && NAMES[at] != "peak_bytes";
                    *sum = match is_scaled {
                        true => (*sum * 1_000_000 + whole / 2) / whole,
                        false => *sum,
                    };
                }
                sums
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
