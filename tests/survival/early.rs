//! Calls before the recorder is relocated, before any constructor, and after the last destructor.

use super::traced;
use heapwire_tests::build::{compile, recorder};
use heapwire_tests::raw::Raw;
use heapwire_tests::run::{Run, number, report};
use heapwire_tests::scratch::Scratch;
use std::path::Path;

#[test]
fn the_first_and_the_last_instructions_of_a_program_are_recorded_or_counted() {
    let scratch = Scratch::new("early");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("survival/programs");
    let (library, program) = (scratch.join("libearly.so"), scratch.join("early"));
    compile(
        &sources.join("early_library.c"),
        &library,
        &["-shared", "-fPIC", "-fno-plt"],
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
        &recorder(&scratch),
        trace.to_str().unwrap(),
    ));
    assert_eq!(
        (run.status, run.stdout.as_str(), run.stderr.as_str()),
        (0, "42\n", "")
    );
    let raw = Raw::read(&trace);
    let sizes = |op| {
        raw.records()
            .filter(move |record| record.op == op)
            .map(|record| record.size)
    };
    for size in [72001, 72002, 72003, 72004] {
        assert_eq!(sizes(1).filter(|found| *found == size).count(), 1, "{size}");
    }
    // The six calls of the resolver come before anything can be recorded: they are counted.
    let report = report(&trace);
    assert_eq!(
        number(&report["trace"]["lost_records"]),
        6,
        "{}",
        report["warnings"]
    );
    assert_eq!(report["trace"]["complete"], false);
}
