//! Makes C++ programs with as much debug information as a test or a benchmark wants.

use rayon::prelude::*;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds `program` of so many files in `directory`, each with so many classes made from templates.
pub(crate) fn build(directory: &Path, files: usize, classes: usize, flags: &str) -> PathBuf {
    for file in 0..files {
        fs::write(
            directory.join(format!("part{file}.cpp")),
            part(file, classes),
        )
        .unwrap();
    }
    let calls: String = (0..files).fold(String::new(), |mut calls, file| {
        writeln!(calls, "extern void run{file}(); ").unwrap();
        calls
    });
    let runs: String = (0..files).fold(String::new(), |mut runs, file| {
        write!(runs, "run{file}(); ").unwrap();
        runs
    });
    fs::write(
        directory.join("main.cpp"),
        format!("{calls}int main() {{ {runs} }}\n"),
    )
    .unwrap();
    let names = (0..files).map(|file| format!("part{file}"));
    let names: Vec<String> = names.chain(["main".to_owned()]).collect();
    let compiler = |words: &[String]| {
        let mut compiler = Command::new("g++");
        compiler
            .args(["-std=c++17", "-g"])
            .args(flags.split_whitespace());
        let status = compiler.args(words).current_dir(directory).status();
        assert!(status.unwrap().success());
    };
    names
        .par_iter()
        .for_each(|name| compiler(&["-c".to_owned(), format!("{name}.cpp")]));
    let mut objects: Vec<String> = names.iter().map(|name| format!("{name}.o")).collect();
    objects.extend(["-o", "program"].map(str::to_owned));
    compiler(&objects);
    directory.join("program")
}

/// A file whose classes hold containers of each other's kind, so that each has functions of its own.
fn part(file: usize, classes: usize) -> String {
    let mut text = String::from(
        "#include <cstdlib>\n#include <map>\n#include <memory>\n#include <string>\n#include <vector>\n\
         namespace {\n\
         template <int N> struct Node {\n\
         \x20   std::map<std::string, std::vector<Node *>> children;\n\
         \x20   std::unique_ptr<char[]> bytes{new char[N + 1]};\n\
         \x20   void grow(int n) {\n\
         \x20       children[std::to_string(n)].push_back(new Node);\n\
         \x20       if (n > 0) grow(n - 1);\n\
         \x20   }\n\
         };\n}\n",
    );
    writeln!(text, "void run{file}() {{").unwrap();
    for class in 0..classes {
        let number = file * classes + class;
        writeln!(
            text,
            "    {{ Node<{number}> node; node.grow({class} % 5); }}"
        )
        .unwrap();
    }
    text.push_str("}\n");
    text
}
