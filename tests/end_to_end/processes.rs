//! Several process images in one trace.

use heapwire_tests::run::{json as read, list, live_blocks, number, on, prose, record, report};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{BASE, PC, Record, Writer};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Stream tag of the made-up children.
const CHILD: u32 = 0x0BAD_CAFE;

fn both(bytes: &[u8]) -> (Value, Value) {
    let scratch = Scratch::new("processes");
    let path = scratch.write("t.hwt", bytes);
    (report(&path), live_blocks(&path))
}

/// A parent that forks, and the number its child goes on with.
fn parent() -> (Writer, u64) {
    let mut writer = Writer::new();
    writer.malloc(0x1000, 80).malloc(0x2000, 81);
    let point = writer.next;
    (writer, point)
}

fn child(point: u64) -> Writer {
    let mut writer = Writer::bare(CHILD);
    writer.next = point;
    let fork = format!("fork={point}");
    let keys = [
        "exe=/bin/p",
        "arg=p",
        "ppid=4711",
        "parent=c0ffee11",
        &fork,
        "began=fork",
    ];
    writer
        .process(4712, &keys)
        .module(BASE, 0x10_0000, "/bin/p");
    writer
}

/// One image becomes another after a second, which goes on for three, longer than another process.
fn successors() -> Vec<u8> {
    let at = |op, ptr, time| Record {
        op,
        flags: if op < 0x70 { 1 << 5 } else { 0 }, // the clock was read
        ptr,
        time,
        size: 40,
        pc: PC,
        base: if op < 0x70 { BASE } else { 0 },
        ..Record::default()
    };
    let mut before = Writer::new();
    before.record(at(1, 0x1000, 500)).record(at(0x76, 0, 1000));
    let mut after = Writer::bare(0x0000_00AA);
    after.process(4711, &["exe=/bin/q", "began=exec"]);
    after.record(at(1, 0x2000, 1500)).record(at(0x77, 0, 4000));
    let mut other = Writer::bare(0x0000_00BB);
    other.process(4712, &["exe=/bin/r", "began=exec"]);
    other.record(at(1, 0x3000, 200)).record(at(0x77, 0, 2000));
    [before.bytes(), after.bytes(), other.bytes()].concat()
}

#[test]
fn what_has_ended_before_a_moment_holds_no_block_then() {
    let scratch = Scratch::new("ended");
    let path = scratch.write("t.hwt", successors());
    let live = |arguments: &[&str]| {
        let found = read(&on(
            &[&["blocks", "--format", "json"], arguments].concat(),
            &path,
        ));
        let of = list(&found["processes"]).iter().map(|of| {
            let blocks = list(&of["blocks"]).iter();
            let addresses: Vec<_> = blocks
                .map(|it| it["address"].as_str().unwrap().to_owned())
                .collect();
            (addresses.join(" "), of["ended"] == true)
        });
        of.collect::<Vec<_>>()
    };
    let of = |expected: [(&str, bool); 3]| expected.map(|(at, ended)| (at.to_owned(), ended));
    let (first, second, third) = ("0x1000", "0x2000", "0x3000");
    assert_eq!(
        live(&["--at", "900ms"]),
        of([(first, false), ("", false), (third, false)])
    );
    assert_eq!(
        live(&["--at", "1600ms"]),
        of([("", true), (second, false), (third, false)])
    );
    assert_eq!(
        live(&["--at", "3s"]),
        of([("", true), (second, false), ("", true)])
    );
    // What a cycle left behind is not taken back by an end.
    let cycle = ["--from", "0s", "--to", "1s", "--until", "3s"];
    assert_eq!(
        live(&cycle),
        of([(first, false), ("", false), (third, false)])
    );
    let early = on(&["blocks", "--at", "100ms"], &path);
    assert_eq!(early.status, 3);
    assert!(early.stderr.contains("up to that moment"), "{early:?}");
    let text = prose(&on(&["blocks", "--at", "3s"], &path).stdout);
    assert!(text.contains("2 programs had ended by then"), "{text}");
}

/// A parent that holds 164 bytes, and a child with a double free that holds more.
fn parent_and_child() -> Vec<u8> {
    let (mut parent, point) = parent();
    let mut child = child(point);
    parent.malloc(0x7000, 3).end();
    child.malloc(0x3000, 820).malloc(0x4000, 7);
    child.free(0x4000).free(0x4000).end();
    [parent.bytes(), child.bytes()].concat()
}

