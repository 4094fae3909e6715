//! What is in a trace, whether it is whole, and what can be saved of one that is not.

use heapwire_tests::build::{Sample, heapwire};
use heapwire_tests::run::{Run, command, json, list, number, on, prose, record};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{Record, Writer};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MAGIC: &[u8] = b"\x89HWT\r\n\xFF\x1A";

/// A trace of five frames, the last of which has the end.
fn made(sum_kind: u8) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.frame.sum_kind = sum_kind;
    writer.flush();
    for block in 1..4 {
        let address = block * 0x1000;
        writer.malloc(address, 64).free(address);
        writer.malloc(address + 0x800, 10 * block).flush();
    }
    writer.end().bytes()
}

fn frames(bytes: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(MAGIC.len()).enumerate();
    windows
        .filter(|(_, window)| *window == MAGIC)
        .map(|(at, _)| at)
        .collect()
}

fn verified(path: &Path) -> (i32, Value) {
    let run = on(&["verify", "--format", "json"], path);
    (run.status, serde_json::from_str(&run.stdout).unwrap())
}

fn kinds(defects: &Value) -> Vec<&str> {
    let defects = list(defects).iter();
    defects
        .map(|defect| defect["kind"].as_str().unwrap())
        .collect()
}

fn counts(defects: &Value) -> Vec<(&str, u64)> {
    let counts = list(defects).iter().map(|it| number(&it["count"]));
    kinds(defects).into_iter().zip(counts).collect()
}

fn repaired(trace: &Path, scratch: &Scratch) -> PathBuf {
    let out = scratch.join("repaired.hwt");
    let before = fs::read(trace).unwrap();
    let run = Run::of(command().arg("repair").arg(trace).arg("-o").arg(&out));
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{run:?}");
    assert_eq!(fs::read(trace).unwrap(), before, "the input stays as it is");
    out
}

/// A report but for what says which bytes it was made of.
fn report(trace: &Path) -> Value {
    let mut report = json(&on(&["report", "--format", "json"], trace));
    let found = report["processes"].take();
    assert!(!list(&found).is_empty());
    found
}

#[test]
fn a_whole_trace_is_whole() {
    let scratch = Scratch::new("whole");
    let path = scratch.write("t.hwt", made(1));
    let run = on(&["verify"], &path);
    assert_eq!(run.status, 0, "{run:?}");
    assert!(run.stdout.starts_with("WHOLE"), "{run:?}");
    let out = repaired(&path, &scratch);
    assert_eq!(fs::read(out).unwrap(), made(1), "nothing was to repair");
}

