//! Programs of other machines, under emulation: the recorder that the command carries for the machine, the report made here,
//! with the unstripped program in a copy of the device's files.
//!
//! Not part of `cargo test`, since other compilers are needed. `tests/devices/build FOLDER NAME...` builds recorders; then
//! `HEAPWIRE_RECORDERS=FOLDER cargo test -p heapwire-tests --test devices` tests the machines whose recorder is there.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use heapwire_tests::build::{Compiler, Sample};
use heapwire_tests::run::{Run, command, json, list, number, on, run, without_recorder};
use heapwire_tests::scratch::Scratch;
use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_NEEDED, DT_STRTAB, DT_SYMTAB, DynamicTag, FileHeader32, FileHeader64,
    SHN_UNDEF, STB_WEAK,
};
use object::read::StringTable;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, Sym};
use object::{Endianness, FileKind, ReadRef};
use serde_json::Value;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A machine that programs are built and run for.
struct Machine {
    /// Name of its recorder.
    name: &'static str,
    /// What the compiler of Rust calls it, and options beside.
    rust: &'static str,
    linker: &'static str,
    compiler: Compiler,
    /// Emulator, with its options; none where this machine runs its programs.
    emulator: &'static [&'static str],
}

macro_rules! machines {
    ($($name:ident $triple:literal $emulator:literal $rust:literal)*) => {
        $(
            #[test]
            fn $name() {
                check(&Machine {
                    name: stringify!($name),
                    rust: $rust,
                    linker: concat!($triple, "-gcc"),
                    compiler: Compiler::new(
                        concat!($triple, "-gcc"),
                        concat!($triple, "-g++"),
                        &[],
                    ),
                    emulator: &[
                        concat!("qemu-", $emulator, "-static"),
                        "-L",
                        concat!("/usr/", $triple),
                    ],
                });
            }
        )*
    };
}

machines! {
    aarch64 "aarch64-linux-gnu" "aarch64" "aarch64-unknown-linux-gnu"
    armv5 "arm-linux-gnueabi" "arm" "armv5te-unknown-linux-gnueabi -Ctarget-feature=+thumb-mode"
    armv7 "arm-linux-gnueabihf" "arm" "armv7-unknown-linux-gnueabihf -Ctarget-feature=+thumb-mode"
    mips "mips-linux-gnu" "mips" "mips-unknown-linux-gnu"
    mipsel "mipsel-linux-gnu" "mipsel" "mipsel-unknown-linux-gnu"
    powerpc "powerpc-linux-gnu" "ppc" "powerpc-unknown-linux-gnu"
    riscv64 "riscv64-linux-gnu" "riscv64" "riscv64gc-unknown-linux-gnu"
    s390x "s390x-linux-gnu" "s390x" "s390x-unknown-linux-gnu"
}

#[test]
fn i686() {
    check(&Machine {
        name: "i686",
        rust: "i686-unknown-linux-gnu",
        linker: "gcc",
        compiler: Compiler::new(
            "gcc",
            "g++",
            &["-m32", "-idirafter", "/usr/include/x86_64-linux-gnu"],
        ),
        emulator: &[],
    });
}

/// Threads, children, C++, plug-ins, wrong releases, and everything that an entry of a hook has to get right.
///
/// Not those that need a limit of memory, which emulators do not keep, or a signal to have the same number everywhere.
const SAMPLES: &[&str] = &[
    "c/aligned_leaks.c",
    "c/at_exit.c",
    "c/cross_thread_free.c",
    "c/dlopen_reuse.c",
    "c/double_free.c",
    "c/double_free_silent.c",
    "c/fork_both_sides.c",
    "c/fork_threads.c",
    "c/free_after_reuse.c",
    "c/immediate_exit.c",
    "c/invalid_free_interior.c",
    "c/leak_loop.c",
    "c/longjmp.c",
    "c/malloc_zero.c",
    "c/quick_exit.c",
    "c/realloc_forms.c",
    "c/realloc_to_zero.c",
    "c/strdup_family.c",
    "c/threads_64.c",
    "c/threads_realloc.c",
    "c/threads_short.c",
    "c/tls_destructors.c",
    "cxx/containers.cpp",
    "cxx/exceptions.cpp",
    "cxx/mismatched.cpp",
    "cxx/operators.cpp",
    "cxx/replaced_operators.cpp",
    "cxx/thread_local.cpp",
];

