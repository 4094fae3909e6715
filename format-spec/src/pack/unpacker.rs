//! The reader's half.

use super::{
    CLOCK, FAR_NUMBER, FAR_TIME, FORETOLD, GRAIN, NEW, NUMBER, NUMBER_AT, Past, READ, SIZE_SHIFT,
    Site, Sites, TIME_AT, WHOLE, Words, size_bytes,
};
use crate::{Op, Record};

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

const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}
