//! Packed records, laid out as SPEC.md 8.1 says: each is told by what it does not have in common with those before it.
//!
//! What is copied into each caller on x86-64, because that is faster, is left to the compiler on small machines.

mod packer;
mod unpacker;

pub use packer::{Packed, Packer};
pub use unpacker::Unpacker;

use crate::{Op, Record, flag};

/// Bytes of a payload before its first record: the count of records, and their sum.
pub const PACKED_START: usize = 8;
/// Most bytes that one record takes.
pub const PACKED_RECORD: usize = 48;

/// Call sites that writer and reader remember.
const SITES: usize = 128;

// Bits of a record's head beside the codes of block and size.
/// The call site is the one that came after the last one before.
const FORETOLD: u8 = 1 << 5;
/// The number is not the next one.
const NUMBER: u8 = 1 << 6;
/// The clock was read, or shows another time than before.
const CLOCK: u8 = 1 << 7;

/// Code of a block that is told whole; lower ones are the bytes of its distance.
const WHOLE: u8 = 7;
/// Distances of blocks are multiples of this, as a shift.
const GRAIN: u32 = 3;
/// Where in the head the code of the size is.
const SIZE_SHIFT: u32 = 3;
/// Bytes of a size by its code, four bits each.
const SIZE_BYTES: u32 = 0x8210;
/// The number itself follows, not its distance.
const FAR_NUMBER: u64 = 255;
/// The time itself follows, not its distance.
const FAR_TIME: u64 = 127;
/// What the site is follows its place.
const NEW: u8 = 0x80;

/// The words of a record, see [`Record::to_words`].
type Words = [u64; Record::WORDS];

// Where in the first word they are.
const TIME_AT: u32 = 16;
const NUMBER_AT: u32 = 32;
/// Op and flags but for *time-read*.
const KIND: u64 = 0xFFFF & !READ;
const READ: u64 = (flag::TIME_READ as u64) << 8;

/// What is remembered of a call site. All zero is none.
#[derive(Clone, Copy, Debug)]
struct Site {
    pc: u64,
    base: u64,
    /// Of the last record.
    size: u64,
    /// As in a record's first word.
    kind: u16,
    /// Place of the site that came next, the last time.
    next: u8,
}

impl Site {
    const NONE: Self = Self {
        pc: 0,
        base: 0,
        size: 0,
        kind: 0,
        next: 0,
    };

    const fn new([op, flags]: [u8; 2], pc: u64, base: u64) -> Self {
        Self {
            pc,
            base,
            // Few releases are given a size.
            size: if op == Op::RELEASED.0 { u64::MAX } else { 0 },
            kind: u16::from_le_bytes([op, flags & !flag::TIME_READ]),
            next: 0,
        }
    }

    #[cfg_attr(target_arch = "x86_64", inline(always))]
    const fn is_of(&self, kind: u64, pc: u64, base: u64) -> bool {
        self.kind as u64 == kind && self.pc == pc && self.base == base
    }
}

/// What the records so far have told of call sites.
#[derive(Clone, Debug)]
struct Sites {
    known: [Site; SITES],
    /// Of the site that was told last.
    pc: u64,
    /// As `pc`.
    base: u64,
}

impl Sites {
    const fn new() -> Self {
        Self {
            known: [Site::NONE; SITES],
            pc: 0,
            base: 0,
        }
    }

    /// As new, without one on the stack.
    #[cfg_attr(target_arch = "x86_64", inline(always))]
    const fn forget(&mut self) {
        let mut place = 0;
        while place < SITES {
            self.known[place] = Site::NONE;
            place += 1;
        }
        (self.pc, self.base) = (0, 0);
    }

    #[cfg_attr(target_arch = "x86_64", inline(always))]
    const fn at(&mut self, place: u8) -> &mut Site {
        &mut self.known[place as usize % SITES]
    }
}

/// What else they have told.
#[derive(Clone, Copy, Debug)]
struct Past {
    /// The first word of a record that comes next, at the time of the last one; without its kind.
    next: u64,
    ptr: u64,
    sum: u64,
    /// Place of the last record's site. The next one's depends on it, so it is not in memory.
    last: u8,
}

impl Past {
    const fn new(first: u64) -> Self {
        Self {
            next: first << NUMBER_AT,
            ptr: 0,
            sum: 0,
            last: 0,
        }
    }

    /// Takes over what every record tells.
    #[cfg_attr(target_arch = "x86_64", inline(always))]
    const fn add(&mut self, [head, ptr, size, pc, base]: Words) {
        self.next = (head & !0xFFFF).wrapping_add(1 << NUMBER_AT);
        // Apart from the op, which decides what size is expected: one would make up for the other.
        let words = head.wrapping_add(ptr).wrapping_add(pc).wrapping_add(base);
        self.sum = self.sum.wrapping_add(size).rotate_left(5) ^ words;
    }

    #[expect(clippy::cast_possible_truncation, reason = "both halves are in it")]
    const fn folded_sum(&self) -> u32 {
        (self.sum ^ self.sum >> 32) as u32
    }
}

#[expect(clippy::cast_possible_truncation, reason = "four bits")]
const fn size_bytes(code: u8) -> u8 {
    (SIZE_BYTES >> (code * 4)) as u8 & 0xF
}
