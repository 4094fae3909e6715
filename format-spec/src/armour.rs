//! Armour: a piece of a frame as a printable line, laid out as SPEC.md 9 says.

use crate::Crc32;

/// What every line of armour begins with.
pub const ARMOUR_MARK: [u8; 2] = *b"~h";
/// Columns of the lines that every terminal leaves alone.
pub const ARMOUR_NARROW: usize = 76;
/// Columns of the longest lines.
pub const ARMOUR_WIDE: usize = 252;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const SUM: usize = 4;

/// What the bytes of a line begin with: the place of its piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArmourHead {
    /// Low half of the stream tag.
    pub stream: u16,
    /// Low byte of the frame number.
    pub frame: u8,
    /// Lines of the frame that follow this one.
    pub following: u8,
}

impl ArmourHead {
    const SIZE: usize = 4;
    /// Bytes of a line that are not of the frame.
    pub const AROUND: usize = Self::SIZE + SUM;

    /// The place of a piece of this frame.
    #[must_use]
    pub const fn new(stream: u32, frame: u32, following: u8) -> Self {
        let [low, high, ..] = stream.to_le_bytes();
        let [frame, ..] = frame.to_le_bytes();
        Self {
            stream: u16::from_le_bytes([low, high]),
            frame,
            following,
        }
    }

    /// Bytes of a frame that a line of so many columns takes.
    #[must_use]
    pub const fn room(columns: usize) -> usize {
        let symbols = columns.saturating_sub(ARMOUR_MARK.len());
        (symbols * 6 / 8).saturating_sub(Self::AROUND)
    }

    /// Lays out the line that carries `piece`, line feed included, and gives its length. What `out` has no room for is left out.
    pub fn encode(&self, piece: &[u8], out: &mut [u8; ARMOUR_WIDE + 1]) -> usize {
        let [low, high] = self.stream.to_le_bytes();
        let head = [low, high, self.frame, self.following];
        let sum = Crc32::new().with(&head).with(piece).value().to_le_bytes();
        let mut line = Line { out, length: 0 };
        for byte in ARMOUR_MARK {
            line.push(byte);
        }
        let (mut bits, mut count) = (0, 0);
        for byte in head.iter().chain(piece).chain(&sum) {
            bits = bits << 8 | u32::from(*byte);
            count += 8;
            while count >= 6 {
                count -= 6;
                line.push_symbol(bits >> count);
            }
        }
        if count != 0 {
            line.push_symbol(bits << (6 - count));
        }
        line.push(b'\n');
        line.length
    }

    /// Reads the bytes of a line: what [`armour_bytes`] makes of its symbols. `None` if they have another sum.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (summed, sum) = bytes.split_last_chunk::<SUM>()?;
        let (head, piece) = summed.split_first_chunk::<{ Self::SIZE }>()?;
        let [low, high, frame, following] = *head;
        let head = Self {
            stream: u16::from_le_bytes([low, high]),
            frame,
            following,
        };
        (Crc32::of(summed) == u32::from_le_bytes(*sum)).then_some((head, piece))
    }
}

struct Line<'o> {
    out: &'o mut [u8; ARMOUR_WIDE + 1],
    length: usize,
}

impl Line<'_> {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.out.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }

    fn push_symbol(&mut self, bits: u32) {
        self.push(ALPHABET[(bits & 0x3F) as usize]);
    }
}

/// The six bits that a symbol stands for; `None` for a byte that is no symbol.
#[must_use]
pub const fn armour_symbol(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

/// The bytes that symbols, given by their six bits each, stand for.
pub fn armour_bytes(symbols: impl IntoIterator<Item = u8>) -> impl Iterator<Item = u8> {
    let (mut bits, mut count) = (0, 0);
    symbols.into_iter().filter_map(move |symbol| {
        bits = bits << 6 | u32::from(symbol & 0x3F);
        count += 6;
        if count < 8 {
            return None;
        }
        count -= 8;
        Some((bits >> count & 0xFF) as u8)
    })
}

#[cfg(test)]
mod tests {
    use super::{ALPHABET, ARMOUR_NARROW, ARMOUR_WIDE, ArmourHead, armour_bytes, armour_symbol};

    #[test]
    fn symbols_are_those_of_the_alphabet() {
        for byte in 0..=u8::MAX {
            let place = ALPHABET.iter().position(|symbol| *symbol == byte);
            assert_eq!(armour_symbol(byte).map(usize::from), place);
        }
    }

    #[test]
    fn lines_of_every_length_are_read_back() {
        let head = ArmourHead::new(0xDEAD_BEEF, 0x107, 200);
        let mut piece = [0; 179];
        for (place, value) in piece.iter_mut().zip(1u8..) {
            *place = value.wrapping_mul(91);
        }
        for length in 1..=ArmourHead::room(ARMOUR_WIDE) {
            let piece = &piece[..length];
            let mut line = [0; ARMOUR_WIDE + 1];
            let columns = head.encode(piece, &mut line) - 1;
            assert_eq!(line[columns], b'\n');
            assert!(ArmourHead::room(columns) >= length && ArmourHead::room(columns - 1) < length);
            assert!(line[..columns].iter().all(u8::is_ascii_graphic));
            let symbols = line[2..columns]
                .iter()
                .filter_map(|byte| armour_symbol(*byte));
            let mut bytes = [0; 187];
            let mut count = 0;
            for byte in armour_bytes(symbols) {
                bytes[count] = byte;
                count += 1;
            }
            assert_eq!(ArmourHead::decode(&bytes[..count]), Some((head, piece)));
            bytes[count / 2] ^= 1;
            assert_eq!(ArmourHead::decode(&bytes[..count]), None);
        }
        assert_eq!(ArmourHead::room(ARMOUR_NARROW), 47);
        assert_eq!(ArmourHead::room(ARMOUR_WIDE), piece.len());
    }
}
