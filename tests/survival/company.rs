//! In company: other allocators and preloads, plug-ins and language run-times, each with its own ways to the heap.

use super::{leaks_of, library, program, source, traced};
use heapwire_tests::build::{compile, executable, recorder};
use heapwire_tests::run::{Run, is_missing, list, number, report, warned, without_recorder};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::env;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library of the system.
fn system_library(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let found = folders
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.exists());
    if found.is_none() {
        is_missing(name);
    }
    found
}

/// A program of the system, rather than a script of the same name that only finds it.
fn system_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = iter::once(PathBuf::from("/usr/bin"))
        .chain(env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|path| path.exists());
    if found.is_none() {
        is_missing(name);
    }
    found
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

const ALLOCATORS: [&str; 4] = [
    "libjemalloc.so.2",
    "libtcmalloc_minimal.so.4",
    "libtcmalloc_minimal_debug.so.4",
    "libmimalloc.so.2",
];

/// Bytes and blocks that `company.cpp` keeps, most first.
const KEPT: [(u64, u64); 8] = [
    (64 * 800, 1),
    (50006, 1),
    (50005, 1),
    (50004, 1),
    (50003, 1),
    (50002, 1),
    (50001, 1),
    (5, 1),
];

/// Runs `command` with and without the recorder, and holds one against the other. Gives the report on the trace.
fn compared(scratch: &Scratch, command: &dyn Fn() -> Command, preloads: &[&Path]) -> Value {
    let preload = |own: Option<&Path>| {
        let all = own.into_iter().chain(preloads.iter().copied());
        all.map(|path| path.to_str().unwrap())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let plain = Run::of(without_recorder(command()).env("LD_PRELOAD", preload(None)));
    let trace = scratch.join("t.hwt");
    let _ = fs::remove_file(&trace); // of the run before
    let library = recorder(scratch);
    let run = Run::of(
        without_recorder(command())
            .env("LD_PRELOAD", preload(Some(&library)))
            .env("HEAPWIRE_OUT", &trace),
    );
    assert_eq!(run, plain);
    assert!(run.stdout.contains("done"), "{}", run.stdout);
    let report = report(&trace);
    assert_eq!(number(&report["trace"]["lost_records"]), 0);
    for process in list(&report["processes"]) {
        assert_eq!(list(&process["errors"]).len(), 0, "{}", process["errors"]);
    }
    report
}

#[test]
fn allocators_below_go_on_working() {
    let scratch = Scratch::new("allocators");
    let program = scratch.join("company");
    compile(&source("company.cpp"), &program, &["-pthread"]);
    let found = compared(&scratch, &|| Command::new(&program), &[]);
    assert_eq!(leaks_of(&program, &found["processes"][0]), KEPT);
    for name in ALLOCATORS {
        let Some(allocator) = system_library(name) else {
            continue;
        };
        let preloaded = compared(&scratch, &|| Command::new(&program), &[&allocator]);
        assert_eq!(
            leaks_of(&program, &preloaded["processes"][0]),
            KEPT,
            "{name}"
        );
        assert_eq!(preloaded["trace"]["complete"], true, "{name}");
        let linked = scratch.join("linked");
        let link = [
            "-pthread",
            "-Wl,--no-as-needed",
            allocator.to_str().unwrap(),
        ];
        compile(&source("company.cpp"), &linked, &link);
        let found = compared(&scratch, &|| Command::new(&linked), &[]);
        assert_eq!(leaks_of(&linked, &found["processes"][0]), KEPT, "{name}");
    }
}

#[test]
fn language_run_times_go_on_working() {
    let scratch = Scratch::new("run-times");
    if let Some(python) = system_program("python3") {
        let command = || {
            let mut command = Command::new(&python);
            command.arg(source("company.py"));
            command
        };
        let found = compared(&scratch, &command, &[]);
        let ends: Vec<_> = list(&found["processes"])
            .iter()
            .map(|it| &it["end"])
            .collect();
        assert_eq!(
            ends,
            ["normal", "normal", "normal"],
            "parent, forked child, spawned child"
        );
        let kept = list(&found["processes"][0]["leaks"]).iter();
        assert_eq!(kept.filter(|leak| leak["bytes"] == 50001).count(), 1);
    }
    if let Some(node) = system_program("node") {
        let command = || {
            let mut command = Command::new(&node);
            command.arg(source("company.js"));
            command
        };
        compared(&scratch, &command, &[]);
    }
    if let (Some(java), Some(javac)) = (system_program("java"), system_program("javac")) {
        let built = Run::of(
            Command::new(javac)
                .arg("-d")
                .arg(scratch.path())
                .arg(source("Company.java")),
        );
        assert_eq!(built.status, 0, "{}", built.stderr);
        let command = || {
            let mut command = Command::new(&java);
            command.arg("-cp").arg(scratch.path()).arg("Company");
            command
        };
        compared(&scratch, &command, &[]);
    }
    let rust = executable("heapwire-samples", "collections");
    let run = Run::of(&mut traced(
        &rust,
        &recorder(&scratch),
        scratch.join("rust.hwt").to_str().unwrap(),
    ));
    assert_eq!(run, Run::of(&mut Command::new(&rust)));
}

#[test]
fn go_goes_on_working() {
    let scratch = Scratch::new("go");
    let Some(go) = system_program("go") else {
        return;
    };
    let program = scratch.join("company");
    let built = Run::of(
        Command::new(go)
            .args(["build", "-o"])
            .arg(&program)
            .arg(source("company.go"))
            .env("CGO_ENABLED", "1")
            .env("GOCACHE", scratch.join("cache"))
            .env("GOFLAGS", "-mod=mod"),
    );
    assert_eq!(built.status, 0, "{}", built.stderr);
    let report = compared(&scratch, &|| Command::new(&program), &[]);
    let process = &report["processes"][0];
    assert!(number(&process["totals"]["allocations"]) > 16 * 50);
    assert_eq!(leaks_of(&program, process)[0], (50001, 1));
}

#[test]
fn operators_of_the_library_go_on_calling_the_malloc_of_the_program() {
    let scratch = Scratch::new("own-malloc");
    let program = scratch.join("program");
    compile(&source("operators_of_own_malloc.cpp"), &program, &[]);
    let said = |command: &mut Command| Run::of(command).stdout;
    let alone = said(&mut without_recorder(Command::new(&program)));
    assert_eq!(alone, "11 10 1\n");
    let mut traced = without_recorder(Command::new(&program));
    traced
        .env("LD_PRELOAD", recorder(&scratch))
        .env("HEAPWIRE_OUT", scratch.join("t.hwt"));
    assert_eq!(said(&mut traced), alone);
}

/// One file serves both libcs.
#[test]
fn programs_of_musl_are_recorded_by_the_same_library() {
    let scratch = Scratch::new("musl");
    let Some(compiler) = system_program("musl-gcc") else {
        return;
    };
    let program = scratch.join("c_family");
    let built = Run::of(
        Command::new(compiler)
            .args(["-g", "-O0", "-w", "-fno-builtin", "-pthread", "-o"])
            .arg(&program)
            .arg(source("c_family.c")),
    );
    assert_eq!(built.status, 0, "{}", built.stderr);
    let report = compared(&scratch, &|| Command::new(&program), &[]);
    assert_eq!(report["trace"]["complete"], true, "{}", report["warnings"]);
    let kept = [
        (64 * 800, 1),
        (50005, 1),
        (50004, 1),
        (50003, 1),
        (50002, 1),
        (5, 1),
    ];
    assert_eq!(leaks_of(&program, &report["processes"][0]), kept);
}

/// Its tools that look for races do not know atomics without locks, and so would name each of them; for these there are models.
#[test]
fn valgrind_finds_no_wrong_access_inside_hooks() {
    let scratch = Scratch::new("valgrind");
    let library = recorder(&scratch);
    for (name, arguments, calls) in [("c_family", &[][..], 4012), ("ends", &["return"], 6)] {
        let program = program(&scratch, name);
        let plain = Run::of(without_recorder(Command::new(&program)).args(arguments));
        let trace = scratch.join(&format!("{name}.hwt"));
        let mut command = Command::new("valgrind");
        // Else it would replace the hooks, not what they forward to.
        command
            .args(["-q", "--soname-synonyms=somalloc=nouserintercepts"])
            .args(["--error-exitcode=77"])
            .arg(&program)
            .args(arguments)
            .env("LD_PRELOAD", &library)
            .env("HEAPWIRE_OUT", &trace);
        assert_eq!(Run::of(&mut command), plain, "{name}");
        let report = report(&trace);
        let last = list(&report["processes"]).last().unwrap();
        assert_eq!(number(&last["totals"]["allocations"]), calls, "{name}");
    }
}

/// What a program shows of its stack when the allocator aborts goes through the hooks.
#[test]
fn a_stack_is_whole_from_inside_the_allocator() {
    let scratch = Scratch::new("unwinding");
    let allocator = library(&scratch, "unwinding_allocator");
    let program = scratch.join("unwinding");
    compile(&source("unwinding.cpp"), &program, &[]);
    let found = |preload: &str| {
        let mut command = without_recorder(Command::new(&program));
        command.env("LD_PRELOAD", preload);
        command.env("HEAPWIRE_OUT", scratch.join("t.hwt"));
        Run::of(&mut command)
    };
    let alone = found(allocator.to_str().unwrap());
    let ways: Vec<_> = alone.stdout.lines().collect();
    assert!(
        ways.len() == 14 && ways.iter().all(|way| way.ends_with(" 1")),
        "{ways:?} {}",
        alone.stderr
    );
    let both = format!("{} {}", recorder(&scratch).display(), allocator.display());
    assert_eq!(found(&both).stdout, alone.stdout);
    let process = &report(&scratch.join("t.hwt"))["processes"][0];
    assert!(number(&process["totals"]["allocations"]) >= 6);
}

/// The way that calls of operators are spared must not call an allocator once more than the program does.
#[test]
fn a_failure_of_another_allocator_is_the_program_s() {
    let scratch = Scratch::new("failing");
    let mut allocators = vec![library(&scratch, "failing_allocator")];
    allocators.extend(system_library("libjemalloc.so.2"));
    let program = scratch.join("failing");
    compile(&source("failing.cpp"), &program, &[]);
    let library = recorder(&scratch);
    for allocator in allocators {
        let seen = |preload: &str| {
            let mut command = without_recorder(Command::new(&program));
            command.env("LD_PRELOAD", preload);
            command.env("HEAPWIRE_OUT", "/dev/null");
            Run::of(&mut command).stdout
        };
        let alone = seen(allocator.to_str().unwrap());
        assert!(alone.ends_with("0 1\n"), "{alone}");
        let both = format!("{} {}", library.display(), allocator.display());
        assert_eq!(seen(&both), alone, "{allocator:?}");
    }
}
