//! The writer's half.

use super::{
    CLOCK, FAR_NUMBER, FAR_TIME, FORETOLD, GRAIN, KIND, NEW, NUMBER, NUMBER_AT, PACKED_RECORD,
    PACKED_START, Past, READ, SIZE_SHIFT, Site, Sites, TIME_AT, WHOLE, Words, size_bytes,
};
use crate::{Op, Record};

/// Packs records. Memory of zeroes is a valid one.
#[derive(Clone, Debug)]
pub struct Packer(Sites);

/// What [`Packer::pack`] has packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Records in the payload.
    pub records: u32,
    /// Bytes of the payload.
    pub bytes: usize,
}

impl Packer {
    /// A packer that can be used for any number of payloads.
    #[must_use]
    pub const fn new() -> Self {
        Self(Sites::new())
    }

    /// Packs records, given as words, into the payload of a frame whose field `first` is that, as many of them as `out` surely
    /// has room for: [`PACKED_START`] bytes, and [`PACKED_RECORD`] for each.
    #[cfg_attr(target_arch = "x86_64", inline(always))]
    pub fn pack(
        &mut self,
        first: u64,
        records: impl Iterator<Item = [u64; Record::WORDS]>,
        out: &mut [u8],
    ) -> Packed {
        let sites = &mut self.0;
        sites.forget();
        let mut past = Past::new(first);
        let mut packed = Packed {
            records: 0,
            bytes: PACKED_START,
        };
        for record in records {
            let room = out.get_mut(packed.bytes..);
            let Some(room) = room.and_then(<[u8]>::first_chunk_mut) else {
                break;
            };
            packed.bytes += write(record, &mut past, sites, room);
            packed.records += 1;
        }
        let start = u64::from(packed.records) | u64::from(past.folded_sum()) << 32;
        if let Some(to) = out.first_chunk_mut() {
            *to = start.to_le_bytes();
        }
        packed
    }
}

impl Default for Packer {
    fn default() -> Self {
        Self::new()
    }
}

/// Where a record is written.
type Room = [u8; PACKED_RECORD];

/// Writes the lowest `length` bytes of `value` at `used`, and gives where they end.
#[cfg_attr(target_arch = "x86_64", inline(always))]
fn put(room: &mut Room, used: usize, value: u64, length: u8) -> usize {
    // Eight bytes at once: those that are too many are written over.
    let place = room.get_mut(used..).and_then(<[u8]>::first_chunk_mut);
    if let Some(place) = place {
        *place = value.to_le_bytes();
    }
    used + length as usize
}

/// Writes a record and gives how many bytes it took.
#[cfg_attr(target_arch = "x86_64", inline(always))]
fn write(words: Words, past: &mut Past, sites: &mut Sites, room: &mut Room) -> usize {
    let [first, ptr, size, pc, base] = words;
    let [op, ..] = first.to_le_bytes();
    let place = place_of(op, pc);
    let (mut head, mut used) = (0, 1);
    if sites
        .at(place)
        .is_of(first.wrapping_sub(past.next), pc, base)
    {
        // Where it is does not hang on the record before, so the look-up need not wait for that.
        let last = sites.at(past.last);
        if last.next == place {
            head = FORETOLD;
        } else {
            last.next = place;
            room[1] = place;
            used = 2;
        }
        past.last = place;
    } else {
        let begun = begin(words, past.next, past.last, sites, room);
        (head, used, past.last) = (begun.head, begun.used.into(), begun.place);
    }
    past.add(words);
    if !Op(op).is_heap() {
        room[0] = head;
        return used;
    }
    let distance = ptr.wrapping_sub(past.ptr);
    past.ptr = ptr;
    let steps = zigzag(distance.cast_signed() >> GRAIN);
    let length = byte_length(steps);
    if distance.is_multiple_of(1 << GRAIN) && length < WHOLE {
        head |= length;
        used = put(room, used, steps, length);
    } else {
        head |= WHOLE;
        used = put(room, used, ptr, 8);
    }
    let site = sites.at(past.last);
    if size != site.size {
        site.size = size;
        let code = 1 + u8::from(size > 0xFF) + u8::from(size > 0xFFFF);
        head |= code << SIZE_SHIFT;
        used = put(room, used, size, size_bytes(code));
    }
    room[0] = head;
    used
}

