//! LANES frames and mixed frames: records whose place says more than their frame.

use super::{Input, Trace, TraceError};
use crate::report::Report;
use crate::tests::made::{ALLOCATED, FRAME, Made, MadeFrame, Slot, put, record, report, warned};

use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A lane for a table: tid, base number and slots, of which some may be holes.
type Lane<'a> = (u32, u64, &'a [Slot]);

/// A LANES frame that begins at `offset` of the file, whose memory holds `lanes`.
fn lanes_frame(offset: usize, stream: u32, lanes: &[Lane<'_>]) -> Vec<u8> {
    let table_at = (offset + 80).next_multiple_of(4096) - offset - 80;
    let mut payload = vec![0; table_at + 3 * 4096];
    let table = &mut payload[table_at..];
    put(table, 0, b"HWLANES\x01");
    put(table, 8, &stream.to_le_bytes());
    put(table, 12, &4711u32.to_le_bytes());
    put(table, 16, &8u32.to_le_bytes()); // more lanes than are used
    put(table, 20, &64u32.to_le_bytes());
    put(table, 24, &64u32.to_le_bytes());
    let mut slots_at = 4096;
    for (index, (tid, base_number, slots)) in lanes.iter().enumerate() {
        let header = 64 + 64 * index;
        put(table, header, &tid.to_le_bytes());
        put(
            table,
            header + 8,
            &u32::try_from(slots_at).unwrap().to_le_bytes(),
        );
        put(
            table,
            header + 12,
            &u32::try_from(slots.len()).unwrap().to_le_bytes(),
        );
        put(table, header + 16, &base_number.to_le_bytes());
        put(table, header + 24, &FRAME.clock.to_le_bytes());
        put(table, slots_at, &slots.concat());
        slots_at += slots.len() * 40;
    }
    let frame = MadeFrame {
        kind: 3,
        stream,
        first: 0,
        clock: 0,
        ..FRAME
    };
    frame.bytes(&payload)
}

#[test]
fn a_stream_without_an_end_and_without_a_frame_is_given_up() {
    let endless = Input::streamed(PathBuf::from("zero"), io::repeat(0));
    let found = Trace::of(vec![endless]);
    assert!(matches!(found, Err(TraceError::NotATrace { path }) if path == Path::new("zero")));
}

#[test]
fn text_before_the_first_frame_may_be_long() {
    let trace = Made::new(0xA0).malloc(0x1000, 1, 0x10).bytes();
    let text = io::repeat(b'.').take(super::MOST_WITHOUT_FRAME - (2 << 20));
    let stream = Input::streamed(PathBuf::from("late"), text.chain(io::Cursor::new(trace)));
    assert!(Trace::of(vec![stream]).is_ok());
}

const HOLE: Slot = [0; 40];

fn slots(made: &Made, from: usize) -> Vec<Slot> {
    made.records[from..]
        .iter()
        .map(|(.., slot)| *slot)
        .collect()
}

fn made() -> Made {
    let mut made = Made::new(0xA0);
    made.malloc(0x1000, 1, 0x10)
        .malloc(0x2000, 2, 0x10)
        .free(0x1000, 0x20)
        .malloc(0x3000, 4, 0x10);
    made
}

fn live_bytes(report: &Report) -> u64 {
    report.processes[0].totals.live_bytes
}

#[test]
fn records_left_in_lanes_are_recovered_once() {
    let made = made();
    let count = made.records.len();
    // The last three are in the ring, out of order and with holes; one of them is in a frame as well.
    let last = slots(&made, count - 3);
    let void = record(0xFF, 0, 0, [0; 4]);
    let ring = [last[2], void, last[0], last[1], HOLE];
    let in_frames = Made {
        records: made.records[..count - 2].to_vec(),
        ..made.clone()
    };
    let lanes: [Lane<'_>; 2] = [(100, 1, &ring), (0, 1, &[HOLE, void])];
    for before in [0, 77] {
        let mut trace = vec![b'x'; before];
        trace.extend(lanes_frame(before, 0xA0, &lanes));
        trace.extend(in_frames.bytes());
        let report = report([trace]);
        assert_eq!(report.processes.len(), 1);
        assert_eq!(live_bytes(&report), 6);
        assert_eq!(report.trace.lost_records, 0);
        assert_eq!(report.trace.records, count as u64);
        assert_eq!(report.trace.damaged_bytes, 0);
        assert_eq!(report.processes[0].end, "cut");
    }
}

#[test]
fn a_table_is_found_though_bytes_before_it_are_gone() {
    let made = made();
    let all = slots(&made, 0);
    let mut trace = lanes_frame(4000, 0xA0, &[(100, 1, &all)]);
    trace.extend(FRAME.bytes(&[]));
    let report = report([trace]);
    assert_eq!(live_bytes(&report), 6);
    assert_eq!(report.processes[0].pid, Some(4000 + 0xA0));
}

#[test]
fn lanes_know_their_threads_and_are_far_from_their_base() {
    let base = 0x1_0000_0000;
    let far = record(ALLOCATED, 0, base - 1, [0x1000, 8, 0x10, 0]);
    let near = record(ALLOCATED, 0, base + 1, [0x2000, 8, 0x10, 0]);
    let report = report([lanes_frame(
        0,
        0xA0,
        &[(7, base, &[near, far]), (8, base, &[])],
    )]);
    assert_eq!(report.processes[0].totals.live_blocks, 2);
    assert_eq!(report.trace.lost_records, base - 2 + 1);
    assert_eq!(report.processes[0].pid, Some(4711));
    let peak = report.processes[0].threads;
    assert_eq!(peak, 1);
}

#[test]
fn memory_that_was_never_used_is_no_process() {
    let frame = MadeFrame { kind: 3, ..FRAME };
    let report = report([frame.bytes(&vec![0; 12000])]);
    assert!(report.processes.is_empty());
    assert_eq!(report.warnings[0].kind, "no-records");
    assert!(!report.trace.complete);
}

#[test]
fn tables_that_contradict_themselves_are_damage() {
    let made = made();
    let all = slots(&made, 0);
    let table = (80usize).next_multiple_of(4096);
    let damage: [(usize, u32); 5] = [
        (8, 0xB0),                // another stream
        (16, u32::MAX),           // more lanes than there is memory
        (24, 8),                  // headers that overlap
        (64 + 8, u32::MAX - 100), // slots outside
        (64 + 12, u32::MAX),      // more slots than fit
    ];
    for (at, value) in damage {
        let mut frame = lanes_frame(0, 0xA0, &[(100, 1, &all)]);
        put(&mut frame, table + at, &value.to_le_bytes());
        frame.extend(made.bytes());
        let report = report([frame]);
        assert_eq!(warned(&report, "damaged-frames"), 1, "{at}");
        assert_eq!(live_bytes(&report), 6);
    }
}

#[test]
fn slots_that_nobody_wrote_are_passed_over() {
    let made = made();
    let mut all = slots(&made, 0);
    // Among the damage is what looks like a record.
    let chance = record(ALLOCATED, 0, 77_777, [0x9000, 8, 0x10, 0]);
    all.splice(2..2, [HOLE, [0x5A; 40], chance, HOLE]);
    all.extend([HOLE, chance, [0xEE; 40]]);
    let report = report([lanes_frame(0, 0xA0, &[(100, 1, &all)])]);
    assert_eq!(live_bytes(&report), 6);
    assert_eq!(report.trace.records, made.records.len() as u64);
    assert_eq!(report.trace.damaged_bytes, 80);
    assert_eq!(report.trace.lost_records, 0);
    assert_eq!(warned(&report, "damaged-frames"), 1);
}

#[test]
fn lanes_that_share_slots_cannot_multiply_them() {
    let made = made();
    let all = slots(&made, 0);
    let lanes: Vec<Lane<'_>> = (0..8).map(|tid| (100 + tid, 1, &all[..])).collect();
    let mut frame = lanes_frame(0, 0xA0, &lanes);
    for lane in 0..8 {
        put(
            &mut frame,
            4096 + 64 + 64 * lane + 8,
            &4096u32.to_le_bytes(),
        );
        put(
            &mut frame,
            4096 + 64 + 64 * lane + 12,
            &150u32.to_le_bytes(),
        );
    }
    let report = report([frame]);
    assert_eq!(warned(&report, "damaged-frames"), 1);
    assert_eq!(live_bytes(&report), 6);
}

#[test]
fn a_mixed_frame_says_who_wrote() {
    const MIXED: u8 = 1;
    let mut made = Made::new(0xA0);
    made.push(0x74, 0, [201, 1, 0, 0]).malloc(0x1000, 1, 0x10);
    made.push(0x74, 0, [202, 2, 0, 0])
        .free(0x1000, 0x20)
        .free(0x1000, 0x21);
    // In the frame the second thread's part comes first.
    let count = made.records.len();
    made.records[count - 5..].rotate_left(2);
    made.frame.flags = MIXED;
    let report = made.report();
    let fault = &report.processes[0].errors[0];
    assert_eq!(fault.thread, Some(202));
    assert_eq!(
        fault.allocation.as_ref().and_then(|it| it.thread),
        Some(201)
    );
    assert!(report.trace.damaged_bytes == 0 && report.trace.lost_records == 0);
}

#[test]
fn a_frame_of_no_whole_records_is_damaged_at_its_end() {
    let mut made = made();
    let mut frames = made.frames(100);
    let payload: Vec<u8> = slots(&made, 0).concat();
    frames[0] = made.frame.bytes(&[&payload[..], &[1; 15]].concat());
    let report = report([frames.concat()]);
    assert_eq!(report.trace.damaged_bytes, 15);
    assert_eq!(live_bytes(&report), 6);
    made.end(0);
}