#[test]
fn a_report_begins_with_a_row_for_each_process() {
    let scratch = Scratch::new("table");
    let path = scratch.write("t.hwt", parent_and_child());
    let text = on(&["report"], &path).stdout;
    let table = text.split_once("PROCESSES  2").unwrap().1;
    let rows: Vec<String> = table.lines().skip(1).take(3).map(prose).collect();
    assert_eq!(
        rows,
        [
            "pid parent errors live at end blocks end program",
            "4712 4711 1 820 B 1 exited p",
            "4711 1 0 164 B 3 exited p",
        ],
        "{text}"
    );
    assert!(table.find("4712").unwrap() < table.find("PROCESS  p").unwrap());
    let cut = prose(&on(&["report", "--top", "1"], &path).stdout);
    assert!(
        cut.contains("… 1 more (--top 2, or --pid PID for one)"),
        "{cut}"
    );
    let rest = "… 1 more process (--top 2, or --pid PID for one)";
    assert!(
        cut.contains("PROCESS p · pid 4712") && cut.contains(rest),
        "{cut}"
    );
    assert!(!cut.contains("PROCESS p · pid 4711"), "{cut}");
    let fitting = prose(&on(&["report", "--size", "..100"], &path).stdout);
    assert!(fitting.contains("4711 1 0 164 B 3"), "{fitting}");
    assert!(fitting.contains("4712 4711 1 0 B 0"), "{fitting}");
    let sums = "live, fitting 164 B 3 of 4 live blocks, in all processes";
    assert!(fitting.contains(sums), "{fitting}");
    let none = prose(&on(&["report", "--thread", "99"], &path).stdout);
    assert!(
        none.contains("pid 4711 p exited, 0 of 3 live blocks fit"),
        "{none}"
    );
}

#[test]
fn peaks_that_are_added_up_are_said_to_be() {
    const SAID: &str = "peaks of processes are added up";
    let scratch = Scratch::new("peaks");
    let path = scratch.write("t.hwt", parent_and_child());
    let one = scratch.write("one.hwt", parent().0.end().bytes());
    let compared = |new: &Path, options: &[&str]| {
        let mut words = vec!["diff", one.to_str().unwrap()];
        words.extend(options);
        prose(&on(&words, new).stdout)
    };
    assert!(compared(&path, &[]).contains(SAID));
    assert!(!compared(&path, &["--per", "allocations"]).contains(SAID));
    assert!(!compared(&one, &[]).contains(SAID));
}

#[test]
fn programs_of_one_process_are_told_from_processes() {
    let scratch = Scratch::new("images");
    let path = scratch.write("t.hwt", successors());
    let text = |verb| prose(&on(&[verb], &path).stdout);
    let report = text("report");
    assert!(
        report.contains("t.hwt 2 processes with 3 programs ·"),
        "{report}"
    );
    assert!(
        report.contains("PROCESSES 2 with 3 programs, most"),
        "{report}"
    );
    assert!(
        report.contains("NO FINDINGS in 1 program pid 4711"),
        "{report}"
    );
    let live = prose(&on(&["blocks", "--live"], &path).stdout);
    assert!(
        live.contains("pid 4711 1 block live when exec replaced it, 40 B · p"),
        "{live}"
    );
    let info = text("info");
    assert!(info.contains("PROCESSES 2 with 3 programs pid"), "{info}");
    let found = read(&on(&["report", "--format", "json"], &path));
    assert_eq!(list(&found["processes"]).len(), 3);
}

#[test]
fn a_list_of_blocks_tells_the_parents_from_those_that_a_report_counts() {
    let scratch = Scratch::new("whose");
    let path = scratch.write("t.hwt", parent_and_child());
    let child = &report(&path)["processes"][1]["totals"];
    let counted = [
        "live_blocks",
        "live_bytes",
        "inherited_blocks",
        "inherited_bytes",
    ];
    assert_eq!(counted.map(|key| number(&child[key])), [1, 820, 2, 161]);
    for (option, state) in [
        ("--live", "never released"),
        ("--at=end", "never released"),
        ("--until=2s", "live at 2.000 s"),
    ] {
        let text = on(&["blocks", option], &path).stdout;
        let headings: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("pid"))
            .collect();
        let parent = format!("pid 4711  3 blocks {state}, 164 B · p");
        let child = format!("pid 4712  3 blocks {state}, 981 B; 2 of them its parent's, 161 B · p");
        assert_eq!(headings, [parent, child], "{text}");
    }
    let own = on(&["blocks", "--live", "--size", "820"], &path).stdout;
    assert!(
        own.contains("pid 4712  1 block never released, 820 B · p\n"),
        "{own}"
    );
}

