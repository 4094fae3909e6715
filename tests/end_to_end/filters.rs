//! Reports on a part of the blocks, and by something other than sites.

use heapwire_tests::run::{Run, command, json, list, number, prose};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{BASE, Record, Writer};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A block of 100 bytes in the first second, of 2000 in the second and of 30,000 in the third by another thread, none of them
/// released; one of 7 bytes that is handed out in the second second and released in the third.
fn trace(scratch: &Scratch) -> PathBuf {
    let mut writer = Writer::new();
    let at = |writer: &mut Writer, op: u8, ptr: u64, size: u64, time: u16, pc: u64| {
        writer.record(Record {
            op,
            time,
            ptr,
            size,
            pc,
            base: BASE,
            ..Record::default()
        });
    };
    at(&mut writer, 1, 0x1000, 100, 500, 0x40_1000);
    at(&mut writer, 1, 0x2000, 2000, 1500, 0x40_2000);
    at(&mut writer, 1, 0x3000, 7, 1600, 0x40_2000);
    writer.flush();
    writer.frame.tid = 4712;
    writer.module(0x70_0000, 0x1000, "/opt/lib/libother.so");
    at(&mut writer, 2, 0x3000, u64::MAX, 2500, 0x40_3000);
    writer.record(Record {
        op: 1,
        time: 2600,
        ptr: 0x4000,
        size: 30_000,
        pc: 0x70_0100,
        base: 0x70_0000,
        ..Record::default()
    });
    at(&mut writer, 2, 0x4010, u64::MAX, 2700, 0x40_3000);
    scratch.write("t.hwt", writer.end().bytes())
}

fn run(verb: &str, path: &Path, options: &str) -> Run {
    let words = options.split_whitespace();
    Run::of(command().arg(verb).arg(path).args(words))
}

fn report(path: &Path, options: &str) -> Value {
    json(&run("report", path, &format!("{options} --format json")))
}

fn leaks(path: &Path, options: &str) -> Vec<u64> {
    let report = report(path, options);
    let leaks = list(&report["processes"][0]["leaks"]).iter();
    leaks.map(|leak| number(&leak["bytes"])).collect()
}

#[test]
fn leaks_are_those_that_fit() {
    let scratch = Scratch::new("filters");
    let path = trace(&scratch);
    for (options, expected) in [
        ("", &[30_000, 2000, 100][..]),
        ("--from 1s", &[30_000, 2000]),
        ("--from 1s --to 2s", &[2000]),
        ("--to 1s", &[100]),
        ("--thread 4711", &[2000, 100]),
        ("--thread 4712", &[30_000]),
        ("--module libother", &[30_000]),
        ("--size ..2K", &[2000, 100]),
        ("--size 1..99", &[]),
        ("--function nobody", &[]),
        ("--sort age", &[100, 2000, 30_000]),
        ("--from 1s --to 2s --until 2s", &[2007]),
        ("--from 1s --to 2s --until 2.55s", &[2000]),
    ] {
        assert_eq!(leaks(&path, options), expected, "{options}");
    }
    let whole = report(&path, "");
    assert_eq!(whole["filter"], Value::Null);
    let part = report(&path, "--thread 4711 --size ..2K");
    assert_eq!(part["filter"][0], "thread 4711");
    assert_eq!(
        part["processes"][0]["totals"], whole["processes"][0]["totals"],
        "sums are of all"
    );
    assert_eq!(list(&whole["processes"][0]["errors"]).len(), 1);
    let errors = |options| list(&report(&path, options)["processes"][0]["errors"]).len();
    assert_eq!(errors("--thread 4712"), 1);
    assert_eq!(errors("--thread 4711"), 0);
    assert_eq!(errors("--to 2s"), 0);
}

/// What is said of a column that no filter changes.
const ALL_CALLS: &str = "calls are all of a call site, whether they fit the filter or not";

