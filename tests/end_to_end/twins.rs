//! Traces of packed frames say what the same traces of plain frames say.

use heapwire_tests::packed::twin;
use heapwire_tests::run::{json, on};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{Record, Writer};
use serde_json::Value;
use std::path::Path;

/// A trace with everything that packing has a case for.
fn made() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.flush();
    for round in 0..60 {
        let block = 0x7F12_3400_0010 + round * 0x40;
        writer.site(round % 7).malloc(block, 24 + round % 3);
        writer.site(7 + round % 2).free(block);
        if round % 9 == 0 {
            writer.flush();
        }
    }
    for size in [1, 0xFF, 0x100, 0xFFFF, 0x1_0000, u64::MAX >> 1] {
        writer.site(20).malloc(0x1000 + size, size); // crooked ones, too
    }
    writer
        .realloc(0x1001, 0x5000, 96)
        .realloc(0x5000, 0x5000, 7);
    writer
        .heap(0x05, 0, 0x5000, 1 << 40)
        .heap(0x07, 0, 0, u64::MAX);
    writer.heap(0x01, 0x43, !7, 9).lose(300).free(0x10_FF);
    for (time, flags) in [(5, 0x20), (5, 0x20), (132, 0), (131, 0), (60_000, 0x20)] {
        let number = writer.next;
        writer.record(Record {
            op: 1,
            flags,
            time,
            number,
            ptr: 0x8000 + u64::from(time) * 16,
            size: 3,
            pc: 0x77,
            base: 0,
        });
    }
    writer.flush();
    // Numbers that do not rise, and a slot that nobody needed.
    let next = writer.next;
    for (op, number) in [
        (1, next + 1),
        (1, next),
        (0xFF, 0),
        (1, next + 3),
        (1, next + 2),
    ] {
        let ptr = 0x9000 + number * 16;
        writer.raw(Record {
            op,
            number,
            ptr,
            size: 1,
            ..Record::default()
        });
    }
    writer.next += 4;
    writer.frame.clock += 1;
    writer.flush().declare(0x74, [4712, 2, 0], b"worker");
    writer.module(0x7F12_0000_0000, 0x2000, "/lib/other.so");
    writer.free(0x1_0001).free(0x1_0001).end().bytes()
}

/// A report without what says which bytes it was made of.
fn reported(trace: &Path) -> Value {
    let mut report = json(&on(&["report", "--format", "json"], trace));
    report["trace"]["bytes"] = Value::Null;
    report["trace"]["files"] = Value::Null;
    report
}

fn same(plain: &[u8], other: &[u8]) {
    assert!(plain != other && other.len() < plain.len());
    let scratch = Scratch::new("twins");
    let (plain, other) = (scratch.write("t.hwt", plain), scratch.write("u.hwt", other));
    let dumped = |path: &Path| {
        let run = on(&["dump"], path);
        assert_eq!(run.status, 0, "{}", run.stderr);
        run.stdout
    };
    assert_eq!(dumped(&plain), dumped(&other));
    assert_eq!(reported(&plain), reported(&other));
}

#[test]
fn a_packed_trace_says_what_a_plain_one_says() {
    let plain = made();
    let other = twin(&plain);
    same(&plain, &other);
    // A tenth of the bytes of records, but for declarations.
    assert!(other.len() * 3 < plain.len(), "{} bytes", other.len());
}
