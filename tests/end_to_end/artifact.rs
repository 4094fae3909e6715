//! The recorder library as it ships: small, on its own, unable to panic, loadable under every libc.

use heapwire_tests::build::{recorder, workspace};
use heapwire_tests::scratch::Scratch;
use object::elf::{DT_NEEDED, DT_TEXTREL, FileHeader64, R_X86_64_TPOFF64};
use object::read::elf::{Dyn, ElfFile64};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, RelocationFlags};
use std::collections::BTreeSet;
use std::fs;

const MOST_BYTES: usize = 64 << 10;

/// Functions that the recorder must stand in front of.
const HOOKS: &[&str] = &[
    // C
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "free_sized",
    "free_aligned_sized",
    "cfree",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "mtrace",
    "muntrace",
    // operator new and new[]: plain, nothrow, aligned, both
    "_Znwm",
    "_ZnwmRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_Znam",
    "_ZnamRKSt9nothrow_t",
    "_ZnamSt11align_val_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    // operator delete and delete[]: plain, nothrow, sized, aligned, aligned and nothrow, aligned and sized
    "_ZdlPv",
    "_ZdlPvRKSt9nothrow_t",
    "_ZdlPvm",
    "_ZdlPvSt11align_val_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdlPvmSt11align_val_t",
    "_ZdaPv",
    "_ZdaPvRKSt9nothrow_t",
    "_ZdaPvm",
    "_ZdaPvSt11align_val_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvmSt11align_val_t",
    // what allocates for its caller
    "strdup",
    "strndup",
    "wcsdup",
    "asprintf",
    "vasprintf",
    "getline",
    "getdelim",
    "realpath",
    "getcwd",
];

fn with_library(look: impl FnOnce(&[u8], &ElfFile64<'_, Endianness>)) {
    let scratch = Scratch::new("artifact");
    let bytes = fs::read(recorder(&scratch)).unwrap();
    let file = ElfFile64::parse(&*bytes).unwrap();
    look(&bytes, &file);
}

#[test]
fn it_is_small() {
    with_library(|bytes, _| assert!(bytes.len() <= MOST_BYTES, "{} bytes", bytes.len()));
}

#[test]
fn it_needs_no_other_library_and_no_writable_text() {
    with_library(|bytes, file| {
        let header: &FileHeader64<Endianness> = file.elf_header();
        let endian = file.endian();
        let sections = object::read::elf::FileHeader::sections(header, endian, bytes).unwrap();
        let (entries, _) = sections
            .dynamic(endian, bytes)
            .unwrap()
            .expect("a dynamic section");
        for entry in entries {
            let tag = entry.tag(endian);
            assert!(tag != DT_NEEDED && tag != DT_TEXTREL, "{tag:?}");
        }
    });
}

#[test]
fn it_exports_the_hooks() {
    with_library(|_, file| {
        let exports: BTreeSet<&str> = file
            .dynamic_symbols()
            .filter(|symbol| symbol.is_definition() && symbol.is_global())
            .map(|symbol| symbol.name().unwrap())
            .collect();
        let missing: Vec<_> = HOOKS
            .iter()
            .filter(|name| !exports.contains(*name))
            .collect();
        assert!(missing.is_empty(), "not hooked: {missing:?}");
        let table = workspace().join("recorder/src/function.rs");
        // The type of a size is part of some names, and stands by itself between the parts of these.
        let table = fs::read_to_string(table).unwrap();
        let table = table.replace("\", \"", "m");
        let named: BTreeSet<&str> = table.split('"').skip(1).step_by(2).collect();
        let own_way = ["asprintf", "__asprintf_chk"]; // their arguments need machine code
        let others: Vec<_> = exports
            .difference(&named)
            .filter(|name| !own_way.contains(name))
            .collect();
        assert!(others.is_empty(), "not in the table of hooks: {others:?}");
    });
}

#[test]
fn it_asks_of_a_libc_only_what_each_has() {
    with_library(|_, file| {
        let strong: BTreeSet<&str> = file
            .dynamic_symbols()
            .filter(|symbol| symbol.is_undefined() && !symbol.name().unwrap().is_empty())
            .filter(|symbol| !symbol.is_weak())
            .map(|symbol| symbol.name().unwrap())
            .collect();
        assert_eq!(strong, BTreeSet::new(), "undefined and not weak");
    });
}

#[test]
fn its_thread_local_storage_is_static() {
    with_library(|_, file| {
        for (at, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else {
                panic!("no ELF relocation at {at:#x}");
            };
            let thread_local = (16..=23).contains(&r_type.0) || (34..=36).contains(&r_type.0);
            assert!(
                !thread_local || r_type == R_X86_64_TPOFF64,
                "type {r_type} at {at:#x}"
            );
        }
    });
}

#[test]
fn it_cannot_panic() {
    with_library(|bytes, file| {
        let symbols = file.symbols().chain(file.dynamic_symbols());
        for name in symbols.map(|symbol| symbol.name().unwrap()) {
            let panics = [
                "panicking",
                "rust_begin_unwind",
                "core::panic",
                "4core5panic",
            ];
            assert!(!panics.iter().any(|word| name.contains(word)), "{name}");
        }
        for words in [
            "panicked at",
            "index out of bounds",
            "attempt to ",
            "called `Option::unwrap()`",
        ] {
            let found = bytes
                .windows(words.len())
                .any(|window| window == words.as_bytes());
            assert!(!found, "the file has the words {words:?}");
        }
        assert!(
            file.section_by_name(".text")
                .is_some_and(|text| text.size() > 0)
        );
    });
}
