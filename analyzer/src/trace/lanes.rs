//! Finds the records that a LANES frame still holds: what the lanes had not yet written when the process ended.

use super::frames::{Block, Frame};
use super::source::{Holder, Place};
use heapwire_format::{LANES_MAGIC, LANES_PAGE, LaneHeader, LanesTable, MINOR, Record};
use memchr::memmem;

/// What a LANES frame gave.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// The slots of each lane that was used.
    pub(crate) places: Vec<Place>,
    /// The table; `None` if the image never used the frame.
    pub(crate) table: Option<LanesTable>,
    /// The table or a lane header contradicts itself.
    pub(crate) is_damaged: bool,
}

/// Reads the table in the payload of `frame`.
pub(crate) fn read(frame: &Frame) -> Lanes {
    let bytes = &frame.block[..];
    let mut lanes = Lanes::default();
    let payload = frame.payload();
    let Some(table_at) = find_table(frame) else {
        return lanes;
    };
    let memory = &bytes[table_at..payload.end];
    let Some(table) =
        LanesTable::decode(memory).filter(|table| table.stream == frame.header.stream)
    else {
        lanes.is_damaged = true;
        return lanes;
    };
    lanes.table = Some(table);
    // Lanes do not share slots, so all of them together have no more than fit. This keeps a hostile table from
    // naming the same memory over and over.
    let mut slots_left = memory.len() / Record::SIZE;
    for lane in 0..table.lanes {
        let header_at = (lane as usize)
            .checked_mul(table.header_size as usize)
            .and_then(|at| at.checked_add(table.headers_at as usize));
        let header = header_at
            .and_then(|at| memory.get(at..))
            .filter(|_| table.header_size as usize >= LaneHeader::SIZE)
            .and_then(LaneHeader::decode);
        let Some(header) = header else {
            lanes.is_damaged = true;
            return lanes;
        };
        if header.tid == 0 || header.slots == 0 {
            continue;
        }
        let begin = header.slots_at as usize;
        let slots = header.slots as usize;
        let fits = slots
            .checked_mul(Record::SIZE)
            .and_then(|length| begin.checked_add(length))
            .is_some_and(|end| end <= memory.len());
        if !fits || slots > slots_left {
            lanes.is_damaged = true;
            continue;
        }
        slots_left -= slots;
        lanes.places.push(Place {
            block: Block::clone(&frame.block),
            at: table_at + begin,
            slots: header.slots,
            reference: header.base_number,
            clock: header.base_clock,
            tid: header.tid,
            is_mixed: false,
            is_late: true,
            frame: (frame.input, frame.offset),
            holder: Holder::Lane,
            lane,
            is_newer: frame.header.version.1 > MINOR,
        });
    }
    lanes
}

/// Where in the block the table begins: on a page of the file as written, which damage before it may have moved since.
fn find_table(frame: &Frame) -> Option<usize> {
    let payload = frame.payload();
    let before = usize::from(frame.header.header_length);
    let past_page = usize::try_from(frame.offset % LANES_PAGE as u64).unwrap_or(0) + before;
    let on_page = payload.start + past_page.next_multiple_of(LANES_PAGE) - past_page;
    let bytes = &frame.block[..];
    if bytes
        .get(on_page..payload.end)
        .is_some_and(|memory| memory.starts_with(&LANES_MAGIC))
    {
        return Some(on_page);
    }
    memmem::find(&bytes[payload.clone()], &LANES_MAGIC).map(|found| payload.start + found)
}
