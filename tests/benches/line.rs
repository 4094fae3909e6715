//! Records a second that come over slow lines, from the program to the report, with nothing left out.
//!
//! `cargo bench -p heapwire-tests --bench line`. Programs write to a terminal as on a board, whose other end takes so many bytes a second;
//! line feeds become two bytes there, as by default. The aims stand beside; nothing is asserted about time, only that nothing is lost.
#![expect(clippy::print_stdout, reason = "the table is the result")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot go on fails")]

use heapwire_tests::build::recorder;
use heapwire_tests::run::{is_installed, number, report, without_recorder};
use heapwire_tests::scratch::Scratch;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Name, bytes a second, columns, aim in records a second, and how much programs do: so much that each takes about ten seconds.
const LINES: [(&str, u64, &str, u64, u64); 4] = [
    ("115,200 baud", 11_520, "76", 700, 2_000),
    ("115,200 baud", 11_520, "252", 1_000, 2_000),
    ("10 Mbit", 1_250_000, "76", 70_000, 200_000),
    ("10 Mbit", 1_250_000, "252", 100_000, 200_000),
];

/// A program and the words of its command line for so much that it does.
type Program = (&'static str, fn(u64) -> Vec<String>);

/// Programs that allocate without much output.
const PROGRAMS: [Program; 3] = [
    ("perl", |work| {
        let script = format!("my %s; $s{{$_ % 977}} = [$_, \"x$_\"] for 1 .. {work}");
        vec!["-e".to_owned(), script]
    }),
    ("sqlite3", |work| {
        let query = format!(
            "create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < {work}) insert into t select x, hex(x * 7919) from c; select count(*) from t where b like '%33%'"
        );
        vec![":memory:".to_owned(), query]
    }),
    ("python3", |work| {
        let script = format!("x = {{}}\nfor i in range({work}): x[i % 977] = str(i) * 200");
        vec!["-c".to_owned(), script]
    }),
];

fn main() {
    let scratch = Scratch::new("bench_line");
    let library = recorder(&scratch);
    println!("\nRecords a second over a line, from the program to the report");
    println!("  line          columns  program    records  a second      aim  of the line");
    for (line, rate, columns, aim, work) in LINES {
        for (program, words) in PROGRAMS {
            if !is_installed(program) {
                continue;
            }
            let log = scratch.join("line.log");
            let begin = Instant::now();
            carry(&log, rate, columns, &library, program, &words(work));
            let report = report(&log);
            let seconds = begin.elapsed().as_secs_f64();
            assert_eq!(report["trace"]["complete"], true, "{}", report["warnings"]);
            let records = number(&report["trace"]["records"]);
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let (per_second, used) = (
                records as f64 / seconds,
                100.0 * fs::metadata(&log).unwrap().len() as f64 / seconds / rate as f64,
            );
            println!(
                "  {line:<13} {columns:>7}  {program:<8} {records:>9} {per_second:>9.0} {aim:>8} {used:>11.0} %"
            );
        }
    }
}

/// Runs a program on a terminal whose other end takes so many bytes a second, which go to `log`.
fn carry(log: &Path, rate: u64, columns: &str, library: &Path, program: &str, words: &[String]) {
    let line = Path::new(env!("CARGO_MANIFEST_DIR")).join("survival/programs/terminal.py");
    let mut python = without_recorder(Command::new("python3"));
    python
        .args([line, PathBuf::from(log)])
        .args(["", "raw -ixon", &format!("rate={rate}"), "env"])
        .arg(format!("LD_PRELOAD={}", library.display()))
        .arg("HEAPWIRE_OUT=/proc/self/fd/1")
        .arg(format!("HEAPWIRE_ARMOUR={columns}"))
        .arg(program)
        .args(words);
    let status = python.stdin(Stdio::null()).status().unwrap();
    assert!(status.success(), "{program}: {status}");
}
