//! What transfers, disks and terminals do to a trace: each kind of it is told, and no figure is claimed that it may have changed.

use heapwire_tests::build::heapwire;
use heapwire_tests::run::{Run, command, list, number};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{HEADER, RECORD, Writer};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

pub(super) const EARLY: u64 = 5003;
pub(super) const LATE: u64 = 7001;
/// Calls between a frame's header and the next one's.
const CALLS: u64 = 90;
const PAIRS: u64 = 900;

/// Blocks that come and go, two that stay, blocks again, three that stay.
fn made(sum_kind: u8) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.frame.sum_kind = sum_kind;
    writer.flush();
    for (phase, size, left) in [(1, EARLY, 2), (2, LATE, 3)] {
        let base = phase * 0x100_0000;
        for pair in 0..PAIRS {
            let address = base + pair * 0x40;
            writer.site(phase).malloc(address, 16).free(address);
            if (pair + 1) % (CALLS / 2) == 0 {
                writer.flush();
            }
        }
        for block in 0..left {
            writer
                .site(phase + 2)
                .malloc(base + 0x80_0000 + block * 0x4000, size);
        }
        writer.flush();
    }
    writer.end().bytes()
}

/// The report on `bytes`, and what `verify` says of them.
pub(super) fn told(scratch: &Scratch, bytes: &[u8], about: &str) -> Option<(Value, Value)> {
    let path = scratch.write("t.hwt", bytes);
    let run = Run::of(command().args(["report", "--format", "json"]).arg(&path));
    assert!([0, 3].contains(&run.status), "{about}: {run:?}");
    if run.status == 3 {
        assert_eq!(run.stderr.lines().count(), 1, "{about}: {run:?}");
        return None;
    }
    let read = |text: &str| serde_json::from_str(text).unwrap();
    Some((read(&run.stdout), verified(&path)))
}

fn verified(path: &Path) -> Value {
    let run = Run::of(command().args(["verify", "--format", "json"]).arg(path));
    serde_json::from_str(&run.stdout).unwrap()
}

pub(super) fn left(report: &Value) -> Vec<(u64, u64)> {
    let leaks = list(&report["processes"][0]["leaks"]).iter();
    let mut left: Vec<_> = leaks
        .map(|leak| (number(&leak["bytes"]), number(&leak["blocks"])))
        .collect();
    left.sort_unstable();
    left
}

pub(super) fn warnings(report: &Value) -> Vec<&str> {
    let warnings = list(&report["warnings"]).iter();
    warnings.map(|it| it["kind"].as_str().unwrap()).collect()
}

pub(super) fn damage(verified: &Value) -> Vec<&str> {
    let damage = list(&verified["damage"]).iter();
    damage.map(|it| it["kind"].as_str().unwrap()).collect()
}

pub(super) const ALL: [(u64, u64); 2] = [(2 * EARLY, 2), (3 * LATE, 3)];

/// Those that stay are still there, nothing else is certain, and that is said.
pub(super) fn assert_damage_in_phase_one(report: &Value, about: &str) {
    for expected in ALL {
        assert!(
            left(report).contains(&expected),
            "{about}: {:?}",
            left(report)
        );
    }
    assert_ne!(report["trace"]["lost_records"], 0, "{about}");
    assert_eq!(report["trace"]["complete"], false, "{about}");
    assert!(
        report["warnings"].to_string().contains("upper bound"),
        "{about}"
    );
    let errors = list(&report["processes"][0]["errors"]);
    assert!(
        errors.iter().all(|error| error["certain"] == false),
        "{about}"
    );
}

#[test]
fn a_trace_without_its_end_is_called_so() {
    let scratch = Scratch::new("tail");
    let whole = made(1);
    let (report, _) = told(&scratch, &whole, "whole").unwrap();
    assert_eq!(left(&report), ALL);
    let half = &whole[..whole.len() - RECORD / 2];
    let (report, verified) = told(&scratch, half, "half a record").unwrap();
    assert_eq!(left(&report), ALL, "the end alone was cut");
    assert!(
        warnings(&report).contains(&"ends-inside-frame"),
        "{report:#}"
    );
    assert!(
        damage(&verified).contains(&"ends-inside-frame"),
        "{verified:#}"
    );
    let cut = &whole[..whole.len() * 3 / 4 + 5];
    let (report, _) = told(&scratch, cut, "cut").unwrap();
    assert!(left(&report).contains(&ALL[0]), "{report:#}");
    assert!(left(&report).len() <= 2, "one block may be in flight");
    assert!(warnings(&report).contains(&"cut"), "{report:#}");
}

#[test]
fn a_trace_without_its_begin_claims_no_wrong_release() {
    let scratch = Scratch::new("head");
    let whole = made(1);
    let rest = &whole[whole.len() / 4 + 3..];
    let (report, _) = told(&scratch, rest, "head").unwrap();
    assert!(warnings(&report).contains(&"start-missing"), "{report:#}");
    assert_eq!(list(&report["processes"][0]["errors"]).len(), 0);
    assert_eq!(left(&report), ALL);
}

