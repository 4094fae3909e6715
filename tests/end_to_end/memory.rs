//! A trace longer than the memory that its report may take, made while it is read.

use heapwire_tests::run::{command, number};
use heapwire_tests::trace::Writer;
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
            to.write_all(&writer.take()).unwrap();
        }
    }
    to.write_all(&writer.end().take()).unwrap();
}

/// Reports on such a trace through a pipe, and gives the most memory that was resident meanwhile.
fn peak_of_report(records: u64, live: u64) -> (u64, Value) {
    let mut child = command()
        .args(["report", "--format", "json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap();
    let writing = thread::spawn(move || write(input, records, live));
    let mut output = child.stdout.take().unwrap();
    let reading = thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text
    });
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let found = fs::read_to_string(&status).unwrap_or_default();
        peak = peak.max(high_water(&found).unwrap_or(0));
        thread::sleep(Duration::from_millis(2));
    }
    writing.join().unwrap();
    let report = serde_json::from_str(&reading.join().unwrap()).unwrap();
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

fn check(records: u64, live: u64) {
    let (peak, report) = peak_of_report(records, live);
    let totals = &report["processes"][0]["totals"];
    assert_eq!(number(&totals["allocations"]), records / 2);
    assert_eq!(number(&totals["live_blocks"]), live);
    assert_eq!(number(&totals["live_bytes"]), live * 40);
    assert_eq!(report["trace"]["complete"], true);
    let bound = FIXED + PER_BLOCK * live;
    assert!(peak > 0 && peak <= bound, "{peak} of {bound} bytes");
}

#[test]
fn memory_follows_the_live_blocks_and_not_the_trace() {
    check(2_400_000, 5000); // 96 MB
    check(1_600_000, 200_000);
}

/// `cargo test --release -p heapwire-tests --test end_to_end -- --ignored memory`
#[test]
#[ignore = "takes minutes: 8 GB, and ten million live blocks"]
fn memory_follows_the_live_blocks_at_full_length() {
    check(200_000_000, 100_000);
    check(60_000_000, 10_000_000);
}
