//! The line of a call, whatever the language, the layout and the machine: on real programs, and on traces of programs for
//! machines that are not at hand.

mod errors;
mod layouts;
mod modules;

use crate::symbols::report;
use heapwire_tests::run::record;
use heapwire_tests::scratch::Scratch;
use object::{Object, ObjectSymbol};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn recorded(scratch: &Scratch, status: i32) -> Value {
    let recording = record(&scratch.join("prog"), &[], scratch);
    assert_eq!(recording.run.status, status, "{}", recording.run.stderr);
    report(&recording.trace, &[])
}

/// Address and size of a function.
fn extent(program: &Path, name: &str) -> (u64, u64) {
    let bytes = fs::read(program).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let symbol = elf.symbol_by_name(name);
    let symbol = symbol.unwrap_or_else(|| panic!("no symbol {name}"));
    (symbol.address(), symbol.size())
}
