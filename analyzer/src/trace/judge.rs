//! What a frame holds: looked at by itself, so that many can be looked at at once.

use super::frames::{Block, Found, Frame};
use super::lanes;
use super::source::{Holder, Place, Slot, Source};
use heapwire_format::{
    FLAG_LATE, FLAG_MIXED, FrameKind, Header, LanesTable, MINOR, Record, SumKind, Unpacker,
};

/// A frame, and what it holds.
pub(crate) struct Judged {
    pub(crate) header: Header,
    /// Input and offset.
    pub(crate) place: (u32, u64),
    pub(crate) content: Content,
}

pub(crate) enum Content {
    /// The frame is not whole.
    Torn,
    /// The sum of its payload is wrong, or it cannot be unpacked.
    Damaged,
    /// This version does not know the kind.
    Unknown,
    /// There is nothing in it for the reader.
    Skipped,
    /// Records, and bytes that are not a whole record.
    Records(Source, u64),
    /// Lanes, their table, and whether that contradicts itself.
    Lanes(Vec<Source>, Option<LanesTable>, bool),
}

impl Judged {
    pub(crate) fn of(found: Found) -> Self {
        match found {
            Found::Torn(header) => Self {
                header,
                place: (0, 0),
                content: Content::Torn,
            },
            Found::Whole(frame) => Self {
                header: frame.header,
                place: (frame.input, frame.offset),
                content: content(&frame),
            },
        }
    }

    /// Whether it says that the trace has another stream than `only`.
    pub(crate) fn is_of_several(&self, only: Option<u32>) -> bool {
        let is_other =
            self.header.stream != 0 && only.is_some_and(|only| self.header.stream != only);
        match &self.content {
            Content::Records(source, _) => is_other || source.has_fork,
            Content::Lanes(lanes, ..) => is_other || lanes.iter().any(|lane| lane.has_fork),
            Content::Torn | Content::Damaged => is_other,
            _ => false,
        }
    }
}

fn content(frame: &Frame) -> Content {
    let header = &frame.header;
    if header.sum_kind == SumKind::Crc32 as u8
        && header.kind != FrameKind::LANES
        && crc32fast::hash(&frame.block[frame.payload()]) != header.payload_sum
    {
        return Content::Damaged;
    }
    match header.kind {
        FrameKind::RECORDS => {
            let place = place(
                frame,
                Block::clone(&frame.block),
                frame.payload().start,
                header.payload_length / RECORD_SIZE,
            );
            let beyond = header.payload_length as usize % Record::SIZE;
            let mut source = Source::survey(place);
            if header.sum_kind == SumKind::None as u8 {
                source.look_for_strays();
            }
            Content::Records(source, beyond as u64)
        }
        FrameKind::PACKED => unpacked(frame),
        FrameKind::LANES => {
            let found = lanes::read(frame);
            let lanes = found.places.into_iter().map(Source::survey);
            Content::Lanes(lanes.collect(), found.table, found.is_damaged)
        }
        FrameKind::BLOB | FrameKind::PADDING | FrameKind::INDEX | FrameKind(128..) => {
            Content::Skipped
        }
        _ => Content::Unknown,
    }
}

/// The records of a packed frame, as if they had lain there plain. It is believed as a whole or not at all.
fn unpacked(frame: &Frame) -> Content {
    let payload = &frame.block[frame.payload()];
    let mut unpacker = Unpacker::new(frame.header.first, payload);
    let most = unpacker.most().min(MOST_PACKED);
    let mut slots: Vec<Slot> = Vec::with_capacity(most as usize);
    unpacker.words(most, |words| slots.push(Record::from_words(words).encode()));
    if !unpacker.is_whole() {
        return Content::Damaged;
    }
    let count = u32::try_from(slots.len()).unwrap_or(0); // at most `most`
    let slots = Block::new(slots.into_flattened());
    let source = Source::survey(place(frame, slots, 0, count));
    if source.impossible > 0 {
        return Content::Damaged;
    }
    Content::Records(source, 0)
}

/// Where the slots of a frame lie.
fn place(frame: &Frame, block: Block, at: usize, slots: u32) -> Place {
    let header = &frame.header;
    Place {
        block,
        at,
        slots,
        reference: header.first,
        clock: header.clock,
        tid: header.tid,
        is_mixed: header.flags & FLAG_MIXED != 0,
        is_late: header.flags & FLAG_LATE != 0,
        frame: (frame.input, frame.offset),
        holder: Holder::Frame,
        lane: 0,
        is_newer: header.version.1 > MINOR,
    }
}

/// Most records of a packed frame (SPEC.md 8.1).
pub(super) const MOST_PACKED: u32 = 1 << 16;
pub(super) const RECORD_SIZE: u32 = 40;
const _: () = assert!(RECORD_SIZE as usize == Record::SIZE);
