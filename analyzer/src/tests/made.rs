//! Traces made byte by byte, by the offsets in SPEC.md and without the format crate, so that a wrong edit there shows.

use crate::replay::Wanted;
use crate::report::{LiveBlocks, Report};
use crate::sites::SiteTable;
use crate::trace::Trace;
use crate::{Images, Options, Selection, Stops, analyze_trace, findings};

pub(crate) const ALLOCATED: u8 = 0x01;
pub(crate) const RELEASED: u8 = 0x02;
pub(crate) const REALLOC_OLD: u8 = 0x03;
pub(crate) const REALLOC_NEW: u8 = 0x04;
pub(crate) const REALLOC_FAILED: u8 = 0x05;
pub(crate) const REALLOC_FREED: u8 = 0x06;
pub(crate) const ALLOCATION_FAILED: u8 = 0x07;

pub(crate) type Slot = [u8; 40];

pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// A record with ptr, size, pc and base.
pub(crate) fn record(op: u8, flags: u8, number: u64, fields: [u64; 4]) -> Slot {
    let mut slot = [0; 40];
    slot[0] = op;
    slot[1] = flags;
    put(&mut slot, 4, &number.to_le_bytes()[..4]);
    for (at, field) in [8, 16, 24, 32].into_iter().zip(fields) {
        put(&mut slot, at, &field.to_le_bytes());
    }
    slot
}

/// CRC-32, a bit at a time.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0xEDB8_8320 * (sum & 1));
        }
    }
    !sum
}

/// A frame to be laid out.
#[derive(Clone, Copy)]
pub(crate) struct MadeFrame {
    pub(crate) major: u8,
    pub(crate) minor: u8,
    pub(crate) header_length: u16,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) has_sum: bool,
    pub(crate) stream: u32,
    pub(crate) number: u32,
    pub(crate) tid: u32,
    pub(crate) first: u64,
    pub(crate) clock: u64,
    pub(crate) settled: u64,
    pub(crate) lost: u32,
    pub(crate) void: u32,
}

pub(crate) const FRAME: MadeFrame = MadeFrame {
    major: 1,
    minor: 0,
    header_length: 80,
    kind: 1,
    flags: 0,
    has_sum: false,
    stream: 0xA0,
    number: 0,
    tid: 100,
    first: 1,
    clock: 1_000_000_000,
    settled: 0,
    lost: 0,
    void: 0,
};

impl MadeFrame {
    pub(crate) fn bytes(&self, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0; usize::from(self.header_length)];
        put(
            &mut out,
            0,
            &[0x89, 0x48, 0x57, 0x54, 0x0D, 0x0A, 0xFF, 0x1A],
        );
        out[8] = self.major;
        out[9] = self.minor;
        put(&mut out, 10, &self.header_length.to_le_bytes());
        out[12] = self.kind;
        out[13] = self.flags;
        out[14] = u8::from(self.has_sum);
        put(
            &mut out,
            16,
            &u32::try_from(payload.len()).unwrap().to_le_bytes(),
        );
        put(&mut out, 20, &self.stream.to_le_bytes());
        put(&mut out, 24, &self.number.to_le_bytes());
        put(&mut out, 28, &7u32.to_le_bytes()); // thread serial
        put(&mut out, 32, &self.tid.to_le_bytes());
        if self.has_sum {
            put(&mut out, 36, &crc(payload).to_le_bytes());
        }
        put(&mut out, 40, &self.first.to_le_bytes());
        put(&mut out, 48, &self.clock.to_le_bytes());
        put(&mut out, 56, &self.settled.to_le_bytes());
        put(&mut out, 64, &self.lost.to_le_bytes());
        put(&mut out, 68, &self.void.to_le_bytes());
        let sum = crc(&out[..76]);
        put(&mut out, 76, &sum.to_le_bytes());
        out.extend_from_slice(payload);
        out.extend_from_slice(&(0x5457_4821 ^ self.number).to_le_bytes());
        out
    }
}

/// A stream in the making: gives records their numbers and frames their threads.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) frame: MadeFrame,
    pub(crate) next: u64,
    pub(crate) tid: u32,
    /// Milliseconds since the frame's clock.
    pub(crate) time: u16,
    pub(crate) records: Vec<(u32, u64, Slot)>,
}

/// What a made process says of itself by default.
pub(crate) const KEYS: &str = "exe=/nowhere/app\0arg=app\0arg=-v\0began=exec\0machine=62\0word=8\0";
/// Where the module of a made process lies.
pub(crate) const BASE: u64 = 0x40_0000;

impl Made {
    /// A stream without a record.
    pub(crate) fn bare(stream: u32) -> Self {
        Self {
            frame: MadeFrame { stream, ..FRAME },
            next: 1,
            tid: FRAME.tid,
            time: 0,
            records: Vec::new(),
        }
    }

    /// A stream that begins with its process and one module.
    pub(crate) fn new(stream: u32) -> Self {
        let mut made = Self::bare(stream);
        made.process(4000 + u64::from(stream), KEYS);
        made.module(BASE, "path=/nowhere/app\0build-id=00ff\0");
        made
    }

