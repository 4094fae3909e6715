//! The record: 40 bytes, laid out as SPEC.md 2 says.

use crate::Op;

/// One record. Fields are as in SPEC.md 2; what `ptr`, `size`, `pc` and `base` mean depends on `op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// What happened.
    pub op: Op,
    /// Family and bits of a heap record; bytes used of a text record.
    pub flags: u8,
    /// Milliseconds since the clock of the frame or lane.
    pub time: u16,
    /// Low 32 bits of the record's number.
    pub number: u32,
    /// The block, or what SPEC.md 4 says.
    pub ptr: u64,
    /// Bytes requested, or what SPEC.md 4 says.
    pub size: u64,
    /// Raw return address of the call.
    pub pc: u64,
    /// Module base of `pc`, or a stack, or bytes of text.
    pub base: u64,
}

impl Record {
    /// Bytes of one record. Part of the format: readers step by it.
    pub const SIZE: usize = 40;
    /// Eight-byte words of one record.
    pub const WORDS: usize = 5;

    /// The record as five words; written in little-endian order they are its bytes.
    ///
    /// The first word holds op, flags, time and number: a writer that stores it last commits the record.
    #[inline]
    #[must_use]
    pub const fn to_words(&self) -> [u64; Self::WORDS] {
        let head = self.op.0 as u64
            | (self.flags as u64) << 8
            | (self.time as u64) << 16
            | (self.number as u64) << 32;
        [head, self.ptr, self.size, self.pc, self.base]
    }

    /// The record that `words` hold.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "each field is the part of the head it takes"
    )]
    #[inline]
    pub const fn from_words([head, ptr, size, pc, base]: [u64; Self::WORDS]) -> Self {
        Self {
            op: Op(head as u8),
            flags: (head >> 8) as u8,
            time: (head >> 16) as u16,
            number: (head >> 32) as u32,
            ptr,
            size,
            pc,
            base,
        }
    }

    /// Lays the record out as SPEC.md 2 says.
    #[inline]
    #[must_use]
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        for (bytes, word) in out.chunks_exact_mut(8).zip(self.to_words()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Reads a record. Every 40 bytes are one; whether its op is known is for the caller to ask.
    #[inline]
    #[must_use]
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        let mut words = [0; Self::WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Self::from_words(words)
    }

    /// The full number: the one closest to `reference` with this record's low 32 bits (SPEC.md 2).
    #[inline]
    #[must_use]
    pub fn full_number(&self, reference: u64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low half is what is compared"
        )]
        let distance = self.number.wrapping_sub(reference as u32).cast_signed();
        reference.wrapping_add_signed(i64::from(distance))
    }
}

#[cfg(test)]
mod tests {
    use super::Record;
    use crate::Op;

    const RECORD: Record = Record {
        op: Op::RELEASED,
        flags: 0x23,
        time: 0x0102,
        number: 7,
        ptr: 0x1000,
        size: u64::MAX,
        pc: 0x40_1136,
        base: 0x40_0000,
    };

    #[test]
    fn bytes_are_those_of_the_spec() {
        #[rustfmt::skip]
        let expected = [
            0x02,                               // op: released
            0x23,                               // flags: new[], time read
            0x02, 0x01,                         // time
            7, 0, 0, 0,                         // number
            0, 0x10, 0, 0, 0, 0, 0, 0,          // ptr
            255, 255, 255, 255, 255, 255, 255, 255, // size: none given
            0x36, 0x11, 0x40, 0, 0, 0, 0, 0,    // pc
            0, 0, 0x40, 0, 0, 0, 0, 0,          // base
        ];
        assert_eq!(RECORD.encode(), expected);
        assert_eq!(Record::decode(&expected), RECORD);
    }

    #[test]
    fn full_numbers_are_the_nearest() {
        let numbered = |number| Record { number, ..RECORD };
        assert_eq!(numbered(7).full_number(5), 7);
        assert_eq!(numbered(5).full_number(7), 5);
        assert_eq!(numbered(1).full_number(0xFFFF_FFFF), 0x1_0000_0001);
        assert_eq!(
            numbered(0xFFFF_FFFF).full_number(0x1_0000_0001),
            0xFFFF_FFFF
        );
    }
}