#[test]
fn a_filtered_report_says_so_and_never_that_there_are_no_leaks() {
    let scratch = Scratch::new("filtered");
    let path = trace(&scratch);
    for (width, options) in [("100", "--size 1..99"), ("60", "--thread 1")] {
        let options = format!("{options} --width {width}");
        let text = run("report", &path, &options).stdout;
        assert!(
            prose(&text).contains("FILTERED: only what fits is listed:"),
            "{text}"
        );
        assert!(!text.to_lowercase().contains("no leaks"), "{text}");
        assert!(!prose(&text).contains("was released"), "{text}");
        assert!(prose(&text).contains("of 3 live blocks"), "{text}");
    }
    let text = run("report", &path, "--from 1s --to 2s --until 2.55s").stdout;
    assert!(prose(&text).contains("UP TO"), "{text}");
    assert!(prose(&text).contains("NOT RELEASED BY THEN"), "{text}");
    assert!(prose(&text).contains(ALL_CALLS), "{text}");
    assert!(!prose(&text).contains("No end of"), "{text}");
    let whole = run("report", &path, "").stdout;
    assert!(!whole.contains("FILTERED"), "{whole}");
    assert!(!prose(&whole).contains(ALL_CALLS), "{whole}");
}

#[test]
fn what_is_live_at_a_moment_is_no_leak_yet() {
    let scratch = Scratch::new("then");
    let path = trace(&scratch);
    let text = run("report", &path, "--until 2.55s").stdout;
    assert!(
        text.contains("  live then       2.1 KiB   2 blocks"),
        "{text}"
    );
    assert!(!text.contains("leaked"), "{text}");
    let check = run("check", &path, "--until 2.55s");
    let said = prose(&check.stderr);
    assert!(said.contains("2 blocks not released by then"), "{said}");
    assert_eq!((check.status, said.contains("leaked")), (1, false));
}

#[test]
fn a_list_without_a_block_says_whether_none_is_live_or_none_fits() {
    let scratch = Scratch::new("none");
    let path = trace(&scratch);
    let none = run("blocks", &path, "--live --function nobody").stdout;
    assert!(
        prose(&none).contains("no live block fits the filter"),
        "{none}"
    );
    let early = run("blocks", &path, "--at 100ms").stdout;
    assert!(
        prose(&early).contains("no recorded block is live"),
        "{early}"
    );
}

#[test]
fn a_check_counts_what_fits() {
    let scratch = Scratch::new("check");
    let mut writer = Writer::new();
    let path = scratch.write("t.hwt", writer.malloc(0x1000, 48).end().bytes());
    assert_eq!(run("check", &path, "").status, 1);
    assert_eq!(run("check", &path, "--size 48").status, 1);
    assert_eq!(run("check", &path, "--size 49..").status, 0);
    assert_eq!(
        run("check", &trace(&scratch), "--from 1s --to 2s --until 2s").status,
        1
    );
}

#[test]
fn live_blocks_are_summed_by_what_is_asked_for() {
    let scratch = Scratch::new("by");
    let path = trace(&scratch);
    let groups = |options: &str| -> Vec<(String, u64, u64)> {
        let report = report(&path, options);
        let groups = list(&report["processes"][0]["groups"]).iter();
        groups
            .map(|group| {
                let name = group["name"].as_str().unwrap().to_owned();
                (name, number(&group["bytes"]), number(&group["blocks"]))
            })
            .collect()
    };
    let named = |name: &str, bytes, blocks| (name.to_owned(), bytes, blocks);
    assert_eq!(
        groups("--by thread"),
        [
            named("thread 4712", 30_000, 1),
            named("thread 4711", 2100, 2)
        ]
    );
    assert_eq!(
        groups("--by module"),
        [
            named("/opt/lib/libother.so", 30_000, 1),
            named("/bin/p", 2100, 2)
        ]
    );
    assert_eq!(
        groups("--by size --size ..2K"),
        [
            named("1024 to 2047 B", 2000, 1),
            named("64 to 127 B", 100, 1)
        ]
    );
    assert_eq!(groups("--by function").len(), 2);
    let text = run("report", &path, "--by module --top 1").stdout;
    assert!(prose(&text).contains("by module, 2 in all"), "{text}");
    assert!(text.contains("1 more  (--top 2)"), "{text}");
}

#[test]
fn usage_is_shown_where_it_is_asked_for() {
    let scratch = Scratch::new("usage");
    let path = trace(&scratch);
    let parts = ["SIZES", "LIFETIMES", "THREADS  2", "MODULES  2"];
    let text = run("report", &path, "--usage --width 80").stdout;
    for part in parts {
        assert!(text.contains(part), "{part} in {text}");
    }
    let row = |name: &str| {
        let lines = text.lines().filter(|line| line.ends_with(name));
        lines.flat_map(str::split_whitespace).collect::<Vec<_>>()
    };
    assert_eq!(row("thread 4711")[..4], ["3", "2.1", "KiB", "2"]);
    assert_eq!(row("libother.so")[..4], ["1", "29.3", "KiB", "1"]);
    let plain = run("report", &path, "").stdout;
    assert!(!plain.contains("LIFETIMES"), "{plain}");
}

