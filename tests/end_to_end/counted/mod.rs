//! What the verbs say of parts of a trace, counted a second time: out of `dump`, one record after the other, in the simplest way.

mod differences;
mod filter;
mod made;
mod orders;
mod replayed;

use filter::Filter;
use heapwire_tests::build::compile;
use heapwire_tests::run::{Run, command, json, list, number, on, record};
use heapwire_tests::scratch::Scratch;
use made::made;
use replayed::{Counted, Live, Stream, counted, dumped};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a verb says in JSON.
fn said(trace: &Path, verb: &str, options: &str) -> Value {
    let words = options.split_whitespace();
    let run = Run::of(
        command()
            .args([verb, "--format", "json"])
            .args(words)
            .arg(trace),
    );
    json(&run)
}

/// The blocks of each process in what `blocks` says.
fn shown(found: &Value) -> Vec<Vec<Live>> {
    let block = |block: &Value| Live {
        number: 0,
        address: hexadecimal(&block["address"]),
        size: number(&block["size"]),
        pc: hexadecimal(&block["stack"][0]["address"]),
        thread: number(&block["thread"]),
        time: number(&block["time_ns"]),
        inherited: block["inherited"] == true,
    };
    let processes = list(&found["processes"]).iter();
    processes
        .map(|of| list(&of["blocks"]).iter().map(block).collect())
        .collect()
}

