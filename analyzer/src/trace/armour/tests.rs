//! Logs of terminals as the many ways between a device and a file make them.

use super::run::{Mark, mark};
use super::{Parted, Parting};
use heapwire_format::{ARMOUR_WIDE, ArmourHead, FRAME_MAGIC, FrameKind, Header, trailer};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use std::io::Cursor;

const STREAM: u32 = 0xC0FF_EE11;

/// A frame of no records, with this payload.
fn frame(number: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        payload_length: u32::try_from(payload.len()).unwrap(),
        ..Header::new(FrameKind::BLOB, STREAM, number)
    };
    [&header.encode()[..], payload, &trailer(number)].concat()
}

/// Frames whose bytes hold all values.
fn frames(count: u32) -> Vec<Vec<u8>> {
    let payload =
        |number: u32| (0..200 + number * 37).map(move |it| (it * 31 + number).to_le_bytes()[0]);
    (0..count)
        .map(|it| frame(it, &payload(it).collect::<Vec<_>>()))
        .collect()
}

/// The lines of a frame.
fn lines(frame: &[u8], columns: usize) -> Vec<Vec<u8>> {
    let header = Header::decode(frame).unwrap();
    let pieces: Vec<_> = frame.chunks(ArmourHead::room(columns)).collect();
    let following = (0..pieces.len()).rev();
    let all = pieces.iter().zip(following).map(|(piece, following)| {
        let following = u8::try_from(following).unwrap();
        let head = ArmourHead::new(header.stream, header.frame, following);
        let mut out = [0; ARMOUR_WIDE + 1];
        let length = head.encode(piece, &mut out);
        out[..length].to_vec()
    });
    all.collect()
}

/// All of a log: its text, its frames, and what was found.
fn parted(log: &[u8]) -> (Vec<u8>, Vec<u8>, Parting) {
    let mut parted = Parted::new(Box::new(Cursor::new(log.to_vec())));
    let (mut text, mut frames) = (Vec::new(), Vec::new());
    while parted.advance().unwrap() {
        text.extend(parted.parting().text());
        frames.extend(parted.parting().frames());
    }
    (text, frames, parted.parting)
}

/// Checks that `changed` leaves every frame and the text as they are.
fn survives(columns: usize, changed: impl Fn(&[u8]) -> Vec<u8>) -> Parting {
    survives_with(columns, b"", changed)
}

/// The same, where `left` of what was put in is left in the text.
fn survives_with(columns: usize, left: &[u8], changed: impl Fn(&[u8]) -> Vec<u8>) -> Parting {
    let frames = frames(9);
    let mut log = b"Script started\n".to_vec();
    let mut text = log.clone();
    for (number, frame) in frames.iter().enumerate() {
        for line in lines(frame, columns) {
            log.extend(line);
            log.extend(b"..");
            text.extend(b"..");
        }
        let said = format!("round {number}\n~ and ~home ~h\n");
        log.extend(said.as_bytes());
        text.extend(said.as_bytes());
    }
    let (found_text, found, parted) = parted(&changed(&log));
    assert!(
        found == frames.concat(),
        "{columns} columns, {}",
        String::from_utf8_lossy(left)
    );
    let printable = |text: &[u8]| -> String {
        let text = String::from_utf8_lossy(text).into_owned();
        let text = text.replace(&*String::from_utf8_lossy(left), "");
        text.chars().filter(char::is_ascii_graphic).collect()
    };
    assert_eq!(printable(&found_text), printable(&text));
    parted
}

fn replaced(log: &[u8], byte: u8, by: &[u8]) -> Vec<u8> {
    let each = log.iter().flat_map(|it| {
        if *it == byte {
            by
        } else {
            std::slice::from_ref(it)
        }
    });
    each.copied().collect()
}