/// Those that are linked statically with the recorder as well.
const LINKED: &[&str] = &[
    "c/double_free.c",
    "c/fork_threads.c",
    "c/leak_loop.c",
    "c/quick_exit.c",
    "c/realloc_forms.c",
    "c/strdup_family.c",
    "c/threads_realloc.c",
    "c/tls_destructors.c",
    "cxx/containers.cpp",
    "cxx/exceptions.cpp",
    "cxx/mismatched.cpp",
    "cxx/operators.cpp",
];

/// Those whose traces come as printable lines as well.
const AS_LINES: &[&str] = &[
    "c/fork_both_sides.c",
    "c/leak_loop.c",
    "c/threads_realloc.c",
    "cxx/containers.cpp",
];

fn check(machine: &Machine) {
    let carried = run(["recorder", "--list"]).stdout;
    let names: Vec<_> = carried
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(
        names.len() > 1,
        "no recorder for another machine: {carried}"
    );
    if !names.contains(&machine.name) {
        println!("not tested: the command carries no recorder for it");
        return;
    }
    let place = Scratch::new(machine.name);
    let recorder = place.join("libheapwire.so");
    let written = on(&["recorder", "--target", machine.name, "-o"], &recorder);
    assert_eq!(written.status, 0, "{}", written.stderr);
    stands_alone(&fs::read(&recorder).unwrap());
    let build = |path, scratch: &Scratch| Sample::build_with(&machine.compiler, path, scratch);
    for path in SAMPLES {
        println!("{path}");
        let scratch = Scratch::new(machine.name);
        records(
            machine,
            Some(&recorder),
            &build(path, &scratch),
            "0",
            &scratch,
        );
    }
    for path in AS_LINES {
        println!("{path} as lines");
        let scratch = Scratch::new(machine.name);
        records(
            machine,
            Some(&recorder),
            &build(path, &scratch),
            "1",
            &scratch,
        );
    }
    for path in LINKED {
        println!("{path} in one piece");
        let scratch = Scratch::new(machine.name);
        let target = ["--target", machine.name];
        let sample = Sample::build_linked(&machine.compiler, &target, path, &scratch);
        records(machine, None, &sample, "0", &scratch);
    }
    rust_has_its_lines(machine, &recorder);
    is_without_what_devices_do_not_need(machine, &recorder);
}

/// A trace where lines were asked for, and none of the end where a filter was installed.
fn is_without_what_devices_do_not_need(machine: &Machine, recorder: &Path) {
    let scratch = Scratch::new(machine.name);
    let source = scratch.write("program.c", include_str!("program.c"));
    let program = scratch.join("program");
    machine.compiler.compile(&source, &program, &[]);
    let trace = scratch.join("trace.hwt");
    let mut traced = machine.command(&program, &[], Some(recorder));
    traced.env("HEAPWIRE_OUT", &trace);
    traced.env("MALLOC_TRACE", scratch.join("log"));
    let traced = Run::of(traced.env("HEAPWIRE_FORMAT", "mtrace"));
    assert_eq!((traced.status, &*traced.stdout), (0, "lives on\n"));
    let root = scratch.join("device");
    copy_below(&root, &program);
    let mut report = command();
    report.args(["report", "--format", "json", "--sysroot"]);
    let report = json(&Run::of(report.arg(&root).arg(&trace)));
    let process = &report["processes"][0];
    assert_eq!(process["end"], "cut", "{report:#}");
    let live = list(&process["leaks"]);
    assert!(live.iter().any(|it| it["bytes"] == 1111), "{report:#}");
    assert!(
        fs::read(&trace).unwrap().starts_with(b"\x89HWT"),
        "records, and no lines"
    );
}

const IN_RUST: &str = include_str!("program.rs");

