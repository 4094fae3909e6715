//! Names and lines of recorded programs: however they are laid out, and wherever their debug information is.

use heapwire_tests::run::{Run, command, is_installed, json, list, number, prose, record, run};
use heapwire_tests::scratch::Scratch;
use object::{CompressionFormat, Object, ObjectSection};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Three blocks of 4321 bytes leak in line 4, in `leak`.
const PROGRAM: &str = "#include <stdlib.h>
static void leak(int n) {
    while (n--) {
        void *volatile p = malloc(4321);
        (void)p;
    }
}
int main(void) {
    leak(3);
    return 0;
}
";

const ID: &str = "0123456789abcdef0123456789abcdef01234567";

/// A folder with [`PROGRAM`] as `main.c`, and what is made of it.
struct Made {
    scratch: Scratch,
}

impl Made {
    /// Compiles the program with more `flags`.
    fn new(flags: &str) -> Self {
        let made = Self {
            scratch: Scratch::new("symbols"),
        };
        made.scratch.write("main.c", PROGRAM);
        made.run(&format!("cc -g -O0 -w -o prog main.c {flags}"));
        made
    }

    fn run(&self, line: &str) {
        tool(self.scratch.path(), line);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    fn record(&self) -> PathBuf {
        let recording = record(&self.path("prog"), &[], &self.scratch);
        assert_eq!(recording.run.status, 0, "{}", recording.run.stderr);
        recording.trace
    }
}

/// Runs the words of `line` in `folder`.
pub(crate) fn tool(folder: &Path, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let run = Run::of(Command::new(words[0]).args(&words[1..]).current_dir(folder));
    assert_eq!(run.status, 0, "{line}: {}", run.stderr);
}

pub(crate) fn report(trace: &Path, options: &[&str]) -> Value {
    json(&Run::of(
        command()
            .args(["report", "--format", "json"])
            .args(options)
            .arg(trace),
    ))
}

/// The innermost frame of the one leak of 3 times 4321 bytes.
fn leaking(report: &Value) -> &Value {
    let leaks = list(&report["processes"][0]["leaks"]);
    let found = leaks.iter().find(|leak| leak["bytes"] == 3 * 4321);
    let leak = found.unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(leak["blocks"], 3);
    &leak["stack"][0]
}

/// Function and line of that frame.
pub(crate) fn place(report: &Value) -> (Option<&str>, Option<u64>) {
    let frame = leaking(report);
    (frame["function"].as_str(), frame["line"].as_u64())
}

/// Warnings that name `part`.
fn warnings<'r>(report: &'r Value, part: &str) -> Vec<&'r str> {
    list(&report["warnings"])
        .iter()
        .filter_map(|warning| warning["text"].as_str())
        .filter(|text| text.contains(part))
        .collect()
}

/// Whatever the first segment's address, the base and the bias are, and whether these are one number.
#[test]
fn every_layout_has_its_lines() {
    let mut flags = vec![
        "-pie -fPIE".to_owned(),
        "-no-pie".to_owned(),
        // The base of an executable that was linked far up, and near the bottom.
        "-no-pie -Wl,-Ttext-segment=0x70000000".to_owned(),
        "-no-pie -Wl,-Ttext-segment=0x12345000".to_owned(),
        // As prelink leaves files: position independent, with addresses above 0.
        "-pie -fPIE -Wl,-Ttext-segment=0x41000000".to_owned(),
        "-no-pie -Wl,-z,max-page-size=0x200000".to_owned(),
    ];
    for linker in ["bfd", "gold", "lld", "mold"] {
        if !is_installed(&format!("ld.{linker}")) {
            continue;
        }
        for kind in ["-pie -fPIE", "-no-pie"] {
            let flag = format!("{kind} -fuse-ld={linker}");
            // Code in a segment of its own, or with the headers; gold knows the second only.
            if linker != "gold" {
                flags.push(format!("{flag} -Wl,-z,separate-code"));
                flags.push(format!("{flag} -Wl,-z,noseparate-code"));
            }
            flags.push(flag);
        }
    }
    for flags in flags {
        let made = Made::new(&flags);
        let report = report(&made.record(), &[]);
        assert_eq!(place(&report), (Some("leak"), Some(4)), "{flags}");
    }
}