#[test]
fn several_traces_have_sums() {
    let scratch = Scratch::new("sums");
    let path = trace(&scratch);
    let mut other = Writer::bare(0x0BAD_CAFE);
    other.process(4799, &["exe=/bin/q", "began=exec"]);
    other.malloc(0x1000, 900).end();
    let other = scratch.write("other.hwt", other.bytes());
    let text = Run::of(command().arg("report").arg(&path).arg(&other)).stdout;
    assert!(
        prose(&text).contains("4 blocks, in all processes"),
        "{text}"
    );
    assert!(
        prose(&text).contains("32.2 KiB in all, 2 releases"),
        "{text}"
    );
}

#[test]
fn a_difference_is_of_the_sites_that_fit() {
    let scratch = Scratch::new("diff");
    let new = trace(&scratch);
    let old = scratch.write("old.hwt", Writer::new().malloc(0x1000, 8).end().bytes());
    let compared = |options: &[&str]| {
        let run = Run::of(command().arg("diff").arg(&old).arg(&new).args(options));
        assert_eq!(run.status, 0, "{run:?}");
        run
    };
    let found = json(&compared(&["--module", "libother", "--format", "json"]));
    assert_eq!(number(&found["old"]["live_bytes"]), 0);
    assert_eq!(number(&found["new"]["live_bytes"]), 30_000);
    assert_eq!(list(&found["sites"]).len(), 1);
    let whole = json(&compared(&["--format", "json"]));
    assert_eq!(number(&whole["new"]["live_bytes"]), 32_100);
    let text = compared(&["--function", "nobody"]).stdout;
    assert!(
        prose(&text).contains("FILTERED: only what fits is compared: function nobody"),
        "{text}"
    );
    assert!(
        prose(&text).contains("no site that fits the filter changed"),
        "{text}"
    );
}

#[test]
fn a_timeline_can_be_cut_out() {
    let scratch = Scratch::new("timeline");
    let path = trace(&scratch);
    let text = run("timeline", &path, "--csv --step 1s --from 1s --to 2s").stdout;
    assert_eq!(
        text,
        "pid,time_ns,live_bytes,live_blocks,unsure\n4711,1000000000,2107,3,0\n"
    );
}

#[test]
fn a_timeline_is_of_the_blocks_that_fit() {
    let scratch = Scratch::new("timeline-of");
    let path = trace(&scratch);
    let steps = |options: &str| -> Vec<(u64, u64, u64)> {
        let text = run("timeline", &path, &format!("--csv --step 1s {options}")).stdout;
        let rows = text.lines().skip(1).map(|line| {
            let numbers: Vec<u64> = line.split(',').map(|it| it.parse().unwrap()).collect();
            (numbers[1] / 1_000_000_000, numbers[2], numbers[3])
        });
        rows.collect()
    };
    assert_eq!(steps(""), [(0, 100, 1), (1, 2107, 3), (2, 32_100, 3)]);
    assert_eq!(
        steps("--thread 4711"),
        [(0, 100, 1), (1, 2107, 3), (2, 2107, 3)]
    );
    assert_eq!(
        steps("--module libother"),
        [(0, 0, 0), (1, 0, 0), (2, 30_000, 1)]
    );
    assert_eq!(
        steps("--size 1..2000 --thread 4711 --thread 4712"),
        steps("--thread 4711")
    );
    assert_eq!(
        steps("--size 7 --from 1s"),
        [(1, 7, 1), (2, 7, 1)],
        "it lives into the third second"
    );
    assert_eq!(steps("--function nobody"), []);
    let piped = Run::with_input(
        command().args(["timeline", "--csv", "--step", "1s", "--thread", "4711", "-"]),
        std::fs::read(&path).unwrap(),
    );
    assert_eq!(
        piped.stdout.lines().nth(2),
        Some("4711,1000000000,2107,3,0")
    );
}

