//! Damaged, cut, translated and hostile inputs.

use super::made::{ALLOCATED, FRAME, Made, MadeFrame, Slot, put, record, report, warned};
use crate::report::{Address, Report, json};
use crate::trace::{Trace, TraceError, Translation};

/// 300 allocations in frames of ten records, and an end.
fn long() -> Made {
    let mut made = Made::new(0xA0);
    for block in 1..=300 {
        made.malloc(0x1000 * block, 8, 0x10);
    }
    made.end(0);
    made
}

fn open_error(bytes: Vec<u8>) -> TraceError {
    match Trace::of_bytes([bytes]) {
        Err(error) => error,
        Ok(_) => panic!("was read"),
    }
}

#[test]
fn a_damaged_frame_costs_its_own_records_only() {
    let mut frames = long().frames(10);
    let damaged = frames.len() / 2;
    let length = frames[damaged].len();
    frames[damaged][length - 1] ^= 1; // the trailer
    let report = report([frames.concat()]);
    assert_eq!(report.processes[0].totals.live_blocks, 290);
    assert_eq!(report.trace.lost_records, 10);
    assert_eq!(report.trace.damaged_bytes, length as u64);
    assert_eq!(report.trace.foreign_bytes, 0);
    assert_eq!(warned(&report, "damaged-frames"), 1);
    assert!(!report.trace.complete);
    assert!(report.trace.lost_is_lower_bound);
    let text = &report.warnings[0].text;
    assert!(text.starts_with("At least 10 records were made"), "{text}");
}

/// A parent and its child in one pipe, in frames of ten records.
fn forked() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut parent = long();
    let mut child = parent.child(0xB0);
    for block in 1..=50 {
        child.malloc(0x1000 * block, 8, 0x10);
    }
    (parent.end(0).frames(10), child.end(0).frames(10))
}

#[test]
fn what_a_first_frame_held_is_counted_by_its_header_in_each_stream() {
    for damaged in 0..2 {
        let (mut parent, mut child) = forked();
        let frame = &mut [&mut parent, &mut child][damaged][0];
        let end = frame.len() - 1;
        frame[end] ^= 1; // the trailer
        let report = report([[parent, child].concat().concat()]);
        assert_eq!(report.trace.lost_records, 10, "{damaged}");
        assert_eq!(warned(&report, "start-missing"), 1);
    }
}

#[test]
fn what_is_missing_of_a_parent_up_to_the_fork_is_counted_and_makes_the_childs_errors_uncertain() {
    let mut parent = Made::new(0xA0);
    parent.malloc(0x1000, 8, 0x10).free(0x1000, 0x20);
    let seen = parent.bytes();
    parent.malloc(0x1000, 8, 0x10);
    let mut child = parent.child(0xB0);
    let child = child.free(0x1000, 0x30).end(0).bytes();
    let error = |parent: Vec<u8>| {
        let report = report([[parent, child.clone()].concat()]);
        let errors = report.processes.iter().flat_map(|it| &it.errors);
        let certain: Vec<_> = errors.map(|it| it.certain).collect();
        (report.trace.lost_records, certain)
    };
    assert_eq!(error(parent.bytes()), (0, vec![]));
    assert_eq!(error(seen), (1, vec![false]));
}

#[test]
fn a_process_is_what_the_first_copy_of_its_declaration_says() {
    let mut made = Made::new(0xA0);
    let whole = made.malloc(0x1000, 8, 0x10).end(0).bytes();
    let mut other = whole.clone();
    other[80 + 40 + 8] ^= 1; // in the first text
    let exe = |bytes: [&[u8]; 2]| report([bytes.concat()]).processes[0].exe.clone();
    assert_eq!(exe([&whole, &other]).as_deref(), Some("/nowhere/app"));
    assert_eq!(exe([&other, &whole]).as_deref(), None);
    other[80] = ALLOCATED; // where it begins
    assert_eq!(exe([&other, &whole]), None);
}