/// A library whose first segment is not at 0, and which therefore may be loaded with any bias, 0 included.
#[test]
fn a_library_with_addresses_of_its_own_has_its_lines() {
    for base in ["0x0", "0x10000", "0x7000000000"] {
        let made = Made::new("");
        made.run(&format!(
            "cc -g -O0 -w -shared -fPIC -Dmain=entry -Wl,-Ttext-segment={base} -o libleak.so main.c"
        ));
        made.scratch.write(
            "caller.c",
            "int entry(void);\nint main(void) { return entry(); }\n",
        );
        made.run("cc -g -O0 -w -o prog caller.c -L. -lleak -Wl,-rpath,$ORIGIN");
        let report = report(&made.record(), &[]);
        assert_eq!(place(&report), (Some("leak"), Some(4)), "{base}");
        let module = leaking(&report)["module"].as_str().unwrap();
        assert!(module.ends_with("libleak.so"), "{module}");
    }
}

/// prelink gives a library of a device addresses of its own; files with its symbols have those of the linker.
#[test]
fn a_prelinked_library_has_the_lines_of_files_that_are_not() {
    for (compiler, name) in [("cc", "leak"), ("c++", "leak(int)")] {
        let made = Made::new("");
        let library = |base: &str, out: &str| {
            made.run(&format!(
                "{compiler} -g -O0 -w -shared -fPIC -Dmain=entry -Wl,-Ttext-segment={base} -Wl,--build-id=0x{ID} -o {out} main.c"
            ));
        };
        library("0x41000000", "libleak.so");
        let caller = "int entry(void);\nint main(void) { return entry(); }\n";
        made.scratch.write("caller.c", caller);
        made.run(&format!(
            "{compiler} -g -O0 -w -o prog caller.c -L. -lleak -Wl,-rpath,$ORIGIN"
        ));
        let trace = made.record();
        let offset = leaking(&report(&trace, &[]))["offset"].clone();
        assert!(offset.as_str().unwrap().starts_with("0x41001"), "{offset}");

        fs::create_dir_all(made.path("dbg")).unwrap();
        library("0", "dbg/libleak.so");
        let dir = made.path("dbg");
        let dir = ["--debug-dir", dir.to_str().unwrap()];
        let expect = |line: Option<u64>| {
            let report = report(&trace, &dir);
            assert_eq!(place(&report), (Some(name), line), "{report:#}");
            assert_eq!(leaking(&report)["offset"], offset);
        };
        // Beside the library that ran, in place of it, and of names alone.
        made.run("strip -s libleak.so");
        expect(Some(4));
        made.run("objcopy --only-keep-debug dbg/libleak.so dbg/debug");
        made.run("rm dbg/libleak.so");
        expect(Some(4));
        made.run("rm libleak.so");
        expect(Some(4));
        library("0", "dbg/libleak.so");
        made.run("rm dbg/debug");
        expect(Some(4));
        made.run("strip -g dbg/libleak.so");
        expect(None);
    }
}

/// A debug file is used only if its check sum or build id fits; if not, that is one warning, and names stay.
#[test]
fn debug_files_apart_from_the_program() {
    let link = |name: &str| format!("objcopy --add-gnu-debuglink={name} prog");
    for (folder, is_right) in [("", true), (".debug/", true), ("", false)] {
        let made = Made::new("-Wl,--build-id=none");
        fs::create_dir(made.path(".debug")).unwrap();
        let debug = format!("{folder}prog.dbg");
        made.run("objcopy --only-keep-debug prog prog.dbg");
        made.run("strip -g prog");
        made.run(&link("prog.dbg"));
        if !is_right {
            let mut bytes = fs::read(made.path("prog.dbg")).unwrap();
            bytes.push(b'x');
            fs::write(made.path("prog.dbg"), bytes).unwrap();
        }
        fs::rename(made.path("prog.dbg"), made.path(&debug)).unwrap();
        let report = report(&made.record(), &[]);
        let line = is_right.then_some(4);
        assert_eq!(place(&report), (Some("leak"), line), "{debug}");
        let about = warnings(&report, "prog.dbg");
        assert_eq!(about.len(), usize::from(!is_right), "{about:?}");
    }
}

