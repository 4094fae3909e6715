//! Frame headers and trailers, laid out as SPEC.md 6 says.

use crate::{Crc32, MAJOR, MINOR};

/// First eight bytes of every frame. They show what a terminal or telnet did to the stream.
pub const FRAME_MAGIC: [u8; 8] = [0x89, b'H', b'W', b'T', 0x0D, 0x0A, 0xFF, 0x1A];
/// Bytes of a trailer.
pub const TRAILER_SIZE: usize = 4;
/// Stream tag of who watches processes from outside; process images have others.
pub const OBSERVER: u32 = 0;
/// Most bytes of a frame on a pipe, socket or terminal.
pub const PIPE_FRAME: usize = 4096;
/// Frame flag: the records are of several threads.
pub const FLAG_MIXED: u8 = 1;
/// Frame flag: of its last records nothing says how much later than the last reading of the clock they were made.
pub const FLAG_LATE: u8 = 2;

const TRAILER_MAGIC: u32 = 0x5457_4821;

/// The trailer of frame `number`: what its last four bytes must be.
#[must_use]
pub const fn trailer(number: u32) -> [u8; TRAILER_SIZE] {
    (TRAILER_MAGIC ^ number).to_le_bytes()
}

/// What a frame's payload is (SPEC.md 6.2). Any byte is a kind; the constants are those this version knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameKind(pub u8);

impl FrameKind {
    /// Whole records.
    pub const RECORDS: Self = Self(1);
    /// Packed records.
    pub const PACKED: Self = Self(2);
    /// The memory of lanes.
    pub const LANES: Self = Self(3);
    /// A piece of a larger object.
    pub const BLOB: Self = Self(4);
    /// Nothing.
    pub const PADDING: Self = Self(5);
    /// An index.
    pub const INDEX: Self = Self(6);
    /// A packed frame with a short header.
    pub const SHORT: Self = Self(7);
}

/// How the payload is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SumKind {
    /// Not at all.
    None = 0,
    /// CRC-32.
    Crc32 = 1,
}

/// The header of a frame. Fields are as in SPEC.md 6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Major and minor version of the writer.
    pub version: (u8, u8),
    /// Bytes of the header, as written.
    pub header_length: u16,
    /// What the payload is.
    pub kind: FrameKind,
    /// See [`FLAG_MIXED`].
    pub flags: u8,
    /// Number of the sum kind; a reader that does not know it cannot check the payload.
    pub sum_kind: u8,
    /// Bytes of the payload.
    pub payload_length: u32,
    /// Stream tag.
    pub stream: u32,
    /// Place among the frames of the stream.
    pub frame: u32,
    /// Serial of the thread that made the records; 0 = unknown.
    pub thread: u32,
    /// Kernel tid of that thread.
    pub tid: u32,
    /// Sum of the payload; 0 without a sum kind.
    pub payload_sum: u32,
    /// Full number of the first record.
    pub first: u64,
    /// Nanoseconds that the records' times count from.
    pub clock: u64,
    /// All records with lower numbers are written or counted as lost; 0 = nothing claimed.
    pub settled: u64,
    /// Records lost by the recorder so far, modulo 2^32.
    pub lost: u32,
    /// Holes passed so far, modulo 2^32.
    pub void: u32,
    /// Records culled so far, modulo 2^32.
    pub culled: u32,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The magic is not there.
    Magic,
    /// Fewer bytes than a header has.
    Short,
    /// The header sum does not fit.
    Sum,
    /// A higher major version than this crate's.
    Version(u8),
    /// The header length is less than this version's.
    Length(u16),
}

impl Header {
    /// Bytes of the header that this version writes.
    pub const SIZE: usize = 80;
    const SUM_AT: usize = 76;

    /// A header of this version with everything else zero.
    #[must_use]
    pub const fn new(kind: FrameKind, stream: u32, frame: u32) -> Self {
        Self {
            version: (MAJOR, MINOR),
            header_length: 80,
            kind,
            flags: 0,
            sum_kind: SumKind::None as u8,
            payload_length: 0,
            stream,
            frame,
            thread: 0,
            tid: 0,
            payload_sum: 0,
            first: 0,
            clock: 0,
            settled: 0,
            lost: 0,
            void: 0,
            culled: 0,
        }
    }

