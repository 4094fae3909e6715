//! The memory that a report takes on a trace that is made while it is read.

use crate::packed::twin;
use crate::run::{command, list, number};
use crate::trace::{Record, Writer};
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
fn write(to: &mut ChildStdin, records: u64, live: u64) {
    let mut writer = Writer::new();
    writer.frame.sum_kind = 0;
    for round in 0..records / 2 {
        let block = |round: u64| 0x5000_0000 + round % (live + live / 8) * 48;
        writer.site(round % 1000).malloc(block(round), 40);
        if let Some(old) = round.checked_sub(live) {
            writer.free(block(old));
        }
        if round % 800 == 799 {
            put(to, &writer.take());
        }
    }
    put(to, &writer.end().take());
}

fn put(to: &mut ChildStdin, bytes: &[u8]) {
    to.write_all(bytes).expect("the report reads to the end");
}

/// Reports on what `write` writes into a pipe, and gives the most memory that was resident meanwhile.
fn peak_of_report(write: impl FnOnce(&mut ChildStdin) + Send + 'static) -> (u64, Value) {
    peak_of(&["report"], write)
}

/// The same of another command.
fn peak_of(words: &[&str], write: impl FnOnce(&mut ChildStdin) + Send + 'static) -> (u64, Value) {
    let mut child = command()
        .args(words)
        .args(["--format", "json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command is there");
    let mut input = child.stdin.take().expect("it is piped");
    let writing = thread::spawn(move || write(&mut input));
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

impl Memory {
    fn new(peak: u64, live: u64) -> Self {
        assert_ne!(peak, 0);
        Self {
            peak,
            bound: FIXED + PER_BLOCK * live,
        }
    }
}

/// Reports on a trace of so many `records`, that keep so many blocks `live`, through a pipe.
///
/// # Panics
///
/// Where the report is wrong.
#[must_use]
pub fn of_report(records: u64, live: u64) -> Memory {
    let (peak, report) = peak_of_report(move |to| write(to, records, live));
    let totals = &report["processes"][0]["totals"];
    assert_eq!(number(&totals["allocations"]), records / 2);
    assert_eq!(number(&totals["live_blocks"]), live);
    assert_eq!(number(&totals["live_bytes"]), live * 40);
    assert_eq!(report["trace"]["complete"], true);
    Memory::new(peak, live)
}

/// Records of a frame where each takes a byte: the most there are in one.
const SMALLEST: u64 = 1 << 16;

/// The same with so many frames of records that take a byte each.
///
/// # Panics
///
/// Where the report is wrong.
#[must_use]
pub fn of_smallest_records(frames: u64) -> Memory {
    let (peak, report) = peak_of_report(move |to| {
        let mut writer = Writer::new();
        put(to, &writer.take());
        for _ in 0..frames {
            for _ in 0..SMALLEST / 2 {
                writer.malloc(0x1000, 8).free(0x1000);
            }
            let frame = twin(&writer.take());
            assert!((frame.len() as u64) < SMALLEST + 200, "{}", frame.len());
            put(to, &frame);
        }
        put(to, &writer.end().take());
    });
    let totals = &report["processes"][0]["totals"];
    assert_eq!(number(&totals["allocations"]), frames * SMALLEST / 2);
    assert_eq!(report["trace"]["complete"], true);
    Memory::new(peak, 0)
}

/// The same with so many `records` of two threads, of which one never writes its first, and the other loses every second.
///
/// # Panics
///
/// Where the report is wrong.
#[must_use]
pub fn of_lost_records(records: u64) -> Memory {
    let (peak, report) = peak_of_report(move |to| {
        let mut writer = Writer::new();
        writer.malloc(0x1000, 8).lose(1);
        for record in 0..records {
            writer.malloc(0x2000, 8).lose(1);
            if record % 800 == 799 {
                put(to, &writer.take());
            }
        }
        put(to, &writer.take());
    });
    let totals = &report["processes"][0]["totals"];
    assert_eq!(number(&totals["allocations"]), records + 1);
    Memory::new(peak, 1)
}

/// The same with `generations` of processes, each of which has forked the next at once, whose frames of `records` in all take turns.
///
/// # Panics
///
/// Where the report is wrong.
#[must_use]
pub fn of_many_generations(generations: u32, records: u64) -> Memory {
    let (peak, report) = peak_of_report(move |to| {
        let mut line = vec![Writer::new()];
        for child in 1..=generations {
            let parent = line.last_mut().expect("the first is there");
            let next = forked(parent, child);
            line.push(next);
        }
        take_turns(&mut line, records, to);
    });
    all_is_there(&report, generations, records);
    Memory::new(peak, 0)
}

/// The same with a process that has forked `children`, whose frames of `records` in all take turns with theirs.
///
/// # Panics
///
/// Where the report is wrong.
#[must_use]
pub fn of_many_processes(children: u32, records: u64) -> Memory {
    let (peak, report) = peak_of_report(move |to| {
        let mut parent = Writer::new();
        let mut family: Vec<_> = (1..=children)
            .map(|child| forked(&mut parent, child))
            .collect();
        family.insert(0, parent);
        take_turns(&mut family, records, to);
    });
    all_is_there(&report, children, records);
    Memory::new(peak, 0)
}

/// What a command that needs single blocks takes for processes that have a life each, one after the other: so many `children` inherit as
/// many blocks as each of them leaves.
///
/// # Panics
///
/// Where blocks are missing.
#[must_use]
pub fn of_successive_processes(words: &[&str], children: u32, blocks: u64) -> Memory {
    let (peak, shown) = peak_of(words, move |to| {
        let mut parent = Writer::new();
        let fill = |writer: &mut Writer, from: u64, to: &mut ChildStdin| {
            for block in 0..blocks {
                writer.malloc(from + block * 16, 8);
                if block % 800 == 799 {
                    put(to, &writer.take());
                }
            }
        };
        fill(&mut parent, 0x1000_0000, to);
        for child in 1..=children {
            let mut child = forked(&mut parent, child);
            put(to, &parent.take());
            fill(&mut child, 0x5000_0000, to);
            put(to, &child.end().take());
        }
        put(to, &parent.end().take());
    });
    let processes = list(&shown["processes"]);
    assert_eq!(processes.len(), children as usize + 1);
    for process in &processes[1..] {
        if let Some(leaks) = process["leaks"].as_array() {
            let listed: u64 = leaks.iter().map(|leak| number(&leak["blocks"])).sum();
            assert_eq!(listed, blocks);
        }
    }
    Memory::new(peak, 2 * blocks)
}

/// The stream of a child that is forked now.
fn forked(parent: &mut Writer, child: u32) -> Writer {
    let fork = parent.next;
    let pid = u64::from(4711 + child);
    parent.record(Record {
        op: 0x75,
        ptr: pid,
        ..Record::default()
    });
    let mut writer = Writer::bare(child);
    writer.next = parent.next;
    let fork = format!("fork={fork}");
    let parent = format!("parent={:x}", parent.frame.stream);
    writer.process(pid, &[&fork, &parent, "began=fork"]);
    writer
}

fn take_turns(family: &mut [Writer], records: u64, to: &mut ChildStdin) {
    for round in 0..records / 1600 {
        let turn = usize::try_from(round).expect("few") % family.len();
        let writer = &mut family[turn];
        for _ in 0..800 {
            writer.malloc(0x1000, 8).free(0x1000);
        }
        put(to, &writer.take());
    }
    for writer in family {
        put(to, &writer.end().take());
    }
}

fn all_is_there(report: &Value, children: u32, records: u64) {
    let processes = list(&report["processes"]);
    assert_eq!(processes.len(), children as usize + 1);
    let allocations = |process: &Value| number(&process["totals"]["allocations"]);
    let all: u64 = processes.iter().map(allocations).sum();
    assert_eq!(all, records / 1600 * 800);
}
