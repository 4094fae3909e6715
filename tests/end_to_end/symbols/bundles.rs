//! Bundles: a trace with all files that its report needs.

use super::{Made, place, report};
use heapwire_tests::run::{Run, command, prose};
use heapwire_tests::scratch::Scratch;
use std::fs;
use std::path::Path;

/// Programs with debug information in every kind of place: the compiler's flags, and what is done to the program then.
const PLACES: [(&str, &[&str]); 9] = [
    ("-Wl,--build-id=none", &[]),
    (
        "-Wl,--build-id=none",
        &[
            "objcopy --only-keep-debug prog prog.dbg",
            "strip -s prog",
            "objcopy --add-gnu-debuglink=prog.dbg prog",
        ],
    ),
    (
        "-Wl,--build-id",
        &["objcopy --only-keep-debug prog prog.debug", "strip -s prog"],
    ),
    ("-gsplit-dwarf -Wl,--build-id=none", &[]),
    ("-gsplit-dwarf -gdwarf-4", &[]),
    (
        "-gsplit-dwarf",
        &["llvm-dwp -e prog -o prog.dwp", "rm prog-main.dwo"],
    ),
    (
        "-gdwarf-4 -Wl,--build-id",
        &["cp prog twin", "dwz -m shared -M shared prog twin"],
    ),
    (
        "-gdwarf-5 -Wl,--build-id",
        &[
            "cp prog twin",
            "dwz --dwarf-5 -m shared -M shared prog twin",
        ],
    ),
    (
        "-gdwarf-5 -Wl,--build-id",
        &[
            "cp prog twin",
            "dwz -m shared -M shared prog twin",
            "objcopy --only-keep-debug prog prog.debug",
            "strip -s prog",
        ],
    ),
];

/// A bundle has all that a report needs, by whatever rule it was found.
#[test]
fn a_bundle_needs_nothing_else() {
    for (flags, steps) in PLACES {
        let made = Made::new(flags);
        for step in steps {
            made.run(step);
        }
        let trace = made.record();
        let before = report(&trace, &[]);
        assert_eq!(place(&before), (Some("leak"), Some(4)), "{flags}");
        let elsewhere = Scratch::new("bundle");
        let bundle = elsewhere.join("b");
        let packed = Run::of(command().args(["bundle", "-o"]).arg(&bundle).arg(&trace));
        assert_eq!(packed.status, 0, "{}", packed.stderr);
        assert!(packed.stdout.contains("prog"), "{}", packed.stdout);
        drop(made);
        let moved = elsewhere.join("moved");
        fs::rename(&bundle, &moved).unwrap();
        let after = report(&moved, &[]);
        assert_eq!(after["processes"], before["processes"], "{flags}");
        assert_eq!(after["warnings"], before["warnings"], "{flags}");
    }
}

#[test]
fn a_bundle_is_no_trace_twice() {
    let made = Made::new("");
    let trace = made.record();
    let full = made.path("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("mine"), "of the user").unwrap();
    let bundle =
        |out: &Path, input: &Path| Run::of(command().args(["bundle", "-o"]).arg(out).arg(input));
    let refused = bundle(&full, &trace);
    assert_eq!(refused.status, 3);
    assert!(
        prose(&refused.stderr).contains("not an empty folder"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read_dir(&full).unwrap().count(), 1);
    // What is no trace leaves nothing behind.
    let out = made.path("out");
    assert_eq!(bundle(&out, &made.path("main.c")).status, 3);
    assert!(!out.exists());
    // A bundle of a bundle is that bundle again; from standard input it is the same.
    assert_eq!(bundle(&out, &trace).status, 0);
    let again = made.path("again");
    assert_eq!(bundle(&again, &out).status, 0);
    let piped = made.path("piped");
    let run = Run::with_input(
        command().args(["bundle", "-o"]).arg(&piped).arg("-"),
        fs::read(&trace).unwrap(),
    );
    assert_eq!(run.status, 0, "{}", run.stderr);
    fs::remove_file(made.path("prog")).unwrap();
    for bundle in [out, again, piped] {
        assert_eq!(
            place(&report(&bundle, &[])),
            (Some("leak"), Some(4)),
            "{bundle:?}"
        );
    }
}
