//! Where files with symbols are looked for, where they are not, and how that is told.

use crate::symbols::{place, report, tool};
use heapwire_tests::run::{Run, command, is_installed, json, list, on, prose, record, run};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{BASE, PC, Writer};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that leaks in line 4, recorded, then moved into a copy of a device's file system.
struct Device {
    scratch: Scratch,
    /// Where the program was when it ran.
    program: PathBuf,
    trace: PathBuf,
}

impl Device {
    fn new() -> Self {
        let scratch = Scratch::new("places");
        scratch.write(
            "main.c",
            "#include <stdlib.h>\nstatic void leak(int n) {\n    while (n--) {\n        void *volatile p = malloc(4321);\n        (void)p;\n    }\n}\nint main(void) { leak(3); return 0; }\n",
        );
        tool(scratch.path(), "cc -g -O0 -w -Wl,--build-id -o prog main.c");
        let program = scratch.join("prog");
        let recording = record(&program, &[], &scratch);
        assert_eq!(recording.run.status, 0, "{}", recording.run.stderr);
        fs::create_dir(scratch.join("root")).unwrap();
        let device = Self {
            program,
            trace: recording.trace,
            scratch,
        };
        let copy = device.copy();
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::rename(&device.program, copy).unwrap();
        device
    }

    fn root(&self) -> PathBuf {
        self.scratch.join("root")
    }

    /// The program in the copy.
    fn copy(&self) -> PathBuf {
        self.root().join(self.program.strip_prefix("/").unwrap())
    }

    fn below_root(&self, verb: &str) -> Command {
        let mut command = command();
        command.arg(verb).arg("--sysroot").arg(self.root());
        command.args(["--format", "json"]).arg(&self.trace);
        command
    }

    /// What `symbols` lists of the program.
    fn listed(&self) -> Value {
        let cache = self.scratch.join("cache");
        let mut command = self.below_root("symbols");
        let listed = json(&Run::of(command.env("DEBUGINFOD_CACHE_PATH", cache)));
        let mut modules = list(&listed["modules"]).iter();
        let program = modules.find(|module| module["path"] == self.program.to_str().unwrap());
        program.unwrap_or_else(|| panic!("{listed:#}")).clone()
    }
}

#[test]
fn symbols_lists_what_is_missing_below_a_sysroot_and_where_it_looked() {
    let device = Device::new();
    let found = json(&Run::of(&mut device.below_root("report")));
    assert_eq!(place(&found), (Some("leak"), Some(4)));
    let listed = device.listed();
    assert_eq!(listed["found"], "debug-info");
    assert_eq!(list(&listed["tried"]), [] as [Value; 0]);

    fs::remove_file(device.copy()).unwrap();
    // What is there on this machine is not what ran on that one.
    fs::copy("/proc/self/exe", &device.program).unwrap();
    let listed = device.listed();
    assert_eq!(listed["found"], "missing");
    let missing = list(&listed["missing"]);
    assert_eq!(missing.len(), 1, "{missing:?}");
    let tried = list(&listed["tried"]);
    assert_eq!(tried[0]["path"], device.copy().to_str().unwrap());
    assert_eq!(tried[0]["why"], "not there");
    let last = tried.last().unwrap();
    assert_eq!(last["path"], device.root().to_str().unwrap());
    assert_eq!(last["why"], "nothing of this build id below it");
    let root = device.root();
    let cache = device.scratch.join("cache");
    let is_allowed = |place: &Value| {
        let path = Path::new(place["path"].as_str().unwrap());
        path.starts_with(&root) || path.starts_with(&cache)
    };
    assert!(tried.iter().all(is_allowed), "{tried:#?}");

    let text = on(
        &[
            "--width",
            "200",
            "symbols",
            "--sysroot",
            root.to_str().unwrap(),
        ],
        &device.trace,
    );
    let text = prose(&text.stdout);
    assert!(
        text.contains("looked for here") && text.contains(": not there"),
        "{text}"
    );
}

/// Not even to see whether it would fit: with a sysroot, paths of the device mean nothing here.
#[test]
fn paths_of_a_device_are_not_opened_here() {
    if !is_installed("strace") {
        return;
    }
    let device = Device::new();
    let copy = device.copy();
    // The same file is here as well.
    fs::copy(&copy, &device.program).unwrap();
    let log = device.scratch.join("calls");
    let seen = |verb: &str, below_root: bool| {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-e", "trace=%file", "-o"]).arg(&log);
        strace.arg(command().get_program()).arg(verb);
        if below_root {
            strace.arg("--sysroot").arg(device.root());
        }
        let run = Run::of(strace.args(["--format", "json"]).arg(&device.trace));
        assert_eq!(run.status, 0, "{}", run.stderr);
        let calls = fs::read_to_string(&log).unwrap();
        let quoted = |path: &Path| format!("\"{}\"", path.display());
        (
            calls.contains(&quoted(&device.program)),
            calls.contains(&quoted(&copy)),
        )
    };
    for verb in ["report", "symbols"] {
        assert_eq!(seen(verb, false), (true, false), "{verb}");
        assert_eq!(seen(verb, true), (false, true), "{verb}");
        fs::rename(&copy, device.root().join("elsewhere")).unwrap();
        let (is_opened, _) = seen(verb, true);
        assert!(!is_opened, "{verb}");
        fs::rename(device.root().join("elsewhere"), &copy).unwrap();
    }
}