fn hexadecimal(value: &Value) -> u64 {
    let text = value.as_str().unwrap();
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

fn without_numbers(blocks: Vec<Live>) -> Vec<Live> {
    blocks
        .into_iter()
        .map(|live| Live { number: 0, ..live })
        .collect()
}

/// Lists can be long: names the first blocks that differ.
#[track_caller]
fn same(found: &[Live], expected: &[Live], what: &str) {
    let pairs = found.iter().zip(expected);
    let differing = pairs.enumerate().find(|(_, (one, other))| one != other);
    assert_eq!(differing, None, "{what}");
    assert_eq!(found.len(), expected.len(), "{what}");
}

/// A trace, its streams, and all its live blocks as `blocks` says them.
struct Checked {
    path: PathBuf,
    streams: Vec<(String, Stream)>,
    live: Value,
    /// Nanoseconds of its last call.
    end: u64,
}

impl Checked {
    fn new(path: PathBuf) -> Self {
        let streams = dumped(&path);
        let calls = streams.iter().flat_map(|(_, stream)| &stream.calls);
        let end = calls.map(|call| call.time).max().unwrap();
        let live = said(&path, "blocks", "--live");
        Self {
            path,
            streams,
            live,
            end,
        }
    }

    fn all(&self) {
        self.totals();
        self.moments();
        self.parts();
        self.groups();
        self.cycles();
        self.timelines();
        self.histories();
        self.ages();
        self.functions();
        self.marks();
        self.orders();
        self.depths();
    }

    fn totals(&self) {
        let report = said(&self.path, "report", "");
        let processes = list(&report["processes"]);
        let counted = counted(&self.streams, |_, _| true);
        assert_eq!(processes.len(), counted.len());
        for (process, counted) in processes.iter().zip(&counted) {
            let totals = &process["totals"];
            for (name, count) in &counted.totals {
                assert_eq!(number(&totals[name]), *count, "{name} of {totals:#}");
            }
            let inherited = counted.live.values().filter(|live| live.inherited);
            assert_eq!(
                number(&totals["inherited_blocks"]),
                inherited.count() as u64
            );
            assert_eq!(number(&totals["live_bytes"]), counted.own_bytes);
            assert_eq!(number(&totals["live_blocks"]), counted.own().count() as u64);
        }
    }

    /// Blocks at the end, at peaks and at times.
    fn moments(&self) {
        let of = |counted: &[Counted]| -> Vec<Vec<Live>> {
            counted
                .iter()
                .map(|it| without_numbers(it.blocks()))
                .collect()
        };
        let at_end = counted(&self.streams, |_, _| true);
        for (found, counted) in shown(&self.live).iter().zip(of(&at_end)) {
            same(found, &counted, "at the end");
        }
        let peak = |index: usize| at_end[index].peak;
        let at_peak = counted(&self.streams, |index, call| {
            peak(index) >= Some(call.number)
        });
        let found = shown(&said(&self.path, "blocks", "--at peak"));
        for (index, (found, counted)) in found.iter().zip(of(&at_peak)).enumerate() {
            if peak(index).is_some() {
                same(found, &counted, &format!("peak of {index}"));
            }
        }
        for part in 1..=8 {
            let time = self.end * part / 8;
            let counted = counted(&self.streams, |_, call| call.time <= time);
            let options = format!("--at {time}ns");
            let found = shown(&said(&self.path, "blocks", &options));
            for (index, (found, counted)) in found.iter().zip(of(&counted)).enumerate() {
                let stream = &self.streams[index].1;
                let is_all = stream.calls.iter().all(|call| call.time <= time);
                if stream.begin > time || stream.has_ended && is_all {
                    continue; // `processes.rs` has what is not there yet or no more
                }
                same(found, &counted, &format!("{index} {options}"));
            }
            let report = said(&self.path, "report", &format!("--until {time}ns"));
            for (process, counted) in list(&report["processes"]).iter().zip(&counted) {
                let live = number(&process["totals"]["live_bytes"]);
                assert_eq!(live, counted.own_bytes, "{time}");
            }
        }
    }

    /// The filters, their sums by site, and their order.
    fn parts(&self) {
        for filter in self.filters() {
            let options = filter.options();
            let found = said(&self.path, "blocks", &format!("--live {options}"));
            let report = said(&self.path, "report", &options);
            let each = list(&found["processes"])
                .iter()
                .zip(list(&self.live["processes"]));
            for ((found, all), process) in each.zip(list(&report["processes"])) {
                let all = list(&all["blocks"])
                    .iter()
                    .filter(|block| filter.takes(block));
                let expected: Vec<&Value> = all.collect();
                let found: Vec<&Value> = list(&found["blocks"]).iter().collect();
                assert_eq!(found, expected, "{options}");
                let mut sites: BTreeMap<String, (u64, u64)> = BTreeMap::new();
                for block in expected
                    .into_iter()
                    .filter(|block| block["inherited"] == false)
                {
                    let sums = sites.entry(block["stack"].to_string()).or_default();
                    *sums = (sums.0 + number(&block["size"]), sums.1 + 1);
                }
                let leaks = list(&process["leaks"]);
                let sums = |leak: &Value| (number(&leak["bytes"]), number(&leak["blocks"]));
                let found = leaks
                    .iter()
                    .map(|leak| (leak["stack"].to_string(), sums(leak)));
                assert_eq!(found.collect::<BTreeMap<_, _>>(), sites, "{options}");
                assert!(
                    leaks.is_sorted_by_key(|leak| u64::MAX - sums(leak).0),
                    "{options}"
                );
            }
        }
    }

    fn filters(&self) -> Vec<Filter> {
        let blocks = list(&self.live["processes"]).iter();
        let blocks: Vec<&Value> = blocks.flat_map(|of| list(&of["blocks"])).collect();
        let thread = blocks.iter().find_map(|block| block["thread"].as_u64());
        let word = |name: &str| {
            let mut frames = blocks.iter().map(|block| &block["stack"][0]);
            frames.find_map(|frame| Some(frame[name].as_str()?.to_owned()))
        };
        let (early, late) = (Some(self.end / 4), Some(self.end / 2));
        let all = Filter::default;
        let mut filters = vec![
            Filter { thread, ..all() },
            Filter {
                module: word("module"),
                ..all()
            },
            Filter {
                sizes: Some((16, 100)),
                ..all()
            },
            Filter {
                sizes: Some((1024, u64::MAX)),
                ..all()
            },
            Filter {
                from: late,
                ..all()
            },
            Filter { to: late, ..all() },
            Filter {
                from: early,
                to: late,
                thread,
                sizes: Some((0, 64)),
                ..all()
            },
        ];
        let function = word("function").filter(|name| !name.contains(' '));
        filters.extend(function.map(|function| Filter {
            function: Some(function),
            ..all()
        }));
        filters
    }

    fn groups(&self) {
        let name = |by: &str, block: &Value| match by {
            "thread" => format!("thread {}", block["thread"]),
            "module" => block["stack"][0]["module"]
                .as_str()
                .unwrap_or("unknown module")
                .to_owned(),
            _ => match number(&block["size"]) {
                0 => "0 B".to_owned(),
                size => {
                    let least = 1u64 << size.ilog2();
                    format!("{least} to {} B", 2 * least - 1)
                }
            },
        };
        for by in ["thread", "module", "size"] {
            let report = said(&self.path, "report", &format!("--by {by}"));
            let processes = list(&report["processes"]).iter();
            for (process, all) in processes.zip(list(&self.live["processes"])) {
                let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
                let own = list(&all["blocks"])
                    .iter()
                    .filter(|block| block["inherited"] == false);
                for block in own {
                    let sums = expected.entry(name(by, block)).or_default();
                    *sums = (sums.0 + number(&block["size"]), sums.1 + 1);
                }
                let groups = process["groups"].as_array().map_or(&[][..], Vec::as_slice);
                let found = groups.iter().map(|group| {
                    let name = group["name"].as_str().unwrap().to_owned();
                    (name, (number(&group["bytes"]), number(&group["blocks"])))
                });
                assert_eq!(found.collect::<BTreeMap<_, _>>(), expected, "{by}");
            }
        }
    }

    /// What was handed out in a time and is not released at another.
    fn cycles(&self) {
        let at = |tenths: u64| self.end * tenths / 10;
        for (from, to, until) in [
            (at(1), at(4), at(6)),
            (at(0), at(9), at(10)),
            (at(5), at(6), at(7)),
        ] {
            let options = format!("--from {from}ns --to {to}ns --until {until}ns");
            let blocks = said(&self.path, "blocks", &options);
            let report = said(&self.path, "report", &options);
            let unsure = |at: usize, live: &Live| {
                let blocks = list(&blocks["processes"][at]["blocks"]).iter();
                let mut blocks = blocks.filter(|it| it["time_is_lower_bound"] == true);
                blocks.any(|it| hexadecimal(&it["address"]) == live.address)
            };
            let counted = counted(&self.streams, |_, call| call.time <= until);
            let found = shown(&blocks);
            for (index, counted) in counted.iter().enumerate() {
                let fits =
                    |live: &Live| (live.time >= from || unsure(index, live)) && live.time < to;
                let expected: Vec<Live> = counted.blocks().into_iter().filter(fits).collect();
                if self.streams[index].1.begin <= until {
                    same(&found[index], &without_numbers(expected.clone()), &options);
                }
                let leaks = list(&report["processes"][index]["leaks"]).iter();
                let bytes: u64 = leaks.map(|leak| number(&leak["bytes"])).sum();
                let own = expected.iter().filter(|live| !live.inherited);
                assert_eq!(bytes, own.map(|live| live.size).sum::<u64>(), "{options}");
            }
        }
    }

    /// The most live bytes and blocks in each step, where clocks of threads differ, as they come in the order of numbers.
    fn timelines(&self) {
        let pids = said(&self.path, "report", "");
        let pids: Vec<u64> = list(&pids["processes"])
            .iter()
            .map(|it| number(&it["pid"]))
            .collect();
        let counted = counted(&self.streams, |_, _| true);
        for step in [self.end / 7 + 1, 1_000_000, 10_000_000] {
            let step_option = format!("{step}ns");
            let text = on(&["timeline", "--csv", "--step", &step_option], &self.path).stdout;
            for (index, counted) in counted.iter().enumerate() {
                if pids.iter().filter(|pid| **pid == pids[index]).count() > 1 {
                    continue; // its rows do not tell images of one process apart
                }
                let pid = format!("{},", pids[index]);
                let rows = text.lines().filter_map(|line| line.strip_prefix(&pid));
                let found: Vec<Vec<u64>> = rows
                    .map(|row| {
                        row.split(',')
                            .take(3)
                            .map(|it| it.parse().unwrap())
                            .collect()
                    })
                    .collect();
                let mut last = (0, 0);
                let mut clock = 0;
                let mut expected: Vec<Vec<u64>> = Vec::new();
                for (time, bytes, blocks) in &counted.steps {
                    clock = clock.max(*time);
                    while expected.len() as u64 <= clock / step {
                        expected.push(vec![expected.len() as u64 * step, last.0, last.1]);
                    }
                    let row = expected.last_mut().unwrap();
                    row[1] = row[1].max(*bytes);
                    row[2] = row[2].max(*blocks);
                    last = (*bytes, *blocks);
                }
                let end = clock.max(self.streams[index].1.last);
                while expected.len() as u64 <= end / step {
                    expected.push(vec![expected.len() as u64 * step, last.0, last.1]);
                }
                if !found.is_empty() || last != (0, 0) {
                    assert_eq!(found, expected, "{step} {pid}");
                }
            }
        }
    }

    /// All that happened to some of the addresses.
    fn histories(&self) {
        let calls = || self.streams.iter().flat_map(|(_, stream)| &stream.calls);
        for index in [0, 1, 2] {
            let mut all = calls().filter(|call| call.op == "released");
            let address = all.nth(index * 17).unwrap().address;
            let found = said(&self.path, "blocks", &format!("--ptr {address:#x}"));
            let event = |event: &Value| {
                (
                    event["event"].as_str().unwrap().to_owned(),
                    number(&event["number"]),
                    number(&event["thread"]),
                )
            };
            let events = list(&found["events"]).iter();
            let events = events.filter(|event| hexadecimal(&event["address"]) == address);
            let expected = calls().filter(|call| call.address == address);
            let expected = expected.map(|call| (call.op.clone(), call.number, call.thread));
            assert_eq!(
                events.map(event).collect::<Vec<_>>(),
                expected.collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn a_made_trace_is_counted_right_in_all_its_parts() {
    let scratch = Scratch::new("counted-made");
    Checked::new(made(&scratch)).all();
}

#[test]
fn a_shell_with_children_is_counted_right_in_all_its_parts() {
    let scratch = Scratch::new("counted-shell");
    let script = "for i in 1 2 3; do (x=$(echo $i $i); echo $x | cat); done; sleep 0.05; x=$(ls / | sort); echo $x";
    let arguments = ["-c", script].map(PathBuf::from);
    let recording = record(Path::new("/bin/bash"), &arguments, &scratch);
    assert_eq!(recording.run.status, 0, "{:?}", recording.run);
    Checked::new(recording.trace).all();
}

/// Its vectors are allocated by inlined code of the library.
#[test]
fn frames_of_inlined_calls_are_counted_right() {
    let scratch = Scratch::new("counted-inlined");
    let text = "#include <vector>\n__attribute__((noinline)) void keep(int n) {\n    auto *kept = new std::vector<long>(n);\n    asm volatile(\"\" : : \"r\"(kept) : \"memory\");\n}\nint main() {\n    for (int n = 100; n < 140; n++) keep(n);\n    return 0;\n}\n";
    let source = scratch.write("main.cpp", text);
    let program = scratch.join("prog");
    compile(&source, &program, &["-O2"]);
    let checked = Checked::new(record(&program, &[], &scratch).trace);
    let blocks = list(&checked.live["processes"][0]["blocks"]).iter();
    let mut depths = blocks.map(|block| list(&block["stack"]).len());
    assert!(depths.any(|depth| depth > 2), "nothing was inlined");
    checked.functions();
    checked.orders();
    checked.depths();
}
