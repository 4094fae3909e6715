//! Takes back what a terminal or telnet did to the bytes of a trace, where that can be done exactly.

use super::Translation;
use std::io::{self, Read};

/// Bytes that are taken back at once.
const STEP: usize = 1 << 16;

/// Bytes in order.
type Bytes = Box<dyn Read + Send>;

/// Whether a translation loses nothing.
pub(super) fn is_exact(translation: Translation) -> bool {
    pair(translation).is_some()
}

/// The two bytes that stand for one, and which that is.
fn pair(translation: Translation) -> Option<fn(u8, u8) -> Option<u8>> {
    const CR: u8 = 13;
    const LF: u8 = 10;
    match translation {
        Translation::LineFeedsGrew => Some(|one, other| ((one, other) == (CR, LF)).then_some(LF)),
        Translation::TelnetEscapes => {
            Some(|one, other| ((one, other) == (255, 255)).then_some(255))
        }
        Translation::TelnetText => Some(|one, other| match (one, other) {
            (255, 255) => Some(255),
            (CR, 0) => Some(CR),
            _ => None,
        }),
        Translation::TerminalAndEscapes => Some(|one, other| match (one, other) {
            (255, 255) => Some(255),
            (CR, LF) => Some(LF),
            _ => None,
        }),
        Translation::TerminalAndTelnet => Some(|one, other| match (one, other) {
            (255, 255) => Some(255),
            (CR, LF) => Some(LF),
            (CR, 0) => Some(CR),
            _ => None,
        }),
        Translation::LineFeedsShrank | Translation::SevenBits => None,
    }
}

/// What `from` gave before it was translated.
pub(super) fn undo(from: Bytes, translation: Translation) -> Bytes {
    match pair(translation) {
        Some(pair) => joined(from, pair),
        None => from,
    }
}

/// What `from` gives, with one byte where `joined` knows one for two.
pub(super) fn joined(from: Bytes, joined: fn(u8, u8) -> Option<u8>) -> Bytes {
    Box::new(Undo {
        from,
        joined,
        read: Vec::new(),
        at: 0,
        has_ended: false,
    })
}

struct Undo {
    from: Bytes,
    joined: fn(u8, u8) -> Option<u8>,
    read: Vec<u8>,
    at: usize,
    has_ended: bool,
}

impl Undo {
    /// Reads on; the last byte is kept, for it may be the first of two.
    fn fill(&mut self) -> io::Result<()> {
        self.read.drain(..self.at);
        self.at = 0;
        let before = self.read.len();
        let mut part = self.from.by_ref().take(STEP as u64);
        part.read_to_end(&mut self.read)?;
        self.has_ended = self.read.len() - before < STEP;
        Ok(())
    }
}

impl Read for Undo {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut given = 0;
        while given < to.len() {
            let (one, taken) = match self.read[self.at..] {
                [one, other, ..] => match (self.joined)(one, other) {
                    Some(joined) => (joined, 2),
                    None => (one, 1),
                },
                [one] if self.has_ended => (one, 1),
                _ if self.has_ended => break,
                _ => {
                    self.fill()?;
                    continue;
                }
            };
            to[given] = one;
            given += 1;
            self.at += taken;
        }
        Ok(given)
    }
}

#[cfg(test)]
mod tests {
    use super::{STEP, undo};
    use crate::Translation;
    use std::io::{Cursor, Read};

    fn undone(bytes: &[u8], translation: Translation) -> Vec<u8> {
        let mut all = Vec::new();
        let from = Box::new(Cursor::new(bytes.to_vec()));
        undo(from, translation).read_to_end(&mut all).unwrap();
        all
    }

    #[test]
    fn pairs_become_one_byte_again_wherever_they_lie() {
        for before in [0, 1, STEP - 1, STEP, 2 * STEP - 1] {
            let start = vec![b'x'; before];
            let with = |end: &[u8]| [&start[..], end].concat();
            let check = |translation, given: &[u8], expected: &[u8]| {
                assert!(
                    undone(&with(given), translation) == with(expected),
                    "{before}"
                );
            };
            check(Translation::LineFeedsGrew, b"a\r\nb\r\r\n\r", b"a\nb\r\n\r");
            check(
                Translation::TelnetEscapes,
                b"\xff\xff\xff\xff\r\0\xff",
                b"\xff\xff\r\0\xff",
            );
            check(Translation::TelnetText, b"\xff\xff\r\0\n\r", b"\xff\r\n\r");
            check(
                Translation::TerminalAndEscapes,
                b"\r\r\n\xff\xff\r\0\r\n",
                b"\r\n\xff\r\0\n",
            );
            check(
                Translation::TerminalAndTelnet,
                b"\r\0\r\n\xff\xff\r\0\0\r\n",
                b"\r\n\xff\r\0\n",
            );
            check(Translation::SevenBits, b"\r\n", b"\r\n");
        }
    }
}
