//! Releases: wrong ones, late ones, and those of blocks from before the log.

use super::{errors, live, only, reported};
use heapwire_tests::run::{list, number, warned};

#[test]
fn wrong_releases_are_told_from_those_of_earlier_blocks() {
    let report = reported(
        "= Start\n+ 0x1000 0x40\n- 0x1000\n- 0x1000\n- 0x7777\n+ 0x2000 0x40\n- 0x2010\n- 0x9990\n- 0x9990\n= End\n",
    );
    let session = only(&report);
    assert_eq!(
        errors(session),
        [
            ("double-free", 4, true),
            ("invalid-free", 5, true),
            ("invalid-free", 7, true),
            ("double-free", 9, true)
        ]
    );
    assert_eq!(number(&session["totals"]["earlier_releases"]), 1);
    assert_eq!(session["errors"][0]["first_release"]["log_line"], 3);
    assert_eq!(session["errors"][0]["allocation"]["log_line"], 2);
    assert_eq!(session["errors"][2]["inside"]["offset"], 16);
    for error in list(&session["errors"]) {
        assert!(error["thread"].is_null() && error["time_ns"].is_null());
    }
}

#[test]
fn releases_that_are_written_late_are_no_errors() {
    let report = reported(
        "+ 0x1000 0x1\n+ 0x1000 0x2\n- 0x1000\n- 0x1000\n+ 0x2000 0x1\n+ 0x2000 0x3\n< 0x2000\n> 0x3000 0x4\n",
    );
    assert_eq!(errors(only(&report)), []);
    assert_eq!(warned(&report, "late-releases"), 2);
    assert_eq!(warned(&report, "unseen-releases"), 0);
    // The block that was handed out last is the one whose release is missing, and so is the one after it.
    assert_eq!(live(&report), [(2, 7)]);
    let again = reported("+ 0x1000 0x1\n+ 0x1000 0x2\n- 0x1000\n- 0x1000\n- 0x1000\n");
    assert_eq!(errors(only(&again)), [("double-free", 5, true)]);
}

#[test]
fn releases_of_a_program_with_mcheck_find_their_blocks() {
    let report = reported(
        "= Start\n@ ./gw:[0x119a] + 0x5617940fc510 0xa\n@ ./gw:[0x11af] < 0x5617940fc4e0\n@ ./gw:[0x11af] > 0x5617940fc510 0x1388\n+ 0x5617940fe010 0x7\n@ ./gw:[0x11bf] - 0x5617940fc4e0\n",
    );
    assert_eq!(errors(only(&report)), []);
    assert_eq!(live(&report), [(1, 7)]);
}
