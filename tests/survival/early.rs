//! Calls before the recorder is relocated, before any constructor, and after the last destructor.

use super::traced;
use heapwire_tests::build::{compile, recorder};
use heapwire_tests::raw::Raw;
use heapwire_tests::run::{Run, list, number, report};
use heapwire_tests::scratch::Scratch;
use std::path::{Path, PathBuf};

/// Runs a program whose library allocates in a resolver, with `many` further pairs there, and gives its trace.
fn traced_early(scratch: &Scratch, many: u32) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("survival/programs");
    let (library, program) = (scratch.join("libearly.so"), scratch.join("early"));
    let many = format!("-DMANY={many}");
    compile(
        &sources.join("early_library.c"),
        &library,
        &["-shared", "-fPIC", "-fno-plt", &many],
    );
    let link = format!("-L{}", scratch.path().display());
    let path = format!("-Wl,-z,lazy,-rpath,{}", scratch.path().display());
    compile(
        &sources.join("early.c"),
        &program,
        &[&link, "-learly", &path],
    );
    let trace = scratch.join("t.hwt");
    let run = Run::of(&mut traced(
        &program,
        &recorder(scratch),
        trace.to_str().unwrap(),
    ));
    assert_eq!(
        (run.status, run.stdout.as_str(), run.stderr.as_str()),
        (0, "42\n", "")
    );
    trace
}

#[test]
fn the_first_and_the_last_instructions_of_a_program_are_recorded() {
    let scratch = Scratch::new("early");
    let trace = traced_early(&scratch, 0);
    let raw = Raw::read(&trace);
    let sizes = |op| {
        raw.records()
            .filter(move |record| record.op == op)
            .map(|record| record.size)
    };
    for size in [72001, 72002, 72003, 72004] {
        assert_eq!(sizes(1).filter(|found| *found == size).count(), 1, "{size}");
    }
    // The calls of the resolver come before the recorder has a lane, a clock or a module.
    for (op, size, count) in [
        (1, 71001, 1),
        (1, 71002, 1),
        (3, 71003, 1),
        (4, 71003, 1),
        (1, 3 * 71004, 1),
        (7, u64::MAX, 1),
        (1, 13, 1),
        (1, 71005, 1),
    ] {
        let found = sizes(op).filter(|found| *found == size).count();
        assert_eq!(found, count, "op {op} of {size}");
    }
    let report = report(&trace);
    assert_eq!(number(&report["trace"]["lost_records"]), 0);
    assert_eq!(report["trace"]["complete"], true, "{}", report["warnings"]);
    let process = &list(&report["processes"])[0];
    assert_eq!(list(&process["errors"]).len(), 0, "{}", process["errors"]);
    let lines: Vec<_> = list(&process["leaks"])
        .iter()
        .filter(|leak| leak["stack"][0]["function"] == "resolve")
        .map(|leak| (number(&leak["bytes"]), number(&leak["stack"][0]["line"])))
        .collect();
    assert_eq!(lines, [(71005, 18), (71003, 14), (13, 17)]);
}

#[test]
fn early_calls_that_cannot_be_kept_are_counted() {
    let scratch = Scratch::new("early-many");
    let trace = traced_early(&scratch, 100);
    let report = report(&trace);
    let lost = number(&report["trace"]["lost_records"]);
    // Ten records of its other calls, two of each pair; there is room for 128.
    assert_eq!(lost, 10 + 2 * 100 - 128, "{}", report["warnings"]);
    assert_eq!(report["trace"]["complete"], false);
}
