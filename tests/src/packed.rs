//! Packs and unpacks frames of records, by the words of format-spec/SPEC.md 8.1: slowly, and without the format crate.

use crate::trace::{HEADER, RECORD, TRAILER, crc32};

/// Kind of a frame of records.
const RECORDS: u8 = 1;
/// Kind of a frame of packed ones.
const PACKED: u8 = 2;
const MAGIC: &[u8] = b"\x89HWT\r\n\xFF\x1A";
const TIME_READ: u8 = 0x20;

/// What is remembered of a call site: op, flags, pc and base.
type Site = (u8, u8, u64, u64);
type Words = [u64; 5];

/// A place for one, with the size of its last record and the place that came next.
#[derive(Clone, Copy, Default)]
struct Place {
    site: Option<Site>,
    size: u64,
    next: usize,
}

impl Place {
    fn new(site: Site) -> Self {
        Self {
            site: Some(site),
            size: if site.0 == 2 { u64::MAX } else { 0 },
            next: 0,
        }
    }
}

/// What the records so far have told.
struct Past {
    places: [Place; 128],
    last: usize,
    number: u32,
    time: u16,
    block: u64,
    pc: u64,
    base: u64,
    sum: u64,
}

impl Past {
    fn new(first: u64) -> Self {
        Self {
            places: [Place::default(); 128],
            last: 0,
            number: low_half(first),
            time: 0,
            block: 0,
            pc: 0,
            base: 0,
            sum: 0,
        }
    }

    fn add(&mut self, words: &Words) {
        let [head, ptr, size, pc, base] = *words;
        let others = [head, ptr, pc, base].into_iter().fold(0, u64::wrapping_add);
        self.sum = self.sum.wrapping_add(size).rotate_left(5) ^ others;
    }

    fn folded_sum(&self) -> u32 {
        low_half(self.sum ^ self.sum >> 32)
    }

    fn came(&mut self, place: usize) {
        self.places[self.last].next = place;
        self.last = place;
    }
}

/// The payload that holds these records. `first` is the header's.
///
/// # Panics
///
/// Where these are no whole records.
#[must_use]
pub fn packed(first: u64, records: &[u8]) -> Vec<u8> {
    let (records, rest) = records.as_chunks::<RECORD>();
    assert!(rest.is_empty());
    let mut writer = Writer {
        past: Past::new(first),
        newest: 0,
        out: Vec::new(),
    };
    records.iter().for_each(|record| writer.record(record));
    let count = u32::try_from(records.len()).expect("few");
    let sum = writer.past.folded_sum();
    [&count.to_le_bytes(), &sum.to_le_bytes(), &writer.out[..]].concat()
}

struct Writer {
    past: Past,
    newest: usize,
    out: Vec<u8>,
}

impl Writer {
    fn record(&mut self, record: &[u8; RECORD]) {
        let words: Words = std::array::from_fn(|at| word(&record[at * 8..]));
        self.past.add(&words);
        let at = self.out.len();
        self.out.push(0);
        let (op, flags) = (record[0], record[1]);
        let is_heap = is_heap(op);
        let time = u16::from_le_bytes([record[2], record[3]]);
        let mut head = self.clock(time, is_heap && flags & TIME_READ != 0);
        head |= self.number(number_of(&record[4..]));
        if is_heap {
            head |= self.site((op, flags & !TIME_READ, words[3], words[4]));
            head |= self.block(words[1]) | self.size(words[2]);
        } else {
            self.out.extend([0x80, op, flags]);
            self.out.extend(&record[8..]);
        }
        self.out[at] = head;
    }

    fn clock(&mut self, time: u16, is_read: bool) -> u8 {
        let passed = time.wrapping_sub(self.past.time);
        if passed == 0 && !is_read {
            return 0;
        }
        self.past.time = time;
        let far = passed >= 127;
        let passed = if far { 127 } else { low(passed.into()) };
        self.out.push(passed << 1 | u8::from(is_read));
        if far {
            self.out.extend(time.to_le_bytes());
        }
        0x80
    }

    fn number(&mut self, number: u32) -> u8 {
        let passed = number.wrapping_sub(self.past.number);
        self.past.number = number.wrapping_add(1);
        match passed {
            0 => return 0,
            near @ 1..=255 => self.out.push(low(u64::from(near) - 1)),
            _ => {
                self.out.push(255);
                self.out.extend(number.to_le_bytes());
            }
        }
        0x40
    }

