//! In company: other allocators and preloads, plug-ins and language run-times, each with its own ways to the heap.

use super::{program, traced};
use heapwire_tests::build::{compile, recorder};
use heapwire_tests::run::{Run, list, number, report};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Builds a library of this folder.
fn library(scratch: &Scratch, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("survival/programs");
    let out = scratch.join(&format!("{name}.so"));
    compile(
        &source.join(format!("{name}.c")),
        &out,
        &["-shared", "-fPIC"],
    );
    out
}

fn warned(report: &Value, kind: &str) -> u64 {
    let warnings = list(&report["warnings"]).iter();
    warnings
        .filter(|it| it["kind"] == kind)
        .map(|it| number(&it["count"]))
        .sum()
}

/// Bytes and blocks of the leaks of calls in `program` itself.
fn leaks_of(program: &Path, process: &Value) -> Vec<(u64, u64)> {
    list(&process["leaks"])
        .iter()
        .filter(|leak| leak["stack"][0]["module"] == program.to_str().unwrap())
        .map(|leak| (number(&leak["bytes"]), number(&leak["blocks"])))
        .collect()
}

#[test]
fn nobody_is_blamed_for_releasing_blocks_from_past_the_recorder() {
    let scratch = Scratch::new("past");
    let program = program(&scratch, "past_recorder");
    let plugin = library(&scratch, "past_recorder_plugin");
    for (way, errors) in [("libc", 3), ("handle", 3), ("plugin", 3), ("hook", 0)] {
        let trace = scratch.join(&format!("{way}.hwt"));
        let run = Run::of(
            traced(&program, &recorder(&scratch), trace.to_str().unwrap())
                .arg(way)
                .arg(&plugin),
        );
        assert_eq!((run.status, run.stdout.as_str()), (0, "1\n"), "{way}");
        let report = report(&trace);
        let found = list(&report["processes"][0]["errors"]);
        assert_eq!(found.len() as u64, errors, "{way}: {found:#?}");
        for error in found {
            assert_eq!(error["certain"], false, "{way}: {error:#}");
            assert_eq!(error["doubt"], "unseen-allocations");
        }
        assert_eq!(warned(&report, "unseen-allocations"), errors / 3, "{way}");
        assert_eq!(leaks_of(&program, &report["processes"][0]), []);
    }
}

#[test]
fn an_allocators_own_calls_are_not_the_programs() {
    let scratch = Scratch::new("naming");
    let (program, allocator) = (
        program(&scratch, "resizes"),
        library(&scratch, "naming_allocator"),
    );
    let trace = scratch.join("t.hwt");
    let recorder = recorder(&scratch);
    let run = Run::of(traced(&program, &recorder, trace.to_str().unwrap()).env(
        "LD_PRELOAD",
        format!("{} {}", recorder.display(), allocator.display()),
    ));
    assert_eq!((run.status, run.stdout.as_str()), (0, "resized\n"));
    let report = report(&trace);
    let process = &report["processes"][0];
    assert_eq!(list(&process["errors"]).len(), 0, "{}", process["errors"]);
    assert_eq!(warned(&report, "unseen-releases"), 0);
    assert_eq!(process["totals"]["reallocations"], 1000);
    assert_eq!(leaks_of(&program, process), [(1010, 1), (999, 3)]);
}
