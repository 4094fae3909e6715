//! The heapwire trace format: what the recorder writes and the analyzer reads.
//!
//! The normative text is `SPEC.md` beside this crate. The types here lay its tables out and read them
//! back; they know nothing of processes, files or reports. No allocation, no unsafe, no dependency.
#![no_std]
#![forbid(unsafe_code)]

mod armour;
mod crc;
mod frame;
mod lanes;
mod op;
mod pack;
mod record;
mod text;

pub use armour::{
    ARMOUR_MARK, ARMOUR_NARROW, ARMOUR_WIDE, ArmourHead, armour_bytes, armour_symbol,
};
pub use crc::Crc32;
pub use frame::{
    FLAG_LATE, FLAG_MIXED, FRAME_MAGIC, FrameKind, Header, HeaderError, OBSERVER, PIPE_FRAME,
    SumKind, TRAILER_SIZE, trailer,
};
pub use lanes::{LANES_MAGIC, LANES_PAGE, LaneHeader, LanesTable};
pub use op::{EndReason, Family, IN_PARENTS_MEMORY, MoreKind, Op, flag};
pub use pack::{PACKED_RECORD, PACKED_START, Packed, Packer, Unpacker};
pub use record::Record;
pub use text::{TEXT_CHUNK, entries, text_records};

/// Major version of the format: a reader refuses a higher one.
pub const MAJOR: u8 = 1;
/// Minor version of the format: a reader goes on with a higher one, by the rules of SPEC.md 11.
pub const MINOR: u8 = 0;

/// The examples of SPEC.md, run as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../SPEC.md")]
pub struct SpecExamples;
