//! Makes the files that the tests look symbols up in.

use heapwire::address::FileAddress;
use heapwire::symbols::{Located, Module, Options, Resolved, resolve};
use object::{Object, ObjectSymbol, SymbolKind};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// One function of its own file, one of a header, and one inlined into `main`.
///
/// `MARK` puts a label behind the call, so that tests know the return address.
pub(crate) const PROGRAM: &str = r#"#include <stdlib.h>
#include "sub/../sub/other.h"
void *volatile kept;
__attribute__((noinline)) void in_file(void) {
    kept = malloc(11); MARK(in_file_call)
}
static inline __attribute__((always_inline)) void inlined(void) {
    kept = malloc(12); MARK(inlined_call)
}
int main(void) {
    in_file();
    in_header();
    inlined();
    return 0;
}
"#;

const HEADER: &str = r#"#define MARK(name) __asm__ volatile(".globl " #name "\n" #name ":");
extern void *volatile kept;
__attribute__((noinline)) static void in_header(void) {
    kept = malloc(13); MARK(in_header_call)
}
"#;

/// A directory of its own for a test, empty at its begin.
pub(crate) fn scratch(test: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("symbols")
        .join(test);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Runs a command in `directory`; its output on success is returned.
pub(crate) fn run(directory: &Path, command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .current_dir(directory)
        .output()
        .unwrap_or_else(|error| panic!("{command}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Whether `program` can be run.
pub(crate) fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Says that a test was skipped for want of something.
///
/// # Panics
///
/// Where `HEAPWIRE_TEST_ALL` is set.
pub(crate) fn skip(what: &str, package: &str) {
    println!("skipped: {what} is not installed (package {package})");
    assert!(
        std::env::var_os("HEAPWIRE_TEST_ALL").is_none(),
        "{package} is needed"
    );
}

/// Builds [`PROGRAM`] as `prog` in `directory`.
pub(crate) fn build(directory: &Path, flags: &str) -> PathBuf {
    fs::create_dir_all(directory.join("sub")).unwrap();
    fs::write(directory.join("main.c"), PROGRAM).unwrap();
    fs::write(directory.join("sub/other.h"), HEADER).unwrap();
    run(directory, &format!("gcc -O1 -I. {flags} -o prog main.c"));
    directory.join("prog")
}

/// The calls that [`PROGRAM`] marks, in the order of [`expect_lines`].
pub(crate) fn calls(program: &Path) -> Vec<FileAddress> {
    ["in_file_call", "in_header_call", "inlined_call"]
        .map(|name| before(program, name))
        .to_vec()
}

/// The address before a symbol's.
pub(crate) fn before(program: &Path, name: &str) -> FileAddress {
    let bytes = fs::read(program).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let symbol = elf.symbol_by_name(name);
    FileAddress(
        symbol
            .unwrap_or_else(|| panic!("no symbol {name}"))
            .address()
            - 1,
    )
}

/// Every seventh address of each function.
pub(crate) fn every_function(program: &Path) -> Vec<FileAddress> {
    let bytes = fs::read(program).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let mut addresses: Vec<u64> = elf
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text)
        .flat_map(|symbol| (symbol.address()..symbol.address() + symbol.size()).step_by(7))
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.into_iter().map(FileAddress).collect()
}

/// The build id that a linker was told by `--build-id=0x..`.
pub(crate) fn id(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

/// Looks addresses of one module up.
pub(crate) fn look_up(
    path: &Path,
    build_id: Option<Vec<u8>>,
    addresses: &[FileAddress],
    options: &Options,
) -> Resolved {
    let module = Module {
        path: Some(path.to_owned()),
        build_id,
        ..Module::default()
    };
    let mut resolved = resolve(&[(module, addresses.to_vec())], options);
    assert_eq!(resolved.len(), 1);
    resolved.remove(0)
}

/// Asserts that the three calls of [`PROGRAM`], built in `built`, have their functions, files and lines.
pub(crate) fn expect_lines(found: &Resolved, built: &Path) {
    let main = built.join("main.c");
    let header = built.join("sub/other.h");
    let shown: Vec<Vec<_>> = found.addresses.iter().map(|frames| shown(frames)).collect();
    let frame = |function: &str, file: &Path, line, inlined| {
        (
            function.to_owned(),
            file.to_str().unwrap().to_owned(),
            line,
            inlined,
        )
    };
    assert_eq!(
        shown,
        [
            vec![frame("in_file", &main, 5, false)],
            vec![frame("in_header", &header, 4, false)],
            vec![
                frame("inlined", &main, 8, true),
                frame("main", &main, 13, false)
            ],
        ],
        "{found:#?}"
    );
}

/// Asserts that the three calls have their functions only.
pub(crate) fn expect_names(found: &Resolved) {
    let shown: Vec<Vec<_>> = found.addresses.iter().map(|frames| shown(frames)).collect();
    let frame = |function: &str| vec![(function.to_owned(), "?".to_owned(), 0, false)];
    assert_eq!(
        shown,
        [frame("in_file"), frame("in_header"), frame("main")],
        "{found:#?}"
    );
}

/// Asserts that nothing is known about the addresses.
pub(crate) fn expect_nothing(found: &Resolved) {
    assert!(
        found.addresses.iter().all(|frames| frames.is_empty()),
        "{found:#?}"
    );
}

fn shown(frames: &[Located]) -> Vec<(String, String, u32, bool)> {
    let or_unknown = |text: &Option<Arc<str>>| text.as_deref().unwrap_or("?").to_owned();
    frames
        .iter()
        .map(|frame| {
            let function = or_unknown(&frame.function);
            (
                function,
                or_unknown(&frame.file),
                frame.line.unwrap_or(0),
                frame.inlined,
            )
        })
        .collect()
}
