//! Whatever happens to a trace, the command reports what is left or refuses; it never panics and never claims more.

use heapwire_tests::build::Sample;
use heapwire_tests::packed::twin;
use heapwire_tests::run::{Run, command, record, report};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{HEADER, RECORD, TRAILER, Writer};
use serde_json::Value;
use std::path::Path;

/// A trace of four frames with every kind of finding in it.
fn small_trace() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.flush();
    writer
        .malloc(0x1000, 48)
        .malloc(0x2000, 24)
        .realloc(0x1000, 0x3000, 96)
        .flush();
    writer.free(0x2000).free(0x2000).free(0x3010).flush();
    // new[] and delete: of malloc and free without names, one could be in an operator.
    writer
        .heap(0x01, 3, 0x4000, 8)
        .heap(0x02, 2, 0x4000, u64::MAX)
        .end();
    writer.bytes()
}

/// The JSON report on `bytes`, if there is one; anything but a report or a refusal fails.
fn report_on(bytes: &[u8], path: &Path, about: &str) -> Option<Value> {
    std::fs::write(path, bytes).unwrap();
    let run = Run::of(command().args(["report", "--format", "json"]).arg(path));
    assert!(!run.stderr.contains("panicked"), "{about}: {}", run.stderr);
    match run.status {
        0 => Some(
            serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{about}: {error}")),
        ),
        3 => None,
        status => panic!("{about}: status {status}: {}", run.stderr),
    }
}

