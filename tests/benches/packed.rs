//! Bytes that a record takes in packed traces of real programs, beside what is aimed at.
//!
//! `cargo bench -p heapwire-tests --bench packed`. In files lanes are part of the trace; through pipes, as over lines, frames are small. A program
//! that is not installed is left out.
#![expect(clippy::print_stdout, reason = "the table is the result")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot go on fails")]

use heapwire_tests::build::recorder;
use heapwire_tests::run::{Run, is_installed, number, report, without_recorder};
use heapwire_tests::scratch::Scratch;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Bytes a record at most, on average over the programs.
const AIM: f64 = 6.5;

fn main() {
    let scratch = Scratch::new("bench_packed");
    let library = recorder(&scratch);
    println!("\nBytes a record, packed");
    println!("  program      records     file     pipe");
    let mut sums = [0.0, 0.0];
    let mut programs = 0;
    for words in programs_in(&scratch) {
        let program = Path::new(&words[0]).file_name().unwrap().to_string_lossy();
        if !is_installed(&words[0]) {
            println!("  {program}: not installed");
            continue;
        }
        let (records, in_file) = traced(&scratch, &library, &words, "exec \"$@\"");
        let through_pipe = "exec \"$@\" 9>&1 >/dev/null | cat >piped.hwt";
        let (_, in_pipe) = traced(&scratch, &library, &words, through_pipe);
        println!("  {program:<8} {records:>11} {in_file:>8.2} {in_pipe:>8.2}");
        sums = [sums[0] + in_file, sums[1] + in_pipe];
        programs += 1;
    }
    let mean = |sum: f64| sum / f64::from(programs.max(1));
    println!(
        "  {:<8} {:>11} {:>8.2} {:>8.2}   aim {AIM}",
        "mean",
        "",
        mean(sums[0]),
        mean(sums[1])
    );
}

/// Runs a program by a line of the shell and gives how many records the traces have and how many bytes that is for each.
fn traced(scratch: &Scratch, library: &Path, words: &[String], line: &str) -> (u64, f64) {
    let is_piped = line.contains('|');
    let trace = scratch.join(if is_piped { "piped.hwt" } else { "file.hwt" });
    let _ = fs::remove_file(&trace); // it is not there the first time
    let out = if is_piped {
        "fd:9"
    } else {
        trace.to_str().unwrap()
    };
    let mut shell = without_recorder(Command::new("bash"));
    let env = [
        "env".to_owned(),
        format!("LD_PRELOAD={}", library.display()),
        format!("HEAPWIRE_OUT={out}"),
        "PYTHONMALLOC=malloc".to_owned(),
        "PYTHONHASHSEED=0".to_owned(),
    ];
    shell
        .current_dir(scratch.join(""))
        .args(["-c", line, "bash"]);
    let run = Run::of(shell.args(env).args(words));
    assert_eq!(run.status, 0, "{words:?}: {}", run.stderr);
    let report = report(&trace);
    assert_eq!(report["trace"]["complete"], true, "{}", report["warnings"]);
    let records = number(&report["trace"]["records"]);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let bytes = fs::metadata(&trace).unwrap().len() as f64 / records as f64;
    (records, bytes)
}

/// What each program does.
fn programs_in(scratch: &Scratch) -> Vec<Vec<String>> {
    let compiler = Run::of(Command::new("cc").arg("-print-prog-name=cc1")).stdout;
    let source = scratch.write("large.c", source()).display().to_string();
    let tree = scratch.join("tree");
    fs::create_dir_all(&tree).unwrap();
    for file in 0..2000 {
        fs::write(
            tree.join(format!("{file}.txt")),
            format!("{}\n", file * 7919),
        )
        .unwrap();
    }
    let repository = scratch.join("repository").display().to_string();
    let tree = tree.display().to_string();
    if is_installed("git") {
        let init = Run::of(Command::new("git").args(["init", "-q", "--bare", &repository]));
        assert_eq!(init.status, 0, "{init:?}");
    }
    let json = "import json; d = [{'id': i, 'tags': ['a%d' % (i % 7)], 'v': i / 2} for i in range(20000)]; json.loads(json.dumps(d))";
    let rows = "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i < 30000) insert into t select i, hex(i * 7919) from n; select count(*) from t where b like '%33%'";
    let script =
        "my %s; $s{$_ % 977} = [$_, \"x$_\"] for 1 .. 50000; my @l = sort map { \"$_\" } keys %s;";
    let all: [&[&str]; 6] = [
        &["/usr/bin/python3", "-c", json],
        &["sqlite3", ":memory:", rows],
        &[
            "git",
            "--git-dir",
            &repository,
            "--work-tree",
            &tree,
            "add",
            "--dry-run",
            "-A",
        ],
        &["perl", "-e", script],
        &[
            "gdb",
            "-nx",
            "-batch",
            "-ex",
            "info functions mall",
            "/bin/bash",
        ],
        &[compiler.trim(), "-quiet", "-O1", &source, "-o", "/dev/null"],
    ];
    let words = all
        .iter()
        .map(|words| words.iter().map(|it| (*it).to_owned()).collect());
    words.collect()
}

/// A thousand functions.
fn source() -> String {
    let mut source = String::new();
    for i in 0..1000 {
        let _ = writeln!(
            source,
            "int f{i}(int n, const char *s) {{ int sum = {i}; for (int k = 0; k < n; k++) sum += s[k] * {i}; return sum % 2 ? sum - n : sum; }}"
        );
    }
    source
}
