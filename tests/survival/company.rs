//! In company: other allocators and preloads, plug-ins and language run-times, each with its own ways to the heap.

use super::{program, source, traced};
use heapwire_tests::build::{compile, executable, heapwire, recorder};
use heapwire_tests::run::{Run, list, number, prose, report, without_recorder};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::env;
use std::fs;
use std::iter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says that something is not tested since it is not installed. With `HEAPWIRE_TEST_ALL` set, that is a failure.
#[expect(clippy::print_stderr, reason = "whoever runs the tests is to know")]
fn is_missing(what: &str) {
    assert!(
        env::var_os("HEAPWIRE_TEST_ALL").is_none(),
        "{what} is not installed"
    );
    eprintln!("not tested: {what} is not installed");
}

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

/// Builds a library of this folder.
fn library(scratch: &Scratch, name: &str) -> PathBuf {
    let out = scratch.join(&format!("{name}.so"));
    compile(&source(&format!("{name}.c")), &out, &["-shared", "-fPIC"]);
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

/// Blocks that it releases by a function of its own seem to be leaked.
#[test]
fn a_program_that_defines_one_function_of_the_allocator_is_told_of() {
    let scratch = Scratch::new("one-function");
    for function in ["free", "calloc", "realloc", "posix_memalign"] {
        let program = scratch.join(function);
        let define = format!("-DOWN_{function}");
        compile(&source("one_function.c"), &program, &[&define, "-rdynamic"]);
        let (status, text) = said(&["doctor"], &program, &scratch);
        assert_eq!(status, 1, "{text}");
        let words = format!("defines {function} itself");
        assert!(prose(&text).contains(&words), "{text}");
        let trace = scratch.join(&format!("{function}.hwt"));
        let run = Run::of(&mut traced(
            &program,
            &recorder(&scratch),
            trace.to_str().unwrap(),
        ));
        assert_eq!((run.status, run.stdout.as_str()), (0, "done\n"));
        let report = report(&trace);
        assert_eq!(
            warned(&report, "own-functions"),
            1,
            "{}",
            report["warnings"]
        );
        assert!(report["warnings"].to_string().contains(&words));
        assert_eq!(warned(&report, "no-records"), 0);
    }
}

/// Its run-time library ends the program where it does not come first, so it is run without the recorder.
#[test]
fn a_program_with_a_sanitizer_is_told_of_and_runs() {
    let scratch = Scratch::new("sanitizer");
    for (flag, name) in [
        ("-fsanitize=address", "AddressSanitizer"),
        ("-fsanitize=thread", "ThreadSanitizer"),
    ] {
        let program = scratch.join(name);
        compile(&source("plain.c"), &program, &[flag]);
        let why = format!("is built with {name}");
        let (status, text) = said(&["doctor"], &program, &scratch);
        assert_eq!(status, 1, "{text}");
        assert!(prose(&text).contains(&why), "{text}");
        for verb in ["record", "run"] {
            let (status, text) = said(&[verb], &program, &scratch);
            assert_eq!(status, 0, "{text}");
            assert!(text.starts_with("plain\n"), "{text}");
            assert!(prose(&text).contains(&why), "{text}");
            assert!(!prose(&text).contains("no leaks"), "{text}");
        }
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

/// What `heapwire` with `words` says on standard error and output, and its status.
fn said(words: &[&str], program: &Path, scratch: &Scratch) -> (i32, String) {
    let mut command = Command::new(heapwire());
    command.args(words).arg("--").arg(program);
    let run = Run::of(without_recorder(command).current_dir(scratch.path()));
    (run.status, format!("{}{}", run.stdout, run.stderr))
}

/// Each program is told of beforehand, while it is recorded, and by the report, if there is a trace.
/// As early while a device starts, or in a chroot: the program runs, and both verbs say why there is no trace.
#[test]
fn without_proc_nothing_is_recorded_and_that_is_said() {
    let scratch = Scratch::new("no-proc");
    let program = program(&scratch, "plain");
    let within = |verb: &str| {
        let script = format!("mount -t tmpfs none /proc && exec \"$0\" {verb} \"$@\"");
        let mut unshare = without_recorder(Command::new("unshare"));
        unshare.args(["-r", "-m", "sh", "-c", &script]);
        Run::of(unshare.arg(heapwire()).arg("--").arg(&program))
    };
    let trace = scratch.join("t.hwt");
    let run = within(&format!("record -o {}", trace.display()));
    assert_eq!(
        (run.status, run.stdout.as_str()),
        (0, "plain\n"),
        "{}",
        run.stderr
    );
    assert!(
        prose(&run.stderr).contains("nothing was recorded"),
        "{}",
        run.stderr
    );
    let doctor = within("doctor");
    assert_eq!(doctor.status, 1, "{}", doctor.stderr);
    assert!(
        prose(&doctor.stdout).contains("/proc is not mounted"),
        "{}",
        doctor.stdout
    );
}

#[test]
fn programs_that_cannot_be_recorded_are_named_with_the_reason() {
    let scratch = Scratch::new("hindered");
    let plain = source("plain.c");
    let build = |name: &str, flags: &[&str]| {
        let out = scratch.join(name);
        compile(&plain, &out, flags);
        out
    };
    let own = scratch.join("own");
    compile(&source("own_malloc.c"), &own, &[]);
    let mut programs = vec![
        (build("static", &["-static"]), "statically linked"),
        (own.clone(), "defines malloc itself"),
    ];
    let user_id = build("set-user-id", &[]);
    // Of another user than the one who runs the tests, so that the kernel changes over.
    let is_changed = std::os::unix::fs::chown(&user_id, Some(65534), None).is_ok();
    fs::set_permissions(&user_id, fs::Permissions::from_mode(0o4755)).unwrap();
    if is_changed {
        programs.push((user_id, "set-user-ID"));
    } else {
        is_missing("the right to make a file another user's");
    }
    if Path::new("/usr/include/x86_64-linux-gnu/gnu/stubs-32.h").exists() {
        programs.push((build("small", &["-m32"]), "not for the machine"));
    } else {
        is_missing("a compiler for 32-bit programs");
    }
    for (program, why) in &programs {
        let (status, text) = said(&["doctor"], program, &scratch);
        assert_ne!(status, 0, "{why}");
        assert!(text.contains(why), "{text}");
        let (status, text) = said(&["record", "-o", "t.hwt"], program, &scratch);
        assert_eq!(status, 0, "{why}");
        assert!(text.starts_with("plain\n"), "{text}");
        assert!(text.contains(why), "{text}");
        assert!(!text.contains("ld.so"), "no noise of the loader: {text}");
        assert!(!prose(&text).contains("no leaks"), "{text}");
        let (status, text) = said(&["run"], program, &scratch);
        assert_eq!(status, 0);
        assert!(prose(&text).contains("nothing is known of leaks"), "{text}");
    }
    let (_, text) = said(&["record", "-o", "own.hwt"], &own, &scratch);
    assert!(prose(&text).contains("nothing was recorded"), "{text}");
    let mut report = Command::new(heapwire());
    let run = Run::of(report.arg("report").arg(scratch.join("own.hwt")));
    assert_eq!(run.status, 3);
    let text = format!("{}{}", run.stdout, run.stderr).replace("\n  ", " ");
    assert!(
        prose(&text)
            .contains("no allocation passed through it, as the program defines malloc itself"),
        "{text}"
    );
    assert!(!prose(&text).contains("no leaks"), "{text}");
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

/// The environment of a set-user-ID program is another user's: nothing in it is followed, however the recorder got in.
#[test]
fn a_privileged_program_that_loads_the_recorder_ignores_the_environment() {
    let scratch = Scratch::new("secure");
    let program = scratch.join("secure");
    compile(&source("secure.c"), &program, &[]);
    if std::os::unix::fs::chown(&program, Some(65534), None).is_err() {
        return is_missing("the right to make a file another user's");
    }
    let library = recorder(&scratch);
    for (mode, secure, is_recorded) in [(0o755, 0, true), (0o4755, 1, false)] {
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
        let trace = scratch.join(&format!("{mode:o}.hwt"));
        let line = format!(
            "cp -a /etc etc && echo {} >etc/ld.so.preload && mount --bind etc /etc && exec env HEAPWIRE_OUT={} {}",
            library.display(),
            trace.display(),
            program.display()
        );
        let mut command = without_recorder(Command::new("unshare"));
        let run = Run::of(
            command
                .args(["-m", "bash", "-c", &line])
                .current_dir(scratch.path()),
        );
        let _ = fs::remove_dir_all(scratch.join("etc")); // the copy of this round
        assert_eq!(
            (run.status, run.stdout),
            (0, format!("secure {secure}\n")),
            "{}",
            run.stderr
        );
        assert_eq!(trace.exists(), is_recorded, "{mode:o}");
    }
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