#[test]
fn a_difference_is_of_the_live_blocks_that_fit() {
    let scratch = Scratch::new("diff-live");
    let new = trace(&scratch);
    let old = scratch.write("old.hwt", Writer::new().malloc(0x1000, 8).end().bytes());
    let compared = |options: &[&str]| {
        let run = Run::of(command().arg("diff").arg(&old).arg(&new).args(options));
        assert_eq!(run.status, 0, "{run:?}");
        run.stdout
    };
    let sums = |options: &[&str]| {
        let found: Value =
            serde_json::from_str(&compared(&[&["--format", "json"], options].concat())).unwrap();
        assert_eq!(found["live_only"], true);
        for unknown in ["peak_bytes", "allocations", "temporary"] {
            assert_eq!(found["new"].get(unknown), None, "{found}");
        }
        (
            number(&found["old"]["live_bytes"]),
            number(&found["new"]["live_bytes"]),
            list(&found["sites"]).len(),
        )
    };
    assert_eq!(sums(&["--thread", "4712"]), (0, 30_000, 1));
    assert_eq!(sums(&["--thread", "4711"]), (8, 2100, 3));
    assert_eq!(sums(&["--size", "2000"]), (0, 2000, 1));
    assert_eq!(sums(&["--from", "1s", "--to", "2s"]), (0, 2000, 1));
    assert_eq!(sums(&["--to", "1s", "--module", "/bin/p"]), (8, 100, 2));
    let per = |options: &[&str]| {
        let options = [&["--format", "json", "--per", "allocations"], options].concat();
        let found: Value = serde_json::from_str(&compared(&options)).unwrap();
        assert_eq!(found["per"], "million allocations");
        number(&found["new"]["live_bytes"])
    };
    assert_eq!(
        per(&["--size", "2000"]),
        500_000_000,
        "of four allocations in all"
    );
    let text = compared(&["--size", "2000", "--per", "seconds"]);
    assert!(prose(&text).starts_with("CHANGE per second"), "{text}");
    let text = compared(&["--size", "2000"]);
    assert!(!text.contains("temporary"), "{text}");
    assert!(prose(&text).contains("live at end 0 B → 2.0 KiB"), "{text}");
}

/// Three cycles, of which the first warms up and each leaves one block behind; another block lives from one to the next.
fn marked(scratch: &Scratch) -> PathBuf {
    let mut writer = Writer::new();
    writer.malloc(0x1000, 1000);
    for cycle in 1..=3u64 {
        writer.declare(0xF0, [cycle, 0, 0x40_1136], b"request");
        writer.malloc(0x2000 * cycle, 10 * cycle);
        if cycle > 1 {
            writer.free(0x5000);
        }
        writer.malloc(0x5000, 7);
    }
    writer.free(0x5000);
    writer.declare(0xF0, [9, 0, 0x40_1136], b"");
    scratch.write("marked.hwt", writer.end().bytes())
}

#[test]
fn each_cycle_between_marks_has_what_it_left_behind() {
    let scratch = Scratch::new("marks");
    let path = marked(&scratch);
    for option in ["--per-mark", "--by mark"] {
        let report = report(&path, option);
        let groups = list(&report["processes"][0]["groups"]).iter();
        let groups: Vec<_> = groups
            .map(|group| {
                let name = group["name"].as_str().unwrap();
                (name, number(&group["bytes"]), number(&group["blocks"]))
            })
            .collect();
        assert_eq!(
            groups,
            [
                ("before the first mark", 1000, 1),
                ("mark 1 request, at 0.000 s", 10, 1),
                ("mark 2 request, at 0.000 s", 20, 1),
                ("mark 3 request, at 0.000 s", 30, 1),
                ("mark 9, at 0.000 s", 0, 0),
            ],
            "{option}"
        );
    }
    let text = run("report", &path, "--per-mark").stdout;
    assert!(prose(&text).contains("by mark, 5 in all"), "{text}");
    let without = report(&trace(&scratch), "--per-mark");
    let groups = &without["processes"][0]["groups"];
    assert_eq!(groups[0]["name"], "no mark in the trace");
    assert_eq!(number(&groups[0]["blocks"]), 3);
    assert_eq!(run("report", &path, "--per-mark --by size").status, 2);
}

#[test]
fn blocks_say_at_which_moment_they_are_live_and_what_can_be_asked() {
    let scratch = Scratch::new("moments");
    let path = trace(&scratch);
    let heading = |options: &str| prose(&run("blocks", &path, options).stdout);
    assert!(heading("--live").contains("3 blocks never released, 31.3 KiB"));
    assert!(heading("--at end").contains("3 blocks never released"));
    assert!(heading("--at peak").contains("3 blocks live at the peak, 31.3 KiB"));
    assert!(heading("--at 2s").contains("3 blocks live at 2.000 s, 2.1 KiB"));
    let refused = run("blocks", &path, "");
    assert_eq!(refused.status, 2);
    for option in ["--live", "--at <WHEN>", "--until <TIME>", "--ptr <ADDRESS>"] {
        assert!(refused.stderr.contains(option), "{}", refused.stderr);
    }
    assert_eq!(run("blocks", &path, "--live --at peak").status, 2);
}