/// The beginning of a record.
#[derive(Clone, Copy)]
struct Begun {
    head: u8,
    /// Bytes so far.
    used: u8,
    /// Place of its site.
    place: u8,
}

/// Writes number, time and site of a record of which one is not as foretold, or all of a record that is no heap record. The site
/// at place `last` came before.
#[inline(never)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "at most the bytes of a record"
)]
fn begin(words: Words, next: u64, last: u8, sites: &mut Sites, room: &mut Room) -> Begun {
    let [first, ref others @ ..] = words;
    let [_, _, pc, base] = *others;
    let [op, flags, ..] = first.to_le_bytes();
    let (mut head, mut used) = (0, 1);
    let read = first & READ;
    let passed = (first >> TIME_AT).wrapping_sub(next >> TIME_AT) & 0xFFFF;
    if passed != 0 || read != 0 {
        head |= CLOCK;
        let passed = passed.min(FAR_TIME);
        let far = (first >> TIME_AT & 0xFFFF) << 8;
        let length = if passed == FAR_TIME { 3 } else { 1 };
        used = put(room, used, passed << 1 | u64::from(read != 0) | far, length);
    }
    let step = (first >> NUMBER_AT).wrapping_sub(next >> NUMBER_AT) & 0xFFFF_FFFF;
    if step != 0 {
        head |= NUMBER;
        let near = (step - 1).min(FAR_NUMBER);
        let far = (first >> NUMBER_AT) << 8;
        let length = if near == FAR_NUMBER { 5 } else { 1 };
        used = put(room, used, near | far, length);
    }
    if !Op(op).is_heap() {
        let kind = u32::from_le_bytes([NEW, op, flags, 0]);
        used = put(room, used, kind.into(), 3);
        for word in others {
            used = put(room, used, *word, 8);
        }
        return Begun {
            head,
            used: used as u8,
            place: last,
        };
    }
    let mut place = sites.at(last).next;
    if sites.at(place).is_of(first & KIND, pc, base) {
        head |= FORETOLD;
    } else {
        place = place_of(op, pc);
        if sites.at(place).is_of(first & KIND, pc, base) {
            used = put(room, used, place.into(), 1);
        } else {
            *sites.at(place) = Site::new([op, flags], pc, base);
            used = tell(place, sites, used, room);
        }
    }
    sites.at(last).next = place;
    Begun {
        head,
        used: used as u8,
        place,
    }
}

/// Writes what the site at this place is.
fn tell(place: u8, sites: &mut Sites, used: usize, room: &mut Room) -> usize {
    let Site { pc, base, kind, .. } = *sites.at(place);
    let distance = zigzag(pc.wrapping_sub(sites.pc).cast_signed());
    let inside = pc.wrapping_sub(base);
    let length = byte_length(distance);
    let base_length = if base == sites.base {
        0
    } else {
        byte_length(inside).max(1)
    };
    (sites.pc, sites.base) = (pc, base);
    let [op, flags] = kind.to_le_bytes();
    let kind = [NEW | place, op, flags, length | base_length << 4];
    let used = put(room, used, u32::from_le_bytes(kind).into(), 4);
    let used = put(room, used, distance, length);
    put(room, used, inside, base_length)
}

/// Where a site is remembered; a reader is told.
#[expect(clippy::cast_possible_truncation, reason = "seven bits are left")]
const fn place_of(op: u8, pc: u64) -> u8 {
    let mixed = (pc as u32).wrapping_add((op as u32) << 8);
    (mixed.wrapping_mul(0x9E37_79B1) >> 25) as u8
}

/// Small for small distances of either sign.
const fn zigzag(distance: i64) -> u64 {
    (distance << 1 ^ distance >> 63).cast_unsigned()
}

/// Bytes that `value` needs; 0 needs none.
#[expect(clippy::cast_possible_truncation, reason = "at most 8")]
const fn byte_length(value: u64) -> u8 {
    (u64::BITS - value.leading_zeros()).div_ceil(8) as u8
}
