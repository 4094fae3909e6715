//! Programs that take our descriptor away, or use its number: no byte of a trace ever lands in a file of theirs.

use super::{program, traced};
use heapwire_tests::build::recorder;
use heapwire_tests::run::{Run, list, number, report};
use heapwire_tests::scratch::Scratch;
use std::fs;

fn swept(how: &str) -> serde_json::Value {
    let scratch = Scratch::new(&format!("sweep-{how}"));
    let (program, library) = (program(&scratch, "sweep"), recorder(&scratch));
    let folder = scratch.join("files");
    fs::create_dir(&folder).unwrap();
    let trace = scratch.join("t.hwt");
    let mut command = traced(&program, &library, trace.to_str().unwrap());
    let run = Run::of(command.arg(how).arg(&folder));
    assert_eq!(
        (run.status, run.stdout.as_str()),
        (0, "clean\n"),
        "{}",
        run.stderr
    );
    if how == "dup2" {
        assert_eq!(fs::metadata(folder.join("all")).unwrap().len(), 0);
    }
    report(&trace)
}

#[test]
fn a_closed_or_replaced_descriptor_is_opened_again_by_its_path() {
    for how in ["none", "close", "close_range", "dup2"] {
        let report = swept(how);
        let process = &list(&report["processes"])[0];
        assert_eq!(
            report["trace"]["complete"], true,
            "{how}: {}",
            report["warnings"]
        );
        let releases = number(&process["totals"]["releases"]);
        assert!(releases >= 8000, "{how}: {releases}");
    }
}

#[test]
fn where_the_path_leads_elsewhere_recording_ends_and_the_report_says_so() {
    let report = swept("chroot");
    let process = &list(&report["processes"])[0];
    assert_eq!(report["trace"]["complete"], false);
    assert!(
        number(&process["totals"]["releases"]) >= 2000,
        "what was recorded before is there"
    );
}