#[test]
fn frames_survive_what_terminals_do() {
    for columns in [76, 101, 252] {
        survives(columns, <[u8]>::to_vec);
        let parted = survives(columns, |log| replaced(log, b'\n', b"\r\n"));
        assert_eq!(parted.line_end(), Some(&b"\r\n"[..]));
        survives(columns, |log| replaced(log, b'\n', b"\r\r\n"));
        survives(columns, |log| replaced(log, b'\n', b"\r\0\n"));
        survives_with(columns, b"\x1b[K", |log| {
            replaced(log, b'\n', b"\r\n\x1b[K")
        });
        // Even parity.
        let parity = |byte: &u8| byte | u8::from(byte.count_ones() % 2 == 1) << 7;
        let with_parity = |log: &[u8]| log.iter().map(parity).collect::<Vec<_>>();
        let (_, found, _) = parted_of(columns, with_parity);
        assert!(found);
        // Negotiation of telnet, flow control and escape sequences at any place.
        for junk in [
            &b"\xff\xfb\x01"[..],
            b"\x11",
            b"\x13\x11",
            b"\0",
            b"\x1b[1;31m",
            b"\x1b]0;title\x07",
            b"\x1b(B",
        ] {
            survives_with(columns, junk, |log| {
                let parts: Vec<_> = log.chunks(59).collect();
                parts.join(junk)
            });
        }
    }
}

/// Text, whether all frames were found, and the rest, after a change that text does not survive.
fn parted_of(columns: usize, changed: impl Fn(&[u8]) -> Vec<u8>) -> (Vec<u8>, bool, Parting) {
    let frames = frames(9);
    let log: Vec<u8> = frames
        .iter()
        .flat_map(|it| lines(it, columns).concat())
        .collect();
    let (text, found, parted) = parted(&changed(&log));
    (text, found == frames.concat(), parted)
}

#[test]
fn long_lines_survive_a_narrow_terminal() {
    for (width, wrap) in [
        (40, &b"\r\n"[..]),
        (80, b"\r\n"),
        (81, b"\r\n"),
        (132, b"\r\n"),
        (80, b" \r"),
        (80, b" \r\n"),
    ] {
        survives(252, |log| {
            let lines = log.split_inclusive(|byte| *byte == b'\n');
            let wrapped = lines.map(|line| line.chunks(width).collect::<Vec<_>>().join(wrap));
            wrapped.collect::<Vec<_>>().concat()
        });
    }
}

#[test]
fn a_line_that_comes_again_mends_one_that_was_changed() {
    for columns in [76, 252] {
        for whole in [0, 1] {
            let (_, found, parted) = parted_of(columns, |log| {
                let lines = log.split_inclusive(|byte| *byte == b'\n');
                let twice = lines.flat_map(|line| {
                    let mut both = [line.to_vec(), line.to_vec()];
                    both[1 - whole][9] ^= 1;
                    both
                });
                twice.collect::<Vec<_>>().concat()
            });
            assert!(found, "{columns}");
            assert!(parted.found().damaged > 0 && parted.found().repeated == 0);
            assert_eq!(parted.found().arrived.missing().count(), 0);
        }
    }
}

#[test]
fn text_in_the_midst_of_a_line_is_taken_out() {
    let frames = frames(3);
    let of_kernel = b"[   12.345678] usb 1-1: new high-speed USB device number 4\r\n";
    for columns in [76, 252] {
        for text in [&of_kernel[..], b"\r\n[  1.5] a\r\n[  1.6] b\r\n"] {
            let all: Vec<_> = frames.iter().flat_map(|it| lines(it, columns)).collect();
            for (index, line) in all.iter().enumerate() {
                for at in [1, 2, 7, 30, line.len() / 2, line.len() - 2] {
                    let mut log = all.clone();
                    let at = at.min(line.len() - 2);
                    log[index] = [&line[..at], text, &line[at..]].concat();
                    let (found_text, found, parted) = parted(&log.concat());
                    assert!(
                        found == frames.concat(),
                        "{columns} columns, line {index} at {at}"
                    );
                    assert_eq!(
                        parted.found().mended,
                        1,
                        "{columns} columns, line {index} at {at} {text:?}"
                    );
                    let text = String::from_utf8_lossy(text);
                    assert_eq!(String::from_utf8_lossy(&found_text).trim(), text.trim());
                }
            }
        }
    }
    // A prompt has no line feed: it is known by the line that is too long, if that is one that others follow.
    for line in 0..3 {
        let mut all = lines(&frames[0], 76);
        all[line].splice(20..20, *b"root@board:~# ");
        let (text, found, _) = parted(&all.concat());
        assert!(found == frames[0]);
        assert_eq!(text, b"root@board:~# ");
    }
}

