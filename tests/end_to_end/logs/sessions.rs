//! Several sessions and several processes in one log.

use super::{errors, live, reported};
use heapwire_tests::run::{list, warned};

#[test]
fn sessions_are_processes_of_their_own() {
    let report = reported(
        "= Start\r\n+ 0x1000 0x1\r\n+ 0x2000 0x2\r\n- 0x1000\r\n= End\r\n= Start\r\n+ 0x1000 0x3\r\n",
    );
    assert_eq!(live(&report), [(1, 2), (1, 3)]);
    let ends = list(&report["processes"]).iter().map(|of| &of["end"]);
    assert_eq!(ends.collect::<Vec<_>>(), ["normal", "unknown"]);
    assert_eq!(warned(&report, "unseen-releases"), 0);
    let before = reported("- 0x1000\n= Start\n- 0x1001\n= End\n");
    assert_eq!(list(&before["processes"]).len(), 2);
}

#[test]
fn processes_that_a_collector_tells_apart_are_told_apart() {
    let log = "[7] = Start\n[7] + 0x1000 0x1\n[8] = Start\n[8] + 0x1000 0x2\n[7] - 0x1000\n[8] + 0x2000 0x4\n[7] = End\n[8] - 0x1000\n[8] = End\n";
    let report = reported(log);
    assert_eq!(live(&report), [(0, 0), (1, 4)]);
    assert_eq!(report["trace"]["complete"], true);
    assert_eq!(
        warned(&report, "late-releases") + warned(&report, "foreign-lines"),
        0
    );
}

#[test]
fn the_log_of_a_parent_and_its_child_has_no_certain_error() {
    let log = "= Start\n+ 0x1000 0x1\n+ 0x2000 0x2\n@ [0x1] + 0x30= Start\n+ 0x1000 0x1\n- 0x1000\n- 0x1000\n- 0x2000\n";
    let report = reported(log);
    assert_eq!(live(&report), [(2, 3), (0, 0)]);
    assert_eq!(errors(&report["processes"][1]), [("double-free", 7, false)]);
    assert_eq!(warned(&report, "mixed-sessions"), 1);
    assert_eq!(warned(&report, "damaged-lines"), 1);
}

#[test]
fn lines_of_a_child_that_name_it_are_not_its_parents() {
    let log =
        "= Start\n+ 0x1000 0x1\n[8] = Start\n[8] - 0x1000\n[8] + 0x2000 0x4\n+ 0x2000 0x2\n= End\n";
    let report = reported(log);
    assert_eq!(live(&report), [(2, 3), (1, 4)]);
    assert_eq!(
        warned(&report, "late-releases") + warned(&report, "unseen-releases"),
        0
    );
}