#[test]
fn how_much_is_lost_where_nobody_knows_the_first_number_is_a_lower_bound() {
    for cut in 0..2 {
        let (mut parent, mut child) = forked();
        [&mut parent, &mut child][cut].remove(0);
        let report = report([[parent, child].concat().concat()]);
        assert!(report.trace.lost_is_lower_bound && !report.trace.complete);
    }
}

#[test]
fn a_loss_between_a_begin_and_an_end_is_an_exact_number() {
    let mut made = Made::new(0xA0);
    made.malloc(0x1000, 8, 0x10).lose(3).end(0);
    let ended = made.report();
    assert!(ended.trace.lost_records == 3 && !ended.trace.lost_is_lower_bound);
    assert!(ended.warnings[0].text.starts_with("3 records were made"));
    made.records.pop();
    assert!(made.report().trace.lost_is_lower_bound);
}

#[test]
fn a_wrong_header_is_passed_over() {
    let mut frames = long().frames(10);
    frames[3][50] ^= 1;
    let length = frames[3].len() as u64;
    let report = report([frames.concat()]);
    assert_eq!(report.trace.lost_records, 10);
    assert_eq!(report.trace.damaged_bytes, length);
}

#[test]
fn a_changed_magic_damages_its_frame_alone() {
    let whole = long().frames(10);
    let length = whole[3].len() as u64;
    for at in 0..8 {
        for read_at_once in [true, false] {
            let mut frames = whole.clone();
            frames[3][at] ^= 0x10;
            frames.insert(4, b"printed".to_vec());
            frames.insert(3, b"text \r\n\xFF\x1A of the program".to_vec());
            let bytes = frames.concat();
            let trace = match read_at_once {
                true => Trace::of_bytes([bytes]),
                false => Trace::of_stream(bytes),
            };
            let report = crate::analyze_trace(trace.unwrap(), &crate::Options::default()).unwrap();
            assert_eq!(report.trace.lost_records, 10, "byte {at}");
            assert_eq!(report.trace.damaged_bytes, length, "byte {at}");
            assert_eq!(report.trace.foreign_bytes, 24 + 7, "byte {at}");
            assert_eq!(warned(&report, "damaged-frames"), 1, "byte {at}");
        }
    }
}

/// Inputs are read in blocks of a MiB.
#[test]
fn a_changed_magic_is_noticed_across_blocks_as_well() {
    let mut frames = long().frames(10);
    frames[1][2] ^= 1;
    let before = frames[0].len();
    for from_end in 0..100 {
        let mut bytes = frames[0].clone();
        bytes.resize((1 << 20) - from_end, b'x');
        let text = (bytes.len() - before) as u64;
        bytes.extend(frames[1..].concat());
        let report = report([bytes]);
        assert_eq!(report.trace.foreign_bytes, text, "{from_end}");
        assert_eq!(report.trace.damaged_bytes, frames[1].len() as u64);
    }
}

#[test]
fn damage_ends_where_a_whole_frame_begins() {
    let mut frames = long().frames(10);
    frames[3][50] ^= 1;
    let length = frames[3].len() as u64;
    frames.insert(6, b"foreign".to_vec());
    let report = report([frames.concat()]);
    assert_eq!(report.trace.damaged_bytes, length);
    assert_eq!(report.trace.foreign_bytes, 7);
}

#[test]
fn a_payload_sum_finds_what_the_trailer_does_not() {
    let mut made = long();
    for has_sum in [false, true] {
        made.frame.has_sum = has_sum;
        let mut frames = made.frames(10);
        frames[5][80 + 40 + 1] ^= 0x20; // a flag
        let report = report([frames.concat()]);
        let lost = if has_sum { 10 } else { 0 };
        assert_eq!(report.trace.lost_records, lost);
        assert_eq!(report.trace.damaged_bytes, 40 * lost);
    }
}

