//! Versions and encodings of DWARF.

use crate::made::{before, build, calls, expect_lines, expect_names, look_up, run, scratch};
use heapwire::symbols::{Options, Source};
use object::{Object, ObjectSection};
use std::fs;
use std::path::Path;

#[test]
fn every_version_and_encoding() {
    for flags in [
        "-g -gdwarf-2",
        "-g -gdwarf-3",
        "-g -gdwarf-4",
        "-g -gdwarf-5",
        "-g -gdwarf-3 -gdwarf64",
        "-g -gdwarf-4 -gdwarf64",
        "-g -gdwarf-5 -gdwarf64",
        "-g -gdwarf-5 -gdwarf64 -gz=zlib",
        "-g -gdwarf-2 -gz=zlib",
        "-g -gz=zlib",
        "-g -gz=zlib-gnu",
        "-g -gdwarf-4 -gz=zlib-gnu",
        "-g -fdebug-types-section",
        "-g1",
        "-g -no-pie",
        "-g -static",
    ] {
        let built = scratch("every_version_and_encoding");
        let program = build(&built, flags);
        let found = look_up(&program, None, &calls(&program), &Options::default());
        expect_lines(&found, &built);
        assert_eq!(
            (found.found, found.notes),
            (Source::DebugInfo, vec![]),
            "{flags}"
        );
    }
}

#[test]
fn zstd() {
    for flags in ["-g", "-g -gdwarf-4", "-g -gdwarf64", "-g -no-pie"] {
        let built = scratch("zstd");
        let program = build(&built, flags);
        run(
            &built,
            "objcopy --compress-debug-sections=zstd prog prog.zstd",
        );
        let found = look_up(
            &built.join("prog.zstd"),
            None,
            &calls(&program),
            &Options::default(),
        );
        expect_lines(&found, &built);
    }
}

const MERGED_IN_CPP: &str = r#"#include <cstdlib>
void *volatile kept;
namespace { struct Hidden {
    template <typename T> static inline __attribute__((always_inline)) void merged(T n) {
        kept = std::malloc(n); __asm__ volatile(".globl call\ncall:");
    }
}; }
int main() {
    Hidden::merged(3);
    return 0;
}
"#;

const MERGED_IN_RUST: &str = r#"#![allow(named_asm_labels)]
unsafe extern "C" { fn malloc(size: usize) -> *mut u8; }
struct Hidden;
impl Hidden {
    #[inline(always)] fn merged<T: Into<u32>>(n: T) {
        std::hint::black_box(unsafe { malloc(n.into() as usize) });
        unsafe { std::arch::asm!(".globl call", "call:") }
    }
}
fn main() {
    Hidden::merged(3u16);
}
"#;

/// Frames of C++ and Rust programs are the same in every version and packing.
#[test]
fn every_version_and_packing_of_cpp_and_rust() {
    let built = scratch("every_version_and_packing_of_cpp_and_rust");
    fs::write(built.join("main.cpp"), MERGED_IN_CPP).unwrap();
    fs::write(built.join("main.rs"), MERGED_IN_RUST).unwrap();
    let rust =
        "rustc --edition 2024 -g -C symbol-mangling-version=v0 -C opt-level=1 -o prog main.rs";
    for version in 2..=5 {
        for packing in ["none", "zlib", "zlib-gnu", "zstd"] {
            let expect = |file: &str, frames: [(&str, u32); 2]| {
                let option = format!("--compress-debug-sections={packing}");
                run(&built, &format!("objcopy {option} prog"));
                expect_frames(&built, file, frames);
            };
            run(
                &built,
                &format!("g++ -O1 -gdwarf-{version} -o prog main.cpp"),
            );
            expect("main.cpp", [("merged<int>", 5), ("main", 9)]);
            run(&built, &format!("{rust} -C dwarf-version={version}"));
            let merged = "<main::Hidden>::merged::<u16>";
            expect("main.rs", [(merged, 6), ("main::main", 11)]);
        }
    }
}

/// Asserts that the call in `prog` has these frames, functions and lines of `file`.
fn expect_frames(built: &Path, file: &str, expected: [(&str, u32); 2]) {
    let program = built.join("prog");
    let found = look_up(
        &program,
        None,
        &[before(&program, "call")],
        &Options::default(),
    );
    assert_eq!(found.notes, [] as [String; 0]);
    let source = built.join(file);
    let own = found.addresses[0]
        .iter()
        .filter(|frame| frame.file.as_deref() == source.to_str());
    let frames: Vec<_> = own
        .map(|frame| (frame.function.as_deref().unwrap(), frame.line.unwrap()))
        .collect();
    assert_eq!(frames, expected, "{found:#?}");
}

#[test]
fn a_section_that_cannot_be_unpacked_is_noted() {
    let built = scratch("a_section_that_cannot_be_unpacked_is_noted");
    let program = build(&built, "-g -gz=zlib");
    let mut bytes = fs::read(&program).unwrap();
    let unpacked_size = {
        let elf = object::File::parse(&*bytes).unwrap();
        let section = elf.section_by_name(".debug_info").unwrap();
        usize::try_from(section.file_range().unwrap().0).unwrap() + 8
    };
    bytes[unpacked_size + 5] = 1; // a terabyte more
    fs::write(&program, bytes).unwrap();
    let found = look_up(&program, None, &calls(&program), &Options::default());
    expect_names(&found);
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    assert!(found.notes[0].contains(".debug_info"), "{:?}", found.notes);
}

