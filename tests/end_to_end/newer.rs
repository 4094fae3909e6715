//! What this version does with a trace of a later minor version: it goes on, counts, and never guesses.

use heapwire_tests::run::report;
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{Record, Writer};
use serde_json::Value;

fn reported(writer: &mut Writer) -> Value {
    let scratch = Scratch::new("newer");
    report(&scratch.write("t.hwt", writer.bytes()))
}

/// A leak of 8 bytes, then whatever `add` adds, then the end.
fn with(add: impl FnOnce(&mut Writer)) -> Value {
    let mut writer = Writer::new();
    writer.frame.version = (1, 1);
    writer.malloc(0x1000, 8);
    add(&mut writer);
    reported(writer.end())
}

#[track_caller]
fn leak_is_told(report: &Value) {
    assert_eq!(
        report["processes"][0]["totals"]["live_bytes"], 8,
        "{report:#}"
    );
    assert_eq!(report["trace"]["damaged_bytes"], 0);
    assert_eq!(report["trace"]["lost_records"], 0);
}

#[test]
fn an_op_that_may_be_ignored_is() {
    let report = with(|writer| {
        writer.record(Record {
            op: 0x8A,
            ptr: 0x1000,
            ..Record::default()
        });
    });
    leak_is_told(&report);
    assert_eq!(report["trace"]["complete"], true, "{report:#}");
}

#[test]
fn an_op_that_may_not_makes_the_report_incomplete() {
    for op in [0x08, 0x0F, 0x11, 0x22, 0x7E, 0x7F] {
        let report = with(|writer| {
            writer.record(Record {
                op,
                ptr: 0x1000,
                ..Record::default()
            });
            writer.record(Record {
                op,
                ptr: 0x1000,
                ..Record::default()
            });
        });
        leak_is_told(&report);
        assert_eq!(report["trace"]["complete"], false, "op {op:#x}");
        let warnings = report["warnings"].as_array().unwrap();
        let newer = warnings
            .iter()
            .find(|warning| warning["kind"] == "unknown-ops");
        assert_eq!(newer.unwrap()["count"], 2, "op {op:#x}: {report:#}");
    }
}

#[test]
fn unknown_frame_kinds_are_counted_or_skipped() {
    for (kind, complete) in [
        (5, true),
        (6, true),
        (200, true),
        (8, false),
        (7, false),
        (100, false),
    ] {
        let report = with(|writer| {
            writer.flush();
            writer.frame.kind = kind;
            writer.frame_of(&[0xAA; 100]);
            writer.frame.kind = 1;
        });
        leak_is_told(&report);
        assert_eq!(
            report["trace"]["complete"], complete,
            "kind {kind}: {report:#}"
        );
    }
}

#[test]
fn longer_headers_and_unknown_keys_are_no_obstacle() {
    let mut writer = Writer::bare(1);
    writer.frame.version = (1, 9);
    writer.frame.header_length = 104;
    writer
        .process(1, &["exe=/bin/p", "began=exec", "colour=red"])
        .malloc(0x1000, 8)
        .end();
    let report = reported(&mut writer);
    leak_is_told(&report);
    assert_eq!(report["trace"]["complete"], true, "{report:#}");
    assert_eq!(report["processes"][0]["exe"], "/bin/p");
}