    /// The stream of a child that is forked now.
    pub(crate) fn child(&self, stream: u32) -> Self {
        let mut child = Self::bare(stream);
        child.next = self.next;
        let keys = format!(
            "exe=/nowhere/app\0ppid=1\0parent={:08x}\0fork={}\0began=fork\0machine=62\0word=8\0",
            self.frame.stream, self.next
        );
        child.process(4000 + u64::from(stream), &keys);
        child.module(BASE, "path=/nowhere/app\0build-id=00ff\0");
        child
    }

    pub(crate) fn push(&mut self, op: u8, flags: u8, fields: [u64; 4]) -> &mut Self {
        let mut slot = record(op, flags, self.next, fields);
        put(&mut slot, 2, &self.time.to_le_bytes());
        self.records.push((self.tid, self.next, slot));
        self.next += 1;
        self
    }

    pub(crate) fn declare(&mut self, op: u8, [ptr, size, pc]: [u64; 3], text: &str) -> &mut Self {
        self.push(op, 0, [ptr, size, pc, text.len() as u64]);
        for chunk in text.as_bytes().chunks(32) {
            let mut slot = record(0x70, u8::try_from(chunk.len()).unwrap(), self.next, [0; 4]);
            put(&mut slot, 8, chunk);
            self.records.push((self.tid, self.next, slot));
            self.next += 1;
        }
        self
    }

    pub(crate) fn process(&mut self, pid: u64, keys: &str) -> &mut Self {
        self.declare(
            0x71,
            [pid, 1_700_000_000_000_000_000, self.frame.clock],
            keys,
        )
    }

    /// A module of 64 KiB that is loaded where it was linked but for 0x1000.
    pub(crate) fn module(&mut self, base: u64, keys: &str) -> &mut Self {
        self.declare(0x72, [base, 0x10000, 0x1000], keys)
    }

    pub(crate) fn heap(&mut self, op: u8, family: u8, ptr: u64, size: u64, pc: u64) -> &mut Self {
        self.push(op, family, [ptr, size, BASE + pc, BASE])
    }

    pub(crate) fn malloc(&mut self, ptr: u64, size: u64, pc: u64) -> &mut Self {
        self.heap(ALLOCATED, 0, ptr, size, pc)
    }

    pub(crate) fn free(&mut self, ptr: u64, pc: u64) -> &mut Self {
        self.heap(RELEASED, 0, ptr, u64::MAX, pc)
    }

    /// A whole realloc: `to` is the new block, `None` if it fails or, with size 0, frees.
    pub(crate) fn realloc(&mut self, ptr: u64, to: Option<u64>, size: u64, pc: u64) -> &mut Self {
        self.heap(REALLOC_OLD, 0, ptr, size, pc);
        match to {
            Some(new) => self.heap(REALLOC_NEW, 0, new, size, pc),
            None if size == 0 => self.heap(REALLOC_FREED, 0, ptr, size, pc),
            None => self.heap(REALLOC_FAILED, 0, ptr, size, pc),
        }
    }

    pub(crate) fn end(&mut self, status: u64) -> &mut Self {
        self.push(0x77, 0, [0, status, 0, 0])
    }

    /// Loses so many numbers.
    pub(crate) fn lose(&mut self, numbers: u64) -> &mut Self {
        self.next += numbers;
        self
    }

    pub(crate) fn by(&mut self, tid: u32) -> &mut Self {
        self.tid = tid;
        self
    }

    pub(crate) fn at(&mut self, milliseconds: u16) -> &mut Self {
        self.time = milliseconds;
        self
    }

    /// The stream in frames: a new one for each run of records of a thread, and after `most` records.
    pub(crate) fn frames(&self, most: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for run in self.records.chunk_by(|one, next| one.0 == next.0) {
            for part in run.chunks(most) {
                let payload: Vec<u8> = part.iter().flat_map(|(.., slot)| *slot).collect();
                let frame = MadeFrame {
                    number: u32::try_from(frames.len()).unwrap(),
                    tid: part[0].0,
                    first: part[0].1,
                    ..self.frame
                };
                frames.push(frame.bytes(&payload));
            }
        }
        frames
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.frames(100).concat()
    }

    pub(crate) fn report(&self) -> Report {
        report([self.bytes()])
    }
}

pub(crate) fn report(inputs: impl IntoIterator<Item = Vec<u8>>) -> Report {
    let trace = Trace::of_bytes(inputs).unwrap();
    analyze_trace(trace, &Options::default()).unwrap()
}

pub(crate) fn live_blocks(inputs: impl IntoIterator<Item = Vec<u8>>) -> LiveBlocks {
    let mut trace = Trace::of_bytes(inputs).unwrap();
    let mut sites = SiteTable::default();
    let images = Images::of(&mut trace, Wanted::All, &Stops::default(), &mut sites).unwrap();
    let (selection, options) = (Selection::default(), Options::default());
    findings::live(&trace, &images, &sites, &selection, &options).unwrap()
}

/// The counts of the warnings of a kind.
pub(crate) fn warned(report: &Report, kind: &str) -> u64 {
    let of_kind = report.warnings.iter().filter(|it| it.kind == kind);
    of_kind.fold(0, |sum, it| sum.saturating_add(it.count))
}
