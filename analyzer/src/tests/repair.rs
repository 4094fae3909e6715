//! What is repaired is sound: no damage is left in it, a second repair changes nothing, and it tells of the processes what the
//! damaged trace told.

use super::made::{Made, MadeFrame, Slot, crc, put, report, warned};
use super::twin::{Chance, random_calls};
use crate::Repair;
use crate::findings::wholeness_of;
use crate::report::json;
use crate::trace::Input;
use heapwire_format::{Header, PACKED_RECORD, PACKED_START, Packer, Record};
use std::path::Path;

fn twice(bytes: &[u8]) -> (Input, Input) {
    let input = || Input::in_memory("t.hwt".into(), bytes.to_vec());
    (input(), input())
}

/// What is saved of `bytes`; `None` where no frame is whole.
fn repaired(bytes: &[u8]) -> Option<Vec<u8>> {
    let (input, again) = twice(bytes);
    let mut out = Vec::new();
    Repair::of(input, again).ok()?.write(&mut out).unwrap();
    Some(out)
}

/// What `verify` finds damaged, and what it finds missing.
fn defects(bytes: &[u8]) -> [Vec<&'static str>; 2] {
    let (input, again) = twice(bytes);
    let found = wholeness_of(Path::new("t.hwt"), input, again).unwrap();
    [found.damage, found.missing].map(|defects| defects.iter().map(|it| it.kind).collect())
}

fn is_sound_and_stays_so(once: &[u8], about: &str) {
    let [damage, _] = defects(once);
    assert!(damage.is_empty(), "{about}: {damage:?}");
    let again = repaired(once).unwrap();
    assert!(again == once, "{about}: another repair changes it");
}

/// A frame with these records: plain, with a sum, or packed.
fn frame(head: MadeFrame, slots: &[Slot], kind: u64) -> Vec<u8> {
    let words = slots.iter().map(|slot| Record::decode(slot).to_words());
    let mut packed = vec![0; PACKED_START + slots.len() * PACKED_RECORD];
    match kind {
        0 => head.bytes(slots.as_flattened()),
        1 => MadeFrame {
            has_sum: true,
            ..head
        }
        .bytes(slots.as_flattened()),
        _ => {
            let bytes = Packer::new().pack(head.first, words, &mut packed).bytes;
            MadeFrame { kind: 2, ..head }.bytes(&packed[..bytes])
        }
    }
}

/// Frames of a stream, of all kinds.
fn frames(made: &Made, chance: &mut Chance) -> Vec<Vec<u8>> {
    let runs = made.records.chunk_by(|one, next| one.0 == next.0);
    let parts = runs.flat_map(|run| run.chunks(6));
    let frames = (0..).zip(parts).map(|(number, part)| {
        let slots: Vec<_> = part.iter().map(|(.., slot)| *slot).collect();
        let head = MadeFrame {
            number,
            tid: part[0].0,
            first: part[0].1,
            ..made.frame
        };
        frame(head, &slots, chance.below(4).saturating_sub(1))
    });
    frames.collect()
}

/// Frames of a stream and of a child's, that is forked somewhere, as they come in one pipe.
fn with_child(made: &mut Made, chance: &mut Chance) -> Vec<Vec<u8>> {
    let mut child = made.child(0xB0);
    for made in [&mut *made, &mut child] {
        for block in 1..=1 + chance.below(20) {
            made.malloc(0x8000 * block, 8, 0x10);
        }
        made.end(0);
    }
    let (parents, children) = (frames(made, chance), frames(&child, chance));
    let mut streams = [parents.into_iter(), children.into_iter()];
    let mut all = Vec::new();
    while streams.iter().any(|left| left.len() > 0) {
        all.extend(streams[usize::from(chance.below(3) == 0)].next());
    }
    all
}

/// Changes something that sums show or do not show.
fn damage(frames: &mut Vec<Vec<u8>>, chance: &mut Chance) {
    let mut pick = |bound: usize| usize::try_from(chance.below(bound as u64)).unwrap();
    let at = pick(frames.len());
    let length = frames[at].len();
    let byte = u8::try_from(1 + pick(255)).unwrap();
    match pick(8) {
        0 => {
            let place = pick(length);
            frames[at][place] ^= byte;
        }
        1 => frames[at].truncate(1 + pick(length)),
        2 => drop(frames.remove(at)),
        3 => frames[at].splice(0..0, *b"printed\n").for_each(drop),
        // The number of a record.
        4 | 5 if length > 84 + 40 => {
            let record = pick((length - 84) / 40);
            frames[at][80 + 40 * record + 4] ^= byte & 0x1F;
        }
        // A copy that comes later, and is another in one byte.
        6 => {
            let mut copy = frames[at].clone();
            let place = pick(length);
            copy[place] ^= byte;
            frames.insert(pick(frames.len() + 1), copy);
        }
        // A field of a header whose sum fits.
        _ if length > 80 => {
            frames[at][8 + pick(68)] ^= byte;
            let sum = crc(&frames[at][..76]);
            put(&mut frames[at], 76, &sum.to_le_bytes());
        }
        _ => {}
    }
}