/// A place that the user names and that is not there is a mistake, not a report without names.
#[test]
fn places_that_are_not_there_are_refused() {
    let scratch = Scratch::new("places");
    let trace = scratch.write("t.hwt", Writer::new().malloc(0x1000, 8).end().bytes());
    let file = scratch.write("file", "");
    let absent = scratch.join("absent");
    for verb in ["report", "symbols", "check"] {
        for (option, value, why) in [
            ("--exe", &absent, "there is no such file"),
            ("--exe", &scratch.path().to_owned(), "it is not a file"),
            ("--sysroot", &absent, "there is no such folder"),
            ("--sysroot", &file, "it is not a folder"),
            ("--debug-dir", &absent, "there is no such folder"),
            ("--debug-dir", &file, "it is not a folder"),
        ] {
            let value = value.to_str().unwrap();
            let run = on(&[verb, option, value], &trace);
            assert_eq!(run.status, 2, "{verb} {option}: {}", run.stderr);
            assert!(
                run.stderr.contains(why) && run.stderr.contains(value),
                "{}",
                run.stderr
            );
            assert_eq!(run.stdout, "");
        }
    }
}

/// The file that the user names is said to be of no use where it is of none.
#[test]
fn a_file_that_is_no_program_is_said_to_be_none() {
    let scratch = Scratch::new("places");
    let log = scratch.write("log", "= Start\n@ ./gw:[0x1234] + 0x602010 0x20\n= End\n");
    let script = scratch.write("gw", "#!/bin/sh\n");
    let other = scratch.write("other", "#!/bin/sh\n");
    for file in [script, other] {
        let exe = ["--exe", file.to_str().unwrap()];
        let warnings = report(&log, &exe)["warnings"].to_string();
        let said = format!("{} cannot be used: not an ELF file", file.display());
        assert!(warnings.contains(&said), "{warnings}");
        let listed = on(&[&["symbols"], &exe[..]].concat(), &log).stdout;
        assert!(
            prose(&listed).contains("1 call site, 0 with a name"),
            "{listed}"
        );
    }
}

/// Paths in a trace are whatever a program called its files, and files whatever an archive had in it.
#[test]
fn paths_do_not_drive_the_terminal() {
    let scratch = Scratch::new("places");
    let evil = "so\u{1b}[31m\u{1b}]0;title\u{7}\n\r\u{202e}\u{9b}2J.so";
    let folder = scratch.join(evil);
    fs::create_dir(&folder).unwrap();
    tool(scratch.path(), "cp /proc/self/exe module");
    tool(scratch.path(), "strip -s module");
    fs::rename(scratch.join("module"), folder.join(evil)).unwrap();
    fs::write(folder.join("script"), "#!/bin/sh\n").unwrap();
    let modules = [
        folder.join(evil),
        folder.join("script"),
        folder.join("absent"),
    ];
    let mut writer = Writer::new();
    for (index, module) in (1..).zip(&modules) {
        let base = BASE + index * 0x100_0000;
        writer.module(base, 0x100_0000, module.to_str().unwrap());
        writer.record(heapwire_tests::trace::Record {
            op: 1,
            ptr: index * 0x1_0000,
            size: 16,
            pc: PC + index * 0x100_0000,
            base,
            ..Default::default()
        });
    }
    let trace = scratch.write("t.hwt", writer.end().bytes());
    let mapped = folder.to_str().unwrap();
    for words in [
        &["report"][..],
        &["report", "--debug-dir", mapped],
        &["symbols", "--debug-dir", mapped],
        &["symbols", "--sysroot", mapped],
        &["blocks", "--live"],
        &["check"],
        &["info"],
    ] {
        for width in ["40", "100", "400"] {
            let words = [&["--width", width], words].concat();
            expect_plain(&on(&words, &trace));
        }
    }
    let out = scratch.join("bundle");
    expect_plain(&run([Path::new("bundle"), Path::new("-o"), &out, &trace]));
    expect_plain(&run([Path::new("report"), &folder.join("absent.hwt")]));
}

/// Asserts that nothing but text and line ends was printed.
fn expect_plain(run: &Run) {
    for text in [&run.stdout, &run.stderr] {
        let control = |letter: &char| {
            (letter.is_control() && *letter != '\n') || ('\u{202a}'..='\u{202e}').contains(letter)
        };
        let found = text.chars().find(control);
        assert_eq!(found, None, "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("\u{fffd}2J")));
    }
}
