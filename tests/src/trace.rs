//! Writes traces byte by byte, by the offsets of format-spec/SPEC.md.
//!
//! On purpose without the format crate: what both sides of a test share, no test can find wrong.

/// `pc` of the calls that [`Writer`] makes up, unless told otherwise.
pub const PC: u64 = 0x40_1136;
/// Module base of these calls.
pub const BASE: u64 = 0x40_0000;
/// Clock of the frames that [`Writer`] makes up.
pub const CLOCK: u64 = 5_000_000_000;
/// Bytes of a frame header.
pub const HEADER: usize = 80;
/// Bytes of a record.
pub const RECORD: usize = 40;
/// Bytes of a trailer.
pub const TRAILER: usize = 4;

/// The fields of a record, in the order of the specification's table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    /// Offset 0.
    pub op: u8,
    /// Offset 1.
    pub flags: u8,
    /// Offset 2.
    pub time: u16,
    /// Offset 4: the full number, of which the low half is written.
    pub number: u64,
    /// Offset 8.
    pub ptr: u64,
    /// Offset 16.
    pub size: u64,
    /// Offset 24.
    pub pc: u64,
    /// Offset 32.
    pub base: u64,
}

impl Record {
    /// The 40 bytes.
    #[must_use]
    pub fn bytes(&self) -> [u8; RECORD] {
        let mut out = [0; RECORD];
        out[0] = self.op;
        out[1] = self.flags;
        out[2..4].copy_from_slice(&self.time.to_le_bytes());
        out[4..8].copy_from_slice(&self.number.to_le_bytes()[..4]);
        out[8..16].copy_from_slice(&self.ptr.to_le_bytes());
        out[16..24].copy_from_slice(&self.size.to_le_bytes());
        out[24..32].copy_from_slice(&self.pc.to_le_bytes());
        out[32..40].copy_from_slice(&self.base.to_le_bytes());
        out
    }
}

/// The fields of a frame header that tests change; the others follow from the payload.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Offset 8.
    pub version: (u8, u8),
    /// Offset 10; what is beyond 80 is filled with ones.
    pub header_length: u16,
    /// Offset 12.
    pub kind: u8,
    /// Offset 13.
    pub flags: u8,
    /// Offset 14.
    pub sum_kind: u8,
    /// Offset 20.
    pub stream: u32,
    /// Offset 24.
    pub number: u32,
    /// Offset 28.
    pub thread: u32,
    /// Offset 32.
    pub tid: u32,
    /// Offset 40.
    pub first: u64,
    /// Offset 48.
    pub clock: u64,
    /// Offset 56.
    pub settled: u64,
    /// Offset 64.
    pub lost: u32,
    /// Offset 68.
    pub void: u32,
}

impl Default for Frame {
    fn default() -> Self {
        Self {
            version: (1, 0),
            header_length: 80,
            kind: 1,
            flags: 0,
            sum_kind: 1,
            stream: 0xC0FF_EE11,
            number: 0,
            thread: 1,
            tid: 4711,
            first: 1,
            clock: CLOCK,
            settled: 0,
            lost: 0,
            void: 0,
        }
    }
}

impl Frame {
    /// The whole frame around `payload`.
    ///
    /// # Panics
    ///
    /// Where the payload is longer than a frame can say.
    #[must_use]
    pub fn bytes(&self, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0; HEADER];
        out[0..8].copy_from_slice(&[0x89, 0x48, 0x57, 0x54, 0x0D, 0x0A, 0xFF, 0x1A]);
        out[8] = self.version.0;
        out[9] = self.version.1;
        out[10..12].copy_from_slice(&self.header_length.to_le_bytes());
        out[12] = self.kind;
        out[13] = self.flags;
        out[14] = self.sum_kind;
        let length = u32::try_from(payload.len()).expect("test payloads are small");
        out[16..20].copy_from_slice(&length.to_le_bytes());
        out[20..24].copy_from_slice(&self.stream.to_le_bytes());
        out[24..28].copy_from_slice(&self.number.to_le_bytes());
        out[28..32].copy_from_slice(&self.thread.to_le_bytes());
        out[32..36].copy_from_slice(&self.tid.to_le_bytes());
        if self.sum_kind == 1 {
            out[36..40].copy_from_slice(&crc32(payload).to_le_bytes());
        }
        out[40..48].copy_from_slice(&self.first.to_le_bytes());
        out[48..56].copy_from_slice(&self.clock.to_le_bytes());
        out[56..64].copy_from_slice(&self.settled.to_le_bytes());
        out[64..68].copy_from_slice(&self.lost.to_le_bytes());
        out[68..72].copy_from_slice(&self.void.to_le_bytes());
        let sum = crc32(&out[..76]);
        out[76..80].copy_from_slice(&sum.to_le_bytes());
        out.resize(usize::from(self.header_length).max(HEADER), 0xFF);
        out.extend(payload);
        out.extend((0x5457_4821 ^ self.number).to_le_bytes());
        out
    }
}

/// A stream in the making: gives records their numbers and puts them into frames.
#[derive(Clone, Debug)]
pub struct Writer {
    /// The next frame's header.
    pub frame: Frame,
    /// The next record's number.
    pub next: u64,
    pc: u64,
    pending: Vec<Record>,
    bytes: Vec<u8>,
}

