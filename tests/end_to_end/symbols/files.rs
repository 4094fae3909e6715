//! Files with debug information: which are found, and which are refused.

use super::{ID, Made, PROGRAM, leaking, place, report, warnings};
use heapwire_tests::run::{Run, command, json, list, on, record, run};
use object::{CompressionFormat, Object, ObjectSection};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

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

/// Paths are bytes, and need not be text: the file is found by them, whatever they are shown as.
#[test]
fn a_program_whose_path_is_no_text() {
    let made = Made::new("");
    let folder = made.scratch.path().join(OsStr::from_bytes(b"gr\xF6\xDFe"));
    fs::create_dir(&folder).unwrap();
    let program = folder.join("prog");
    fs::rename(made.path("prog"), &program).unwrap();
    let trace = record(&program, &[], &made.scratch).trace;
    let found = report(&trace, &[]);
    assert_eq!(place(&found), (Some("leak"), Some(4)));
    let frame = leaking(&found).clone();
    assert_eq!(frame["module"], program.to_string_lossy().as_ref());
    let plain = on(&["report"], &trace).stdout;
    assert!(plain.contains("main.c:4"), "{plain}");

    let offset = frame["offset"].as_str().unwrap();
    let line = |block: u32| {
        let rest = format!(":[{offset}] + {block:#x}000 {:#x}\n", 4321);
        [b"@ ", program.as_os_str().as_bytes(), rest.as_bytes()].concat()
    };
    let lines = [1, 2, 3].map(line).concat();
    let log = made
        .scratch
        .write("log", [b"= Start\n", &lines[..]].concat());
    assert_eq!(place(&report(&log, &[])), (Some("leak"), Some(4)));

    // A folder of the bundle is a file system's copy as well.
    let bundle = made.path("bundle");
    let packed = Run::of(command().args(["bundle", "-o"]).arg(&bundle).arg(&trace));
    assert_eq!(packed.status, 0, "{}", packed.stderr);
    fs::remove_file(&program).unwrap();
    assert_eq!(place(&report(&bundle, &[])), (Some("leak"), Some(4)));
    assert_eq!(place(&report(&trace, &[])), (None, None));
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
