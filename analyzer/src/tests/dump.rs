//! What `dump` prints, and which inputs are refused.

use super::made::{Made, record, report, warned};
use crate::dump::dump as print;
use crate::trace::{Trace, TraceError};
use std::path::PathBuf;

#[test]
fn a_record_is_a_line_that_can_be_searched() {
    let mut made = Made::bare(0xA0);
    made.frame.minor = 1; // has an op that this version does not know
    made.process(7, "exe=/bin/a \"b\"\0began=exec\0word=8\0");
    made.at(3).by(42).heap(0x01, 0x62, 0x1000, 48, 0x10); // new, time-read, helped
    made.push(0xFA, 1, [1, 2, 3, 4])
        .push(0x74, 0, [42, 2, 0, 9]);
    let mut trace = Trace::of_bytes([made.bytes()]).unwrap();
    let mut out = Vec::new();
    assert_eq!(print(&mut trace, &mut out).unwrap().calls, 1);
    let out = String::from_utf8(out).unwrap();
    let lines: Vec<_> = out.lines().collect();
    let expected = [
        "stream=000000a0 number=1 op=process flags=0 thread=100 time_ns=0 ptr=0x7 size=1700000000000000000 \
         pc=0x3b9aca00 base=0x21 text=\"exe=/bin/a \\\"b\\\"\\x00began=exec\\x00word=8\\x00\"",
        "stream=000000a0 number=2 op=text flags=32 thread=100 time_ns=0 text=\"exe=/bin/a \\\"b\\\"\\x00began=exec\\x00word=8\"",
        "stream=000000a0 number=3 op=text flags=1 thread=100 time_ns=0 text=\"\\x00\"",
        "stream=000000a0 number=4 op=allocated family=new flags=time-read,helped thread=42 time_ns=3000000 \
         ptr=0x1000 size=48 pc=0x400010 base=0x400000",
        "stream=000000a0 number=5 op=0xfa flags=1 thread=42 time_ns=3000000 ptr=0x1 size=2 pc=0x3 base=0x4",
        // Its text is missing.
        "stream=000000a0 number=6 op=thread flags=0 thread=42 time_ns=3000000 ptr=0x2a size=2 pc=0x0 base=0x9",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn inputs_that_cannot_be_read_say_why() {
    let open = |path: &str| match Trace::open(&[PathBuf::from(path)]) {
        Err(error) => error,
        Ok(_) => panic!("{path} was read"),
    };
    assert!(matches!(open("/nowhere/x.hwt"), TraceError::Open { .. }));
    assert!(matches!(open("/"), TraceError::Directory { .. }));
    assert!(matches!(open("/dev/null"), TraceError::Empty { .. }));
    for error in [open("/nowhere/x.hwt"), open("/"), open("/dev/null")] {
        assert_eq!(error.exit_status(), 3);
    }
}

#[test]
fn culled_pairs_count() {
    let mut made = Made::new(0xA0);
    made.push(0x7C, 0, [5, 500, 80, 0]).end(0);
    let totals = made.report().processes[0].totals;
    assert_eq!(
        (totals.allocations, totals.releases, totals.allocated_bytes),
        (5, 5, 500)
    );
}

#[test]
fn a_stream_of_no_records_but_an_observers_is_no_process() {
    let frame = super::made::MadeFrame {
        stream: 0,
        ..super::made::FRAME
    };
    let alone = report([frame.bytes(&record(0xF8, 0, 1, [1, 0, 0, 0]))]);
    assert!(alone.processes.is_empty());
    assert_eq!(warned(&alone, "no-records"), 1);
}
