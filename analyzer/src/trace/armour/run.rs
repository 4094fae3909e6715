//! What follows a mark: symbols, what a terminal put between them, and where a line may end.

use super::lines::Line;
use heapwire_format::{ARMOUR_MARK, ARMOUR_WIDE, ArmourHead, armour_bytes, armour_symbol};

/// Symbols of the longest line.
const LONGEST: usize = ARMOUR_WIDE - ARMOUR_MARK.len();
/// Symbols of the shortest one, with one byte of a frame.
pub(super) const SHORTEST: usize = 12;
/// Bytes that are looked at after a mark: the longest line, what a terminal puts into it, and a message of the kernel.
const MOST: usize = 2048;
/// Line feeds that are.
const MOST_ENDS: usize = 8;
const LF: u8 = b'\n';

pub(super) enum Mark {
    /// With so many bytes.
    Whole(usize),
    /// It may go on.
    Begun,
    None,
}

/// The mark that `bytes` begin with, perhaps parted where a terminal was too narrow.
pub(super) fn mark(bytes: &[u8]) -> Mark {
    const MOST_BETWEEN: usize = 16;
    let plain = |at: usize| bytes.get(at).map(|byte| byte & 0x7F);
    if plain(0) != Some(ARMOUR_MARK[0]) {
        return Mark::None;
    }
    let mut at = 1;
    while at < MOST_BETWEEN {
        let (Some(byte), Some(length)) = (plain(at), passed(&bytes[at..])) else {
            return Mark::Begun;
        };
        if byte == ARMOUR_MARK[1] {
            return Mark::Whole(at + 1);
        }
        if is_printable(byte) {
            return Mark::None;
        }
        at += length;
    }
    Mark::None
}

/// The bytes after a mark, as far as they were looked at.
pub(super) struct Run<'b> {
    bytes: &'b [u8],
    mark: usize,
    at: usize,
    /// The six bits of each symbol.
    symbols: Vec<u8>,
    /// Where each of them stands.
    places: Vec<usize>,
    /// Where characters stand that are no symbols.
    others: Vec<usize>,
    /// Symbols before each line feed, and where the byte after it stands.
    ends: Vec<(usize, usize)>,
    wants_more: bool,
}

impl<'b> Run<'b> {
    /// What `bytes` have after a mark of this length.
    pub(super) fn new(bytes: &'b [u8], mark: usize) -> Self {
        Self {
            bytes,
            mark,
            at: mark,
            symbols: Vec::new(),
            places: Vec::new(),
            others: Vec::new(),
            ends: Vec::new(),
            wants_more: false,
        }
    }

    /// Whether the bytes end before it does.
    pub(super) fn wants_more(&self) -> bool {
        self.wants_more
    }

    /// How many symbols there are.
    pub(super) fn symbols(&self) -> usize {
        self.symbols.len()
    }

    /// Goes on behind the next line feed. `false`: there is none before the next mark, and none near.
    pub(super) fn advance(&mut self) -> bool {
        while self.at < MOST && self.ends.len() < MOST_ENDS {
            let rest = &self.bytes[self.at..];
            let (Some(byte), Some(length)) = (rest.first(), passed(rest)) else {
                self.wants_more = true;
                return false;
            };
            match mark(rest) {
                Mark::None => {}
                Mark::Whole(_) => return false,
                Mark::Begun => {
                    self.wants_more = true;
                    return false;
                }
            }
            let byte = byte & 0x7F;
            if let Some(symbol) = armour_symbol(byte) {
                self.symbols.push(symbol);
                self.places.push(self.at);
            } else if is_printable(byte) {
                self.others.push(self.at);
            }
            self.at += length.min(rest.len());
            if byte == LF {
                self.ends.push((self.symbols.len(), self.at));
                return true;
            }
        }
        false
    }

    /// The line that ends with the line feed that was found last.
    pub(super) fn line(&self) -> Option<Line> {
        let (count, end) = *self.ends.last()?;
        let (head, piece) = opened(self.symbols.get(..count)?)?;
        let last = self.after(count);
        let within = self.others.iter().filter(|at| **at < last);
        let is_clean = self.others.last().is_none_or(|at| *at < last);
        let line_end = self.bytes.get(last..end)?;
        let is_plain = line_end.iter().all(|byte| *byte <= b'\r');
        Some(Line {
            head,
            piece,
            length: if is_clean { end } else { last },
            within: within.map(|at| self.bytes[*at]).collect(),
            is_mended: false,
            end: (is_clean && is_plain).then(|| line_end.to_vec()),
        })
    }

    /// A line whose line feed was lost: before the next mark, or of one of these widths.
    pub(super) fn line_without_end(&self, widths: [usize; 3]) -> Option<Line> {
        let counts = [self.symbols.len()].into_iter().chain(widths);
        counts.into_iter().find_map(|count| {
            let (head, piece) = opened(self.symbols.get(..count)?)?;
            Some(Line {
                head,
                piece,
                length: self.after(count),
                within: Vec::new(),
                is_mended: false,
                end: None,
            })
        })
    }

