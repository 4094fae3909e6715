//! What happens to logs on their way.

use super::{errors, live, only, reported};
use heapwire_tests::run::{Run, command, json, number, on, prose, report, warned};
use heapwire_tests::scratch::Scratch;

#[test]
fn what_is_passed_over_is_counted_and_never_reads_as_no_leaks() {
    let scratch = Scratch::new("log_damage");
    let log = "= Start
welcome
@ ./gw:[0x1233] + 0x55d0c0de02a0 0x10
@ ./gw:[0x1233] + 0x55d0programs text
c0de02c0 0x20
@ ./gw:[0x1233] - 0x55d0c0de02a0
= End
";
    let file = scratch.write("log", log);
    let report = report(&file);
    assert_eq!(live(&report), [(0, 0)]);
    assert_eq!(number(&report["trace"]["lost_records"]), 2);
    assert_eq!(report["trace"]["complete"], false);
    assert_eq!(number(&report["trace"]["foreign_bytes"]), 8);
    assert!(number(&report["trace"]["damaged_bytes"]) > 0);
    assert_eq!(warned(&report, "foreign-lines"), 1);
    assert_eq!(warned(&report, "damaged-lines"), 2);
    let text = on(&["report"], &file);
    assert!(!prose(&text.stdout).contains("no leaks"), "{}", text.stdout);
    assert!(
        prose(&text.stdout).contains("the first is line 4"),
        "{}",
        text.stdout
    );
    assert_eq!(on(&["check"], &file).status, 0);
    assert_eq!(on(&["check", "--strict"], &file).status, 4);
}

#[test]
fn what_a_recorder_says_is_lost_counts_as_lost() {
    let scratch = Scratch::new("log_lost");
    let log = "= Start\n+ 0x1000 0x10\n= Lost 7\n[7] = Lost 2\n- 0x1000\n- 0x1000\n= End\n";
    let file = scratch.write("log", log);
    let report = report(&file);
    assert_eq!(number(&report["trace"]["lost_records"]), 9);
    assert_eq!(number(&report["trace"]["foreign_bytes"]), 0);
    assert_eq!(report["trace"]["complete"], false);
    assert_eq!(errors(only(&report)), [("double-free", 6, true)]);
    let text = on(&["report"], &file);
    assert!(!prose(&text.stdout).contains("no leaks"), "{}", text.stdout);
    // The script takes it for nothing.
    assert!(
        on(&["mtrace"], &file)
            .stdout
            .contains("Free 6 was never alloc'd")
    );
    let cut = reported("+ 0x1000 0x10\n= Lost 7");
    assert_eq!(warned(&cut, "cut-line"), 1);
}

#[test]
fn a_last_line_without_end_is_left_out_if_it_can_be_cut() {
    let log = |last: &str| reported(format!("@ [0x1] + 0x55d0c0de02a0 0x10\n@ [0x1] {last}"));
    for last in [
        "+ 0x55d0c0de02c0 0x2",
        "- 0x55d0c0",
        "<",
        "> 0x55d0c0de02c0 0x20",
        "- 0x",
        "@ ./g",
    ] {
        let report = log(last);
        assert_eq!(live(&report), [(1, 16)], "{last}");
        assert_eq!(warned(&report, "cut-line"), 1, "{last}");
    }
    let whole = log("- 0x55d0c0de02a0");
    assert_eq!(
        (live(&whole), warned(&whole, "cut-line")),
        (vec![(0, 0)], 0)
    );
}

#[test]
fn a_hole_of_zeros_hides_no_record_behind_it() {
    let report =
        reported(b"+ 0x1000 0x1\n@ [0x1] + 0x20\0\0\0\0\0\0@ [0x2] - 0x1000\n\x00\x00\x0000 0x8\n");
    assert_eq!(live(&report), [(0, 0)]);
    assert_eq!(warned(&report, "damaged-lines"), 2);
}

/// No path and no name of a symbol is so long: it is not kept, nor shown.
#[test]
fn a_line_without_an_end_is_a_damaged_one() {
    let scratch = Scratch::new("endless");
    let line = format!("@ /{}:[0x10] + 0x2000 0x8\n", "a".repeat(3 << 20));
    let log = scratch.write(
        "log",
        format!("= Start\n{line}@ p:[0x1] + 0x1000 0x8\n= End\n"),
    );
    let run = Run::of(command().arg("report").arg(&log));
    assert!(run.stdout.len() < 10_000, "{} bytes", run.stdout.len());
    let report = json(&Run::of(
        command().args(["report", "--format", "json"]).arg(&log),
    ));
    assert_eq!(number(&report["processes"][0]["totals"]["allocations"]), 1);
    assert_eq!(report["trace"]["complete"], false);
}
