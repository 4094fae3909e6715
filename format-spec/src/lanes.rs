//! The table at the head of the memory of lanes, laid out as SPEC.md 7 says.

/// First eight bytes of the table.
pub const LANES_MAGIC: [u8; 8] = *b"HWLANES\x01";
/// The table starts on a multiple of this in the file as written, whatever the page size is.
pub const LANES_PAGE: usize = 4096;

/// The fixed part of the table: which image the lanes belong to, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanesTable {
    /// Stream tag of the image that owns the lanes.
    pub stream: u32,
    /// Its pid.
    pub pid: u32,
    /// Number of lane headers.
    pub lanes: u32,
    /// Where the first lane header starts, from the start of the table.
    pub headers_at: u32,
    /// Bytes from one lane header to the next.
    pub header_size: u32,
    /// Records of the stream that could not be recorded, when `taken` was stored.
    pub lost: u32,
    /// Holes passed, as `lost`.
    pub void: u32,
    /// The next number when the counts were stored; 0 = never.
    pub taken: u64,
}

/// One lane header: whose records the lane's slots are, and what they are relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneHeader {
    /// Kernel tid of the owner; 0 = never used.
    pub tid: u32,
    /// Thread serial of the owner.
    pub thread: u32,
    /// Where the slots start, from the start of the table.
    pub slots_at: u32,
    /// Number of slots.
    pub slots: u32,
    /// Reference of the full numbers of the records in the slots.
    pub base_number: u64,
    /// Nanoseconds that the times of the records in the slots count from.
    pub base_clock: u64,
}

impl LanesTable {
    /// Bytes of the fixed part.
    pub const SIZE: usize = 64;

    /// Lays the fixed part out.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[0..8].copy_from_slice(&LANES_MAGIC);
        out[8..12].copy_from_slice(&self.stream.to_le_bytes());
        out[12..16].copy_from_slice(&self.pid.to_le_bytes());
        out[16..20].copy_from_slice(&self.lanes.to_le_bytes());
        out[20..24].copy_from_slice(&self.headers_at.to_le_bytes());
        out[24..28].copy_from_slice(&self.header_size.to_le_bytes());
        out[28..32].copy_from_slice(&self.lost.to_le_bytes());
        out[32..36].copy_from_slice(&self.void.to_le_bytes());
        out[40..48].copy_from_slice(&self.taken.to_le_bytes());
        out
    }

    /// Reads the fixed part at the start of `bytes`; `None` without the magic or where `bytes` is too short.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<{ Self::SIZE }>()?;
        bytes.starts_with(&LANES_MAGIC).then(|| Self {
            stream: word(bytes, 8),
            pid: word(bytes, 12),
            lanes: word(bytes, 16),
            headers_at: word(bytes, 20),
            header_size: word(bytes, 24),
            lost: word(bytes, 28),
            void: word(bytes, 32),
            taken: u64::from(word(bytes, 40)) | u64::from(word(bytes, 44)) << 32,
        })
    }
}

impl LaneHeader {
    /// Bytes of a lane header.
    pub const SIZE: usize = 64;

    /// Lays the lane header out.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[0..4].copy_from_slice(&self.tid.to_le_bytes());
        out[4..8].copy_from_slice(&self.thread.to_le_bytes());
        out[8..12].copy_from_slice(&self.slots_at.to_le_bytes());
        out[12..16].copy_from_slice(&self.slots.to_le_bytes());
        out[16..24].copy_from_slice(&self.base_number.to_le_bytes());
        out[24..32].copy_from_slice(&self.base_clock.to_le_bytes());
        out
    }

    /// Reads the lane header at the start of `bytes`; `None` where `bytes` is too short.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<{ Self::SIZE }>()?;
        Some(Self {
            tid: word(bytes, 0),
            thread: word(bytes, 4),
            slots_at: word(bytes, 8),
            slots: word(bytes, 12),
            base_number: u64::from(word(bytes, 16)) | u64::from(word(bytes, 20)) << 32,
            base_clock: u64::from(word(bytes, 24)) | u64::from(word(bytes, 28)) << 32,
        })
    }
}

fn word(bytes: &[u8; 64], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::{LaneHeader, LanesTable};

    #[test]
    fn what_is_encoded_is_decoded() {
        let table = LanesTable {
            stream: 1,
            pid: 2,
            lanes: 3,
            headers_at: 64,
            header_size: 64,
            lost: 5,
            void: 6,
            taken: 1 << 33,
        };
        assert_eq!(LanesTable::decode(&table.encode()), Some(table));
        let lane = LaneHeader {
            tid: 1,
            thread: 2,
            slots_at: 4096,
            slots: 1024,
            base_number: 1 << 40,
            base_clock: 1 << 50,
        };
        assert_eq!(LaneHeader::decode(&lane.encode()), Some(lane));
    }

    #[test]
    fn a_table_without_magic_or_cut_short_is_none() {
        let table = LanesTable {
            stream: 1,
            pid: 2,
            lanes: 3,
            headers_at: 64,
            header_size: 64,
            lost: 5,
            void: 6,
            taken: 1 << 33,
        };
        let bytes = table.encode();
        assert_eq!(LanesTable::decode(&bytes[..63]), None);
        assert_eq!(LanesTable::decode(&[0; 64]), None);
    }
}