/// A module without its debug file is one warning, and the others have their lines.
#[test]
fn a_module_without_its_debug_file_does_not_stop_the_others() {
    let made = Made::new("");
    made.run("cc -g -O0 -w -shared -fPIC -Dmain=entry -o libleak.so main.c");
    made.scratch.write(
        "caller.c",
        "#include <stdlib.h>\nint entry(void);\nint main(void) { void *volatile p = malloc(5432); return entry(); }\n",
    );
    made.run("cc -g -O0 -w -Wl,--build-id=none -o prog caller.c -L. -lleak -Wl,-rpath,$ORIGIN");
    made.run("objcopy --only-keep-debug prog gone.dbg");
    made.run("strip -s prog");
    made.run("objcopy --add-gnu-debuglink=gone.dbg prog");
    made.run("rm gone.dbg");
    let trace = made.record();
    let report = report(&trace, &[]);
    assert_eq!(place(&report), (Some("leak"), Some(4)));
    let about = warnings(&report, "/prog");
    assert_eq!(about.len(), 1, "{about:?}");
    assert!(about[0].contains("gone.dbg"), "{about:?}");
    let leaks = list(&report["processes"][0]["leaks"]);
    let own = leaks.iter().find(|leak| leak["bytes"] == 5432).unwrap();
    assert_eq!(own["stack"][0]["function"], Value::Null);
    let text = run([Path::new("report"), &trace]).stdout;
    let shown = format!("prog+{}", own["stack"][0]["offset"].as_str().unwrap());
    assert!(text.contains(&shown), "{shown} in {text}");
}

#[test]
fn debug_files_by_build_id() {
    let made = Made::new(&format!("-Wl,--build-id=0x{ID}"));
    fs::create_dir_all(made.path("dbg/.build-id/01")).unwrap();
    made.run(&format!(
        "objcopy --only-keep-debug prog dbg/.build-id/01/{}.debug",
        &ID[2..]
    ));
    made.run("strip -s prog");
    let trace = made.record();
    let debug = made.path("dbg");
    let empty = made.path("empty");
    fs::create_dir(&empty).unwrap();
    let dirs = [
        "--debug-dir",
        empty.to_str().unwrap(),
        "--debug-dir",
        debug.to_str().unwrap(),
    ];
    assert_eq!(place(&report(&trace, &dirs)), (Some("leak"), Some(4)));

    // Nothing is guessed without it: offset and build id stay, and the option that would help is named, once.
    let without = report(&trace, &[]);
    assert_eq!(place(&without), (None, None));
    let frame = leaking(&without);
    assert_eq!(frame["build_id"], ID);
    assert!(frame["offset"].as_str().unwrap().starts_with("0x"));
    let about = warnings(&without, ID);
    assert_eq!(about.len(), 1, "{about:?}");
    assert!(
        about[0].contains("--debug-dir") && about[0].contains("--sysroot"),
        "{about:?}"
    );
    let text = run([Path::new("report"), &trace]).stdout;
    let shown = format!("prog+{}", frame["offset"].as_str().unwrap());
    assert!(text.contains(&shown), "{shown} in {text}");
}

/// A stripped library names what it exports; a call in another function says what would help.
#[test]
fn calls_between_exported_functions_say_what_would_help() {
    let made = Made::new("");
    made.run(&format!(
        "cc -g -O0 -w -shared -fPIC -Dmain=entry -Wl,--build-id=0x{ID} -o libleak.so main.c"
    ));
    made.run("strip -s libleak.so");
    made.scratch.write(
        "caller.c",
        "int entry(void);\nint main(void) { return entry(); }\n",
    );
    made.run("cc -g -O0 -w -o prog caller.c -L. -lleak -Wl,-rpath,$ORIGIN");
    let trace = made.record();
    let report = report(&trace, &[]);
    assert_eq!(place(&report), (None, None));
    let about = warnings(&report, ID);
    assert_eq!(about.len(), 1, "{about:?}");
    assert!(about[0].contains("--debug-dir"), "{about:?}");
    let offset = leaking(&report)["offset"].as_str().unwrap();
    let text = run([Path::new("report"), &trace]).stdout;
    let shown = format!("libleak.so+{offset}");
    assert!(text.contains(&shown), "{shown} in {text}");
}

#[test]
fn debug_files_in_the_cache_of_debuginfod() {
    let made = Made::new(&format!("-Wl,--build-id=0x{ID}"));
    fs::create_dir_all(made.path(&format!("cache/{ID}"))).unwrap();
    made.run(&format!(
        "objcopy --only-keep-debug prog cache/{ID}/debuginfo"
    ));
    made.run("strip -s prog");
    let trace = made.record();
    let found = || {
        let mut report = command();
        report.args(["report", "--format", "json"]).arg(&trace);
        json(&Run::of(
            report.env("DEBUGINFOD_CACHE_PATH", made.path("cache")),
        ))
    };
    assert_eq!(place(&found()), (Some("leak"), Some(4)));
    // What lies there under another build's name is not believed.
    made.run("cc -g -O0 -w -o other main.c -Wl,--build-id=0xabcdef");
    made.run(&format!("cp other cache/{ID}/debuginfo"));
    assert_eq!(place(&found()), (None, None));
}

