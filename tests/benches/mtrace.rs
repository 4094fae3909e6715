//! How fast logs of glibc's mtrace are read, against glibc's own script in the same run.
//!
//! `cargo bench -p heapwire-tests --bench mtrace`. What counts are the ratios; nothing is asserted about time, only that all find
//! the same leaks. Without the script there is nothing to compare with.
#![expect(clippy::print_stdout, reason = "the table is the result")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot go on fails")]

use heapwire_tests::build::compile;
use heapwire_tests::run::{command, number};
use heapwire_tests::scratch::Scratch;
use object::{Object, ObjectSymbol};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const SCRIPT: &str = "/usr/bin/mtrace";
const ROUNDS: usize = 3;
/// Lines of the long log.
const LINES: u64 = 10_000_000;
/// Call sites in it.
const SITES: u64 = 200;
/// Blocks that are live at its end, and most of the time.
const LIVE: u64 = 10_000;
/// Call sites of which lines are wanted.
const RESOLVED: u64 = 300;

fn main() {
    if !Path::new(SCRIPT).exists() {
        println!("{SCRIPT} is not there: nothing to compare with");
        return;
    }
    let scratch = Scratch::new("bench_mtrace");
    let log = scratch.join("log");
    write_log(&log, LINES).unwrap();
    println!("\nA log of {LINES} lines, nothing resolved; medians of {ROUNDS} rounds");
    compare(&[
        ("mtrace", &|| blocks(Command::new(SCRIPT).arg(&log))),
        ("heapwire report, 1 thread", &|| {
            live(&["--threads=1"], &log)
        }),
        ("heapwire report, 2 threads", &|| {
            live(&["--threads=2"], &log)
        }),
        ("heapwire mtrace", &|| {
            blocks(command().arg("mtrace").arg(&log))
        }),
    ]);
    println!("\nMost memory of heapwire report, but for the log itself, which is mapped");
    for lines in [LINES / 10, LINES] {
        write_log(&log, lines).unwrap();
        println!("  {lines:>10} lines {:>8} KiB", most_memory(&log));
    }
    let program = program(&scratch);
    write_resolvable(&log, &program).unwrap();
    println!("\nA log of {RESOLVED} call sites with lines; medians of {ROUNDS} rounds");
    compare(&[
        ("mtrace PROG", &|| {
            blocks(Command::new(SCRIPT).args([&program, &log]))
        }),
        ("heapwire mtrace PROG", &|| {
            blocks(command().arg("mtrace").args([&program, &log]))
        }),
        ("heapwire report", &|| live(&[], &log)),
    ]);
}

type Candidate<'a> = (&'a str, &'a dyn Fn() -> u64);

/// Prints the time of each candidate, and how often it fits into that of the first.
fn compare(candidates: &[Candidate<'_>]) {
    let mut seconds = vec![Vec::new(); candidates.len()];
    let expected = candidates[0].1();
    for _ in 0..ROUNDS {
        for ((name, run), seconds) in candidates.iter().zip(&mut seconds) {
            let begin = Instant::now();
            assert_eq!(run(), expected, "{name} finds other leaks");
            seconds.push(begin.elapsed().as_secs_f64());
        }
    }
    let medians: Vec<f64> = seconds.iter().map(|of| median(of)).collect();
    for ((name, _), seconds) in candidates.iter().zip(&medians) {
        println!("  {name:28} {seconds:8.3} s {:8.1} x", medians[0] / seconds);
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Standard output of a command that ends with `status`. Waits in the kernel: to look now and then whether it has ended would add more
/// than the shortest of them take.
fn output(command: &mut Command, status: i32) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it is there");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(
        output.status.code(),
        Some(status),
        "{}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Blocks that a report in the script's form lists.
fn blocks(command: &mut Command) -> u64 {
    let text = output(command, 1);
    let lines = text.lines();
    lines.filter(|line| line.starts_with("0x")).count() as u64
}

/// Live blocks of a report.
fn live(words: &[&str], log: &Path) -> u64 {
    let mut command = command();
    for threads in words
        .iter()
        .filter_map(|word| word.strip_prefix("--threads="))
    {
        command.env("RAYON_NUM_THREADS", threads);
    }
    let text = output(command.args(["report", "--format", "json"]).arg(log), 0);
    let report: Value = serde_json::from_str(&text).expect("it is JSON");
    number(&report["processes"][0]["totals"]["live_blocks"])
}

/// Blocks of many sites that come and go, the oldest first.
fn write_log(path: &Path, lines: u64) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let block = |number: u64| 0x55d0_c0de_0000 + number % (2 * LIVE) * 7919 % (2 * LIVE) * 0x240;
    writeln!(out, "= Start")?;
    for number in 0..u64::midpoint(lines, LIVE) {
        let site = number * 7919 % SITES * 16;
        let (address, size) = (block(number), 1 + number * 31 % 500);
        writeln!(
            out,
            "@ /opt/gateway/gw:[{:#x}] + {address:#x} {size:#x}",
            0x1_0000 + site
        )?;
        if let Some(old) = number.checked_sub(LIVE) {
            writeln!(
                out,
                "@ /opt/gateway/gw:[{:#x}] - {:#x}",
                0x2_0000 + site,
                block(old)
            )?;
        }
    }
    writeln!(out, "= End")?;
    out.flush()
}

/// A program with debug information and as many functions as are to be resolved.
fn program(scratch: &Scratch) -> std::path::PathBuf {
    let mut source = "#include <stdlib.h>\n".to_owned();
    for number in 0..RESOLVED {
        let _ = writeln!(
            source,
            "void *site_{number}(void)\n{{\n    return malloc({number});\n}}"
        );
    }
    source.push_str("int main(void) { return site_0() == site_1(); }\n");
    let program = scratch.join("sites");
    compile(&scratch.write("sites.c", source), &program, &["-g", "-O0"]);
    program
}

fn write_resolvable(path: &Path, program: &Path) -> io::Result<()> {
    let bytes = fs::read(program)?;
    let file = object::File::parse(&*bytes).unwrap();
    let mut out = BufWriter::new(File::create(path)?);
    let sites = file
        .symbols()
        .filter(|symbol| symbol.name().unwrap().starts_with("site_"));
    for (number, site) in (1u64..).zip(sites) {
        let call = site.address() + 12; // somewhere behind the prologue
        writeln!(
            out,
            "@ {}:[{call:#x}] + {:#x} 0x8",
            program.display(),
            number * 0x40
        )?;
    }
    out.flush()
}

/// KiB of memory that a report takes at most, without what is mapped from files.
fn most_memory(log: &Path) -> u64 {
    let mut command = command();
    command.args(["report", "--format", "json"]).arg(log);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let now = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        most = most.max(now.unwrap_or(0));
        thread::sleep(Duration::from_millis(2));
    }
    most
}