/// What the symbol table says stays.
#[test]
fn packings_of_the_future_are_noted() {
    let built = scratch("packings_of_the_future_are_noted");
    let program = build(&built, "-g -gz=zlib");
    let mut bytes = fs::read(&program).unwrap();
    let sections: Vec<usize> = {
        let elf = object::File::parse(&*bytes).unwrap();
        let debug = elf.sections().filter(|section| {
            let name = section.name().unwrap();
            [".debug_info", ".debug_abbrev"].contains(&name)
        });
        debug
            .map(|section| usize::try_from(section.file_range().unwrap().0).unwrap())
            .collect()
    };
    assert_eq!(sections.len(), 2);
    for at in sections {
        bytes[at] = 99; // the first field says how the section is packed
    }
    fs::write(&program, bytes).unwrap();
    let found = look_up(&program, None, &calls(&program), &Options::default());
    expect_names(&found);
    let about = |name: &str| {
        found
            .notes
            .iter()
            .filter(|note| note.contains(name))
            .count()
    };
    assert_eq!((about(".debug_info"), about(".debug_abbrev")), (1, 1));
}

#[test]
fn symbols_only() {
    let built = scratch("symbols_only");
    let program = build(&built, "");
    let found = look_up(&program, None, &calls(&program), &Options::default());
    expect_names(&found);
    assert_eq!(found.found, Source::SymbolsOnly);
}

#[test]
fn stripped_with_dynamic_symbols() {
    let built = scratch("stripped_with_dynamic_symbols");
    let program = build(&built, "-shared -fPIC");
    let calls = calls(&program);
    run(&built, "strip prog");
    let found = look_up(&program, None, &calls, &Options::default());
    let names: Vec<_> = found
        .addresses
        .iter()
        .map(|frames| frames.first().and_then(|frame| frame.function.as_deref()))
        .collect();
    // The function of the header is local: nothing names it, least of all its neighbour.
    assert_eq!(names, [Some("in_file"), None, Some("main")]);
    assert_eq!(found.found, Source::SymbolsOnly);
}

#[test]
fn packed_symbols_of_a_stripped_file() {
    let built = scratch("packed_symbols_of_a_stripped_file");
    let program = build(&built, "");
    let calls = calls(&program);
    run(&built, "strip -s -o stripped prog");
    run(&built, "objcopy --only-keep-debug prog mini");
    run(&built, "xz mini");
    run(
        &built,
        "objcopy --add-section .gnu_debugdata=mini.xz stripped packed",
    );
    let found = look_up(&built.join("packed"), None, &calls, &Options::default());
    expect_names(&found);
    assert_eq!(found.found, Source::SymbolsOnly);
}

#[test]
fn a_32_bit_file() {
    let built = scratch("a_32_bit_file");
    fs::write(
        built.join("a.c"),
        "void *take(unsigned);\n\
         void *leak(void) {\n    void *p = take(3); __asm__ volatile(\".globl call\\ncall:\");\n    return p;\n}\n",
    )
    .unwrap();
    run(
        &built,
        "gcc -m32 -g -O1 -fno-pic -nostdlib -shared -Wl,-z,notext -o a.so a.c",
    );
    let program = built.join("a.so");
    let found = look_up(
        &program,
        None,
        &[before(&program, "call")],
        &Options::default(),
    );
    let frame = &found.addresses[0][0];
    assert_eq!(
        (frame.function.as_deref(), frame.line),
        (Some("leak"), Some(3))
    );
}

/// The linker leaves the address 0 where it drops a function; a large one would cover the first that are kept.
#[test]
fn functions_that_the_linker_dropped_do_not_match() {
    for version in 2..=5 {
        let built = scratch("functions_that_the_linker_dropped_do_not_match");
        let lines = |count| "    x = x * 3 + x / 7; x ^= x >> 3;\n".repeat(count);
        fs::write(
            built.join("dropped.c"),
            format!(
                "extern unsigned x;\nvoid dropped(void) {{\n{}}}\n",
                lines(600)
            ),
        )
        .unwrap();
        fs::write(
            built.join("main.c"),
            format!(
                "#include <stdlib.h>\nvolatile unsigned x;\nvoid *volatile kept;\n\
                 void leak(void) {{\n    kept = malloc(1); __asm__ volatile(\".globl call\\ncall:\");\n}}\n\
                 void large(void) {{\n{}}}\nint main(void) {{ leak(); large(); return 0; }}\n",
                lines(2000)
            ),
        )
        .unwrap();
        let flags = format!("-g -gdwarf-{version} -O0 -c");
        run(
            &built,
            &format!("gcc {flags} -ffunction-sections dropped.c"),
        );
        run(&built, &format!("gcc {flags} main.c"));
        run(&built, "gcc -Wl,--gc-sections -o prog main.o dropped.o");
        let program = built.join("prog");
        let call = before(&program, "call");
        assert!((0x1000..0x3000).contains(&call.0), "{call:?}");
        let found = look_up(&program, None, &[call], &Options::default());
        let frame = &found.addresses[0][0];
        assert_eq!(
            (frame.function.as_deref(), frame.line),
            (Some("leak"), Some(5)),
            "DWARF {version}: {found:?}"
        );
    }
}

#[test]
fn prefixes_of_paths_are_replaced() {
    let built = scratch("prefixes_of_paths_are_replaced");
    let program = build(&built, "-g -ffile-prefix-map=./=");
    let options = Options {
        map: vec![(
            built.to_str().unwrap().to_owned(),
            "/home/me/src".to_owned(),
        )],
        ..Options::default()
    };
    let found = look_up(&program, None, &calls(&program), &options);
    expect_lines(&found, Path::new("/home/me/src"));
}