#[test]
fn rows_of_a_timeline_name_the_programs_of_several_processes() {
    let scratch = Scratch::new("programs");
    let path = scratch.write("t.hwt", successors());
    let timeline = |options: &[&str]| {
        let words = ["timeline", "--step", "1s", "--width", "60"];
        let text = on(&[&words, options].concat(), &path).stdout;
        let rows = text.lines().map(|row| prose(row).replace("~ ", " "));
        rows.collect::<Vec<_>>()
    };
    let rows = timeline(&["--from", "1s", "--to", "2s"]);
    assert_eq!(rows[0], "time s live bytes live blocks pid program");
    let ends = rows
        .iter()
        .skip(1)
        .map(|row| row.split_once(' ').unwrap().1);
    assert_eq!(
        ends.collect::<Vec<_>>(),
        ["40 1 4711 p", "40 1 4711 /bin/q", "40 1 4712 /bin/r"]
    );
    let alone = timeline(&["--pid", "4712"]);
    assert_eq!(alone[0], "time s live bytes live blocks pid");
    assert!(
        alone.iter().skip(1).all(|row| row.ends_with(" 4712")),
        "{alone:?}"
    );
}

/// Of what a shell starts, heapwire does not learn how it ended unless it says so itself.
#[test]
fn of_an_end_that_is_missing_it_is_said_what_it_may_have_been() {
    let scratch = Scratch::new("no-end");
    let killed = ["-c", "sh -c 'kill -ABRT $$'; true"].map(PathBuf::from);
    let trace = record(Path::new("/bin/bash"), &killed, &scratch).trace;
    let text = prose(&on(&["report"], &trace).stdout);
    assert!(
        text.contains("a signal ended it, of which only who waited for it was told"),
        "{text}"
    );
    assert!(text.contains("end not seen sh -c kill"), "{text}");
    assert!(text.contains("exited 0 /bin/bash"), "{text}");
    // Without lanes the end may have been written, and be gone.
    let path = scratch.write("t.hwt", Writer::new().malloc(0x1000, 8).bytes());
    let text = prose(&on(&["report"], &path).stdout);
    assert!(
        text.contains("or the rest of the trace is missing"),
        "{text}"
    );
}

#[test]
fn of_several_processes_those_can_be_asked_for() {
    let scratch = Scratch::new("pid");
    let path = scratch.write("t.hwt", parent_and_child());
    let pids = |words: &[&str]| {
        let found = read(&on(&[words, &["--format", "json"]].concat(), &path));
        let processes = list(&found["processes"]).iter();
        processes.map(|of| number(&of["pid"])).collect::<Vec<_>>()
    };
    for verb in [&["report"][..], &["blocks", "--live"]] {
        let with = |asked: &[&str]| pids(&[verb, asked].concat());
        assert_eq!(with(&[]), [4711, 4712]);
        assert_eq!(with(&["--pid", "4712"]), [4712]);
        assert_eq!(with(&["--pid", "4712", "--pid", "4711"]), [4711, 4712]);
    }
    let alone = read(&on(&["report", "--pid", "4711", "--format", "json"], &path));
    assert_eq!(alone["totals"]["live_bytes"], 164);
    assert_eq!(alone["pids"], json!([4711]));
    let warnings = list(&alone["warnings"]).iter();
    let kinds: Vec<_> = warnings.map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["module-missing-symbols"], "no other is missed");
    let text = on(&["report", "--pid", "4711"], &path).stdout;
    assert!(
        text.contains("ONLY PROCESS 4711") && text.contains("164 B"),
        "{text}"
    );
    assert!(!text.contains("4712") && !text.contains("ERROR"), "{text}");
    let rows = on(&["timeline", "--csv", "--pid", "4712"], &path).stdout;
    assert!(
        rows.lines().skip(1).all(|row| row.starts_with("4712,")),
        "{rows}"
    );
    let history = ["blocks", "--ptr", "0x3000", "--format", "json", "--pid"];
    let events = |pid| list(&read(&on(&[&history[..], &[pid]].concat(), &path))["events"]).len();
    assert_eq!((events("4711"), events("4712")), (0, 1));
    for words in [
        &["report"][..],
        &["check"],
        &["blocks", "--live"],
        &["blocks", "--ptr", "1"],
        &["timeline"],
    ] {
        let run = on(&[words, &["--pid", "9"]].concat(), &path);
        assert_eq!((run.status, run.stdout.as_str()), (3, ""), "{words:?}");
        assert_eq!(run.stderr, "heapwire: no process 9 is in the trace\n");
    }
}

