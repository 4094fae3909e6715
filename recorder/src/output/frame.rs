//! The first slots of a lane as one frame: its payload, its header, and the way it goes.

use super::write::{piece, total, write_file, write_pipe};
use super::{Kind, OUTPUT};
use crate::config::CONFIG;
use crate::cull::Culling;
use crate::image::Image;
use crate::lane::Lane;
use crate::pack::{PAYLOAD, Taken};
use crate::ring::{Slot, Span, slot};
use crate::sync::Relaxed;
use crate::turn::Turn;
use crate::{clock, flush};
use heapwire_format::{
    Crc32, FLAG_LATE, FrameKind, Header, Op, PACKED_RECORD, PACKED_START, PIPE_FRAME, Record,
    SumKind, TRAILER_SIZE, trailer,
};

/// Records in a frame that one write to a pipe takes whole, with room left in the page for the frame of the last record: the
/// kernel puts that one there where the pipe is full, and what was dropped is told.
const RECORDS_IN_PIPE_FRAME: u32 = 96;
const _: () = assert!(RECORDS_IN_PIPE_FRAME as usize * Record::SIZE <= MOST_IN_PIPE);
/// Bytes of a payload of which the same holds.
const MOST_IN_PIPE: usize =
    PIPE_FRAME - 2 * (Header::SIZE + TRAILER_SIZE) - PACKED_START - PACKED_RECORD;

/// Records that a payload has room for, whatever they are.
const RECORDS_THAT_FIT: u32 = 80;
const _: () = assert!(
    PACKED_START + PACKED_RECORD * RECORDS_THAT_FIT as usize <= MOST_IN_PIPE
        && MOST_IN_PIPE <= PAYLOAD
);

impl Kind {
    /// Most records in one frame.
    pub(crate) const fn records_in_frame(self) -> u32 {
        match self {
            Self::Pipe | Self::Terminal | Self::Socket => RECORDS_IN_PIPE_FRAME,
            _ => u32::MAX,
        }
    }

    /// Most bytes of a packed payload.
    const fn bytes_in_payload(self) -> usize {
        match self {
            Self::Pipe | Self::Terminal | Self::Socket => MOST_IN_PIPE,
            _ => PAYLOAD,
        }
    }
}

/// Writes the first slots of `span` as one frame and says how many they were. What cannot be written is counted as lost.
///
/// Where the turn is over afterwards, that means nothing.
pub(crate) fn write_frame(image: &Image, lane: &Lane, span: Span, turn: &Turn<'_>) -> Span {
    try_write_frame(image, lane, span, turn).unwrap_or_else(|| {
        if !turn.is_over() {
            image.lose(span.count);
        }
        span
    })
}

fn try_write_frame(image: &Image, lane: &Lane, span: Span, turn: &Turn<'_>) -> Option<Span> {
    let kind = OUTPUT.kind();
    if kind == Kind::Closed {
        return None;
    }
    // Before the size: another thread may append lanes in between, and the file is no shorter for it.
    let floor = image.file_floor.load(); // stored by `map_in_file`, which has written them
    let held = OUTPUT.hold(image)?;
    if kind == Kind::File && held.size < floor {
        image.file_shrank();
        return None;
    }
    let packs = CONFIG.get().packs(kind);
    let mut bench = packs.then(|| image.benches.take()).flatten();
    let first = first_number(lane, span);
    let payload = match &mut bench {
        Some(bench) => Payload::packed(bench, first, lane, span, kind),
        None => Payload::plain(lane, span, kind),
    };
    let span = Span {
        count: payload.records,
        ..span
    };
    let culled = payload.culled;
    let header = Header {
        first,
        ..header(image, lane, span, &payload, kind)
    };
    let number = header.frame;
    let end = trailer(number);
    let header = header.encode();
    let [one, other] = payload.pieces;
    let frame = [piece(&header), one, other, piece(&end)];
    let is_written = match kind {
        Kind::Terminal | Kind::Socket => {
            let is_written = image.stream.write(image, &frame, number, kind, turn);
            if !is_written && !turn.is_over() {
                // Missing numbers are for frames that are lost on the way; in a race this one stays missing.
                let next = number.wrapping_add(1);
                let _ = image
                    .frames
                    .compare_exchange(next, number, Relaxed, Relaxed);
            }
            is_written
        }
        Kind::Pipe => write_pipe(image, &frame, turn),
        _ => write_file(&frame),
    };
    if is_written {
        image.repeats.note_written(total(&frame));
        image.culled.fetch_add(culled, Relaxed); // a count, of what is not tried again
    }
    is_written.then_some(span)
}

