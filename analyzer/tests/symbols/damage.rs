//! Damaged and hostile files: a note at most, in bounded time.

use crate::made::{build, calls, expect_names, look_up, run, scratch};
use heapwire::address::FileAddress;
use heapwire::symbols::{Options, Source};
use object::{Object, ObjectSection};
use std::fs;
use std::path::Path;

/// A generator of test data; the same numbers each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}

#[test]
fn cut_files() {
    let built = scratch("cut_files");
    let program = build(&built, "-g");
    let calls = calls(&program);
    let bytes = fs::read(&program).unwrap();
    for len in (0..bytes.len()).step_by(97) {
        fs::write(&program, &bytes[..len]).unwrap();
        let found = look_up(&program, None, &calls, &Options::default());
        assert_eq!(found.addresses.len(), calls.len());
    }
}

#[test]
fn flipped_bytes() {
    for flags in [
        "-g -gdwarf-4",
        "-g -gdwarf-5",
        "-g -gz=zlib",
        "-g -gdwarf-5 -gsplit-dwarf",
    ] {
        let built = scratch("flipped_bytes");
        let program = build(&built, flags);
        let mut calls = calls(&program);
        calls.extend([0, 1, 0x1000, u64::from(u32::MAX), u64::MAX - 1, u64::MAX].map(FileAddress));
        let bytes = fs::read(&program).unwrap();
        let ranges: Vec<(usize, usize)> = {
            let elf = object::File::parse(&*bytes).unwrap();
            elf.sections()
                .filter(|section| {
                    section
                        .name()
                        .is_ok_and(|name| name.contains("debug") || name.contains("sym"))
                })
                .filter_map(|section| section.file_range())
                .map(|(at, len)| (usize::try_from(at).unwrap(), usize::try_from(len).unwrap()))
                .collect()
        };
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        for _ in 0..150 {
            let mut damaged = bytes.clone();
            for _ in 0..=random.below(8) {
                let (at, len) = ranges[random.below(ranges.len())];
                damaged[at + random.below(len)] = [0, 1, 0x7F, 0x80, 0xFF][random.below(5)];
            }
            fs::write(&program, damaged).unwrap();
            let found = look_up(&program, None, &calls, &Options::default());
            assert_eq!(found.addresses.len(), calls.len());
        }
    }
}

#[test]
fn damaged_debug_information_leaves_the_symbols() {
    let built = scratch("damaged_debug_information");
    let program = build(&built, "-g");
    let calls = calls(&program);
    let mut bytes = fs::read(&program).unwrap();
    let (at, len) = section(&bytes, ".debug_abbrev");
    bytes[at..at + len].fill(0xFF);
    fs::write(&program, bytes).unwrap();
    let found = look_up(&program, None, &calls, &Options::default());
    expect_names(&found);
}

fn section(bytes: &[u8], name: &str) -> (usize, usize) {
    let elf = object::File::parse(bytes).unwrap();
    let (at, len) = elf.section_by_name(name).unwrap().file_range().unwrap();
    (usize::try_from(at).unwrap(), usize::try_from(len).unwrap())
}

/// Assembles one function with the debug information that `entries` describe.
fn assemble(built: &Path, entries: &str) -> std::path::PathBuf {
    let source = format!(
        r#"
    .text
    .globl f
    .type f, @function
f:  .skip 64, 0x90
    .size f, 64
    .section .debug_abbrev,"",@progbits
    .byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0      # unit: low_pc addr, high_pc data8; has children
    .byte 2, 0x2e, 1, 0x11, 1, 0x12, 7, 3, 8, 0, 0 # function: low_pc, high_pc, name; has children
    .byte 3, 0x1d, 1, 0x11, 1, 0x12, 7, 0, 0      # inlined function: low_pc, high_pc; has children
    .byte 4, 0x2e, 0, 0x55, 0x17, 0, 0            # function: ranges
    .byte 5, 0x2e, 1, 0x31, 0x13, 0x11, 1, 0x12, 7, 0, 0 # function: abstract origin, low_pc, high_pc
    .byte 0
    .section .debug_info,"",@progbits
unit:
    .long end - start
start:
    .short 4
    .long .debug_abbrev
    .byte 8
    .byte 1
    .quad f, 64
{entries}
end:
"#
    );
    fs::write(built.join("f.s"), source).unwrap();
    run(built, "gcc -nostdlib -shared -o f.so f.s");
    built.join("f.so")
}

fn in_f(program: &Path) -> FileAddress {
    let bytes = fs::read(program).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    FileAddress(elf.section_by_name(".text").unwrap().address() + 5)
}

#[test]
fn functions_inlined_into_each_other_without_end() {
    for (depth, whole) in [(100, true), (300_000, false)] {
        let built = scratch("functions_inlined_into_each_other");
        let program = assemble(
            &built,
            &format!(
                ".byte 2\n.quad f, 64\n.asciz \"f\"\n.rept {depth}\n.byte 3\n.quad f, 64\n.endr\n\
                 .fill {depth}, 1, 0\n.byte 0, 0\n"
            ),
        );
        let found = look_up(&program, None, &[in_f(&program)], &Options::default());
        let outermost = found.addresses[0].last().unwrap();
        assert_eq!(outermost.function.as_deref(), Some("f"));
        assert_eq!(
            found.addresses[0].len() == depth + 1,
            whole,
            "{:?}",
            found.notes
        );
        assert_eq!(found.notes.is_empty(), whole, "{:?}", found.notes);
    }
}

#[test]
fn functions_that_are_their_own_origin() {
    let built = scratch("functions_that_are_their_own_origin");
    let program = assemble(
        &built,
        "self: .byte 5\n.long self - unit\n.quad f, 64\n.byte 0, 0\n",
    );
    let found = look_up(&program, None, &[in_f(&program)], &Options::default());
    assert_eq!(found.addresses[0][0].function.as_deref(), Some("f"));
}

/// Each of a million functions has the same million ranges.
#[test]
fn ranges_shared_by_very_many_functions() {
    let built = scratch("ranges_shared_by_very_many_functions");
    let program = assemble(
        &built,
        ".rept 1000000\n.byte 4\n.long 0\n.endr\n.byte 0\n\
         .section .debug_ranges,\"\",@progbits\n.rept 1000000\n.quad 1, 2\n.endr\n.quad 0, 0\n\
         .section .debug_info\n",
    );
    let found = look_up(&program, None, &[in_f(&program)], &Options::default());
    assert_eq!(found.addresses[0][0].function.as_deref(), Some("f"));
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    let note = &found.notes[0];
    assert!(note.contains("takes too long"), "{note}");
}

#[test]
fn files_that_are_no_elf_are_noted() {
    let built = scratch("files_that_are_no_elf");
    for content in ["", "#!/bin/sh\n", "\x7FELF"] {
        let program = built.join("prog");
        fs::write(&program, content).unwrap();
        let found = look_up(&program, None, &[FileAddress(1)], &Options::default());
        assert_eq!(found.found, Source::Missing);
        assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    }
}