/// A program in Rust, with the core library that was built for the machine's recorder.
fn rust_has_its_lines(machine: &Machine, recorder: &Path) {
    let scratch = Scratch::new(machine.name);
    let source = scratch.write("program.rs", IN_RUST);
    let program = scratch.join("program");
    let (target, options) = machine.rust.split_once(' ').unwrap_or((machine.rust, ""));
    let recorders = std::env::var("HEAPWIRE_RECORDERS").unwrap();
    let libraries = Path::new(&recorders).join(format!("target/{target}/release/deps"));
    let mut compiler = Command::new("/usr/bin/rustc");
    // Debian's compiler and its core library, as for the recorder.
    compiler.env("RUSTC_BOOTSTRAP", "1");
    compiler
        .args("--edition 2021 -g -Copt-level=1 -Cpanic=abort -Cforce-unwind-tables=no".split(' '));
    compiler
        .args("-Csymbol-mangling-version=v0 -Clink-arg=-lc -Clink-arg=-Wl,--build-id".split(' '));
    compiler.args(options.split_whitespace());
    compiler.arg(format!("--target={target}"));
    compiler.arg(format!("-Clinker={}", machine.linker));
    compiler
        .arg("-L")
        .arg(libraries)
        .arg("-o")
        .arg(&program)
        .arg(&source);
    let compiled = Run::of(&mut compiler);
    assert_eq!(compiled.status, 0, "{}", compiled.stderr);

    let trace = scratch.join("trace.hwt");
    let mut traced = machine.command(&program, &[], Some(recorder));
    let traced = Run::of(traced.env("HEAPWIRE_OUT", &trace));
    assert_eq!(traced.status, 0, "{}", traced.stderr);
    let root = scratch.join("device");
    copy_below(&root, &program);
    let mut report = command();
    report.args(["report", "--format", "json", "--sysroot"]);
    let report = json(&Run::of(report.arg(&root).arg(&trace)));
    let leaks = list(&report["processes"][0]["leaks"]);
    let leaks = leaks.iter().filter(|leak| leak["bytes"] == 2 * 4321);
    let frames: Vec<_> = leaks
        .flat_map(|leak| list(&leak["stack"]))
        .map(|frame| (frame["function"].as_str(), frame["line"].as_u64()))
        .collect();
    let line = |call: &str| {
        let at = IN_RUST.lines().position(|line| line.contains(call));
        at.map(|before| before as u64 + 1)
    };
    let expected = [
        (
            Some("<program::shop::Crate<u16>>::fill"),
            line("super::malloc("),
        ),
        (Some("program::outer"), line(".fill(bytes)")),
    ];
    assert_eq!(frames, expected, "{report:#}");
}

/// The library needs nothing, so that it loads under every libc.
fn stands_alone(library: &[u8]) {
    match FileKind::parse(library).unwrap() {
        FileKind::Elf32 => needs_nothing::<FileHeader32<Endianness>>(library),
        _ => needs_nothing::<FileHeader64<Endianness>>(library),
    }
}

/// Looked up as a loader does it: the headers of sections are left out of the file.
fn needs_nothing<Elf: FileHeader<Endian = Endianness>>(library: &[u8]) {
    let header = Elf::parse(library).unwrap();
    let endian = header.endian().unwrap();
    let segments = header.program_headers(endian, library).unwrap();
    let mut tags = segments
        .iter()
        .filter_map(|it| it.dynamic(endian, library).unwrap());
    let dynamic = tags.next().unwrap();
    let value = |tag: DynamicTag| {
        let entry = dynamic.iter().find(|it| it.tag(endian) == tag);
        entry.map(|it| it.val(endian))
    };
    assert_eq!(value(DT_NEEDED), None);
    // The tables lie in the first segment, where addresses are places in the file.
    let [symbols, strings] = [DT_SYMTAB, DT_STRTAB].map(|tag| value(tag).unwrap());
    let end = [DT_HASH, DT_GNU_HASH].into_iter().find_map(value).unwrap();
    assert!(symbols < end && end < strings);
    let count = usize::try_from(end - symbols).unwrap() / size_of::<Elf::Sym>();
    let symbols = library.read_slice_at::<Elf::Sym>(symbols, count).unwrap();
    let strings = StringTable::new(library, strings, library.len() as u64);
    let name = |it: &Elf::Sym| str::from_utf8(it.name(endian, strings).unwrap()).unwrap();
    let needed: Vec<_> = symbols
        .iter()
        .filter(|it| it.st_shndx(endian) == SHN_UNDEF && it.st_bind() != STB_WEAK)
        .map(name)
        .filter(|name| !name.is_empty())
        // Named where frames are described, and never called: the relocation that names it does nothing.
        .filter(|name| *name != "__aeabi_unwind_cpp_pr0")
        .collect();
    assert!(needed.is_empty(), "{needed:?}");
    assert!(symbols.iter().any(|it| name(it) == "malloc"));
}

