//! Names and lines of recorded programs: however they are laid out, and wherever their debug information is.

mod bundles;
mod files;
mod layouts;
mod shown;

use heapwire_tests::run::{Run, command, json, list, record};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Three blocks of 4321 bytes leak in line 4, in `leak`.
pub(crate) const PROGRAM: &str = "#include <stdlib.h>
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