#[test]
fn a_child_inherits_what_was_live_at_the_fork_point() {
    let (mut parent, point) = parent();
    let mut child = child(point);
    parent.record(Record {
        op: 0x75,
        ptr: 4712,
        pc: PC,
        base: BASE,
        ..Record::default()
    });
    parent.free(0x1000).malloc(0x5000, 83).free(0x2000).end();
    child.free(0x1000).malloc(0x3000, 82).end();
    for bytes in [
        [parent.bytes(), child.bytes()].concat(),
        [child.bytes(), parent.bytes()].concat(),
    ] {
        let (report, blocks) = both(&bytes);
        assert_eq!(report["trace"]["complete"], true, "{report:#}");
        let process = |pid: u64| {
            let find = |value: &Value| {
                let processes = value["processes"].as_array().unwrap();
                processes
                    .iter()
                    .find(|process| process["pid"] == pid)
                    .unwrap()
                    .clone()
            };
            (find(&report), find(&blocks))
        };
        let (of_parent, _) = process(4711);
        assert_eq!(of_parent["totals"]["live_bytes"], 83);
        assert_eq!(of_parent["errors"], json!([]));
        let (of_child, its_blocks) = process(4712);
        assert_eq!(
            of_child["errors"],
            json!([]),
            "it released what it inherited"
        );
        assert_eq!(of_child["parent_pid"], 4711);
        let expected = json!({"live_blocks": 1, "live_bytes": 82, "inherited_blocks": 1, "inherited_bytes": 81,
            "allocations": 1, "releases": 1, "earlier_releases": 0});
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&of_child["totals"][name], value, "{name}");
        }
        let listed: Vec<_> = its_blocks["blocks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| (block["size"].as_u64().unwrap(), block["inherited"] == true))
            .collect();
        assert_eq!(listed, [(81, true), (82, false)], "in order of number");
    }
}

#[test]
fn a_child_releases_an_inherited_block_once() {
    let (mut parent, point) = parent();
    let mut child = child(point);
    child.free(0x1000).free(0x1000).free(0x2008).end();
    let bytes = [parent.end().bytes(), child.bytes()].concat();
    let (report, _) = both(&bytes);
    let errors = report["processes"][1]["errors"].as_array().unwrap();
    let kinds: Vec<_> = errors
        .iter()
        .map(|error| error["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["double-free", "invalid-free"]);
}

#[test]
fn an_inherited_block_that_a_realloc_left_is_listed_once() {
    let (mut parent, point) = parent();
    let mut child = child(point);
    child.heap(3, 0, 0x1000, 999).heap(5, 0, 0x1000, 999).end();
    let (report, blocks) = both(&[parent.end().bytes(), child.bytes()].concat());
    assert_eq!(report["processes"][1]["totals"]["inherited_blocks"], 2);
    let listed = blocks["processes"][1]["blocks"].as_array().unwrap();
    let addresses: Vec<_> = listed.iter().map(|block| &block["address"]).collect();
    assert_eq!(addresses, ["0x1000", "0x2000"]);
}

#[test]
fn without_its_parent_a_childs_unknown_blocks_are_earlier_ones() {
    let mut child = child(100);
    child.free(0x1000).malloc(0x3000, 82).end();
    let (report, _) = both(&child.bytes());
    let process = &report["processes"][0];
    assert_eq!(process["errors"], json!([]));
    assert_eq!(process["totals"]["earlier_releases"], 1);
    let warnings = report["warnings"].as_array().unwrap();
    assert!(
        warnings
            .iter()
            .any(|warning| warning["kind"] == "parent-missing"),
        "{report:#}"
    );
    assert_eq!(
        report["trace"]["lost_records"], 0,
        "numbers below the fork point are the parent's"
    );
}

#[test]
fn exec_counts_only_where_nothing_follows() {
    let mut writer = Writer::new();
    writer
        .malloc(0x1000, 1)
        .declare(0x76, [0, 0, PC], b"/bin/other");
    let (report, _) = both(&writer.bytes());
    assert_eq!(report["processes"][0]["end"], "exec");
    assert_eq!(report["trace"]["complete"], true, "{report:#}");
    writer.malloc(0x2000, 2).end();
    let (report, _) = both(&writer.bytes());
    assert_eq!(report["processes"][0]["end"], "normal");
    let mut failed = Writer::new();
    failed
        .declare(0x76, [0, 0, PC], b"/bin/other")
        .malloc(0x2000, 2);
    let (report, _) = both(&failed.bytes());
    assert_eq!(report["processes"][0]["end"], "cut");
}

#[test]
fn an_observer_tells_how_a_process_ended() {
    let observed = |status: u64| {
        let mut observer = Writer::bare(0);
        observer.record(Record {
            op: 0xF8,
            ptr: 4711,
            size: status,
            ..Record::default()
        });
        [Writer::new().malloc(0x1000, 1).bytes(), observer.bytes()].concat()
    };
    let (report, _) = both(&observed(9)); // waitpid: killed by SIGKILL
    let process = &report["processes"][0];
    assert_eq!(
        (&process["end"], &process["signal"]),
        (&"signal".into(), &9.into()),
        "{report:#}"
    );
    assert_eq!(
        report["trace"]["complete"], false,
        "what was in memory then is not there: {report:#}"
    );
    assert_eq!(
        report["processes"].as_array().unwrap().len(),
        1,
        "an observer is no process"
    );
    let (report, _) = both(&observed(3 << 8)); // waitpid: exit status 3, and no end record
    assert_ne!(report["processes"][0]["end"], "signal");
}