#[test]
fn a_record_that_nobody_wrote_damages_its_frame() {
    let whole = long().frames(10);
    let wrong: [(usize, u8); 4] = [(0, 0x55), (1, 6), (7, 0x41), (7, 0x80)]; // op, family, number
    for (at, value) in wrong {
        let mut frames = whole.clone();
        frames[5][80 + 40 + at] = value;
        let report = report([frames.concat()]);
        assert_eq!(report.trace.lost_records, 10, "{at}: {value}");
        assert_eq!(report.trace.damaged_bytes, 400);
        assert_eq!(warned(&report, "damaged-frames"), 1);
        assert_eq!(warned(&report, "unknown-ops"), 0);
        assert_eq!(report.processes[0].totals.live_blocks, 290);
    }
}

#[test]
fn a_number_that_does_not_fit_those_beside_it_tells_of_no_loss() {
    let whole = long().frames(10);
    for (slot, bit) in [(0, 26), (1, 26), (8, 20), (1, 29)] {
        let mut frames = whole.clone();
        frames[5][80 + 40 * slot + 4 + bit / 8] ^= 1 << (bit % 8);
        let report = report([frames.concat()]);
        assert_eq!(report.trace.lost_records, 10, "bit {bit} of {slot}");
        assert_eq!(report.trace.damaged_bytes, 400);
        assert_eq!(warned(&report, "damaged-frames"), 1);
    }
    // Numbers that other threads took in between are not there, but the thread's own go on from there.
    let mut made = Made::new(0xA0);
    made.malloc(0x1000, 8, 0x10).lose(1 << 26);
    made.malloc(0x2000, 8, 0x10).end(0);
    assert_eq!(made.report().trace.lost_records, 1 << 26);
    assert_eq!(made.report().trace.damaged_bytes, 0);
}

#[test]
fn a_last_frame_that_nobody_wrote_is_missed() {
    let mut frames = long().frames(10);
    let last = frames.len() - 1;
    frames[last][80] = 0x55;
    let report = report([frames.concat()]);
    assert!(report.trace.lost_records > 0);
    assert_eq!(report.processes[0].end, "cut");
}

#[test]
fn bytes_between_frames_are_foreign() {
    let frames = long().frames(10);
    let trace = frames.join(&b"some text of the program\r\n"[..]);
    let report = report([trace]);
    assert_eq!(report.trace.foreign_bytes, 26 * (frames.len() as u64 - 1));
    assert_eq!(report.processes[0].totals.live_blocks, 300);
    assert!(report.trace.complete);
}

#[test]
fn text_inside_a_frame_damages_that_frame() {
    let mut frames = long().frames(10);
    frames[7].splice(100..100, *b"hello");
    let report = report([frames.concat()]);
    assert_eq!(report.trace.lost_records, 10);
    assert_eq!(warned(&report, "damaged-frames"), 1);
}

#[test]
fn a_cut_trace_says_that_it_ends_inside_a_frame() {
    let whole = long().frames(10).concat();
    let report = report([whole[..whole.len() - 20].to_vec()]);
    assert_eq!(warned(&report, "ends-inside-frame"), 1);
    // The torn header may be believed: its first record was there.
    assert!(report.trace.lost_records >= 1);
    assert_eq!(report.processes[0].end, "cut");
}

#[test]
fn copies_and_swapped_stretches_change_nothing() {
    let frames = long().frames(10);
    let whole = report([frames.concat()]);
    let mut twisted: Vec<_> = frames.iter().rev().cloned().collect();
    twisted.extend_from_slice(&frames[3..9]);
    let same = report([twisted.concat()]);
    assert_eq!(same.processes[0].totals, whole.processes[0].totals);
    assert!(same.trace.complete && whole.trace.complete);
    // The same trace, given twice, is one.
    let twice = report([frames.concat(), frames.concat()]);
    assert_eq!(twice.processes.len(), 1);
    assert_eq!(twice.processes[0].totals, whole.processes[0].totals);
}

