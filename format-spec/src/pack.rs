//! Packed records, laid out as SPEC.md 8.1 says: each is told by what it does not have in common with those before it.
//!
//! What is copied into each caller on x86-64, because that is faster, is left to the compiler on small machines.

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
        let words = ptr.wrapping_add(size).wrapping_add(pc).wrapping_add(base);
        self.sum = self.sum.rotate_left(5) ^ head.wrapping_add(words);
    }

    #[expect(clippy::cast_possible_truncation, reason = "both halves are in it")]
    const fn folded_sum(&self) -> u32 {
        (self.sum ^ self.sum >> 32) as u32
    }
}

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
    let foretold = sites.at(past.last).next;
    let (mut head, mut used) = (FORETOLD, 1);
    if sites
        .at(foretold)
        .is_of(first.wrapping_sub(past.next), pc, base)
    {
        past.last = foretold;
    } else {
        let begun = begin(words, past.next, past.last, sites, room);
        (head, used, past.last) = (begun.head, begun.used.into(), begun.place);
    }
    past.add(words);
    let [op, ..] = first.to_le_bytes();
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

#[expect(clippy::cast_possible_truncation, reason = "four bits")]
const fn size_bytes(code: u8) -> u8 {
    (SIZE_BYTES >> (code * 4)) as u8 & 0xF
}

/// Small for small distances of either sign.
const fn zigzag(distance: i64) -> u64 {
    (distance << 1 ^ distance >> 63).cast_unsigned()
}

const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

/// Bytes that `value` needs; 0 needs none.
#[expect(clippy::cast_possible_truncation, reason = "at most 8")]
const fn byte_length(value: u64) -> u8 {
    (u64::BITS - value.leading_zeros()).div_ceil(8) as u8
}

/// The records of a payload, one after the other.
#[derive(Clone, Debug)]
pub struct Unpacker<'b> {
    sites: Sites,
    past: Past,
    bytes: Bytes<'b>,
    left: u32,
    sum: u32,
}

impl<'b> Unpacker<'b> {
    /// Unpacks the payload of a frame whose field `first` is that.
    #[must_use]
    pub fn new(first: u64, payload: &'b [u8]) -> Self {
        let mut unpacker = Self {
            sites: Sites::new(),
            past: Past::new(first),
            bytes: Bytes(payload),
            left: 0,
            sum: 0,
        };
        let bytes = &mut unpacker.bytes;
        let start = bytes.word(4).zip(bytes.word(4));
        // Without a start there is a record that never comes.
        if let Some((count, sum)) = start {
            #[expect(clippy::cast_possible_truncation, reason = "four bytes each")]
            {
                (unpacker.left, unpacker.sum) = (count as u32, sum as u32);
            }
        } else {
            (unpacker.left, unpacker.bytes) = (1, Bytes(&[]));
        }
        unpacker
    }

    /// Records that are left, at the most: each takes a byte.
    #[must_use]
    pub fn most(&self) -> u32 {
        u32::try_from(self.bytes.0.len()).map_or(self.left, |bytes| bytes.min(self.left))
    }

    /// Whether all that the payload holds was given out, and is what was packed.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.left == 0 && self.bytes.0.is_empty() && self.past.folded_sum() == self.sum
    }

    /// Gives `each` the next records as words, at most `most` of them, up to the first that cannot be read.
    #[inline]
    pub fn words(&mut self, most: u32, mut each: impl FnMut([u64; Record::WORDS])) {
        // What changes from record to record is kept out of memory.
        let (mut bytes, mut past) = (self.bytes, self.past);
        let mut left = self.left;
        let until = left.saturating_sub(most);
        while left > until
            && let Some(words) = record(&mut bytes, &mut past, &mut self.sites)
        {
            left -= 1;
            past.add(words);
            each(words);
        }
        (self.bytes, self.past, self.left) = (bytes, past, left);
    }
}

impl Iterator for Unpacker<'_> {
    type Item = Record;

    /// The next record, if there is one that can be read.
    fn next(&mut self) -> Option<Record> {
        let mut next = None;
        self.words(1, |words| next = Some(Record::from_words(words)));
        next
    }
}

/// The bytes that are left of a payload.
#[derive(Clone, Copy, Debug)]
struct Bytes<'b>(&'b [u8]);