/// What a frame holds.
struct Payload {
    kind: FrameKind,
    /// The first slots of the span, as many as these.
    records: u32,
    pieces: [libc::iovec; 2],
    sum: Option<u32>,
    /// Records that are left out on purpose.
    culled: u32,
}

impl Payload {
    /// Records as they are.
    fn plain(lane: &Lane, span: Span, kind: Kind) -> Self {
        Self {
            kind: FrameKind::RECORDS,
            records: span.count,
            pieces: pieces(lane.slots(), span),
            sum: CONFIG.get().sums(kind).then(|| sum(lane.slots(), span)),
            culled: 0,
        }
    }

    /// Records packed, which lie in `bench`.
    fn packed(bench: &mut Taken<'_>, first: u64, lane: &Lane, span: Span, kind: Kind) -> Self {
        let config = CONFIG.get();
        let all = Span {
            count: span.count.min(RECORDS_THAT_FIT),
            ..span
        };
        let culling = config
            .culls
            .then(|| Culling::of(lane.slots(), all))
            .flatten();
        let span = if culling.is_some() { all } else { span };
        let (payload, records) = bench.pack(
            first,
            lane.slots(),
            span,
            culling.as_ref(),
            kind.bytes_in_payload(),
        );
        Self {
            kind: FrameKind::PACKED,
            records,
            pieces: [piece(payload), piece::<u8>(&[])],
            sum: config.sums(kind).then(|| Crc32::of(payload)),
            culled: culling.map_or(0, |culling| culling.records),
        }
    }
}

fn header(image: &Image, lane: &Lane, span: Span, payload: &Payload, kind: Kind) -> Header {
    let sum_kind = if payload.sum.is_some() {
        SumKind::Crc32
    } else {
        SumKind::None
    };
    let is_late = lane.is_late(clock::now());
    Header {
        flags: if is_late { FLAG_LATE } else { 0 },
        sum_kind: sum_kind as u8,
        payload_length: u32::try_from(total(&payload.pieces)).unwrap_or(u32::MAX),
        thread: lane.thread.load(Relaxed),
        tid: lane.tid.load(Relaxed),
        payload_sum: payload.sum.unwrap_or(0),
        clock: lane.base_clock.load(),
        settled: if kind == Kind::File {
            0
        } else {
            flush::settled(image, lane, span)
        },
        lost: image.lost.load(Relaxed),
        void: image.void.load(Relaxed),
        culled: image.culled.load(Relaxed).wrapping_add(payload.culled),
        ..Header::new(
            payload.kind,
            image.tag.load(Relaxed),
            image.frames.fetch_add(1, Relaxed), // each frame its own number; publishes nothing
        )
    }
}

/// The full number of the first record.
fn first_number(lane: &Lane, span: Span) -> u64 {
    let (slots, base) = (lane.slots(), lane.base_number.load());
    let records = (0..span.count).filter_map(|step| slot(slots, span.from.wrapping_add(step)));
    records
        .map(|slot| Record::from_words([slot.head(), 0, 0, 0, 0]))
        .find(|record| record.op != Op::VOID)
        .map_or(base, |record| record.full_number(base))
}

fn sum(slots: &[Slot], span: Span) -> u32 {
    (0..span.count)
        .filter_map(|step| slot(slots, span.from.wrapping_add(step)))
        .flat_map(Slot::words)
        .fold(Crc32::new(), |sum, word| sum.with(&word.to_le_bytes()))
        .value()
}

/// The memory of the slots of `span`: one piece, or two where the ring wraps.
fn pieces(slots: &[Slot], span: Span) -> [libc::iovec; 2] {
    let start = span.from as usize & slots.len().wrapping_sub(1);
    let count = span.count as usize;
    let until_end = slots.len().saturating_sub(start).min(count);
    let first = slots
        .get(start..start.wrapping_add(until_end))
        .unwrap_or_default();
    let second = slots
        .get(..count.saturating_sub(until_end))
        .unwrap_or_default();
    [piece(first), piece(second)]
}
