//! Frames as printable lines, by the words of format-spec/SPEC.md 9 and without the format crate.

use crate::trace::{HEADER, TRAILER, crc32};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The lines of all frames of `trace`, none longer than `columns`.
///
/// # Panics
///
/// Where there is anything but whole frames.
#[must_use]
pub fn armoured(trace: &[u8], columns: usize) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    let mut rest = trace;
    while !rest.is_empty() {
        let payload = u32::from_le_bytes([rest[16], rest[17], rest[18], rest[19]]) as usize;
        let (frame, others) = rest.split_at(HEADER + payload + TRAILER);
        let pieces = frame.chunks((columns - 2) * 6 / 8 - 8);
        let following = (0..pieces.len()).rev();
        lines.extend(pieces.zip(following).map(|(piece, following)| {
            let following = u8::try_from(following).expect("frames of tests are short");
            line(&[&[frame[20], frame[21], frame[24], following], piece].concat())
        }));
        rest = others;
    }
    lines
}

/// The line of these bytes and their sum.
fn line(bytes: &[u8]) -> Vec<u8> {
    let bytes = [bytes, &crc32(bytes).to_le_bytes()].concat();
    let bits: Vec<u8> = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .collect();
    let symbols = bits.chunks(6).map(|bits| {
        let filled = bits.iter().chain(&[0; 6]).take(6);
        ALPHABET[filled.fold(0, |value, bit| value << 1 | usize::from(*bit))]
    });
    let mut line = b"~h".to_vec();
    line.extend(symbols);
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_line_is_that_of_the_specification() {
        let bytes = [
            0x11, 0xEE, 0x02, 0x03, 0x89, 0x48, 0x57, 0x54, 0x0D, 0x0A, 0xFF, 0x1A,
        ];
        assert_eq!(line(&bytes), b"~hEe4CA4lIV1QNCv8aDa5g0g\n");
    }
}