    fn site(&mut self, site: Site) -> u8 {
        let past = &self.past;
        let foretold = past.places[past.last].next;
        if past.places[foretold].site == Some(site) {
            self.past.last = foretold;
            return 0x20;
        }
        let known = past.places.iter().position(|it| it.site == Some(site));
        let place = match known {
            Some(place) => {
                self.out.push(low(place as u64));
                place
            }
            None => self.new_site(site),
        };
        self.past.came(place);
        0
    }

    fn new_site(&mut self, site: Site) -> usize {
        self.newest = (self.newest + 1) % self.past.places.len();
        let (op, flags, pc, base) = site;
        let distance = bytes(zigzag(pc.wrapping_sub(self.past.pc)));
        let mut inside = bytes(pc.wrapping_sub(base));
        if base == self.past.base {
            inside.clear();
        } else if inside.is_empty() {
            inside.push(0);
        }
        (self.past.pc, self.past.base) = (pc, base);
        let lengths = low((distance.len() | inside.len() << 4) as u64);
        self.out
            .extend([0x80 | low(self.newest as u64), op, flags, lengths]);
        self.out.extend(distance);
        self.out.extend(inside);
        self.past.places[self.newest] = Place::new(site);
        self.newest
    }

    fn block(&mut self, ptr: u64) -> u8 {
        let distance = ptr.wrapping_sub(self.past.block).cast_signed();
        self.past.block = ptr;
        let steps = bytes(zigzag((distance >> 3).cast_unsigned()));
        if distance % 8 != 0 || steps.len() > 6 {
            self.out.extend(ptr.to_le_bytes());
            return 7;
        }
        self.out.extend(&steps);
        low(steps.len() as u64)
    }

    fn size(&mut self, size: u64) -> u8 {
        let site = &mut self.past.places[self.past.last];
        if site.size == size {
            return 0;
        }
        site.size = size;
        let (code, length) = match size {
            ..=0xFF => (1, 1),
            0x100..=0xFFFF => (2, 2),
            _ => (3, 8),
        };
        self.out.extend(&size.to_le_bytes()[..length]);
        code << 3
    }
}

/// The records in a payload. `first` is the header's.
///
/// # Panics
///
/// Where the payload is not whole.
#[must_use]
pub fn unpacked(first: u64, payload: &[u8]) -> Vec<[u8; RECORD]> {
    let mut reader = Reader {
        past: Past::new(first),
        rest: payload,
    };
    let (count, sum) = (reader.take(4), reader.take(4));
    let records = (0..count).map(|_| reader.record());
    let records = records.map(|words| {
        let mut record = [0; RECORD];
        for (to, word) in record.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        record
    });
    let records = records.collect();
    assert!(reader.rest.is_empty(), "bytes after the last record");
    assert_eq!(u64::from(reader.past.folded_sum()), sum, "the sum");
    records
}

struct Reader<'b> {
    past: Past,
    rest: &'b [u8],
}

impl Reader<'_> {
    fn take(&mut self, length: u8) -> u64 {
        let mut word = [0; 8];
        let (bytes, rest) = self.rest.split_at(length.into());
        word[..bytes.len()].copy_from_slice(bytes);
        self.rest = rest;
        u64::from_le_bytes(word)
    }

    fn byte(&mut self) -> u8 {
        low(self.take(1))
    }

    fn record(&mut self) -> Words {
        let head = self.byte();
        let mut read = 0;
        if head & 0x80 != 0 {
            let clock = self.byte();
            read = u64::from(clock & 1) * (u64::from(TIME_READ) << 8);
            self.past.time = match clock >> 1 {
                127 => u16::from_le_bytes([self.byte(), self.byte()]),
                passed => self.past.time.wrapping_add(passed.into()),
            };
        }
        if head & 0x40 != 0 {
            self.past.number = match self.byte() {
                255 => low_half(self.take(4)),
                near => self.past.number.wrapping_add(u32::from(near) + 1),
            };
        }
        let told = u64::from(self.past.time) << 16 | u64::from(self.past.number) << 32;
        self.past.number = self.past.number.wrapping_add(1);
        let words = match self.kind(head) {
            None => self.heap(head, told | read),
            Some(kind) => {
                let mut words = [kind | told, 0, 0, 0, 0];
                words[1..].fill_with(|| self.take(8));
                words
            }
        };
        self.past.add(&words);
        words
    }

    /// Op and flags of a record that is no heap record; else the site is the last place.
    fn kind(&mut self, head: u8) -> Option<u64> {
        if head & 0x20 != 0 {
            self.past.last = self.past.places[self.past.last].next;
            return None;
        }
        let byte = self.byte();
        let place = usize::from(byte & 0x7F);
        if byte & 0x80 != 0 {
            let (op, flags) = (self.byte(), self.byte());
            if !is_heap(op) {
                return Some(u64::from(op) | u64::from(flags) << 8);
            }
            let lengths = self.byte();
            let distance = unzigzag(self.take(lengths & 0xF));
            self.past.pc = self.past.pc.wrapping_add(distance);
            if lengths >> 4 != 0 {
                self.past.base = self.past.pc.wrapping_sub(self.take(lengths >> 4));
            }
            let site = (op, flags, self.past.pc, self.past.base);
            self.past.places[place] = Place::new(site);
        }
        self.past.came(place);
        None
    }

    fn heap(&mut self, head: u8, told: u64) -> Words {
        self.past.block = match head & 7 {
            7 => self.take(8),
            length => {
                let distance = unzigzag(self.take(length)) << 3;
                self.past.block.wrapping_add(distance)
            }
        };
        let size = match head >> 3 & 3 {
            0 => None,
            3 => Some(self.take(8)),
            length => Some(self.take(length)),
        };
        let place = &mut self.past.places[self.past.last];
        place.size = size.unwrap_or(place.size);
        let (op, flags, pc, base) = place.site.expect("a site that was told");
        let kind = u64::from(op) | u64::from(flags) << 8;
        [told | kind, self.past.block, place.size, pc, base]
    }
}