#[test]
fn the_trace_itself_is_whole() {
    let scratch = Scratch::new("whole");
    let report = report_on(&small_trace(), &scratch.join("t.hwt"), "the trace").unwrap();
    assert_eq!(report["trace"]["complete"], true, "{report:#}");
    let errors = report["processes"][0]["errors"].as_array().unwrap();
    let kinds: Vec<_> = errors
        .iter()
        .map(|error| error["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["double-free", "invalid-free", "mismatched-free"]);
}

#[test]
fn no_prefix_passes_for_the_whole() {
    let scratch = Scratch::new("prefix");
    let (bytes, path) = (small_trace(), scratch.join("t.hwt"));
    let first_calls = frame_at(&bytes, 2);
    for length in 0..bytes.len() {
        let about = format!("{length} of {} bytes", bytes.len());
        let report = report_on(&bytes[..length], &path, &about);
        assert_eq!(
            report.is_some(),
            length >= first_calls,
            "whole frames are told: {about}"
        );
        if let Some(report) = report {
            assert_eq!(report["trace"]["complete"], false, "{about}");
            assert_eq!(report["processes"][0]["end"], "cut", "{about}");
        }
    }
}

#[test]
fn every_flipped_byte_is_noticed() {
    every_flipped_byte_is_noticed_in(&small_trace(), "flip");
}

#[test]
fn every_flipped_byte_of_a_packed_trace_is_noticed() {
    every_flipped_byte_is_noticed_in(&twin(&small_trace()), "flip-packed");
}

fn every_flipped_byte_is_noticed_in(bytes: &[u8], name: &str) {
    let scratch = Scratch::new(name);
    let path = scratch.join("t.hwt");
    for at in 0..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 0x24;
        let about = format!("byte {at} flipped");
        let Some(report) = report_on(&damaged, &path, &about) else {
            continue;
        };
        let trace = &report["trace"];
        assert_eq!(trace["complete"], false, "{about}");
        assert_ne!(
            (&trace["damaged_bytes"], &trace["foreign_bytes"]),
            (&0.into(), &0.into()),
            "{about}"
        );
        assert_ne!(report["warnings"].as_array().unwrap().len(), 0, "{about}");
    }
}

#[test]
fn a_lost_frame_costs_its_own_records_only() {
    let plain = small_trace();
    let lost = (frame_at(&plain, 2) - frame_at(&plain, 1) - HEADER - TRAILER) / RECORD;
    for bytes in [twin(&plain), plain] {
        a_lost_frame_costs(lost, &bytes);
    }
}

fn a_lost_frame_costs(lost: usize, bytes: &[u8]) {
    let scratch = Scratch::new("hole");
    let second = frame_at(bytes, 1);
    let third = frame_at(bytes, 2);
    let without = [&bytes[..second], &bytes[third..]].concat();
    let report = report_on(&without, &scratch.join("t.hwt"), "without the second frame").unwrap();
    assert_eq!(report["trace"]["lost_records"], lost, "{report:#}");
    assert_eq!(report["trace"]["complete"], false);
    let process = &report["processes"][0];
    assert_eq!(process["totals"]["releases"], 4, "{process:#}");
    assert_eq!(
        process["totals"]["earlier_releases"], 2,
        "their allocations may be among the lost"
    );
    let errors = process["errors"].as_array().unwrap();
    let kinds: Vec<_> = errors
        .iter()
        .map(|error| error["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["double-free", "mismatched-free"],
        "nothing is missing within these"
    );
    assert!(
        errors.iter().all(|error| error["certain"] == true),
        "{errors:#?}"
    );
}

#[test]
fn text_of_the_program_between_frames_does_no_harm() {
    let scratch = Scratch::new("foreign");
    let (bytes, path) = (small_trace(), scratch.join("t.hwt"));
    let undamaged = report_on(&bytes, &path, "the trace").unwrap();
    let text = b"what the program printed\r\n";
    let mixed = [
        text,
        &bytes[..frame_at(&bytes, 1)],
        text,
        &bytes[frame_at(&bytes, 1)..],
        text,
    ]
    .concat();
    let report = report_on(&mixed, &path, "between text").unwrap();
    assert_eq!(report["processes"], undamaged["processes"]);
    assert_eq!(report["trace"]["foreign_bytes"], 3 * text.len());
    assert_eq!(report["trace"]["damaged_bytes"], 0);
}

#[test]
fn frames_in_any_order_give_the_same_report() {
    let scratch = Scratch::new("order");
    let (bytes, path) = (small_trace(), scratch.join("t.hwt"));
    let undamaged = report_on(&bytes, &path, "the trace").unwrap();
    let starts = [
        0,
        frame_at(&bytes, 1),
        frame_at(&bytes, 2),
        frame_at(&bytes, 3),
        bytes.len(),
    ];
    let backwards: Vec<u8> = starts
        .windows(2)
        .rev()
        .flat_map(|ends| bytes[ends[0]..ends[1]].to_vec())
        .collect();
    let report = report_on(&backwards, &path, "backwards").unwrap();
    assert_eq!(report["processes"], undamaged["processes"]);
}

#[test]
fn a_frame_that_came_twice_counts_once() {
    let scratch = Scratch::new("twice");
    let (bytes, path) = (small_trace(), scratch.join("t.hwt"));
    let undamaged = report_on(&bytes, &path, "the trace").unwrap();
    let second = &bytes[frame_at(&bytes, 1)..frame_at(&bytes, 2)];
    let report = report_on(&[&bytes, second].concat(), &path, "with a frame twice").unwrap();
    assert_eq!(report["processes"], undamaged["processes"]);
    assert_eq!(report["trace"]["lost_records"], 0);
}

#[test]
fn lengths_that_the_file_does_not_have_cost_nothing() {
    let scratch = Scratch::new("length");
    let bytes = small_trace();
    for (offset, field) in [(16, "payload length"), (10, "header length")] {
        let mut huge = bytes.clone();
        let width = if offset == 16 { 4 } else { 2 };
        huge[offset..offset + width].fill(0xFF);
        let sum = heapwire_tests::trace::crc32(&huge[..76]);
        huge[76..80].copy_from_slice(&sum.to_le_bytes());
        let report = report_on(&huge, &scratch.join("t.hwt"), field).unwrap();
        assert_eq!(report["trace"]["complete"], false, "{field}");
        assert_ne!(
            report["processes"][0]["totals"]["releases"], 0,
            "later frames are found: {field}"
        );
    }
}

/// Where frame `number` of `bytes` starts.
fn frame_at(bytes: &[u8], number: usize) -> usize {
    let mut starts = bytes
        .windows(8)
        .enumerate()
        .filter(|(_, window)| window.starts_with(b"\x89HWT\r\n\xFF\x1A"));
    starts.nth(number).unwrap().0
}

#[test]
fn a_torn_word_of_an_observer_makes_no_process() {
    let scratch = Scratch::new("observer");
    let sample = Sample::build("c/killed.c", &scratch);
    let recording = record(&sample.program, &[], &scratch);
    let whole = std::fs::read(&recording.trace).unwrap();
    let last = HEADER + RECORD + TRAILER;
    for left in [HEADER + 10, last - 1] {
        let cut = scratch.write("cut.hwt", &whole[..whole.len() - last + left]);
        let report = report(&cut);
        let processes = report["processes"].as_array().unwrap();
        let ends: Vec<_> = processes.iter().map(|process| &process["end"]).collect();
        assert_eq!(ends, ["cut"], "{left} bytes of {last} are left");
        assert_eq!(report["trace"]["lost_records"], 0);
        assert_eq!(report["trace"]["damaged_bytes"], left);
    }
}