#[test]
fn changed_bytes_cost_the_frames_that_they_are_in() {
    let scratch = Scratch::new("flip");
    let mut bytes = made(1);
    let step = bytes.len() / 4 / 16;
    for flip in 0..16 {
        let at = bytes.len() / 8 + flip * step + flip * flip;
        bytes[at] ^= 1 << (flip % 8);
    }
    let (report, verified) = told(&scratch, &bytes, "flip").unwrap();
    assert_damage_in_phase_one(&report, "flip");
    let frames: u64 = list(&verified["damage"])
        .iter()
        .map(|it| number(&it["count"]))
        .sum();
    assert!((1..=16).contains(&frames), "{verified:#}");

    let mut bytes = made(1);
    let begin = bytes.len() / 6;
    bytes[begin..begin + 4096].fill(0);
    let (report, verified) = told(&scratch, &bytes, "hole").unwrap();
    assert_damage_in_phase_one(&report, "hole");
    let first = number(&verified["damage"][0]["first"]);
    let around = begin as u64 - 4096..begin as u64 + 4096;
    assert!(around.contains(&first), "{verified:#}");

    let mut bytes = made(1);
    let at = bytes.len() / 4 / RECORD * RECORD + 4;
    bytes[at..at + 8].fill(0xFF);
    let (report, _) = told(&scratch, &bytes, "counts").unwrap();
    assert_damage_in_phase_one(&report, "counts");
}

#[test]
fn what_terminals_and_telnet_do_is_undone_or_refused() {
    let scratch = Scratch::new("lines");
    let whole = made(1);
    let (expected, _) = told(&scratch, &whole, "whole").unwrap();
    let each = |change: fn(u8) -> Vec<u8>| whole.iter().flat_map(|byte| change(*byte)).collect();
    let grown: Vec<u8> = each(|byte| match byte {
        b'\n' => b"\r\n".to_vec(),
        byte => vec![byte],
    });
    let telnet: Vec<u8> = each(|byte| match byte {
        0xFF => vec![0xFF, 0xFF],
        b'\r' => b"\r\0".to_vec(),
        byte => vec![byte],
    });
    let both: Vec<u8> = each(|byte| match byte {
        0xFF => vec![0xFF, 0xFF],
        b'\n' => b"\r\n".to_vec(),
        byte => vec![byte],
    });
    // A daemon knows which carriage returns a terminal put before line feeds.
    let daemon: Vec<u8> = each(|byte| match byte {
        0xFF => vec![0xFF, 0xFF],
        b'\n' => b"\r\n".to_vec(),
        b'\r' => b"\r\0".to_vec(),
        byte => vec![byte],
    });
    for (about, bytes) in [
        ("line feeds", grown),
        ("telnet", telnet),
        ("line feeds and escapes", both),
        ("a telnet daemon", daemon),
    ] {
        let (report, verified) = told(&scratch, &bytes, about).unwrap();
        assert_eq!(report["processes"], expected["processes"], "{about}");
        assert_eq!(damage(&verified), ["translated"], "{about}");
    }
    let mut shrunk = Vec::new();
    for byte in &whole {
        if *byte == b'\n' && shrunk.last() == Some(&b'\r') {
            shrunk.pop();
        }
        shrunk.push(*byte);
    }
    assert!(shrunk.len() < whole.len());
    assert!(
        told(&scratch, &shrunk, "shrunk").is_none(),
        "that cannot be undone"
    );
}

#[test]
fn text_of_the_program_costs_what_it_fell_into() {
    const TEXT: &[u8] = b"some text\r\n";
    let scratch = Scratch::new("text");
    let whole = made(1);
    let (expected, _) = told(&scratch, &whole, "whole").unwrap();
    let inside = whole.len() / 4 / RECORD * RECORD;
    let into = |at: usize| [&whole[..at], TEXT, &whole[at..]].concat();
    let (report, _) = told(&scratch, &into(inside), "inside").unwrap();
    assert_damage_in_phase_one(&report, "inside");
    assert!(
        number(&report["trace"]["lost_records"]) <= CALLS,
        "one frame"
    );
    let next = whole[inside..].windows(4).position(|it| it == b"\x89HWT");
    let between = into(inside + next.unwrap());
    let (report, verified) = told(&scratch, &between, "between").unwrap();
    assert_eq!(report["processes"], expected["processes"]);
    assert_eq!(report["trace"]["foreign_bytes"], TEXT.len());
    assert!(damage(&verified).is_empty(), "{verified:#}");
}

