//! Reads the records of a trace by literal offsets from SPEC.md: a second reader, that shares nothing with the first.

use crate::packed::unpacked;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const MAGIC: [u8; 8] = [0x89, b'H', b'W', b'T', 0x0D, 0x0A, 0xFF, 0x1A];
const TABLE: [u8; 8] = *b"HWLANES\x01";
const HEADER: usize = 80;
const RECORD: usize = 40;

/// One record with the thread that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Op byte.
    pub op: u8,
    /// Flags byte.
    pub flags: u8,
    /// Low half of the number.
    pub number: u32,
    /// Kernel tid of the frame or lane.
    pub tid: u32,
    /// The four fields.
    pub ptr: u64,
    /// As `ptr`.
    pub size: u64,
    /// As `ptr`.
    pub pc: u64,
    /// As `ptr`.
    pub base: u64,
}

/// What lies in a trace.
#[derive(Debug, Default)]
pub struct Raw {
    /// Records by stream and number, each once.
    pub streams: BTreeMap<u32, BTreeMap<u32, Seen>>,
    /// Records that stood twice with different content.
    pub contradictions: Vec<[Seen; 2]>,
    /// Whole frames of records.
    pub frames: usize,
    /// Bytes of frames of plain records with headers and trailers.
    pub frame_bytes: usize,
    /// Bytes of the slots in them.
    pub slot_bytes: usize,
    /// Bytes of packed frames with headers and trailers.
    pub packed_bytes: usize,
    /// Records in them.
    pub packed_records: usize,
    /// Frames whose end is not where it should be.
    pub torn: usize,
    /// Highest count of lost records in any header, by stream.
    pub lost: BTreeMap<u32, u32>,
}

impl Raw {
    /// Reads the file at `path`.
    ///
    /// # Panics
    ///
    /// Where it cannot be read.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        Self::of(&fs::read(path).expect("a trace is there"))
    }

    /// Reads `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut raw = Self::default();
        let mut at = 0;
        while let Some(found) = find(&bytes[at..], &MAGIC) {
            at += found;
            at += raw.frame(bytes, at).unwrap_or(1);
        }
        raw
    }

    /// All records of all streams.
    pub fn records(&self) -> impl Iterator<Item = &Seen> {
        self.streams.values().flat_map(BTreeMap::values)
    }

    /// Bytes that a record in a packed frame takes, with all of the frame.
    #[must_use]
    pub fn packed_bytes_a_record(&self) -> f64 {
        self.packed_bytes as f64 / self.packed_records as f64
    }

    /// What plain frames cost beyond their records, as a part of these.
    #[must_use]
    pub fn overhead(&self) -> f64 {
        self.frame_bytes as f64 / self.slot_bytes as f64 - 1.0
    }

    fn frame(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        let header = bytes.get(at..at + HEADER)?;
        let begin = at + usize::from(u16::from_le_bytes([header[10], header[11]]));
        let end = begin + word(header, 16) as usize;
        let trailer = word(bytes.get(end..end + 4)?, 0);
        if trailer != 0x5457_4821 ^ word(header, 24) {
            self.torn += 1;
            return None;
        }
        let (stream, tid) = (word(header, 20), word(header, 32));
        let lost = self.lost.entry(stream).or_default();
        *lost = (*lost).max(word(header, 64));
        match header[12] {
            1 => {
                self.frames += 1;
                self.frame_bytes += end + 4 - at;
                self.slot_bytes += end - begin;
                let (records, _) = bytes[begin..end].as_chunks::<RECORD>();
                records
                    .iter()
                    .for_each(|record| self.record(stream, tid, record));
            }
            2 => {
                self.frames += 1;
                self.packed_bytes += end + 4 - at;
                let records = unpacked(double_word(header, 40), &bytes[begin..end]);
                self.packed_records += records.len();
                records
                    .iter()
                    .for_each(|record| self.record(stream, tid, record));
            }
            3 => self.lanes(&bytes[..end], begin),
            _ => {}
        }
        Some(end + 4 - at)
    }

    fn lanes(&mut self, bytes: &[u8], payload: usize) {
        let table = payload.next_multiple_of(4096);
        if bytes.get(table..table + 8) != Some(&TABLE) {
            return;
        }
        let stream = word(bytes, table + 8);
        for lane in 0..word(bytes, table + 16) as usize {
            let header = table + 64 + lane * 64;
            let slots = table + word(bytes, header + 8) as usize;
            let count = word(bytes, header + 12) as usize;
            let (records, _) = bytes[slots..slots + count * RECORD].as_chunks::<RECORD>();
            let tid = word(bytes, header);
            records
                .iter()
                .for_each(|record| self.record(stream, tid, record));
        }
    }

    fn record(&mut self, stream: u32, tid: u32, record: &[u8; RECORD]) {
        if matches!(record[0], 0 | 0xFF) {
            return;
        }
        let seen = Seen {
            op: record[0],
            flags: record[1],
            number: word(record, 4),
            tid,
            ptr: double_word(record, 8),
            size: double_word(record, 16),
            pc: double_word(record, 24),
            base: double_word(record, 32),
        };
        let known = self
            .streams
            .entry(stream)
            .or_default()
            .entry(seen.number)
            .or_insert(seen);
        if *known != seen {
            self.contradictions.push([*known, seen]);
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == what[0]) {
        if bytes[from + at..].starts_with(what) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn double_word(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}