/// A kind of damage, a trace that has it, and where.
fn damaged(whole: &[u8], at: &[usize]) -> [(&'static str, Vec<u8>, usize); 6] {
    let changed = |from: &[u8], place: usize, by: u8| {
        let mut bytes = from.to_vec();
        bytes[place] ^= by;
        bytes
    };
    let bare = made(0);
    let translated: Vec<u8> = whole
        .iter()
        .flat_map(|byte| [b'\r', *byte].into_iter().skip(usize::from(*byte != b'\n')))
        .collect();
    let cut = whole[..at[4] + 90].to_vec();
    [
        ("wrong-sums", changed(whole, at[2] + 90, 1), at[2]),
        ("damaged-frames", changed(whole, at[2] + 20, 1), at[2]),
        (
            "impossible-records",
            changed(&bare, at[2] + 80, 0x40),
            at[2],
        ),
        ("damaged-frames", cut.clone(), at[4]),
        ("ends-inside-frame", cut, at[4]),
        ("translated", translated, 0),
    ]
}

#[test]
fn each_kind_of_damage_is_named_with_its_place_and_repaired() {
    let scratch = Scratch::new("damaged");
    let whole = made(1);
    let at = frames(&whole);
    for (kind, bytes, place) in damaged(&whole, &at) {
        let path = scratch.write("t.hwt", bytes);
        let (status, found) = verified(&path);
        assert_eq!((status, &found["state"]), (1, &"damaged".into()), "{kind}");
        let mut damage = list(&found["damage"]).iter();
        let defect = damage.find(|it| it["kind"] == kind);
        let defect = defect.unwrap_or_else(|| panic!("{kind} in {found:#}"));
        assert_eq!(defect["count"], 1, "{kind}: {found:#}");
        assert_eq!(defect["first"], place, "{kind}");
        let text = on(&["verify"], &path).stdout;
        assert!(text.starts_with("DAMAGED"), "{text}");
        let line = format!("{kind}: 1, ");
        assert!(text.contains(&line), "{text}");

        let out = repaired(&path, &scratch);
        let (status, after) = verified(&out);
        assert!(kinds(&after["damage"]).is_empty(), "{kind}: {after:#}");
        let mut missing = counts(&after["missing"]);
        let is_nameless = kind == "damaged-frames" && place == at[2];
        let is_last = place == at[4]; // so it is not known how many records it held
        let left_out = missing.iter().position(|(kind, _)| *kind == "left-out");
        assert_eq!(
            left_out.is_some(),
            is_nameless || is_last,
            "{kind}: {after:#}"
        );
        left_out.map(|at| missing.remove(at));
        assert_eq!(
            missing,
            counts(&found["missing"]),
            "what is missing stays missing: {kind}"
        );
        let expected = if kinds(&after["missing"]).is_empty() {
            0
        } else {
            4
        };
        assert_eq!(status, expected, "{kind}: {after:#}");
        assert_eq!(report(&out), report(&path), "{kind}");
    }
}

#[test]
fn a_process_of_which_nothing_can_be_saved_is_not_forgotten() {
    let scratch = Scratch::new("lost-process");
    let mut parent = Writer::new();
    let parent = parent.malloc(0x1000, 8).free(0x1000).end().bytes();
    let mut other = Writer::bare(0x0BAD_CAFE);
    other.process(4712, &["exe=/bin/q", "began=exec"]);
    let other = other.malloc(0x1000, 8).end().bytes();
    let mut damaged = [&parent[..], &other].concat();
    damaged[parent.len() + 22] ^= 1; // the header no longer says whose frame it is
    for bytes in [&damaged[..], &damaged[..parent.len() + 60]] {
        let path = scratch.write("t.hwt", bytes);
        assert_eq!(verified(&path).0, 1);
        let out = repaired(&path, &scratch);
        let (status, after) = verified(&out);
        assert_eq!(
            (status, kinds(&after["missing"])),
            (4, vec!["left-out"]),
            "{after:#}"
        );
        assert_eq!(report(&out), report(&path));
        let report = json(&on(&["report", "--format", "json"], &out));
        assert_eq!(report["trace"]["complete"], false);
        // Nor by another repair.
        let again = scratch.write("again.hwt", fs::read(&out).unwrap());
        assert_eq!(
            verified(&repaired(&again, &scratch)).1["missing"],
            after["missing"]
        );
    }
}

#[test]
fn other_output_between_frames_is_no_damage() {
    let scratch = Scratch::new("foreign");
    let whole = made(1);
    let at = frames(&whole);
    let text = [&whole[..at[2]], b"printed\n", &whole[at[2]..]].concat();
    let path = scratch.write("t.hwt", text);
    let (status, found) = verified(&path);
    assert_eq!(status, 0, "{found:#}");
    assert_eq!(found["remarks"][0]["kind"], "foreign-bytes");
    assert_eq!(number(&found["remarks"][0]["first"]), at[2] as u64);
    assert_eq!(fs::read(repaired(&path, &scratch)).unwrap(), whole);
}

#[test]
fn what_is_missing_in_a_sound_trace_is_told_from_damage() {
    let scratch = Scratch::new("missing");
    let mut writer = Writer::new();
    writer.malloc(0x1000, 8).lose(3).free(0x1000);
    let path = scratch.write("t.hwt", writer.bytes());
    let run = on(&["verify"], &path);
    assert_eq!(run.status, 4, "{run:?}");
    assert!(run.stdout.starts_with("INCOMPLETE"), "{run:?}");
    assert!(prose(&run.stdout).contains("3 records"), "{run:?}");
    let (_, found) = verified(&path);
    assert_eq!(kinds(&found["missing"]), ["lost-on-the-way", "cut"]);
    let nothing = scratch.write("n.hwt", Writer::new().end().bytes());
    assert_eq!(on(&["verify"], &nothing).status, 3);
    assert_eq!(on(&["info"], &nothing).status, 3);
}

#[test]
fn what_lanes_hold_is_saved_as_well() {
    let scratch = Scratch::new("lanes");
    let sample = Sample::build("c/killed.c", &scratch);
    let trace = record(&sample.program, &sample.arguments, &scratch).trace;
    let bytes = fs::read(&trace).unwrap();
    let table = bytes
        .windows(8)
        .position(|it| it == b"HWLANES\x01")
        .unwrap();
    // The first record of the first lane gets an op that nobody writes.
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let slots = table + word(table + 64 + 8);
    let first = (0..word(table + 64 + 12)).map(|slot| slots + 40 * slot);
    let first = first.into_iter().find(|slot| bytes[*slot] != 0).unwrap();
    let mut damaged = bytes.clone();
    damaged[first] = 0x7E;
    let mut holed = bytes.clone(); // of the first lane one word is left, that nobody writes
    holed[slots..slots + 40 * word(table + 64 + 12)].fill(0);
    holed[first] = 0x7E;
    for (bytes, status) in [(&bytes, 0), (&damaged, 1), (&holed, 1)] {
        let path = scratch.write("t.hwt", bytes);
        let (found_status, found) = verified(&path);
        assert_eq!(found_status, status, "{found:#}");
        let out = repaired(&path, &scratch);
        assert_eq!(report(&out), report(&path));
        let (_, after) = verified(&out);
        assert!(kinds(&after["damage"]).is_empty(), "{after:#}");
        let mut missing = counts(&after["missing"]);
        missing.retain(|(kind, _)| *kind != "left-out");
        assert_eq!(missing, counts(&found["missing"]));
        // What the damage took may have been the last that a killed program did.
        assert_eq!(kinds(&after["missing"]).contains(&"left-out"), status != 0);
    }
}

/// The frames of `bytes`.
fn split(bytes: &[u8]) -> Vec<&[u8]> {
    let mut ends = frames(bytes);
    ends.push(bytes.len());
    ends.windows(2).map(|at| &bytes[at[0]..at[1]]).collect()
}

#[test]
fn what_a_killed_program_recorded_last_is_not_there_without_all_of_its_frames() {
    let scratch = Scratch::new("killed");
    let sample = Sample::build("c/killed.c", &scratch);
    let trace = record(&sample.program, &sample.arguments, &scratch).trace;
    let bytes = fs::read(trace).unwrap();
    let found = |name: &str, frames: &[&[u8]]| {
        let (status, found) = verified(&scratch.write(name, frames.concat()));
        assert!(kinds(&found["damage"]).is_empty(), "{found:#}");
        let mut kinds = kinds(&found["missing"]);
        kinds.retain(|kind| *kind != "lost-on-the-way");
        (status, kinds.concat())
    };
    let all = split(&bytes);
    assert_eq!(found("all.hwt", &all), (0, String::new()));
    assert_eq!(all[0][12], 3, "lanes");
    let unsure = (4, "last-records".to_owned());
    assert_eq!(found("headless.hwt", &all[1..]), unsure);
    let holed = [&all[..2], &all[3..]].concat();
    assert_eq!(found("holed.hwt", &holed), unsure);
}

#[test]
fn repair_overwrites_traces_only() {
    let scratch = Scratch::new("repair");
    let path = scratch.write("t.hwt", made(1));
    let refused = |from: &Path, to: &Path| {
        let run = Run::of(command().arg("repair").arg(from).arg("-o").arg(to));
        assert_eq!((run.status, run.stdout.as_str()), (3, ""), "{run:?}");
        run.stderr
    };
    let notes = scratch.write("notes.txt", "not a trace\n");
    assert!(refused(&path, &notes).contains("not a trace"));
    assert_eq!(fs::read_to_string(&notes).unwrap(), "not a trace\n");
    let exported = Run::of(
        command()
            .arg("export")
            .arg(&path)
            .args(["--to", "mtrace", "-o"])
            .arg(&path),
    );
    assert!(exported.status == 3 && exported.stderr.contains("is the input itself"));
    assert!(refused(&path, &path).contains("is the input itself"));
    for verb in [vec!["repair"], vec!["export", "--to", "mtrace"]] {
        let line = "file=$1; shift; exec \"$0\" \"$@\" -o \"$file\" - < \"$file\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).arg(heapwire()).arg(&path);
        let run = Run::of(shell.args(verb));
        assert!(run.stderr.contains("is the input itself"), "{run:?}");
    }
    assert_eq!(fs::read(&path).unwrap(), made(1));
    let out = scratch.join("out.hwt");
    refused(&notes, &out);
    assert!(!out.exists(), "nothing was to save");
    let log = scratch.write("log", "= Start\n@ prog:[0x1] + 0x10 0x8\n= End\n");
    assert!(refused(&log, &out).contains("log of glibc's mtrace"));
    assert!(!out.exists());
    let old = scratch.write("old.hwt", Writer::new().bytes());
    let run = Run::of(command().arg("repair").arg(&path).arg("-o").arg(&old));
    assert_eq!(run.status, 0, "{run:?}");
    assert_eq!(fs::read(&old).unwrap(), made(1));
}

#[test]
fn info_counts_what_is_there() {
    let scratch = Scratch::new("info");
    let mut writer = Writer::new();
    writer.malloc(0x1000, 8).malloc(0x2000, 8).free(0x1000);
    writer.record(Record {
        op: 0xF0,
        ..Record::default()
    });
    let path = scratch.write("t.hwt", writer.end().bytes());
    let found = json(&on(&["info", "--format", "json"], &path));
    assert_eq!(found["kind"], "hwt");
    assert_eq!(found["versions"], serde_json::json!(["1.0"]));
    assert_eq!(number(&found["bytes"]), fs::metadata(&path).unwrap().len());
    assert_eq!(found["packed"], false);
    assert_eq!(found["processes"][0]["pid"], 4711);
    assert_eq!(found["processes"][0]["calls"], 3);
    assert_eq!(found["modules"], serde_json::json!(["/bin/p"]));
    let count = |list_of: &str, kind: &str| {
        let tallies = list(&found[list_of]).iter();
        let of = tallies.filter(|tally| tally["kind"] == kind);
        of.map(|tally| number(&tally["count"])).sum::<u64>()
    };
    assert_eq!(count("frames", "records"), 1);
    assert_eq!(count("records", "allocated"), 2);
    assert_eq!(count("records", "released"), 1);
    assert_eq!(count("records", "mark"), 1);
    assert_eq!(count("records", "end"), 1);
    let text = on(&["info"], &path).stdout;
    for part in [
        "format 1.0",
        "pid 4711",
        "allocated",
        "/bin/p",
        "not compressed",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let piped = Run::with_input(
        command().args(["info", "-", "--format", "json"]),
        fs::read(&path).unwrap(),
    );
    assert_eq!(json(&piped)["records"], found["records"]);
}

#[test]
fn logs_have_contents_and_can_be_verified() {
    let scratch = Scratch::new("log");
    let lines = "= Start\n@ prog:[0x1] + 0x10 0x8\n@ prog:[0x2] - 0x10\n= End\n";
    let path = scratch.write("log", lines);
    let found = json(&on(&["info", "--format", "json"], &path));
    assert_eq!(
        (&found["kind"], number(&found["bytes"])),
        (&"mtrace".into(), 58)
    );
    assert_eq!(found["records"][0]["kind"], "allocated");
    assert_eq!(verified(&path).0, 0);
    let damaged = scratch.write("damaged", lines.replace("- 0x10", "- nowhere"));
    let (status, found) = verified(&damaged);
    assert_eq!(
        (status, kinds(&found["damage"])),
        (1, vec!["damaged-lines"])
    );
    assert_eq!(found["damage"][0]["first"], 3, "{found:#}");
}
