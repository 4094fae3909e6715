//! Where a linker, or prelink, puts code.

use super::{ID, Made, leaking, place, report};
use heapwire_tests::run::is_installed;
use serde_json::Value;
use std::fs;

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