    /// Lays the header out as SPEC.md 6.1 says, header sum included.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[0..8].copy_from_slice(&FRAME_MAGIC);
        out[8] = self.version.0;
        out[9] = self.version.1;
        out[10..12].copy_from_slice(&self.header_length.to_le_bytes());
        out[12] = self.kind.0;
        out[13] = self.flags;
        out[14] = self.sum_kind;
        out[16..20].copy_from_slice(&self.payload_length.to_le_bytes());
        out[20..24].copy_from_slice(&self.stream.to_le_bytes());
        out[24..28].copy_from_slice(&self.frame.to_le_bytes());
        out[28..32].copy_from_slice(&self.thread.to_le_bytes());
        out[32..36].copy_from_slice(&self.tid.to_le_bytes());
        out[36..40].copy_from_slice(&self.payload_sum.to_le_bytes());
        out[40..48].copy_from_slice(&self.first.to_le_bytes());
        out[48..56].copy_from_slice(&self.clock.to_le_bytes());
        out[56..64].copy_from_slice(&self.settled.to_le_bytes());
        out[64..68].copy_from_slice(&self.lost.to_le_bytes());
        out[68..72].copy_from_slice(&self.void.to_le_bytes());
        out[72..76].copy_from_slice(&self.culled.to_le_bytes());
        let sum = Crc32::of(&out[..Self::SUM_AT]);
        out[Self::SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, in the order magic, length of `bytes`, sum, version, header length.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        if !bytes.starts_with(&FRAME_MAGIC) {
            return Err(HeaderError::Magic);
        }
        let Some(bytes) = bytes.first_chunk::<{ Self::SIZE }>() else {
            return Err(HeaderError::Short);
        };
        if word(bytes, Self::SUM_AT) != Crc32::of(&bytes[..Self::SUM_AT]) {
            return Err(HeaderError::Sum);
        }
        if bytes[8] > MAJOR {
            return Err(HeaderError::Version(bytes[8]));
        }
        let header_length = u16::from_le_bytes([bytes[10], bytes[11]]);
        if usize::from(header_length) < Self::SIZE {
            return Err(HeaderError::Length(header_length));
        }
        Ok(Self {
            version: (bytes[8], bytes[9]),
            header_length,
            kind: FrameKind(bytes[12]),
            flags: bytes[13],
            sum_kind: bytes[14],
            payload_length: word(bytes, 16),
            stream: word(bytes, 20),
            frame: word(bytes, 24),
            thread: word(bytes, 28),
            tid: word(bytes, 32),
            payload_sum: word(bytes, 36),
            first: double_word(bytes, 40),
            clock: double_word(bytes, 48),
            settled: double_word(bytes, 56),
            lost: word(bytes, 64),
            void: word(bytes, 68),
            culled: word(bytes, 72),
        })
    }

    /// Bytes of the whole frame: header, payload and trailer.
    #[must_use]
    pub const fn frame_length(&self) -> u64 {
        self.header_length as u64 + self.payload_length as u64 + TRAILER_SIZE as u64
    }
}

fn word(bytes: &[u8; Header::SIZE], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn double_word(bytes: &[u8; Header::SIZE], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::{FrameKind, Header, HeaderError, SumKind};

    fn header() -> Header {
        Header {
            flags: 1,
            sum_kind: SumKind::Crc32 as u8,
            payload_length: 80,
            thread: 2,
            tid: 4711,
            payload_sum: 0xAABB_CCDD,
            first: 0x1_0000_0001,
            clock: 1_000_000,
            settled: 3,
            lost: 4,
            void: 5,
            culled: 6,
            ..Header::new(FrameKind::RECORDS, 0xDEAD_BEEF, 9)
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        assert_eq!(Header::decode(&header().encode()), Ok(header()));
        assert_eq!(header().frame_length(), 80 + 80 + 4);
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let bytes = header().encode();
        for at in 0..bytes.len() {
            let mut wrong = bytes;
            wrong[at] ^= 0x10;
            let expected = if at < 8 {
                HeaderError::Magic
            } else {
                HeaderError::Sum
            };
            assert_eq!(Header::decode(&wrong), Err(expected), "byte {at}");
        }
    }

    #[test]
    fn every_cut_is_refused_and_a_longer_header_is_read() {
        let bytes = header().encode();
        for length in 8..bytes.len() {
            assert_eq!(Header::decode(&bytes[..length]), Err(HeaderError::Short));
        }
        let longer = Header {
            header_length: 96,
            ..header()
        };
        assert_eq!(Header::decode(&longer.encode()), Ok(longer));
        let newer = Header {
            version: (2, 0),
            ..header()
        };
        assert_eq!(
            Header::decode(&newer.encode()),
            Err(HeaderError::Version(2))
        );
    }
}