/// The sample does what it does while nothing is recorded, and its report says what its comments say. Without a `recorder` it has one inside.
fn records(
    machine: &Machine,
    recorder: Option<&Path>,
    sample: &Sample,
    armour: &str,
    scratch: &Scratch,
) {
    let path = sample.program.display();
    let command_of = |recorder| machine.command(&sample.program, &sample.arguments, recorder);
    let plain = Run::of(command_of(None).current_dir(scratch.path()));
    assert_eq!(
        plain.status, sample.expect.status,
        "{path}: {}",
        plain.stderr
    );
    let trace = scratch.join("trace.hwt");
    let traced = Run::of(
        command_of(recorder)
            .env("HEAPWIRE_OUT", &trace)
            .env("HEAPWIRE_ARMOUR", armour)
            .current_dir(scratch.path()),
    );
    assert_eq!(traced.status, plain.status, "{path}: {}", traced.stderr);
    assert_eq!(traced.stdout, plain.stdout, "{path}");
    let begin = fs::read(&trace).unwrap();
    assert_eq!(begin.starts_with(b"~h"), armour != "0", "{path}");

    let root = scratch.join("device");
    copy_below(&root, &sample.program);
    for plugin in &sample.arguments {
        copy_below(&root, plugin);
    }
    let result_of = |verb: &[&str]| {
        let mut command = command();
        command.args(verb).args(["--format", "json", "--sysroot"]);
        json(&Run::of(command.arg(&root).arg(&trace)))
    };
    let (report, blocks) = (result_of(&["report"]), result_of(&["blocks", "--live"]));
    assert_eq!(
        sample.expect.found(&blocks, &report),
        sample.expect.findings,
        "{path}: {:#}",
        report["warnings"]
    );
    let ends: Vec<_> = list(&report["processes"])
        .iter()
        .map(|process| process["end"].as_str().unwrap())
        .collect();
    // What a signal ends is only seen by who waits for the process.
    let expected = sample.expect.ends.iter().map(|end| match end.as_str() {
        "signal" => "cut",
        end => end,
    });
    assert_eq!(ends, expected.collect::<Vec<_>>(), "{path}");
    for (name, value) in &sample.expect.totals {
        let total = number(&report["processes"][0]["totals"][name]);
        // Where libc is part of the program its own blocks count.
        let is_right = total == *value || recorder.is_none() && total > *value;
        assert!(is_right, "{path}: {name}: {total} and not {value}");
    }
    is_whole(&path, &report, ends.contains(&"cut"));
}

/// Nothing was lost on the way; a process that a signal ended cannot say that this was all.
fn is_whole(path: &dyn Display, report: &Value, is_cut: bool) {
    let trace = &report["trace"];
    assert_eq!(
        trace["complete"], !is_cut,
        "{path}: {:#}",
        report["warnings"]
    );
    for count in ["lost_records", "damaged_bytes", "foreign_bytes"] {
        assert_eq!(trace[count], 0, "{path}: {count}");
    }
}

/// Puts a file below `root` where it lies here: in a copy of the device's files.
fn copy_below(root: &Path, file: &Path) {
    let to: PathBuf = root.join(file.strip_prefix("/").unwrap());
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(file, to).unwrap();
}

impl Machine {
    fn command(&self, program: &Path, arguments: &[PathBuf], recorder: Option<&Path>) -> Command {
        let mut command = match self.emulator {
            [emulator, options @ ..] => {
                let mut command = Command::new(emulator);
                command.args(options);
                if let Some(recorder) = recorder {
                    command
                        .arg("-E")
                        .arg(format!("LD_PRELOAD={}", recorder.display()));
                }
                command.arg(program);
                without_recorder(command)
            }
            [] => {
                let mut command = without_recorder(Command::new(program));
                if let Some(recorder) = recorder {
                    command.env("LD_PRELOAD", recorder);
                }
                command
            }
        };
        command.args(arguments);
        command
    }
}