#[test]
fn a_rebuilt_program_is_said_to_be_rebuilt() {
    let made = Made::new(&format!("-Wl,--build-id=0x{ID}"));
    let trace = made.record();
    made.scratch.write("main.c", format!("\n\n{PROGRAM}"));
    made.run("cc -g -O0 -w -o prog main.c -Wl,--build-id=0xabcdef");
    let report = report(&trace, &[]);
    assert_eq!(place(&report), (None, None));
    let about = warnings(&report, "abcdef");
    assert_eq!(about.len(), 1, "{about:?}");
    assert!(
        about[0].contains("not the file that was traced"),
        "{about:?}"
    );
}

/// A program without a build id can be told from one that has one, and from no other.
#[test]
fn a_program_without_a_build_id_is_not_taken_for_another() {
    let made = Made::new("-Wl,--build-id=none");
    let trace = made.record();
    let before = report(&trace, &[]);
    assert_ne!(place(&before), (None, None));
    assert_eq!(warnings(&before, "has no build id").len(), 1);
    made.scratch.write("main.c", format!("\n\n{PROGRAM}"));
    made.run("cc -g -O0 -w -o prog main.c -Wl,--build-id=0xabcdef");
    let after = report(&trace, &[]);
    assert_eq!(place(&after), (None, None));
    assert_eq!(warnings(&after, "that file had none").len(), 1);
}

/// A packing that nobody knows is one warning, however many sections have it; names still come from the symbol table.
#[test]
fn sections_packed_in_an_unknown_way_are_one_warning() {
    let made = Made::new("-gz=zlib");
    let trace = made.record();
    let mut bytes = fs::read(made.path("prog")).unwrap();
    let packed: Vec<usize> = {
        let elf = object::File::parse(&*bytes).unwrap();
        let sections = elf.sections();
        let debug = sections.filter(|section| section.name().unwrap().starts_with(".debug_"));
        let packed = debug
            .filter(|it| it.compressed_file_range().unwrap().format != CompressionFormat::None);
        packed
            .map(|section| usize::try_from(section.file_range().unwrap().0).unwrap())
            .collect()
    };
    assert!(packed.len() > 1);
    for at in packed {
        bytes[at] = 99; // the first field says how the section is packed
    }
    fs::write(made.path("prog"), bytes).unwrap();
    let report = report(&trace, &[]);
    assert_eq!(place(&report), (Some("leak"), None));
    let about = warnings(&report, "/prog");
    assert_eq!(about.len(), 1, "{about:?}");
    assert!(about[0].contains(".debug_info"), "{about:?}");
}

/// Names and paths are shown as the user wants them.
#[test]
fn names_and_paths_as_asked_for() {
    let made = Made::new("");
    made.run("cp main.c main.cpp");
    made.run("c++ -g -O0 -w -o prog main.cpp");
    let trace = made.record();
    let built = made.scratch.path().to_str().unwrap();
    let shown = |options: &[&str]| {
        let report = report(&trace, options);
        let frame = leaking(&report).clone();
        ["function", "file"].map(|key| frame[key].as_str().unwrap().to_owned())
    };
    assert_eq!(shown(&[]), ["leak(int)", &format!("{built}/main.cpp")]);
    let maps = ["/elsewhere=/x".to_owned(), format!("{built}=/home/me/src")];
    let options = ["--no-demangle", "--map", &maps[0], "--map", &maps[1]];
    assert_eq!(shown(&options), ["_ZL4leaki", "/home/me/src/main.cpp"]);
}

