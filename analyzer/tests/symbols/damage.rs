//! Damaged and hostile files: a note at most, in bounded time.

use crate::made::{build, calls, expect_names, expect_nothing, look_up, run, scratch};
use heapwire::address::FileAddress;
use heapwire::symbols::{Options, Source};
use object::{Object, ObjectSection};
use std::fs;
use std::path::{Path, PathBuf};

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

/// Assembles one function with the debug information that `entries` describe, in a unit without lines.
fn assemble(built: &Path, entries: &str) -> PathBuf {
    assemble_unit(built, ".byte 1\n.quad f, 64", entries)
}

/// Assembles one function with a unit whose own entry is `unit`, and the others `entries`.
fn assemble_unit(built: &Path, unit: &str, entries: &str) -> PathBuf {
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
    .byte 6, 0x11, 1, 0x11, 1, 0x12, 7, 0x10, 0x17, 0, 0 # unit with lines: low_pc, high_pc, stmt_list
    .byte 7, 0x3d, 0, 0x18, 0x13, 0, 0            # imported unit: import
    .byte 0
    .section .debug_info,"",@progbits
unit:
    .long end - start
start:
    .short 4
    .long .debug_abbrev
    .byte 8
{unit}
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

/// Entries that lead back to themselves, at once or by way of another one.
#[test]
fn entries_that_lead_in_circles() {
    let built = scratch("entries_that_lead_in_circles");
    for entries in [
        "self: .byte 5\n.long self - unit\n.quad f, 64\n.byte 0, 0\n",
        "one: .byte 5\n.long two - unit\n.quad f, 64\n.byte 0\n\
         two: .byte 5\n.long one - unit\n.quad f, 64\n.byte 0, 0\n",
        ".byte 7\n.long start + 7 - unit\n.byte 5\n.long start + 7 - unit\n.quad f, 64\n.byte 0, 0\n",
    ] {
        let program = assemble(&built, entries);
        let found = look_up(&program, None, &[in_f(&program)], &Options::default());
        assert_eq!(found.addresses[0][0].function.as_deref(), Some("f"));
    }
}

/// A line table that says that it has more folders or files than bytes, in entries of no bytes as well.
#[test]
fn line_tables_with_huge_counts() {
    let built = scratch("line_tables_with_huge_counts");
    let huge = "0xfffffffffffffff";
    for (folders, files) in [
        // Each is a path that stands there, or what needs no bytes at all.
        (
            format!(".byte 1, 1, 8\n.uleb128 {huge}\n.asciz \"/d\""),
            ".byte 0, 0".to_owned(),
        ),
        (format!(".byte 0\n.uleb128 {huge}"), ".byte 0, 0".to_owned()),
        (
            format!(".byte 1, 1, 0x19\n.uleb128 {huge}"),
            ".byte 0, 0".to_owned(),
        ),
        (
            ".byte 1, 1, 8, 1\n.asciz \"/d\"".to_owned(),
            format!(".byte 1, 1, 8\n.uleb128 {huge}\n.asciz \"f\""),
        ),
        (
            ".byte 1, 1, 8, 1\n.asciz \"/d\"".to_owned(),
            format!(".byte 0\n.uleb128 {huge}"),
        ),
        (
            ".byte 1, 1, 8, 1\n.asciz \"/d\"".to_owned(),
            format!(".byte 1, 1, 0x0f\n.uleb128 {huge}"),
        ),
    ] {
        let lines = format!(
            ".byte 0, 0\n.section .debug_line,\"\",@progbits\n.long last - first\nfirst: .short 5\n.byte 8, 0\n\
             .long code - header\nheader: .byte 1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1\n\
             {folders}\n{files}\ncode: .byte 0, 9, 2\n.quad f\n.byte 1, 2, 64, 0, 1, 1\nlast:\n.section .debug_info\n"
        );
        let unit = ".byte 6\n.quad f, 64\n.long 0";
        let program = assemble_unit(
            &built,
            unit,
            &format!(".byte 2\n.quad f, 64\n.asciz \"f\"\n{lines}"),
        );
        let found = look_up(&program, None, &[in_f(&program)], &Options::default());
        assert_eq!(
            found.addresses[0][0].function.as_deref(),
            Some("f"),
            "{lines}"
        );
        assert_eq!(found.addresses[0].len(), 1);
    }
}

/// Every number in the headers of sections and segments, at the edges of what it can be.
#[test]
fn headers_at_their_edges() {
    let built = scratch("headers_at_their_edges");
    let program = build(&built, "-g");
    let calls = calls(&program);
    let bytes = fs::read(&program).unwrap();
    let number = |at: usize, len: usize| {
        let digits = bytes[at..at + len].iter().rev();
        digits.fold(0, |number, &byte| number << 8 | usize::from(byte))
    };
    let tables = [
        (number(0x20, 8), number(0x36, 2), number(0x38, 2)),
        (number(0x28, 8), number(0x3A, 2), number(0x3C, 2)),
    ];
    let words = tables
        .into_iter()
        .flat_map(|(at, size, count)| (at..at + size * count).step_by(8));
    for at in (0x10..0x40).step_by(8).chain(words) {
        for edge in [0, 1, u64::from(u32::MAX), i64::MAX as u64, u64::MAX] {
            let mut damaged = bytes.clone();
            damaged[at..at + 8].copy_from_slice(&edge.to_le_bytes());
            fs::write(&program, damaged).unwrap();
            let found = look_up(&program, None, &calls, &Options::default());
            assert_eq!(found.addresses.len(), calls.len());
        }
    }
}

/// A few thousand bytes that unpack to more than memory should be given for them.
#[test]
fn packed_symbols_without_end_are_noted() {
    let built = scratch("packed_symbols_without_end");
    let program = build(&built, "");
    let calls = calls(&program);
    fs::File::create(built.join("zeros"))
        .unwrap()
        .set_len(300 << 20)
        .unwrap();
    run(&built, "xz -0 zeros");
    run(&built, "strip -s prog");
    run(&built, "objcopy --add-section .gnu_debugdata=zeros.xz prog");
    let found = look_up(&program, None, &calls, &Options::default());
    expect_nothing(&found);
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    assert!(
        found.notes[0].contains(".gnu_debugdata"),
        "{:?}",
        found.notes
    );
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