#[test]
fn stretches_out_of_place_are_put_in_order_or_noticed() {
    let scratch = Scratch::new("order");
    for sum_kind in [0, 1] {
        let whole = made(sum_kind);
        let (expected, _) = told(&scratch, &whole, "whole").unwrap();
        let frame = whole[whole.len() / 4..]
            .windows(4)
            .position(|it| it == b"\x89HWT");
        let records = whole.len() / 4 + frame.unwrap() + HEADER;
        let stretch = |from: usize, count: usize| {
            let begin = records + from * RECORD;
            &whole[begin..begin + count * RECORD]
        };
        let twice = [&whole[..records], stretch(0, 64), &whole[records..]].concat();
        let (report, _) = told(&scratch, &twice, "twice").unwrap();
        assert_damage_in_phase_one(&report, "twice");
        assert!(
            !warnings(&report).contains(&"unseen-releases"),
            "{report:#}"
        );
        let swapped = [
            &whole[..records],
            stretch(8, 8),
            stretch(0, 8),
            &whole[records + 16 * RECORD..],
        ]
        .concat();
        let (report, _) = told(&scratch, &swapped, "swapped").unwrap();
        if sum_kind == 0 {
            assert_eq!(report["processes"], expected["processes"]);
        } else {
            assert_damage_in_phase_one(&report, "swapped");
        }
    }
}

/// Runs a command and says how many KiB of it were resident at most.
const PEAK: &str = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";

#[test]
fn damage_takes_no_more_than_twice_the_memory() {
    let scratch = Scratch::new("damaged-memory");
    let path = scratch.join("t.hwt");
    let peak = |bytes: &[u8]| -> u64 {
        std::fs::write(&path, bytes).unwrap();
        let mut line = Command::new("python3");
        line.args(["-c", PEAK]).arg(heapwire());
        let run = Run::of(line.args(["report", "--format", "json"]).arg(&path));
        run.stdout.trim().parse().unwrap()
    };
    let mut writer = Writer::new();
    for pair in 0..100_000u64 {
        writer.malloc(0x10_0000 + pair % 5000 * 64, 48);
        writer.free(0x10_0000 + pair % 5000 * 64);
        if pair % 400 == 399 {
            writer.flush();
        }
    }
    let whole = writer.end().bytes();
    let need = peak(&whole);
    let (quarter, mut damaged) = (whole.len() / 4, Vec::new());
    let changed = |at: usize, length: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at..at + length].fill(byte);
        bytes
    };
    damaged.push(("tail", whole[..whole.len() - RECORD / 2].to_vec()));
    damaged.push(("cut", whole[..quarter * 3 + 5].to_vec()));
    damaged.push(("head", whole[quarter + 3..].to_vec()));
    damaged.push(("hole", changed(quarter, 1 << 20, 0)));
    damaged.push(("count", changed(quarter, 8, 0xFF)));
    let mut flipped = whole.clone();
    for flip in 0..16 {
        flipped[quarter / 2 + flip * quarter / 16] ^= 1 << (flip % 8);
    }
    damaged.push(("flip", flipped));
    let shrunk = whole.windows(2).filter(|pair| *pair != b"\r\n");
    damaged.push(("shrunk", shrunk.map(|pair| pair[0]).collect()));
    let (one, other) = (quarter, quarter + 8 * RECORD);
    let [one, other] = [one, other].map(|at| &whole[at..at + 8 * RECORD]);
    let rest = &whole[quarter + 16 * RECORD..];
    damaged.push(("swapped", [&whole[..quarter], other, one, rest].concat()));
    damaged.push(("lines", replaced(&whole, b"\n", b"\r\n")));
    damaged.push(("telnet", replaced(&whole, b"\xFF", b"\xFF\xFF")));
    let lines: Vec<u8> = whole
        .chunks(20 * RECORD + 7)
        .flat_map(|part| [part, b"some text\r\n"].concat())
        .collect();
    damaged.push(("text", lines));
    let stretch = &whole[quarter..quarter + 64 * RECORD];
    let twice = [&whole[..quarter], &stretch.repeat(100), &whole[quarter..]].concat();
    damaged.push(("twice", twice));
    for (about, bytes) in damaged {
        let takes = peak(&bytes);
        assert!(takes <= 2 * need, "{about}: {takes} KiB, whole {need}");
    }
}

fn replaced(bytes: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    let each = bytes.iter().flat_map(|byte| {
        let is_it = what == [*byte];
        if is_it { with.to_vec() } else { vec![*byte] }
    });
    each.collect()
}

#[test]
fn what_is_no_trace_is_refused_by_every_verb_about_files() {
    let scratch = Scratch::new("none");
    let mut state = 7u32;
    let noise: Vec<u8> = (0..1 << 16)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .collect();
    for (bytes, why) in [(&noise[..], "is not a heapwire trace"), (&[], "is empty")] {
        let path = scratch.write("t.hwt", bytes);
        let out = scratch.join("out.hwt");
        for verb in ["report", "check", "info", "verify", "repair"] {
            let mut line = command();
            line.arg(verb).arg(&path);
            if verb == "repair" {
                line.arg("-o").arg(&out);
            }
            let run = Run::of(&mut line);
            assert_eq!((run.status, run.stdout.as_str()), (3, ""), "{verb}");
            assert!(run.stderr.contains(why), "{verb}: {run:?}");
        }
        assert!(!out.exists());
    }
}