impl Writer {
    /// A stream without a declaration.
    #[must_use]
    pub fn bare(stream: u32) -> Self {
        Self {
            frame: Frame {
                stream,
                ..Frame::default()
            },
            next: 1,
            pc: PC,
            pending: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// A stream that begins with its process's program image and declares one module, at [`BASE`].
    #[must_use]
    pub fn new() -> Self {
        let mut writer = Self::bare(Frame::default().stream);
        writer.process(4711, &["exe=/bin/p", "arg=p", "began=exec", "ppid=1"]);
        writer.module(BASE, 0x10_0000, "/bin/p");
        writer
    }

    /// Adds a record with the next number.
    pub fn record(&mut self, record: Record) -> &mut Self {
        let number = self.next;
        self.next += 1;
        self.pending.push(Record { number, ..record });
        self
    }

    /// Adds a record as it is.
    pub fn raw(&mut self, record: Record) -> &mut Self {
        self.pending.push(record);
        self
    }

    /// Takes a number and writes nothing for it.
    pub fn lose(&mut self, count: u64) -> &mut Self {
        self.next += count;
        self
    }

    /// Adds a heap record; `flags` has the family.
    pub fn heap(&mut self, op: u8, flags: u8, ptr: u64, size: u64) -> &mut Self {
        self.record(Record {
            op,
            flags,
            ptr,
            size,
            pc: self.pc,
            base: BASE,
            ..Record::default()
        })
    }

    /// Calls come from this one of several sites from here on.
    pub fn site(&mut self, site: u64) -> &mut Self {
        self.pc = PC + site * 16;
        self
    }

    /// `malloc` gave `ptr`.
    pub fn malloc(&mut self, ptr: u64, size: u64) -> &mut Self {
        self.heap(0x01, 0, ptr, size)
    }

    /// `free` of `ptr`.
    pub fn free(&mut self, ptr: u64) -> &mut Self {
        self.heap(0x02, 0, ptr, u64::MAX)
    }

    /// `realloc(old, size)` gave `new`.
    pub fn realloc(&mut self, old: u64, new: u64, size: u64) -> &mut Self {
        self.heap(0x03, 0, old, size).heap(0x04, 0, new, size)
    }

    /// Declares a process.
    pub fn process(&mut self, pid: u64, keys: &[&str]) -> &mut Self {
        let text = lines(keys);
        self.declare(0x71, [pid, 1_700_000_000_000_000_000, CLOCK], &text)
    }

    /// Declares a module without a build id, loaded where its file says.
    pub fn module(&mut self, base: u64, size: u64, path: &str) -> &mut Self {
        let text = lines(&[&format!("path={path}")]);
        self.declare(0x72, [base, size, 0], &text)
    }

    /// Adds a declaration and the records of its text.
    pub fn declare(&mut self, op: u8, [ptr, size, pc]: [u64; 3], text: &[u8]) -> &mut Self {
        let base = text.len() as u64;
        self.record(Record {
            op,
            ptr,
            size,
            pc,
            base,
            ..Record::default()
        });
        for chunk in text.chunks(32) {
            let mut words = [0; 32];
            words[..chunk.len()].copy_from_slice(chunk);
            let word = |at: usize| {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&words[at..at + 8]);
                u64::from_le_bytes(bytes)
            };
            self.record(Record {
                op: 0x70,
                flags: u8::try_from(chunk.len()).expect("a chunk has 32 bytes at most"),
                ptr: word(0),
                size: word(8),
                pc: word(16),
                base: word(24),
                ..Record::default()
            });
        }
        self
    }

    /// The process ends by `exit`.
    pub fn end(&mut self) -> &mut Self {
        self.record(Record {
            op: 0x77,
            size: u64::MAX,
            ..Record::default()
        })
    }

    /// Puts what was added so far into a frame.
    pub fn flush(&mut self) -> &mut Self {
        let records = std::mem::take(&mut self.pending);
        if let Some(first) = records.first() {
            self.frame.first = first.number;
            let payload: Vec<u8> = records.iter().flat_map(Record::bytes).collect();
            self.frame_of(&payload);
        }
        self
    }

    /// Adds a frame with this payload.
    pub fn frame_of(&mut self, payload: &[u8]) -> &mut Self {
        self.bytes.extend(self.frame.bytes(payload));
        self.frame.number += 1;
        self
    }

    /// Adds bytes that are in no frame.
    pub fn foreign(&mut self, bytes: &[u8]) -> &mut Self {
        self.flush();
        self.bytes.extend(bytes);
        self
    }

    /// All bytes since they were taken last.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.flush();
        std::mem::take(&mut self.bytes)
    }

    /// All bytes so far.
    #[must_use]
    pub fn bytes(&mut self) -> Vec<u8> {
        self.flush();
        self.bytes.clone()
    }
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

/// The text of a process or module.
fn lines(keys: &[&str]) -> Vec<u8> {
    keys.iter().flat_map(|key| key.bytes().chain([0])).collect()
}

/// CRC-32, bit by bit.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        let [low, ..] = sum.to_le_bytes();
        (sum >> 8) ^ SUMS[usize::from(low ^ byte)]
    })
}

/// What each byte does to a sum.
static SUMS: [u32; 256] = {
    let mut sums = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte, 0);
        while bit < 8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { 0xEDB8_8320 } else { 0 };
            bit += 1;
        }
        sums[byte as usize] = sum;
        byte += 1;
    }
    sums
};

#[cfg(test)]
mod tests {
    use super::{Writer, crc32};

    #[test]
    fn sums_are_those_of_the_specification() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn a_frame_is_header_records_and_trailer() {
        let bytes = Writer::bare(1).malloc(0x1000, 48).free(0x1000).bytes();
        assert_eq!(bytes.len(), 80 + 2 * 40 + 4);
        assert_eq!(bytes[160..], *b"!HWT");
    }
}