impl Bytes<'_> {
    /// A number of so many bytes, at most eight.
    #[inline(always)]
    fn word(&mut self, length: u8) -> Option<u64> {
        // Eight bytes at once, where so many are left.
        let Some(word) = self.0.first_chunk() else {
            return self.last_word(length);
        };
        let mask = *MASKS.get(usize::from(length))?;
        self.0 = self.0.get(usize::from(length)..)?;
        Some(u64::from_le_bytes(*word) & mask)
    }

    #[cold]
    #[inline(never)]
    fn last_word(&mut self, length: u8) -> Option<u64> {
        let (bytes, rest) = self.0.split_at_checked(length.into())?;
        self.0 = rest;
        let fold = |word: u64, byte: &u8| word << 8 | u64::from(*byte);
        Some(bytes.iter().rev().fold(0, fold))
    }

    #[inline(always)]
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }
}

/// The lowest bytes of a word, by how many they are.
const MASKS: [u64; 9] = {
    let mut masks = [u64::MAX; 9];
    let mut length = 0;
    while length < 8 {
        masks[length] = (1 << (8 * length)) - 1;
        length += 1;
    }
    masks
};

#[inline(always)]
fn record(bytes: &mut Bytes<'_>, past: &mut Past, sites: &mut Sites) -> Option<Words> {
    let head = bytes.byte()?;
    let read = if head & CLOCK != 0 {
        clock(bytes, past)?
    } else {
        0
    };
    if head & NUMBER != 0 {
        number(bytes, past)?;
    }
    if head & FORETOLD != 0 {
        past.last = sites.at(past.last).next;
    } else {
        let byte = bytes.byte()?;
        let place = byte & !NEW;
        if byte != place {
            let kind = [bytes.byte()?, bytes.byte()?];
            let [op, _] = kind;
            if !Op(op).is_heap() {
                let first = past.next | u64::from(u16::from_le_bytes(kind));
                return others(bytes, first);
            }
            *sites.at(place) = site(bytes, sites, kind)?;
        }
        sites.at(past.last).next = place;
        past.last = place;
    }
    heap(head, past.next | read, bytes, past, sites)
}

/// What is left of a record that is no heap record.
#[cold]
fn others(bytes: &mut Bytes<'_>, first: u64) -> Option<Words> {
    let mut word = || bytes.word(8);
    Some([first, word()?, word()?, word()?, word()?])
}

/// What is left of a heap record of the last site.
#[inline(always)]
fn heap(
    head: u8,
    first: u64,
    bytes: &mut Bytes<'_>,
    past: &mut Past,
    sites: &mut Sites,
) -> Option<Words> {
    past.ptr = match head & WHOLE {
        WHOLE => bytes.word(8)?,
        length => {
            let steps = unzigzag(bytes.word(length)?);
            past.ptr.wrapping_add_signed(steps << GRAIN)
        }
    };
    let site = sites.at(past.last);
    let code = head >> SIZE_SHIFT & 3;
    if code != 0 {
        site.size = bytes.word(size_bytes(code))?;
    }
    let (first, size) = (first | u64::from(site.kind), site.size);
    // A site that was never told says nothing.
    (site.kind != 0).then_some([first, past.ptr, size, site.pc, site.base])
}

/// The flag *time-read*; the time goes into what comes next.
#[inline(always)]
fn clock(bytes: &mut Bytes<'_>, past: &mut Past) -> Option<u64> {
    let byte = bytes.byte()?;
    let passed = u64::from(byte >> 1);
    let next = past.next;
    let time = if passed == FAR_TIME {
        bytes.word(2)?
    } else {
        (next >> TIME_AT).wrapping_add(passed) & 0xFFFF
    };
    past.next = next >> NUMBER_AT << NUMBER_AT | time << TIME_AT;
    Some(if byte & 1 != 0 { READ } else { 0 })
}

/// The number goes into what comes next.
#[inline(always)]
fn number(bytes: &mut Bytes<'_>, past: &mut Past) -> Option<()> {
    let near = u64::from(bytes.byte()?);
    let next = past.next;
    past.next = if near == FAR_NUMBER {
        next & 0xFFFF_FFFF | bytes.word(4)? << NUMBER_AT
    } else {
        next.wrapping_add((near + 1) << NUMBER_AT)
    };
    Some(())
}

/// A site that is new.
#[inline(always)]
fn site(bytes: &mut Bytes<'_>, sites: &mut Sites, kind: [u8; 2]) -> Option<Site> {
    let lengths = bytes.byte()?;
    let distance = unzigzag(bytes.word(lengths & 0xF)?);
    sites.pc = sites.pc.wrapping_add_signed(distance);
    let base = lengths >> 4;
    if base != 0 {
        sites.base = sites.pc.wrapping_sub(bytes.word(base)?);
    }
    Some(Site::new(kind, sites.pc, sites.base))
}
