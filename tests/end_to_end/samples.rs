//! Every sample's report says what its comments say, and the sample does what it does without the recorder.

use heapwire_tests::build::{Compiler, Sample, workspace};
use heapwire_tests::run::{Run, list, live_blocks, number, record, report, without_recorder};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// One test a sample, and the list of all of them: those that are also linked statically, with the recorder inside, and those that are
/// not, as they have a plug-in, operators of their own, which would be hooked as well, or are in Rust.
macro_rules! samples {
    (linked { $($name:ident $path:literal)* } not linked { $($other:ident $other_path:literal)* }) => {
        $(
            #[test]
            fn $name() {
                check($path);
            }
        )*
        $(
            #[test]
            fn $other() {
                check($other_path);
            }
        )*

        mod linked {
            $(
                #[test]
                fn $name() {
                    super::check_linked($path);
                }
            )*
        }

        const TESTED: &[&str] = &[$($path,)* $($other_path),*];
    };
}

samples! {
    linked {
        abort "c/abort.c"
        aligned_leaks "c/aligned_leaks.c"
        at_exit "c/at_exit.c"
        cross_thread_free "c/cross_thread_free.c"
        double_free "c/double_free.c"
        double_free_silent "c/double_free_silent.c"
        exec "c/exec.c"
        fork_both_sides "c/fork_both_sides.c"
        fork_threads "c/fork_threads.c"
        free_after_reuse "c/free_after_reuse.c"
        hooks "c/hooks.c"
        immediate_exit "c/immediate_exit.c"
        invalid_free_interior "c/invalid_free_interior.c"
        invalid_free_never "c/invalid_free_never.c"
        invalid_free_stack "c/invalid_free_stack.c"
        killed "c/killed.c"
        leak_loop "c/leak_loop.c"
        longjmp "c/longjmp.c"
        malloc_zero "c/malloc_zero.c"
        oom "c/oom.c"
        pause "c/pause.c"
        pause_in_thread "c/pause_in_thread.c"
        quick_exit "c/quick_exit.c"
        realloc_forms "c/realloc_forms.c"
        realloc_to_zero "c/realloc_to_zero.c"
        signal_handler "c/signal_handler.c"
        small_stack "c/small_stack.c"
        stdio_closed "c/stdio_closed.c"
        strdup_family "c/strdup_family.c"
        threads_64 "c/threads_64.c"
        threads_realloc "c/threads_realloc.c"
        threads_short "c/threads_short.c"
        timer_signals "c/timer_signals.c"
        tls_destructors "c/tls_destructors.c"
        vfork "c/vfork.c"
        containers "cxx/containers.cpp"
        exceptions "cxx/exceptions.cpp"
        header_operators "cxx/header_operators.cpp"
        mismatched "cxx/mismatched.cpp"
        new_fails "cxx/new_fails.cpp"
        new_handler "cxx/new_handler.cpp"
        operators "cxx/operators.cpp"
        thread_local "cxx/thread_local.cpp"
    }
    not linked {
        dlopen_reuse "c/dlopen_reuse.c"
        replaced_operators "cxx/replaced_operators.cpp"
        collections "src/bin/collections.rs"
        leak "src/bin/leak.rs"
    }
}

#[test]
fn no_sample_is_left_out() {
    let mut found = BTreeSet::new();
    for folder in ["c", "cxx", "src/bin"] {
        let entries = fs::read_dir(workspace().join("samples").join(folder)).unwrap();
        for entry in entries.map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                found.insert(format!("{folder}/{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    let tested: BTreeSet<String> = TESTED.iter().map(|path| (*path).to_owned()).collect();
    assert_eq!(found, tested);
}

fn check(path: &str) {
    let scratch = Scratch::new("sample");
    check_built(&Sample::build(path, &scratch), false, &scratch);
}

fn check_linked(path: &str) {
    let scratch = Scratch::new("linked");
    let sample = Sample::build_linked(&Compiler::HOST, &[], path, &scratch);
    check_built(&sample, true, &scratch);
}

fn check_built(sample: &Sample, is_linked: bool, scratch: &Scratch) {
    let expect = &sample.expect;

    let plain = Run::of(without_recorder(Command::new(&sample.program)).args(&sample.arguments));
    assert_eq!(plain.status, expect.status, "without the recorder");
    let recording = record(&sample.program, &sample.arguments, scratch);
    assert_eq!(
        recording.run.status, plain.status,
        "{}",
        recording.run.stderr
    );
    assert_eq!(recording.run.stdout, plain.stdout);
    // Such as what a libc says before it ends the process; the summary comes beside it.
    assert!(
        recording.run.stderr.contains(&plain.stderr),
        "{} without {}",
        recording.run.stderr,
        plain.stderr
    );

    let report = report(&recording.trace);
    let blocks = live_blocks(&recording.trace);
    assert_eq!(
        expect.found(&blocks, &report),
        expect.findings,
        "{:#}",
        report["warnings"]
    );
    let ends = list(&report["processes"])
        .iter()
        .map(|process| process["end"].as_str().unwrap());
    assert_eq!(ends.collect::<Vec<_>>(), expect.ends);
    for (name, value) in &expect.totals {
        let found = number(&report["processes"][0]["totals"][name]);
        // What libc allocates while it begins is only seen where it is part of the program.
        let is_right = found == *value || is_linked && found > *value;
        assert!(is_right, "{name}: {found} and not {value}");
    }
    whole(&report);
    sums_agree(&report, &blocks);
}

/// Nothing was lost on the way.
fn whole(report: &Value) {
    let trace = &report["trace"];
    assert_eq!(trace["complete"], true, "{:#}", report["warnings"]);
    for count in ["lost_records", "damaged_bytes", "foreign_bytes"] {
        assert_eq!(trace[count], 0, "{count}");
    }
    let errors = list(&report["processes"])
        .iter()
        .flat_map(|process| list(&process["errors"]));
    for error in errors {
        assert_eq!(error["certain"], true, "{error:#}");
    }
}

/// What two verbs, and two places of one, say of the same blocks.
fn sums_agree(report: &Value, blocks: &Value) {
    for (process, blocks) in list(&report["processes"])
        .iter()
        .zip(list(&blocks["processes"]))
    {
        assert_eq!(process["pid"], blocks["pid"]);
        let own = || {
            list(&blocks["blocks"])
                .iter()
                .filter(|block| block["inherited"] == false)
        };
        let totals = &process["totals"];
        assert_eq!(number(&totals["live_blocks"]), own().count() as u64);
        let bytes: u64 = own().map(|block| number(&block["size"])).sum();
        assert_eq!(number(&totals["live_bytes"]), bytes);
        let leaks = || list(&process["leaks"]).iter();
        assert_eq!(
            leaks().map(|leak| number(&leak["blocks"])).sum::<u64>(),
            own().count() as u64
        );
        assert_eq!(
            leaks().map(|leak| number(&leak["bytes"])).sum::<u64>(),
            bytes
        );
        assert!(leaks().is_sorted_by_key(|leak| std::cmp::Reverse(number(&leak["bytes"]))));
        assert!(leaks().all(|leak| number(&leak["blocks"]) <= number(&leak["allocations"])));
        assert!(number(&totals["peak_bytes"]) >= bytes);
    }
}
