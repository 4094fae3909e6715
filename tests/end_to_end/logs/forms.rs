//! The forms that lines have had.

use super::{PLAIN, errors, live, only, reported};
use heapwire_tests::run::{list, number, warned};

/// Forms of all versions in one log, a block at an address that was live, a double and an invalid release, and a cut end.
#[test]
fn a_log_with_all_that_can_be_odd_is_read_for_what_it_says() {
    let report = reported(
        "= Start
@ ./gw:(fill+0x16)[0x5555555551a6] + 0x5555555592a0 0x65
@ /lib/libc.so.6:(__strdup+1a)[0x9e9aa] + 0x5555555592c0 0x66
@ [0x401136] + 0x555555559400 0x67
 [0x8048209] - 0x5555555592c0
@ ./my gw:(odd [name]+0x4)[0x401200] + 0x555555559500 0x68
@ ./gw:(drop+0x9)[0x5555555551c9] - 0x5555555592a0
@ ./gw:(drop+0x9)[0x5555555551c9] - 0x5555555592a0
@ ./gw:(drop+0x9)[0x5555555551d9] - 0x7777
@ ./gw:(fill+0x16)[0x5555555551a6] + 0x555555559400 0x69
what the program prints
@ ./gw:(fill+0x16)[0x5555555551a6] + 0x555555559",
    );
    let session = only(&report);
    assert_eq!(live(&report), [(2, 0x68 + 0x69)]);
    let leaks = list(&session["leaks"]).iter();
    let leaks = leaks.map(|leak| {
        let frame = &leak["stack"][0];
        let module = frame["module"].as_str().unwrap();
        (number(&leak["bytes"]), module, frame["address"].as_str())
    });
    assert_eq!(
        leaks.collect::<Vec<_>>(),
        [
            (0x69, "./gw", Some("0x5555555551a6")),
            (0x68, "./my gw", Some("0x401200"))
        ]
    );
    let errors = errors(session);
    let errors = errors.iter().map(|(kind, line, _)| (*kind, *line));
    assert_eq!(
        errors.collect::<Vec<_>>(),
        [("double-free", 8), ("invalid-free", 9)]
    );
    let warnings = [
        "unseen-releases",
        "foreign-lines",
        "cut-line",
        "end-unknown",
    ];
    assert_eq!(warnings.map(|kind| warned(&report, kind)), [1; 4]);
}

#[test]
fn totals_follow_the_rules_of_traces() {
    let report = reported(PLAIN);
    assert_eq!(report["trace"]["kind"], "mtrace");
    assert_eq!(report["trace"]["complete"], true);
    assert_eq!(
        list(&report["warnings"])
            .iter()
            .filter(|it| it["kind"] != "module-missing-symbols")
            .count(),
        0
    );
    let session = only(&report);
    assert_eq!(session["end"], "normal");
    assert_eq!(session["exe"], "./gw");
    assert!(session["pid"].is_null() && session["peak"]["time_ns"].is_null());
    let expected = [
        ("allocations", 4),
        ("releases", 1),
        ("reallocations", 1),
        ("allocated_bytes", 0x10 + 0x20 + 0x5 + 0x40),
        ("failed", 2),
        ("failed_reallocations", 1),
        ("live_blocks", 3),
        ("live_bytes", 0x45),
        ("peak_bytes", 0x55),
        ("earlier_releases", 0),
    ];
    for (name, value) in expected {
        assert_eq!(number(&session["totals"][name]), value, "{name}");
    }
    let leaks = list(&session["leaks"]).iter().map(|leak| {
        let frame = &leak["stack"][0];
        (
            number(&leak["bytes"]),
            frame["address"].as_str().unwrap(),
            frame["module"].as_str().unwrap(),
        )
    });
    assert_eq!(
        leaks.collect::<Vec<_>>(),
        [
            (0x40, "0x1260", "./gw"),
            (0x5, "0x9e9aa", "/lib/libc.so.6"),
            (0, "0x12a0", "./gw")
        ]
    );
}

#[test]
fn callers_have_every_form_they_ever_had() {
    let forms = [
        ("@ ./gw:[0x1233] ", "0x1233", Some("./gw")),
        (
            "@ ./gw:(poll+0x1d)[0x5555555551a6] ",
            "0x5555555551a6",
            Some("./gw"),
        ),
        (
            "@ ./gw:(poll+1d)[0x5555555551a6] ",
            "0x5555555551a6",
            Some("./gw"),
        ),
        ("@ ./gw:(poll-2)[0x1233] ", "0x1233", Some("./gw")),
        ("@ (poll+0x1d)[0x8048209] ", "0x8048209", None),
        ("@ [0x7f01] ", "0x7f01", None),
        ("@ [0x7f01]:poll ", "0x7f01", None),
        (" [0x8048209] ", "0x8048209", None),
        ("@0x4005f4 ", "0x4005f4", None),
        ("@[0x4005f4] ", "0x4005f4", None),
        ("", "0x0", None),
        (
            "@ ./my app:(odd [name]+0x4)[0x401200] ",
            "0x401200",
            Some("./my app"),
        ),
        ("@ /a:b/c:(f+1)[0x22] ", "0x22", Some("/a:b/c")),
        ("@ gw.c:71 ", "0x0", Some("gw.c:71")),
        ("[4711] @ ./gw:[0x1233] ", "0x1233", Some("./gw")),
        ("[4711] ./gw:[0x1233] ", "0x1233", Some("./gw")),
        ("12:30:01.25 @ [0x1233] ", "0x1233", None),
        ("[ 12.345678] ", "0x0", None),
        (
            "Nov 29 12:30:01 dev gw[4711]: @ ./gw:[0x1233] ",
            "0x1233",
            Some("./gw"),
        ),
        ("\t\t@ ./gw:[0x1233]\t", "0x1233", Some("./gw")),
        ("@ ./gw:[0x1233]", "0x1233", Some("./gw")),
        ("listening@ ./gw:[0x1233] ", "0x1233", Some("./gw")),
    ];
    for (before, address, module) in forms {
        for end in ["\n", "\r\n", " and more\n"] {
            let report = reported(format!(
                "{before}+ 0x602010 0x20{end}{before}+ 0x602040 0x7{end}{before}- 0x602010{end}"
            ));
            assert_eq!(live(&report), [(1, 7)], "{before}");
            assert_eq!(
                warned(&report, "damaged-lines") + warned(&report, "foreign-lines"),
                0,
                "{before}"
            );
            let frame = &only(&report)["leaks"][0]["stack"][0];
            assert_eq!(
                (&frame["address"], &frame["module"]),
                (&address.into(), &module.into()),
                "{before}"
            );
        }
    }
}

#[test]
fn sizes_and_reallocs_of_old_versions_are_understood() {
    // 2.0: sizes without prefix, and no caller in the second half. Up to 2.17, `!` with size 0 frees.
    let report = reported(
        "@ [0x8] + 0x1000 1f\n@ [0x9] < 0x1000\n> 0x2000 64\n@ [0xa] + 0x3000 0x8\n@ [0xb] ! 0x3000 0\n",
    );
    assert_eq!(live(&report), [(1, 0x64)]);
    let session = only(&report);
    assert_eq!(session["leaks"][0]["stack"][0]["address"], "0x9");
    assert_eq!(number(&session["totals"]["releases"]), 1);
    assert_eq!(number(&session["totals"]["failed"]), 0);
}