#[test]
fn the_first_copy_in_place_is_taken_and_a_difference_is_told() {
    let one = record(1, 0, 2, [0x1000, 8, 0x10, 0]);
    let mut later = one;
    put(&mut later, 2, &[9, 9]); // time may differ
    let other = record(1, 0, 2, [0x2000, 8, 0x10, 0]);
    // The source with the lower first number must not win because of that.
    let early = record(1, 0, 1, [0x3000, 8, 0x10, 0]);
    let frame = |slots: &[Slot]| FRAME.bytes(&slots.concat());
    let report = report([[frame(&[one]), frame(&[early, other]), frame(&[later])].concat()]);
    assert_eq!(warned(&report, "copies-differ"), 1);
    assert_eq!(report.processes[0].totals.allocations, 2);
    let address = |bytes: &[Vec<u8>]| {
        let live = super::made::live_blocks([bytes.concat()]);
        live.processes[0].blocks.iter().next().unwrap().address
    };
    assert_eq!(address(&[frame(&[one]), frame(&[other])]), Address(0x1000));
    assert_eq!(address(&[frame(&[other]), frame(&[one])]), Address(0x2000));
}

#[test]
fn every_prefix_and_every_flipped_byte_gives_a_report_or_a_refusal() {
    let mut made = Made::new(0xA0);
    made.malloc(0x1000, 8, 0x10)
        .realloc(0x1000, Some(0x2000), 9, 0x20)
        .free(0x2000, 0x30)
        .end(0);
    let whole = made.frames(4).concat();
    for length in 0..whole.len() {
        if let Ok(trace) = Trace::of_bytes([whole[..length].to_vec()]) {
            let report = crate::analyze_trace(trace, &crate::Options::default()).unwrap();
            assert!(!report.trace.complete || report.processes[0].end == "normal");
        }
    }
    for at in 0..whole.len() {
        for bit in [0x01, 0x80] {
            let mut bytes = whole.clone();
            bytes[at] ^= bit;
            if let Ok(trace) = Trace::of_bytes([bytes]) {
                crate::analyze_trace(trace, &crate::Options::default()).unwrap();
            }
        }
    }
}

#[test]
fn translations_are_taken_back_or_refused_by_name() {
    let mut made = long();
    made.records.truncate(60);
    let whole = made.bytes();
    let replaced = |from: &[u8], to: &[u8]| replaced_in(&whole, from, to);
    let expected = report([whole.clone()]);
    let telnet = replaced(b"\xff", b"\xff\xff");
    let cases = [
        replaced(b"\n", b"\r\n"),
        telnet.clone(),
        replaced_in(&telnet, b"\r", b"\r\0"),
    ];
    for bytes in cases {
        let of_pipe = Trace::of_stream(bytes.clone()).unwrap();
        let of_pipe = crate::analyze_trace(of_pipe, &crate::Options::default()).unwrap();
        for mut found in [report([bytes]), of_pipe] {
            assert_eq!(warned(&found, "translated"), 1);
            found
                .warnings
                .retain(|warning| warning.kind != "translated");
            assert_eq!(json::render(&found), json::render(&expected));
        }
    }
    let lossy = [
        (replaced(b"\r\n", b"\n"), Translation::LineFeedsShrank),
        (
            whole.iter().map(|byte| byte & 0x7F).collect(),
            Translation::SevenBits,
        ),
    ];
    for (bytes, expected) in lossy {
        match open_error(bytes) {
            TraceError::NoWholeFrame { translation, .. } => assert_eq!(translation, Some(expected)),
            other => panic!("{other}"),
        }
    }
}

/// `bytes` with each `from` replaced.
fn replaced_in(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        if rest.starts_with(from) {
            out.extend_from_slice(to);
            rest = &rest[from.len()..];
        } else {
            out.push(rest[0]);
            rest = &rest[1..];
        }
    }
    out
}