#[test]
fn a_difference_lists_errors() {
    let scratch = Scratch::new("diff-errors");
    let new = trace(&scratch);
    let old = scratch.write("old.hwt", Writer::new().malloc(0x1000, 8).end().bytes());
    let compared = |old: &Path, new: &Path| {
        let run = Run::of(command().arg("diff").arg(old).arg(new));
        assert_eq!(run.status, 0, "{run:?}");
        run.stdout
    };
    let text = compared(&old, &new);
    assert!(prose(&text).contains("ERRORS old, new, kind"), "{text}");
    assert!(prose(&text).contains("0 1 invalid free"), "{text}");
    assert!(prose(&compared(&new, &old)).contains("1 0 invalid free"));
    assert!(!compared(&new, &new).contains("ERRORS"));
}

#[test]
fn records_without_a_size_say_so() {
    let scratch = Scratch::new("dump");
    let text = run("dump", &trace(&scratch), "").stdout;
    assert!(text.contains("op=released"), "{text}");
    assert!(!text.contains("18446744073709551615"), "{text}");
    let releases = text.lines().filter(|line| line.contains("op=released"));
    assert!(
        releases
            .into_iter()
            .all(|line| line.contains("size=unknown")),
        "{text}"
    );
}

#[test]
fn times_between_which_there_is_nothing_are_refused() {
    let scratch = Scratch::new("contradiction");
    let path = trace(&scratch);
    for (verb, options) in [
        ("report", "--from 3s --to 1s"),
        ("report", "--from 1s --to 1s"),
        ("report", "--from 3s --until 2s"),
        ("check", "--from 3s --to 1s"),
        ("blocks", "--live --from 3s --to 1s"),
        ("blocks", "--at 1s --from 2s"),
        ("blocks", "--until 1s --from 2s"),
        ("timeline", "--from 3s --to 1s"),
        ("report", "--size 9..3"),
    ] {
        let refused = run(verb, &path, options);
        assert_eq!(
            (refused.status, refused.stdout.as_str()),
            (2, ""),
            "{verb} {options}"
        );
        assert!(refused.stderr.starts_with("error: "), "{refused:?}");
    }
    let alone = Run::of(command().arg(&path).args(["--from", "3s", "--to", "1s"]));
    assert_eq!(alone.status, 2, "a file alone: {alone:?}");
    assert_eq!(
        run("report", &path, "--from 1s --to 2s --until 2s").status,
        0
    );
}

#[test]
fn no_verb_writes_lines_that_are_wider_than_asked_for() {
    let scratch = Scratch::new("wide");
    let mut writer = Writer::new();
    let module = format!("/opt/{}/plug.so", "long-name/".repeat(4));
    writer.module(0x70_0000, 0x1000, &module);
    for (ptr, time) in [(0x1000, 0), (0x7fff_1234_5678, 400), (0x2000, 65_000)] {
        writer.record(Record {
            op: 1,
            ptr,
            size: 123_456_789,
            time,
            pc: 0x70_0100,
            base: 0x70_0000,
            ..Record::default()
        });
    }
    let path = scratch.write("wide.hwt", writer.free(0x1000).free(0x1000).end().bytes());
    for width in ["60", "80", "100"] {
        for (verb, options) in [
            ("report", "--usage"),
            ("report", "--by module"),
            ("report", "--until 1s"),
            ("check", "--size 1.."),
            ("blocks", "--live"),
            ("blocks", "--at 1s"),
            ("blocks", "--ptr 0x7fff12345678"),
            ("timeline", "--step 10s"),
            ("info", ""),
            ("verify", ""),
            ("symbols", ""),
        ] {
            let run = run(verb, &path, &format!("{options} --width {width}"));
            assert!([0, 1].contains(&run.status), "{run:?}");
            let most: usize = width.parse().unwrap();
            let long = run.stdout.lines().find(|line| line.chars().count() > most);
            assert_eq!(long, None, "{verb} {options} in {width}");
        }
    }
}
