//! Blocks that are released while their record is still in the lane can be left out: sums, leaks and errors stay what they are.

use super::{program, traced};
use heapwire_tests::build::{Sample, recorder};
use heapwire_tests::run::{Run, list, number, report, warned};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The report on a run of `program`, culled or not, and the size of its trace.
fn run(scratch: &Scratch, program: &Path, culls: &str, status: i32) -> (Value, u64) {
    let trace = scratch.join(&format!("{culls}.hwt"));
    let library = recorder(scratch);
    let mut command = traced(program, &library, trace.to_str().unwrap());
    let run = Run::of(command.env("HEAPWIRE_CULL", culls).arg("20000"));
    assert_eq!(run.status, status, "{run:?}");
    (report(&trace), fs::metadata(trace).unwrap().len())
}

fn culled(report: &Value) -> u64 {
    let mut warnings = list(&report["warnings"]).iter();
    let culled = warnings.find(|warning| warning["kind"] == "culled");
    culled.map_or(0, |warning| number(&warning["count"]))
}

/// What must be the same: sums, and rows without addresses and times.
fn findings(report: &Value) -> Vec<Value> {
    let of_process = |process: &Value| {
        let totals = &process["totals"];
        let rows = |rows: &Value| -> Vec<Value> {
            let row = |row: &Value| {
                serde_json::json!([
                    row["bytes"],
                    row["blocks"],
                    row["kind"],
                    row["stack"][0]["line"]
                ])
            };
            list(rows).iter().map(row).collect()
        };
        let sums = [
            "allocations",
            "releases",
            "reallocations",
            "allocated_bytes",
            "failed",
            "live_blocks",
            "live_bytes",
        ];
        let sums: Vec<_> = sums.iter().map(|sum| &totals[sum]).collect();
        serde_json::json!([
            sums,
            rows(&process["leaks"]),
            rows(&process["errors"]),
            process["end"]
        ])
    };
    list(&report["processes"]).iter().map(of_process).collect()
}

#[test]
fn pairs_are_left_out_and_the_sums_stay() {
    let scratch = Scratch::new("cull");
    let pairs = program(&scratch, "pairs");
    let (whole, bytes) = run(&scratch, &pairs, "0", 5);
    let (less, fewer_bytes) = run(&scratch, &pairs, "1", 5);
    assert_eq!(findings(&whole), findings(&less));
    assert_eq!(less["trace"]["complete"], true, "{}", less["warnings"]);
    assert_eq!(
        (culled(&whole), number(&less["trace"]["lost_records"])),
        (0, 0)
    );
    assert!(culled(&less) > 15_000, "{}", culled(&less));
    // The lanes, which take no less, are more than half of it.
    assert!(fewer_bytes < bytes, "{fewer_bytes} of {bytes} bytes");
    let records = |report: &Value| number(&report["trace"]["records"]);
    assert!(records(&less) * 10 < records(&whole));
}

#[test]
fn what_was_left_out_of_a_lost_frame_is_not_lost() {
    let scratch = Scratch::new("cull");
    let pairs = program(&scratch, "pairs");
    let (whole, _) = run(&scratch, &pairs, "1", 5);
    let path = scratch.join("1.hwt");
    let bytes = fs::read(&path).unwrap();
    let magic = b"\x89HWT\r\n\xFF\x1A";
    let windows = bytes.windows(magic.len()).enumerate();
    let mut places = windows.filter(|(_, it)| it == magic).map(|(at, _)| at);
    let lost = places.nth(10).unwrap()..places.next().unwrap();
    fs::write(&path, [&bytes[..lost.start], &bytes[lost.end..]].concat()).unwrap();
    let less = report(&path);
    let records = |report: &Value| number(&report["trace"]["records"]);
    assert_eq!(
        records(&whole),
        records(&less) + number(&less["trace"]["lost_records"])
    );
    let pairs_of = |report: &Value| 2 * culled(report) + warned(report, "culled-unseen");
    // One of each pair's two numbers in the frame stands for all of them.
    assert_eq!(pairs_of(&whole), pairs_of(&less) + 1);
    assert!(warned(&less, "culled-unseen") > 1);
}

#[test]
fn what_threads_and_processes_share_is_never_left_out_wrongly() {
    for sample in [
        "c/threads_realloc.c",
        "c/cross_thread_free.c",
        "c/fork_both_sides.c",
        "c/double_free.c",
        "c/double_free_silent.c",
        "c/free_after_reuse.c",
        "c/leak_loop.c",
        "cxx/mismatched.cpp",
        "cxx/containers.cpp",
    ] {
        let scratch = Scratch::new("cull");
        let sample = Sample::build(sample, &scratch);
        let name = sample.program.display();
        let status = Run::of(&mut std::process::Command::new(&sample.program)).status;
        let (whole, _) = run(&scratch, &sample.program, "0", status);
        let (less, _) = run(&scratch, &sample.program, "1", status);
        assert_eq!(findings(&whole), findings(&less), "{name}");
        assert_eq!(
            whole["trace"]["complete"], less["trace"]["complete"],
            "{name}"
        );
        assert_eq!(number(&less["trace"]["lost_records"]), 0, "{name}");
    }
}

#[test]
fn a_second_release_of_what_was_left_out_is_no_certain_error_of_another_kind() {
    const ABORTED: i32 = 128 + 6;
    let scratch = Scratch::new("cull");
    let twice = program(&scratch, "twice_much_later");
    let error = |report: &Value| {
        let [error] = list(&report["processes"][0]["errors"]) else {
            panic!("{report}");
        };
        ["kind", "certain", "doubt"].map(|field| error[field].clone())
    };
    let (whole, _) = run(&scratch, &twice, "0", ABORTED);
    assert_eq!(
        error(&whole),
        ["double-free".into(), true.into(), Value::Null]
    );
    let (less, _) = run(&scratch, &twice, "1", ABORTED);
    let expected: [Value; 3] = ["invalid-free".into(), false.into(), "culled-blocks".into()];
    assert_eq!(error(&less), expected);
    let totals = |report: &Value| {
        let totals = &report["processes"][0]["totals"];
        ["allocations", "releases", "allocated_bytes", "live_blocks"].map(|it| number(&totals[it]))
    };
    assert_eq!(totals(&whole), totals(&less));
}