/// 500 blocks that come and go, two that stay, 500 more, three that stay: in frames with sums.
fn two_phases() -> Made {
    let mut made = Made::new(0xA0);
    made.frame.has_sum = true;
    for (size, staying, lost) in [(11593, 2, 11597), (11617, 3, 11621)] {
        for _ in 0..500 {
            made.malloc(0x1000, size, 0x10).free(0x1000, 0x20);
        }
        for block in 0..staying {
            made.malloc(0x2000 + lost * 0x100 + block * 0x10000, lost, 0x30);
        }
    }
    made.end(0);
    made
}

fn leaked(report: &Report) -> (u64, u64) {
    let totals = report.processes[0].totals;
    (totals.live_blocks, totals.live_bytes)
}

const ALL: (u64, u64) = (5, 2 * 11597 + 3 * 11621);

fn no_error_is_certain(report: &Report) -> bool {
    report.processes[0]
        .errors
        .iter()
        .all(|error| !error.certain)
}

#[test]
fn a_half_record_less_is_told() {
    let whole = two_phases().bytes();
    let cut = report([whole[..whole.len() - 20].to_vec()]);
    assert_eq!(warned(&cut, "ends-inside-frame"), 1);
    assert!(no_error_is_certain(&cut) && !cut.trace.complete);
}

#[test]
fn a_trace_cut_in_its_second_phase_shows_the_first() {
    let whole = two_phases().bytes();
    let cut = report([whole[..whole.len() * 3 / 4 + 5].to_vec()]);
    let (blocks, bytes) = leaked(&cut);
    assert!(blocks == 2 && bytes == 2 * 11597 || blocks == 3 && bytes == 2 * 11597 + 11617);
    assert_eq!(cut.processes[0].end, "cut");
}

#[test]
fn a_trace_without_its_first_quarter_claims_no_error() {
    let whole = two_phases().bytes();
    let headless = report([whole[whole.len() / 4 + 3..].to_vec()]);
    assert_eq!(warned(&headless, "start-missing"), 1);
    assert!(headless.processes[0].errors.is_empty());
    assert_eq!(leaked(&headless), ALL);
}

#[test]
fn flipped_bytes_and_holes_cost_the_frames_they_hit() {
    let whole = two_phases().bytes();
    let length = whole.len();
    let mut flipped = whole.clone();
    for place in 0..16 {
        flipped[length / 8 + place * (length / 64)] ^= 4;
    }
    let mut holed = whole.clone();
    holed[length / 6..length / 6 + 4096].fill(0);
    for (bytes, most) in [(flipped, 16), (holed, 3)] {
        let found = report([bytes]);
        let frames = warned(&found, "damaged-frames");
        assert!((1..=most).contains(&frames), "{frames}");
        assert!(found.trace.lost_records >= frames && found.trace.lost_records <= 100 * most);
        assert!(no_error_is_certain(&found));
        let (blocks, bytes) = leaked(&found);
        assert!(blocks >= ALL.0 && bytes >= ALL.1, "an upper bound");
        let damage = found.warnings.iter().find(|it| it.kind == "damaged-frames");
        assert!(damage.is_some_and(|it| it.text.contains("the first at byte")));
    }
}

#[test]
fn text_between_pieces_is_counted_and_costs_frames_it_hits() {
    let whole = two_phases().bytes();
    let text = b"some text of the program\r\n";
    let twisted = whole.chunks(40 * 37).collect::<Vec<_>>().join(&text[..]);
    let found = report([twisted]);
    assert!(warned(&found, "damaged-frames") > 0 && no_error_is_certain(&found));
    let between: Vec<_> = two_phases().frames(100).join(&text[..]);
    let found = report([between]);
    assert_eq!(leaked(&found), ALL);
    assert_eq!(found.trace.foreign_bytes % 26, 0);
    assert!(found.trace.complete);
}