#[test]
fn a_mark_that_text_parts_takes_no_line_before_it() {
    let frame = &frames(1)[0];
    let mut all = lines(frame, 76);
    all[1].splice(1..1, *b"[ 1.5] a\n");
    all.insert(0, b"round ~ ".to_vec());
    let (text, found, _) = parted(&all.concat());
    assert!(found == *frame);
    assert_eq!(text, b"round ~ [ 1.5] a\n");
}

#[test]
fn copies_and_other_writers_do_no_harm() {
    let frames = frames(4);
    let [one, other, third, fourth] = [0, 1, 2, 3].map(|it| lines(&frames[it], 76));
    // Line by line two frames at once, then both again, as an echo has it.
    let mut log = Vec::new();
    for index in 0..one.len().max(other.len()) {
        for lines in [&one, &other] {
            log.extend(lines.get(index).cloned().unwrap_or_default());
        }
    }
    let log = [
        &log[..],
        &log,
        &third.concat(),
        &third.concat(),
        &fourth.concat(),
    ]
    .concat();
    let (text, found, parted) = parted(&log);
    assert_eq!(text, b"");
    assert!(found == frames.concat());
    let lines = (one.len() + other.len() + third.len()) as u64;
    assert_eq!(parted.found().repeated, lines);
    assert_eq!(parted.found().lines, 2 * lines + fourth.len() as u64);
}

#[test]
fn numbers_of_frames_may_come_again_after_256() {
    let frames: Vec<_> = (0..600).map(|it| frame(it, b"0123456789")).collect();
    let log: Vec<u8> = frames
        .iter()
        .flat_map(|it| lines(it, 76).concat())
        .collect();
    let (_, found, parted) = parted(&log);
    assert!(found == frames.concat());
    assert_eq!(parted.found().arrived.missing().count(), 0);
}

#[test]
fn lines_of_a_torn_frame_do_not_get_into_one_that_comes_256_later() {
    let payload = |number: u32| [number.to_le_bytes(); 50].concat();
    let frames: Vec<_> = (0..600).map(|it| frame(it, &payload(it))).collect();
    let all: Vec<_> = frames.iter().map(|it| lines(it, 76)).collect();
    for lost in 0..all[5].len() {
        let mut log = all.clone();
        log[5].remove(lost);
        // Also where all frames in between are lost.
        for (gap, missing) in [(6..6, 5..6), (6..261, 5..261)] {
            let mut log = log.clone();
            log.drain(gap.clone());
            let (_, found, parted) = parted(&log.concat().concat());
            let gaps: Vec<_> = parted.found().arrived.missing().collect();
            assert_eq!(gaps, [(STREAM, missing)], "line {lost}");
            for frame in &frames[gap.end..] {
                assert!(found.windows(frame.len()).any(|it| it == frame));
            }
        }
    }
}

#[test]
fn a_frame_without_all_its_lines_is_torn_and_named() {
    let frames = frames(3);
    let all: Vec<_> = frames.iter().map(|it| lines(it, 76)).collect();
    for line in 0..all[1].len() {
        let mut log = all.clone();
        log[1].remove(line);
        let (text, found, parted) = parted(&log.concat().concat());
        assert_eq!(text, b"");
        // What is left of it comes last.
        let (whole, torn) = found.split_at(frames[0].len() + frames[2].len());
        assert!(whole == [&frames[0][..], &frames[2]].concat());
        assert!(torn.starts_with(&FRAME_MAGIC));
        let is_known = Header::decode(torn).is_ok();
        assert_eq!(is_known, line > 1, "the first two lines have the header");
        if is_known {
            assert_eq!(torn.len(), frames[1].len());
            assert_ne!(torn[torn.len() - 4..], trailer(1));
        }
        let missing: Vec<_> = parted.found().arrived.missing().collect();
        assert_eq!(missing, [(STREAM, 1..2)]);
    }
}