#[test]
fn whatever_is_damaged_is_sound_after_repair() {
    for seed in 1..=300 {
        let mut chance = Chance(seed * 0x9E37_79B9);
        let calls = 1 + chance.below(80);
        let mut made = random_calls(&mut chance, calls);
        let mut frames = frames(&made, &mut chance);
        if chance.below(2) == 0 {
            frames = with_child(&mut made, &mut chance);
        }
        for _ in 0..1 + chance.below(5) {
            if !frames.is_empty() {
                damage(&mut frames, &mut chance);
            }
        }
        let bytes = frames.concat();
        let Some(once) = repaired(&bytes) else {
            continue;
        };
        let about = format!("seed {seed}");
        is_sound_and_stays_so(&once, &about);
        let told = |bytes: &[u8]| {
            let report = report([bytes.to_vec()]);
            (json::render(&report.processes), report.trace.lost_records)
        };
        assert_eq!(told(&once), told(&bytes), "{about}");
    }
}

#[test]
fn of_records_with_one_number_the_first_is_saved_and_the_others_are_told() {
    let mut made = Made::new(0xA0);
    made.malloc(0x1000, 8, 0x10).malloc(0x2000, 9, 0x10).end(0);
    let whole = made.bytes();
    let mut other = whole.clone();
    other[whole.len() - 4 - 2 * 40 + 8] ^= 0x40; // the address of the second block
    let bytes = [whole.clone(), other].concat();
    assert_eq!(defects(&bytes)[0], ["copies-differ"]);
    let once = repaired(&bytes).unwrap();
    is_sound_and_stays_so(&once, "a copy that differs");
    assert_eq!(defects(&once), [vec![], vec!["left-out"]]);
    let found = report([once]);
    assert!(!found.trace.complete);
    let leaks = json::render(&report([whole]).processes);
    assert_eq!(json::render(&found.processes), leaks);
}

/// Behind the last record that is there nothing tells how far the numbers went.
#[test]
fn how_long_a_last_frame_was_stays_unknown() {
    let mut made = Made::new(0xA0);
    for block in 1..=40 {
        made.malloc(0x1000 * block, 8, 0x10);
    }
    let mut frames = made.end(0).frames(10);
    let last = frames.last_mut().unwrap();
    let end = last.len() - 1;
    last[end] ^= 1; // the trailer
    let once = repaired(&frames.concat()).unwrap();
    is_sound_and_stays_so(&once, "a last frame");
    let told = report([once]).trace;
    assert!(told.lost_is_lower_bound && !told.complete);
    let mut whole = made.frames(10);
    let end = whole[1].len() - 1;
    whole[1][end] ^= 1;
    let told = report([repaired(&whole.concat()).unwrap()]).trace;
    assert_eq!((told.lost_is_lower_bound, told.lost_records), (false, 10));
}

/// A frame of one thread may hold numbers behind those of others that come after it.
#[test]
fn nor_is_it_known_of_a_threads_last_frame_though_others_go_on() {
    for (ends, exact) in [(false, false), (true, true)] {
        let mut made = Made::new(0xA0);
        for block in 1..=40 {
            made.malloc(0x1000 * block, 8, 0x10);
        }
        if ends {
            made.end(0);
        }
        let mut frames = made.frames(10);
        let other = frames[2].as_mut_slice();
        let header = Header {
            thread: 9,
            ..Header::decode(other).unwrap()
        };
        other[..Header::SIZE].copy_from_slice(&header.encode());
        let end = other.len() - 1;
        other[end] ^= 1;
        let once = repaired(&frames.concat()).unwrap();
        is_sound_and_stays_so(&once, "a thread's last frame");
        let told = report([once.clone()]).trace;
        let left_out = warned(&report([once]), "left-out");
        assert_eq!(left_out == 0, exact, "{told:?}");
        assert!(ends || told.lost_is_lower_bound);
    }
}

#[test]
fn bytes_in_no_frame_are_told_of_after_a_repair() {
    let mut made = Made::new(0xA0);
    for block in 1..=30 {
        made.malloc(0x1000 * block, 8, 0x10);
    }
    let mut frames = made.end(0).frames(10);
    let between = frames.concat();
    let text = [&[b' '; 500][..], &between].concat();
    assert!(repaired(&text).unwrap() == between, "text is no damage");
    let end = frames[1].len() - 1;
    frames[1][end] ^= 1;
    let damaged = frames[1].len() as u64;
    let once = repaired(&[&[0; 500][..], &frames.concat()].concat()).unwrap();
    is_sound_and_stays_so(&once, "zeros");
    assert_eq!(warned(&report([once]), "left-out"), 500 + damaged);
}

#[test]
fn what_a_record_says_was_left_out_may_be_any_number() {
    let mut made = Made::new(0xA0);
    made.malloc(0x1000, 8, 0x10).end(0);
    let mut observer = Made::bare(0);
    observer.push(0xF9, 0, [u64::MAX, u64::MAX, u64::MAX, 0]);
    let report = report([[made.bytes(), observer.bytes()].concat()]);
    assert_eq!(warned(&report, "left-out"), u64::MAX);
}