#[test]
fn stretches_that_came_twice_or_changed_places_are_noticed() {
    let whole = two_phases().bytes();
    let (at, stretch) = (whole.len() / 4 / 40 * 40, 64 * 40);
    let mut twice = whole.clone();
    twice.splice(at..at, whole[at..at + stretch].to_vec());
    let mut swapped = whole.clone();
    swapped[at..at + 2 * stretch].rotate_left(stretch);
    for bytes in [twice, swapped] {
        let found = report([bytes]);
        assert!(no_error_is_certain(&found));
        assert!(warned(&found, "damaged-frames") > 0 && warned(&found, "unseen-releases") < 3);
        assert!(leaked(&found).0 <= ALL.0 + 2);
    }
}

#[test]
fn a_length_of_all_ones_costs_no_memory() {
    let mut bytes = two_phases().bytes();
    let at = two_phases().frames(100)[0].len() + 16;
    bytes[at..at + 8].fill(255);
    let found = report([bytes]);
    assert_eq!(warned(&found, "damaged-frames"), 1);
    assert_eq!(leaked(&found).0, ALL.0);
}

#[test]
fn what_is_no_trace_is_refused() {
    assert!(matches!(
        open_error(vec![b'x'; 5000]),
        TraceError::NotATrace { .. }
    ));
    let newer = MadeFrame { major: 2, ..FRAME };
    let error = open_error(newer.bytes(&[]));
    assert!(matches!(error, TraceError::Version { found: 2, .. }));
    assert_eq!(error.exit_status(), 3);
    assert!(matches!(Trace::open(&[]), Err(TraceError::NoInput)));
}

#[test]
fn newer_minor_versions_are_read_as_far_as_they_are_known() {
    let mut made = Made::new(0xA0);
    made.frame.minor = 3;
    made.frame.header_length = 96;
    made.push(0xFA, 0, [1; 4]); // may be ignored
    made.malloc(0x1000, 8, 0x10).end(0);
    assert!(made.report().trace.complete);
    assert_eq!(warned(&made.report(), "newer-minor"), 1);
    made.push(0x11, 0, [1; 4]).free(0x9000, 0x20);
    let with_unknown = made.report();
    assert!(!with_unknown.trace.complete);
    assert_eq!(warned(&with_unknown, "unknown-ops"), 1);
    assert!(with_unknown.processes[0].errors.is_empty());

    let short = MadeFrame {
        kind: 7,
        first: made.next,
        number: 9,
        ..made.frame
    };
    let mine = MadeFrame { kind: 200, ..short };
    let trace = [made.bytes(), short.bytes(&[0; 80]), mine.bytes(&[0; 80])].concat();
    let report = report([trace]);
    assert_eq!(warned(&report, "unknown-frames"), 1);
    assert_eq!(report.trace.lost_records, 1);
}

#[test]
fn numbers_are_counted_not_walked() {
    let mut made = Made::new(0xA0);
    made.malloc(0x1000, 8, 0x10);
    let seen = made.next;
    made.lose((1 << 60) - seen).by(101).free(0x1000, 0x20);
    made.frame.lost = 5;
    made.frame.void = 2;
    let report = made.report();
    assert_eq!(report.trace.lost_records, (1 << 60) - seen);
    assert_eq!(report.trace.lost_by_recorder, 5);
    assert_eq!(warned(&report, "lost-records"), 5);
    assert_eq!(warned(&report, "unfinished-calls"), 2);
    assert_eq!(warned(&report, "lost-on-the-way"), (1 << 60) - seen - 7);
}

#[test]
fn settled_tells_of_records_that_never_came() {
    let mut made = Made::new(0xA0);
    made.malloc(0x1000, 8, 0x10);
    made.frame.settled = made.next + 4;
    assert_eq!(made.report().trace.lost_records, 4);
}