/// A change somewhere in a log.
#[derive(Clone, Debug)]
enum Change {
    Replace(usize, u8),
    Remove(usize, usize),
    Insert(usize, Vec<u8>),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let bytes = prop_oneof![
        3 => vec(any::<u8>(), 1..40),
        1 => Just(b"~h".to_vec()),
        1 => Just(b"~hAAAAAAAAAAAAAAAAAAAAAAAA\n".to_vec()),
        1 => Just(b"\x1b[".to_vec()),
    ];
    let at = 0usize..6000;
    let change = prop_oneof![
        (at.clone(), any::<u8>()).prop_map(|(at, to)| Change::Replace(at, to)),
        (at.clone(), 1usize..200).prop_map(|(at, count)| Change::Remove(at, count)),
        (at, bytes).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
    ];
    vec(change, 0..6)
}

proptest! {
    #[test]
    fn no_damage_makes_a_false_frame_or_hides_one_that_it_did_not_touch(changes in changes(), is_wide: bool) {
        let frames = frames(12);
        let columns = if is_wide { 252 } else { 76 };
        // Each byte with the frame that it is of.
        let of_lines = |(index, frame): (usize, &Vec<u8>)| {
            lines(frame, columns).concat().into_iter().map(move |byte| (byte, index))
        };
        let mut log: Vec<(u8, usize)> = frames.iter().enumerate().flat_map(of_lines).collect();
        let mut is_touched = [false; 12];
        for change in changes {
            let (at, count) = match &change {
                Change::Replace(at, _) => (*at, 1),
                Change::Remove(at, count) => (*at, *count),
                Change::Insert(at, _) => (*at, 0),
            };
            let at = at.min(log.len() - 1);
            let end = (at + count).min(log.len());
            // What stands before and after an insertion, or loses its line feed, counts as touched.
            for (_, frame) in &log[at.saturating_sub(1)..(end + 1).min(log.len())] {
                is_touched[*frame] = true;
            }
            let frame = log[at].1;
            let new = match change {
                Change::Replace(_, to) => vec![to],
                Change::Remove(..) => Vec::new(),
                Change::Insert(_, bytes) => bytes,
            };
            log.splice(at..end, new.into_iter().map(|byte| (byte, frame)));
        }
        let log: Vec<u8> = log.into_iter().map(|(byte, _)| byte).collect();
        let (_, found, parted) = parted(&log);
        let found = whole(&found);
        for frame in &found {
            assert!(frames.contains(frame), "a frame that nobody wrote");
        }
        for (frame, is_touched) in frames.iter().zip(is_touched) {
            assert!(is_touched || found.contains(frame), "a frame is not found");
        }
        assert!(parted.found().text <= log.len() as u64);
    }

    #[test]
    fn any_bytes_are_parted(bytes in vec(prop_oneof![any::<u8>(), Just(b'~'), Just(b'h'), Just(b'A'), Just(b'\n')], 0..4000)) {
        let (text, frames, _) = parted(&bytes);
        assert!(text.len() <= bytes.len() && frames.is_empty());
    }
}

/// The whole frames in `bytes`.
fn whole(bytes: &[u8]) -> Vec<Vec<u8>> {
    let starts = bytes
        .windows(8)
        .enumerate()
        .filter(|(_, it)| *it == FRAME_MAGIC);
    let frames = starts.filter_map(|(at, _)| {
        let header = Header::decode(&bytes[at..]).ok()?;
        let end = at + usize::try_from(header.frame_length()).ok()?;
        let frame = bytes.get(at..end)?;
        frame
            .ends_with(&trailer(header.frame))
            .then(|| frame.to_vec())
    });
    frames.collect()
}

#[test]
fn a_log_may_end_within_a_mark() {
    // Behind its first byte whatever a terminal or telnet has begun.
    for first in 0..=255 {
        for second in 0..=255 {
            let bytes = [b'~', first, second];
            if let Mark::Whole(length) = mark(&bytes) {
                assert!(length <= bytes.len());
            }
        }
    }
    assert!(matches!(mark(b"~\xFF\xFB"), Mark::Begun));
}
