//! Programs that cannot be recorded, or only in part: they run as ever, and what is missing is said.

use super::{program, source, traced};
use heapwire_tests::build::{compile, heapwire, recorder};
use heapwire_tests::run::{Run, is_missing, prose, report, warned, without_recorder};
use heapwire_tests::scratch::Scratch;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// What `heapwire` with `words` says on standard error and output, and its status.
fn said(words: &[&str], program: &Path, scratch: &Scratch) -> (i32, String) {
    let mut command = Command::new(heapwire());
    command.args(words).arg("--").arg(program);
    let run = Run::of(without_recorder(command).current_dir(scratch.path()));
    (run.status, format!("{}{}", run.stdout, run.stderr))
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

/// Each is told of beforehand, while it is recorded, and by the report, if there is a trace.
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
    let is_changed = chown(&user_id, Some(65534), None).is_ok();
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

/// The environment of a set-user-ID program is another user's: nothing in it is followed, however the recorder got in.
#[test]
fn a_privileged_program_that_loads_the_recorder_ignores_the_environment() {
    let scratch = Scratch::new("secure");
    let program = scratch.join("secure");
    compile(&source("secure.c"), &program, &[]);
    if chown(&program, Some(65534), None).is_err() {
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