    /// A line that becomes one when a stretch of text is taken out of it: one that ends where a line does, or what makes it longer
    /// than one of these widths.
    pub(super) fn mended(&self, widths: [usize; 3]) -> Option<Line> {
        let stretches = |index: usize| {
            let (count, end) = self.ends[index];
            let whole_lines = self.ends[..index].iter().flat_map(move |(until, _)| {
                let froms = 0..(*until).min(LONGEST);
                froms.map(move |from| (from, *until))
            });
            let too_wide = widths.into_iter().filter(move |width| *width < count);
            let too_wide = too_wide
                .flat_map(move |width| (0..width).map(move |from| (from, from + count - width)));
            let all = whole_lines.chain(too_wide);
            all.map(move |(from, until)| (from, until, count, end))
        };
        let mut all = (0..self.ends.len()).flat_map(stretches);
        all.find_map(|(from, until, count, end)| {
            if !self.may_be(from, from + count - until, widths) {
                return None;
            }
            let (before, after) = (self.symbols.get(..from)?, self.symbols.get(until..count)?);
            let (head, piece) = opened(before.iter().chain(after))?;
            let text = self.after(from)..self.places.get(until).copied().unwrap_or(end);
            Some(Line {
                head,
                piece,
                length: end,
                within: self.bytes.get(text)?.to_vec(),
                is_mended: true,
                end: None,
            })
        })
    }

    /// Whether a line of so many symbols, of which the first `known` ones are right, is worth a try: one that others follow has a known width.
    fn may_be(&self, known: usize, count: usize, widths: [usize; 3]) -> bool {
        let is_followed = known >= 6
            && matches!(self.symbols[..], [_, _, _, _, high, low, ..] if high & 0x3F != 0 || low >> 4 != 0);
        (SHORTEST..=LONGEST).contains(&count) && (!is_followed || widths.contains(&count))
    }

    /// Where the byte after the first `count` symbols stands.
    fn after(&self, count: usize) -> usize {
        let last = count.checked_sub(1).and_then(|last| self.places.get(last));
        last.map_or(self.mark, |place| place + 1)
    }

    /// Bytes of the first line, if it is like one of armour; else 0.
    pub(super) fn damaged(&self) -> usize {
        let whole = (self.symbols.len(), self.at);
        let (symbols, end) = *self.ends.first().unwrap_or(&whole);
        let is_alike = symbols >= SHORTEST && symbols * 8 >= (end - self.mark) * 7;
        if is_alike { end } else { 0 }
    }
}

/// What symbols say, if their sum fits.
fn opened<'s>(symbols: impl IntoIterator<Item = &'s u8>) -> Option<(ArmourHead, Vec<u8>)> {
    let (mut count, mut last) = (0, 0);
    let symbols = symbols.into_iter().take(LONGEST + 1).inspect(|symbol| {
        count += 1;
        last = **symbol;
    });
    let mut bytes = Vec::with_capacity(LONGEST);
    bytes.extend(armour_bytes(symbols.copied()));
    let (summed, sum) = bytes.split_last_chunk()?;
    let filler = (1 << (count * 6 % 8)) - 1;
    // The format's own sum takes far longer, and there are thousands of tries.
    if crc32fast::hash(summed) != u32::from_le_bytes(*sum) || last & filler != 0 {
        return None;
    }
    let (head, piece) = ArmourHead::decode(&bytes)?;
    (!piece.is_empty()).then(|| (head, piece.to_vec()))
}

fn is_printable(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte)
}

/// Bytes of the character, escape sequence or option of telnet that `bytes` begin with. `None`: more bytes will tell.
fn passed(bytes: &[u8]) -> Option<usize> {
    const ESCAPE: u8 = 0x1B;
    const BELL: u8 = 7;
    const MOST_IN_SEQUENCE: usize = 64;
    const TELNET: u8 = 255;
    const WILL: u8 = 251;
    const DO_NOT: u8 = 254;
    match *bytes.first()? {
        TELNET if matches!(bytes.get(1)?, WILL..=DO_NOT) => {
            return (bytes.len() > 2).then_some(3);
        }
        ESCAPE => {}
        _ => return Some(1),
    }
    let rest = bytes.get(2..)?;
    let rest = &rest[..rest.len().min(MOST_IN_SEQUENCE)];
    let length = match bytes[1] {
        b'[' => rest.iter().position(|byte| (0x40..0x7F).contains(byte)),
        b']' => rest.iter().position(|byte| [BELL, ESCAPE].contains(byte)),
        b'(' | b')' => Some(0),
        _ => return Some(2),
    };
    match length {
        Some(place) => (rest.len() > place).then_some(place + 3),
        None if rest.len() == MOST_IN_SEQUENCE => Some(1),
        None => None,
    }
}
