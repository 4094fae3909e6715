//! Blocks that are handed out past the recorder and released through it.

use super::{leaks_of, library, program, traced};
use heapwire_tests::build::{heapwire, recorder};
use heapwire_tests::run::{Run, list, report, warned, without_recorder};
use heapwire_tests::scratch::Scratch;
use std::process::Command;

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

/// The address of a block that was seen comes again unseen.
#[test]
fn a_second_release_beside_blocks_from_past_the_recorder_is_not_certainly_one() {
    let scratch = Scratch::new("reuse");
    let program = program(&scratch, "reuse_past_recorder");
    for size in ["24", "100", "1000", "20000"] {
        let trace = scratch.join(&format!("{size}.hwt"));
        let run = Run::of(traced(&program, &recorder(&scratch), trace.to_str().unwrap()).arg(size));
        assert_eq!((run.status, run.stdout.as_str()), (0, "1\n"), "{size}");
        let report = report(&trace);
        let errors = list(&report["processes"][0]["errors"]);
        let double = errors.iter().find(|error| error["kind"] == "double-free");
        let double = double.unwrap_or_else(|| panic!("{size}: {report:#}"));
        assert_eq!(double["certain"], false, "{size}: {double:#}");
        assert_eq!(double["doubt"], "unseen-allocations");
    }
}

#[test]
fn an_abort_after_a_release_does_not_make_it_wrong() {
    let scratch = Scratch::new("abort-past");
    let program = program(&scratch, "abort_past_recorder");
    for how in ["abort", "assert"] {
        let trace = scratch.join(&format!("{how}.hwt"));
        let mut command = Command::new(heapwire());
        command.args(["record", "-o"]).arg(&trace).arg("--");
        let run = Run::of(without_recorder(command).arg(&program).arg(how));
        assert_eq!(run.status, 134, "{}", run.stderr);
        let report = report(&trace);
        let process = &report["processes"][0];
        assert_eq!(
            (&process["end"], &process["signal"]),
            (&"signal".into(), &6.into())
        );
        let [error] = list(&process["errors"]) else {
            panic!("{how}: {report:#}");
        };
        assert_eq!(error["kind"], "invalid-free");
        assert_eq!(error["certain"], false, "{how}: {error:#}");
    }
}
