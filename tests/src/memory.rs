//! The memory that a report takes on a trace that is made while it is read.

use crate::run::{command, number};
use crate::trace::Writer;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::process::{ChildStdin, Stdio};
use std::thread;
use std::time::Duration;

/// What a report may take beside its blocks.
const FIXED: u64 = 64 << 20;
/// What it may take for each block that is live at the same time.
const PER_BLOCK: u64 = 100;

/// Writes `records` calls that keep `live` blocks.
fn write(mut to: ChildStdin, records: u64, live: u64) {
    let mut writer = Writer::new();
    writer.frame.sum_kind = 0;
    for round in 0..records / 2 {
        let block = |round: u64| 0x5000_0000 + round % (live + live / 8) * 48;
        writer.site(round % 1000).malloc(block(round), 40);
        if let Some(old) = round.checked_sub(live) {
            writer.free(block(old));
        }
        if round % 800 == 799 {
            to.write_all(&writer.take()).expect("the report reads on");
        }
    }
    to.write_all(&writer.end().take())
        .expect("the report reads to the end");
}

/// Reports on such a trace through a pipe, and gives the most memory that was resident meanwhile.
fn peak_of_report(records: u64, live: u64) -> (u64, Value) {
    let mut child = command()
        .args(["report", "--format", "json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command is there");
    let input = child.stdin.take().expect("it is piped");
    let writing = thread::spawn(move || write(input, records, live));
    let mut output = child.stdout.take().expect("it is piped");
    let reading = thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).expect("a report is text");
        text
    });
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().expect("it is our child").is_none() {
        let found = fs::read_to_string(&status).unwrap_or_default();
        peak = peak.max(high_water(&found).unwrap_or(0));
        thread::sleep(Duration::from_millis(2));
    }
    writing.join().expect("all was written");
    let report =
        serde_json::from_str(&reading.join().expect("all was read")).expect("a report is JSON");
    (peak, report)
}

/// Bytes on the line `VmHWM`.
fn high_water(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes << 10)
}

/// Bytes that a report took at most, and those that it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Resident at most.
    pub peak: u64,
    /// What is allowed.
    pub bound: u64,
}

/// Reports on a trace of so many `records`, that keep so many blocks `live`, through a pipe.
///
/// # Panics
///
/// Where the report is wrong.
#[must_use]
pub fn of_report(records: u64, live: u64) -> Memory {
    let (peak, report) = peak_of_report(records, live);
    let totals = &report["processes"][0]["totals"];
    assert_eq!(number(&totals["allocations"]), records / 2);
    assert_eq!(number(&totals["live_blocks"]), live);
    assert_eq!(number(&totals["live_bytes"]), live * 40);
    assert_eq!(report["trace"]["complete"], true);
    assert_ne!(peak, 0);
    Memory {
        peak,
        bound: FIXED + PER_BLOCK * live,
    }
}