/// Rows are calls, whatever these are named: two calls in one line are two, and so are those of functions of one name.
#[test]
fn calls_of_one_name_are_rows_of_their_own() {
    for (file, compiler) in [("main.c", "cc"), ("main.cpp", "c++")] {
        let made = Made::new("");
        made.scratch.write(
            "same.h",
            "#include <stdlib.h>\nstatic void *volatile kept;\n\
             static void same(void) { kept = malloc(4321); kept = malloc(4321); }\n",
        );
        let source = "#include \"same.h\"\nENTRY { same(); return 0; }\n";
        made.scratch.write(
            &format!("other_{file}"),
            source.replace("ENTRY", "int other(void)"),
        );
        made.scratch.write(
            file,
            source
                .replace("ENTRY", "int other(void);\nint main(void)")
                .replace("return 0", "return other()"),
        );
        made.run(&format!("{compiler} -g -O0 -w -o prog {file} other_{file}"));
        let report = report(&made.record(), &[]);
        let leaks = list(&report["processes"][0]["leaks"]);
        let same = leaks.iter().filter(|leak| leak["bytes"] == 4321);
        let shown = same.map(|leak| {
            let frame = &leak["stack"][0];
            let name = frame["function"].as_str().unwrap();
            (
                name.trim_end_matches("()").to_owned(),
                frame["line"].as_u64(),
                number(&leak["blocks"]),
            )
        });
        let shown: Vec<_> = shown.collect();
        assert_eq!(shown, vec![("same".to_owned(), Some(3), 1); 4], "{file}");
    }
}

/// Code that a program makes itself lies in no module: its address is all there is.
#[test]
fn code_of_no_module_stays_an_address() {
    let made = Made::new("");
    made.scratch.write(
        "main.c",
        "#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
    /* sub rsp, 8; mov rax, rsi; call rax; add rsp, 8; ret */
    static const unsigned char code[] = {0x48, 0x83, 0xec, 0x08, 0x48, 0x89, 0xf0, 0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08, 0xc3};
    unsigned char *made = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(made, code, sizeof code);
    for (int i = 0; i < 3; i++)
        ((void *(*)(size_t, void *(*)(size_t)))made)(4321, malloc);
    return 0;
}
",
    );
    if !cfg!(target_arch = "x86_64") {
        return println!("skipped: the code is that of another machine");
    }
    made.run("cc -g -O0 -w -o prog main.c");
    let report = report(&made.record(), &[]);
    let frame = leaking(&report);
    for key in ["module", "build_id", "offset", "function", "file", "line"] {
        assert_eq!(frame[key], Value::Null, "{key}: {frame:#}");
    }
    assert!(
        frame["address"].as_str().unwrap().ends_with("009"),
        "{frame:#}"
    );
}

/// The verb `symbols` says of each module what was found, by which rule, and what would help.
#[test]
fn modules_are_listed() {
    let made = Made::new(&format!("-Wl,--build-id=0x{ID}"));
    made.run("objcopy --only-keep-debug prog prog.debug");
    made.run("strip -s prog");
    let trace = made.record();
    let listed = |trace: &Path| {
        let listed = run([
            Path::new("symbols"),
            Path::new("--format"),
            Path::new("json"),
            trace,
        ]);
        let listed = json(&listed);
        let modules = list(&listed["modules"]).to_vec();
        let found = modules.into_iter().find(|module| module["build_id"] == ID);
        found.unwrap_or_else(|| panic!("{listed:#}"))
    };
    let module = listed(&trace);
    assert_eq!(module["found"], "debug-info");
    assert_eq!(module["files"][0]["rule"], "path");
    assert_eq!(module["files"][1]["rule"], "beside");
    assert_eq!(
        module["files"][1]["path"],
        made.path("prog.debug").to_str().unwrap()
    );
    assert_eq!(number(&module["sites"]), 1);
    assert_eq!(
        (&module["named"], &module["with_lines"]),
        (&1.into(), &1.into())
    );
    assert_eq!(list(&module["missing"]), &[] as &[Value]);
    let text = run([Path::new("symbols"), &trace]).stdout;
    assert!(
        prose(&text).contains("the module itself") && prose(&text).contains("beside the module"),
        "{text}"
    );

    fs::remove_file(made.path("prog.debug")).unwrap();
    let module = listed(&trace);
    assert_eq!(module["found"], "no-symbols");
    assert_eq!(
        (&module["named"], &module["with_lines"]),
        (&0.into(), &0.into())
    );
    let missing = list(&module["missing"]);
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(
        missing[0].as_str().unwrap().contains("--debug-dir"),
        "{missing:?}"
    );
    let text = run([Path::new("symbols"), &trace]).stdout;
    assert!(text.contains("--debug-dir") && text.contains(ID), "{text}");
    fs::remove_file(made.path("prog")).unwrap();
    assert_eq!(listed(&trace)["found"], "missing");
}

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