/// The same trace with all frames of whole records packed. What is no frame stays as it is.
#[must_use]
pub fn twin(trace: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < trace.len() {
        let rest = &trace[at..];
        match plain_frame(rest) {
            Some((start, end)) => {
                out.extend(packed_frame(&rest[..start], &rest[start..end]));
                at += end + TRAILER;
            }
            None => {
                out.push(trace[at]);
                at += 1;
            }
        }
    }
    out
}

/// Where the payload of the frame that `bytes` begin with begins and ends, if they begin with a whole one of records.
fn plain_frame(bytes: &[u8]) -> Option<(usize, usize)> {
    let header = bytes.get(..HEADER)?;
    if !header.starts_with(MAGIC) || header[12] != RECORDS {
        return None;
    }
    let is_header = header[76..] == crc32(&header[..76]).to_le_bytes();
    let start = usize::from(u16::from_le_bytes([header[10], header[11]]));
    let length = number_of(&header[16..]) as usize;
    let end = start.checked_add(length)?;
    let trailer = (0x5457_4821 ^ number_of(&header[24..])).to_le_bytes();
    let is_whole = bytes.get(end..end + TRAILER) == Some(&trailer[..]);
    let has_sum = header[14] == 1;
    let fits = is_header && is_whole && start >= HEADER && length.is_multiple_of(RECORD);
    let is_right = fits && (!has_sum || crc32(&bytes[start..end]) == number_of(&header[36..]));
    is_right.then_some((start, end))
}

fn packed_frame(header: &[u8], records: &[u8]) -> Vec<u8> {
    let mut out = header.to_vec();
    let payload = packed(word(&header[40..]), records);
    out[12] = PACKED;
    let length = u32::try_from(payload.len()).expect("no longer than it was");
    out[16..20].copy_from_slice(&length.to_le_bytes());
    if out[14] == 1 {
        out[36..40].copy_from_slice(&crc32(&payload).to_le_bytes());
    }
    let sum = crc32(&out[..76]);
    out[76..80].copy_from_slice(&sum.to_le_bytes());
    let trailer = 0x5457_4821 ^ number_of(&header[24..]);
    [&out[..], &payload, &trailer.to_le_bytes()].concat()
}

fn word(bytes: &[u8]) -> u64 {
    let bytes = bytes.first_chunk().expect("eight bytes");
    u64::from_le_bytes(*bytes)
}

fn number_of(bytes: &[u8]) -> u32 {
    let bytes = bytes.first_chunk().expect("four bytes");
    u32::from_le_bytes(*bytes)
}

fn is_heap(op: u8) -> bool {
    (1..=7).contains(&op)
}

/// The lowest byte.
fn low(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

fn low_half(value: u64) -> u32 {
    number_of(&value.to_le_bytes())
}

/// The bytes of `value` up to the last that is not 0.
fn bytes(value: u64) -> Vec<u8> {
    let mut bytes = value.to_le_bytes().to_vec();
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes
}

fn zigzag(distance: u64) -> u64 {
    let distance = distance.cast_signed();
    if distance < 0 {
        !(distance.cast_unsigned() << 1)
    } else {
        distance.cast_unsigned() << 1
    }
}

fn unzigzag(value: u64) -> u64 {
    if value & 1 == 1 {
        !(value >> 1)
    } else {
        value >> 1
    }
}
