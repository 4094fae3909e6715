//! Blocks by age, by function and by mark, the order of sites, and how much of their stacks is shown.

use super::replayed::{Call, counted};
use super::{Checked, hexadecimal, said};
use heapwire_tests::run::{list, number, on};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Whether a frame is in a library of the system or in one of its headers.
fn is_system(frame: &Value) -> bool {
    let of = |name: &str| frame[name].as_str().unwrap_or_default();
    of("module").starts_with("/lib")
        || of("module").starts_with("/usr/lib")
        || of("file").starts_with("/usr/include/")
}

fn hands_out(call: &&Call) -> bool {
    ["allocated", "realloc-new"].contains(&call.op.as_str())
}

impl Checked {
    /// Blocks that are so old when their process ends.
    pub(super) fn ages(&self) {
        for age in [self.end / 8, self.end / 2, self.end * 2] {
            let options = format!("--live --min-age {age}ns");
            let found = said(&self.path, "blocks", &options);
            let each = list(&found["processes"]).iter();
            let all = list(&self.live["processes"]).iter();
            for ((found, all), (_, stream)) in each.zip(all).zip(&self.streams) {
                let is_old =
                    |block: &&Value| stream.last.saturating_sub(number(&block["time_ns"])) >= age;
                let expected: Vec<&Value> = list(&all["blocks"]).iter().filter(is_old).collect();
                let found: Vec<&Value> = list(&found["blocks"]).iter().collect();
                assert_eq!(found, expected, "{options}");
            }
        }
    }

    pub(super) fn functions(&self) {
        let report = said(&self.path, "report", "--by function");
        let processes = list(&report["processes"]).iter();
        for (process, all) in processes.zip(list(&self.live["processes"])) {
            let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
            let blocks = list(&all["blocks"]).iter();
            for block in blocks.filter(|block| block["inherited"] == false) {
                let stack = list(&block["stack"]);
                let own = stack.iter().find(|frame| !is_system(frame));
                let frame = own.unwrap_or(&stack[0]);
                let name = match (frame["function"].as_str(), frame["module"].as_str()) {
                    (Some(function), _) => function.to_owned(),
                    (None, Some(module)) => format!("in {module}"),
                    (None, None) => "unknown function".to_owned(),
                };
                let sums = expected.entry(name).or_default();
                *sums = (sums.0 + number(&block["size"]), sums.1 + 1);
            }
            assert_eq!(
                groups(process).into_iter().collect::<BTreeMap<_, _>>(),
                expected
            );
        }
    }

    /// What each cycle between two marks left behind.
    pub(super) fn marks(&self) {
        let report = said(&self.path, "report", "--per-mark");
        let counted = counted(&self.streams, |_, _| true);
        let each = list(&report["processes"]).iter().zip(&counted);
        for ((process, counted), (_, stream)) in each.zip(&self.streams) {
            let first = match stream.marks.len() {
                0 => "no mark in the trace",
                _ => "before the first mark",
            };
            let mut expected = vec![(first.to_owned(), (0, 0))];
            expected.extend(stream.marks.iter().map(|mark| {
                let parts = format!(
                    "{}.{:09}",
                    mark.time / 1_000_000_000,
                    mark.time % 1_000_000_000
                );
                let (seconds, below) = parts.split_at(parts.len() - 6);
                let time = format!("{seconds}{}", below.trim_end_matches('0'));
                (
                    format!("mark {} {}, at {time} s", mark.id, mark.label),
                    (0, 0),
                )
            }));
            for live in counted.own() {
                let before = stream.marks.iter().filter(|mark| mark.number < live.number);
                let sums = &mut expected[before.count()].1;
                *sums = (sums.0 + live.size, sums.1 + 1);
            }
            assert_eq!(groups(process), expected);
        }
    }

    /// Sites with their calls and their oldest blocks, in each order.
    pub(super) fn orders(&self) {
        let leaks = |options: &str| -> Vec<Vec<Value>> {
            let report = said(&self.path, "report", options);
            let processes = list(&report["processes"]).iter();
            processes.map(|it| list(&it["leaks"]).to_vec()).collect()
        };
        let by_bytes = leaks("");
        let counted = counted(&self.streams, |_, _| true);
        for ((leaks, counted), (_, stream)) in by_bytes.iter().zip(&counted).zip(&self.streams) {
            for leak in leaks {
                let pc = hexadecimal(&leak["stack"][0]["address"]);
                let calls = stream.calls.iter().filter(hands_out);
                let calls = calls.filter(|call| call.pc == pc).count() as u64;
                assert_eq!(number(&leak["allocations"]), calls, "{pc:#x}");
                let own = counted.own().filter(|live| live.pc == pc);
                let oldest = own.min_by_key(|live| live.number).unwrap();
                assert_eq!(number(&leak["oldest_ns"]), oldest.time, "{pc:#x}");
            }
        }
        for by in ["bytes", "blocks", "calls", "age"] {
            let key = |leak: &Value| match by {
                "age" => (number(&leak["oldest_ns"]), Reverse(0)),
                "calls" => (0, Reverse(number(&leak["allocations"]))),
                by => (0, Reverse(number(&leak[by]))),
            };
            let mut expected = by_bytes.clone();
            expected.iter_mut().for_each(|leaks| leaks.sort_by_key(key));
            assert_eq!(leaks(&format!("--sort {by}")), expected, "{by}");
        }
    }

    /// The lines that stacks take, by how many of their frames are to be shown.
    pub(super) fn depths(&self) {
        let report = said(&self.path, "report", "");
        let processes = list(&report["processes"]).iter();
        let leaks = processes
            .filter(|process| process["end"] != "exec")
            .flat_map(|process| list(&process["leaks"]));
        let frames: Vec<usize> = leaks
            .map(|leak| {
                let stack = list(&leak["stack"]);
                let own = stack.iter().position(|frame| !is_system(frame));
                stack.len() - own.unwrap_or(0)
            })
            .collect();
        let lines = |depth: usize| {
            let depth = depth.to_string();
            let words = [
                "report", "--top", "100000", "--width", "300", "--depth", &depth,
            ];
            let text = on(&words, &self.path).stdout;
            let mut is_table = false;
            let in_table = text.lines().filter(|line| {
                let is_heading = line.starts_with(|c: char| c.is_uppercase());
                if is_heading {
                    is_table = line.starts_with("LEAKED") || line.starts_with("LIVE WHEN");
                }
                is_table
            });
            in_table.count()
        };
        for depth in [2, 3, 9] {
            let more = frames.iter().map(|frames| (*frames).min(depth) - 1);
            assert_eq!(lines(depth) - lines(1), more.sum::<usize>(), "{depth}");
        }
    }
}

fn groups(process: &Value) -> Vec<(String, (u64, u64))> {
    let groups = process["groups"].as_array().map_or(&[][..], Vec::as_slice);
    let group = |group: &Value| {
        let name = group["name"].as_str().unwrap().to_owned();
        (name, (number(&group["bytes"]), number(&group["blocks"])))
    };
    groups.iter().map(group).collect()
}
