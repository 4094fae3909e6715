//! What the recorder survives, and what it does not do to the program meanwhile: death at any moment, outputs that fail,
//! descriptors that are taken away, signals at any instruction, threads that come and go.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bypass;
mod children;
mod company;
mod culling;
mod descriptors;
mod early;
mod ends;
mod hindered;
mod kill;
mod modules;
mod mtrace;
mod outputs;
mod packing;
mod signals;
mod terminals;
mod threads;

use heapwire_tests::build::compile;
use heapwire_tests::run::{list, number, without_recorder};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a program of this folder.
fn program(scratch: &Scratch, name: &str) -> PathBuf {
    let out = scratch.join(name);
    compile(&source(&format!("{name}.c")), &out, &["-pthread"]);
    out
}

/// A file of this folder's programs.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("survival/programs")
        .join(name)
}

/// `program` with the recorder in it, which writes to `out`.
fn traced(program: &Path, library: &Path, out: &str) -> Command {
    let mut command = without_recorder(Command::new(program));
    command.env("LD_PRELOAD", library).env("HEAPWIRE_OUT", out);
    command
}

/// Builds a library of this folder.
fn library(scratch: &Scratch, name: &str) -> PathBuf {
    let out = scratch.join(&format!("{name}.so"));
    compile(&source(&format!("{name}.c")), &out, &["-shared", "-fPIC"]);
    out
}

/// Bytes and blocks of the leaks of calls in `program` itself.
fn leaks_of(program: &Path, process: &Value) -> Vec<(u64, u64)> {
    list(&process["leaks"])
        .iter()
        .filter(|leak| leak["stack"][0]["module"] == program.to_str().unwrap())
        .map(|leak| (number(&leak["bytes"]), number(&leak["blocks"])))
        .collect()
}
