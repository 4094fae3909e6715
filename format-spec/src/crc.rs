//! CRC-32 as SPEC.md 6.1 defines it, over bytes that come in pieces.

const POLYNOMIAL: u32 = 0xEDB8_8320; // 0x04C11DB7, reflected

/// For four bits at a time: the recorder has no room for a table of bytes.
const TABLE: [u32; 16] = {
    let mut table = [0; 16];
    let mut index: u32 = 0;
    while index < 16 {
        let mut value = index;
        let mut bit = 0;
        while bit < 4 {
            value = if value & 1 == 1 {
                (value >> 1) ^ POLYNOMIAL
            } else {
                value >> 1
            };
            bit += 1;
        }
        table[index as usize] = value;
        index += 1;
    }
    table
};

/// A CRC-32 in the making.
///
/// ```
/// let sum = heapwire_format::Crc32::of(b"123456789");
/// assert_eq!(sum, 0xCBF4_3926);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Crc32(u32);

impl Crc32 {
    /// The sum of no bytes yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(u32::MAX)
    }

    /// The sum with `bytes` added at the end.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Self {
        for byte in bytes {
            self.0 ^= u32::from(*byte);
            for _ in 0..2 {
                self.0 = (self.0 >> 4) ^ TABLE[(self.0 & 0xF) as usize];
            }
        }
        self
    }

    /// The finished sum.
    #[must_use]
    pub const fn value(self) -> u32 {
        !self.0
    }

    /// The sum of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u32 {
        Self::new().with(bytes).value()
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Crc32;

    #[test]
    fn pieces_add_up() {
        let whole = Crc32::of(b"heapwire traces");
        assert_eq!(
            Crc32::new().with(b"heapwire").with(b" traces").value(),
            whole
        );
        assert_eq!(Crc32::of(b""), 0);
    }
}
