//! Loops of an allocation and a release: nanoseconds that a tool adds to a pair.

use crate::tools::{Tool, Tools};
use crate::{ROUNDS, median};
use heapwire_tests::build::{compile, workspace};
use heapwire_tests::run::Run;
use heapwire_tests::scratch::Scratch;
use std::path::Path;
use std::process::Command;

const PAIRS: u64 = 2_000_000;
/// The others take so long that fewer pairs give as good a mean.
const FEW_PAIRS: u64 = 100_000;

/// What can be in a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    Tool(Tool),
    /// The two additions to a shared counter that give a pair its two numbers, and nothing else.
    Counter,
    /// The 80 bytes of a pair into a file, and nothing else.
    Write,
}

/// Nanoseconds that a pair may cost more, where we have set ourselves a mark.
const fn aim(threads: usize, row: Row) -> Option<f64> {
    match (threads, row) {
        (1, Row::Tool(Tool::Null)) => Some(18.0),
        (1, Row::Tool(Tool::File)) => Some(45.0),
        (2 | 4, Row::Tool(Tool::Null)) => Some(30.0),
        (2 | 4, Row::Tool(Tool::File)) => Some(55.0),
        _ => None,
    }
}

pub(crate) fn show(tools: &Tools, scratch: &Scratch) {
    let folder = workspace().join("tests/benches/overhead");
    let flags = ["-O2", "-fno-builtin", "-pthread"];
    let (c, cxx) = (scratch.join("pairs"), scratch.join("new"));
    compile(&folder.join("pairs.c"), &c, &flags);
    compile(&folder.join("new.cpp"), &cxx, &flags);
    for threads in [1, 2, 4] {
        let mut rows: Vec<Row> = tools.all().into_iter().map(Row::Tool).collect();
        rows.extend([Row::Counter, Row::Write]);
        let title = format!("malloc and free, {threads} thread(s)");
        table(&title, tools, &c, threads, &rows);
    }
    let rows: Vec<Row> = tools.all().into_iter().map(Row::Tool).collect();
    table("operators new and delete", tools, &cxx, 1, &rows);
}

fn table(title: &str, tools: &Tools, program: &Path, threads: usize, rows: &[Row]) {
    let mut rounds = vec![Vec::new(); rows.len()];
    for _ in 0..ROUNDS {
        for (row, rounds) in rows.iter().zip(&mut rounds) {
            rounds.push(round(tools, program, threads, *row));
        }
    }
    let medians: Vec<f64> = rounds.iter().map(|rounds| median(rounds)).collect();
    println!("\nCPU time of {title}, median of {ROUNDS} rounds");
    println!(
        "{:34} {:>8} {:>9} {:>7} {:>8}",
        "", "ns/pair", "added ns", "aim", "ratio"
    );
    for (row, all) in rows.iter().zip(&medians) {
        let name = match row {
            Row::Tool(tool) => tool.name(),
            Row::Counter => "nothing but two shared additions",
            Row::Write => "nothing but 80 bytes to a file",
        };
        let added = all - medians[0];
        let aim = aim(threads, *row).map_or_else(|| "-".to_owned(), |aim| format!("{aim:.0}"));
        println!(
            "{name:34} {all:8.1} {added:9.1} {aim:>7} {:8.2}",
            all / medians[0]
        );
    }
}

fn round(tools: &Tools, program: &Path, threads: usize, row: Row) -> f64 {
    let tool = match row {
        Row::Tool(tool) => tool,
        Row::Counter | Row::Write => Tool::Nothing,
    };
    let pairs = match tool {
        Tool::Nothing | Tool::File | Tool::Plain | Tool::Null | Tool::LeakSanitizer => PAIRS,
        Tool::Mtrace | Tool::HeaptrackRecorder | Tool::Heaptrack => FEW_PAIRS,
    };
    let mut command: Command = tools.command(tool, program, true);
    command.args([threads.to_string(), pairs.to_string()]);
    match row {
        Row::Tool(Tool::Mtrace) => {
            command.arg("mtrace");
        }
        Row::Tool(_) => {}
        Row::Counter => {
            command.arg("counter");
        }
        Row::Write => {
            command.arg("write").arg(tools.out());
        }
    }
    let run = Run::of(&mut command);
    assert_eq!(run.status, 0, "{command:?}: {}", run.stderr);
    // The command heaptrack speaks before and after the program.
    let number = run.stdout.lines().find_map(|line| line.trim().parse().ok());
    number.unwrap_or_else(|| panic!("no number in {}", run.stdout))
}
