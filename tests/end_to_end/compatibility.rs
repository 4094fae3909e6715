//! Traces that released versions of the format left behind are read for ever, and say what they said.

use heapwire_tests::build::workspace;
use heapwire_tests::run::{live_blocks, report};
use serde_json::Value;

/// The report on a stored trace, and the sizes of its live blocks, process by process.
fn stored(name: &str) -> (Value, Vec<Vec<u64>>) {
    let trace = workspace().join("tests/traces").join(name);
    let blocks = live_blocks(&trace);
    let processes = blocks["processes"].as_array().unwrap().iter();
    let sizes = processes.map(|process| {
        let blocks = process["blocks"].as_array().unwrap().iter();
        blocks
            .map(|block| block["size"].as_u64().unwrap())
            .collect()
    });
    (report(&trace), sizes.collect())
}

fn ends_and_errors(report: &Value) -> Vec<(&str, Vec<&str>)> {
    let processes = report["processes"].as_array().unwrap().iter();
    let found = processes.map(|process| {
        let errors = process["errors"].as_array().unwrap().iter();
        let kinds = errors.map(|error| error["kind"].as_str().unwrap());
        (process["end"].as_str().unwrap(), kinds.collect())
    });
    found.collect()
}

#[test]
fn a_process_that_a_signal_ended() {
    let (report, live) = stored("v1/double_free.hwt");
    assert_eq!(ends_and_errors(&report), [("signal", vec!["double-free"])]);
    assert_eq!(report["processes"][0]["signal"], 6);
    assert_eq!(live, [vec![0; 0]]);
    assert_eq!(report["trace"]["complete"], true, "{report:#}");
    let frame = &report["processes"][0]["errors"][0]["stack"][0];
    assert_eq!(frame["module"], "/opt/heapwire-samples/double_free");
    assert_eq!(frame["offset"], OFFSET);
}

/// Where the second `free` returns to, as `objdump -d` of the program showed it.
const OFFSET: &str = "0x1177";

#[test]
fn a_parent_and_its_child() {
    let (report, live) = stored("v1/fork_both_sides.hwt");
    assert_eq!(
        ends_and_errors(&report),
        [("normal", vec![]), ("normal", vec![])]
    );
    assert_eq!(live, [vec![83], vec![81, 82]]);
    assert_eq!(report["processes"][1]["totals"]["inherited_bytes"], 81);
    assert_eq!(report["trace"]["lost_records"], 0);
}

#[test]
fn every_family() {
    let (report, live) = stored("v1/mismatched.hwt");
    assert_eq!(
        ends_and_errors(&report),
        [("normal", vec!["mismatched-free"; 7])]
    );
    let families = report["processes"][0]["errors"].as_array().unwrap().iter();
    let pairs: Vec<_> = families
        .map(|error| {
            let name = |which: &str| error["families"][which].as_str().unwrap().to_owned();
            (name("allocated"), name("released"))
        })
        .collect();
    let expected = [
        ("new", "free"),
        ("new[]", "free"),
        ("malloc", "delete"),
        ("malloc", "delete[]"),
        ("new[]", "delete"),
        ("new", "delete[]"),
        ("aligned_alloc", "delete"),
    ];
    assert_eq!(
        pairs,
        expected.map(|(from, to)| (from.to_owned(), to.to_owned()))
    );
    assert_eq!(
        live.concat(),
        [72_704],
        "what libstdc++ keeps for exceptions"
    );
}
