//! Finds the lines of armour in what a terminal, a telnet client or a serial line made of them (SPEC.md 9).

use super::run::{Mark, Run, SHORTEST, mark};
use heapwire_format::{ARMOUR_MARK, ARMOUR_NARROW, ARMOUR_WIDE, ArmourHead};

/// Damaged lines that text may be taken out of before a line is found whole: trying costs as much as reading a thousand.
const MENDABLE: u32 = 64;

/// What some bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// So many bytes that are in no line.
    Text(usize),
    /// So many bytes of what was a line before it was damaged.
    Damaged(usize),
    Line(Line),
    /// More bytes will tell.
    Undecided,
}

/// A line of armour.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) head: ArmourHead,
    pub(super) piece: Vec<u8>,
    /// Bytes that it takes.
    pub(super) length: usize,
    /// Text that stood in its midst.
    pub(super) within: Vec<u8>,
    /// Whether its symbols were parted by that.
    pub(super) is_mended: bool,
    /// What the way made of its line feed, if it is there.
    pub(super) end: Option<Vec<u8>>,
}

/// Finds lines one after the other.
pub(super) struct Lines {
    /// Symbols of the last line that was followed by one of its frame.
    width: usize,
    mendable: u32,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self {
            width: 0,
            mendable: MENDABLE,
        }
    }

    /// Looks at what `bytes` begin with. `is_all`: no more will come.
    pub(super) fn step(&mut self, bytes: &[u8], is_all: bool) -> Step {
        let tilde = |byte: &u8| byte & 0x7F == ARMOUR_MARK[0];
        match bytes.iter().position(tilde) {
            None => return Step::Text(bytes.len()),
            Some(0) => {}
            Some(text) => return Step::Text(text),
        }
        match mark(bytes) {
            Mark::Whole(length) => self.marked(bytes, length, is_all),
            Mark::Begun if !is_all => Step::Undecided,
            Mark::Begun | Mark::None => self.parted(bytes, is_all),
        }
    }

    /// Looks at `bytes`, which begin with a mark that text may part.
    fn parted(&mut self, bytes: &[u8], is_all: bool) -> Step {
        const MOST_TEXT: usize = 256;
        let near = &bytes[..bytes.len().min(MOST_TEXT)];
        // The text ends before what may be another mark.
        let other = (1..near.len()).find(|at| near[*at] & 0x7F == ARMOUR_MARK[0]);
        let near = &near[..other.unwrap_or(near.len())];
        let end_of_text = near
            .windows(2)
            .position(|pair| pair == [b'\n', ARMOUR_MARK[1]]);
        let Some(at) = end_of_text else {
            let may_come = bytes.len() < MOST_TEXT && other.is_none() && !is_all;
            return if may_come {
                Step::Undecided
            } else {
                Step::Text(1)
            };
        };
        let mut run = Run::new(bytes, at + 2);
        match (run.advance(), run.line()) {
            (true, Some(line)) => self.found(Line {
                within: bytes[1..=at].to_vec(),
                is_mended: true,
                ..line
            }),
            (false, _) if run.wants_more() && !is_all => Step::Undecided,
            _ => Step::Text(1),
        }
    }

    /// Looks at `bytes`, which begin with a mark of this length.
    fn marked(&mut self, bytes: &[u8], mark: usize, is_all: bool) -> Step {
        let mut run = Run::new(bytes, mark);
        while run.advance() {
            if let Some(line) = run.line() {
                return self.found(line);
            }
        }
        if run.wants_more() && !is_all {
            return Step::Undecided;
        }
        let widths = [
            self.width,
            symbols_in(ARMOUR_NARROW),
            symbols_in(ARMOUR_WIDE),
        ];
        if let Some(line) = run.line_without_end(widths) {
            return self.found(line);
        }
        if run.symbols() >= SHORTEST && self.mendable > 0 {
            self.mendable -= 1;
            if let Some(line) = run.mended(widths) {
                return self.found(line);
            }
        }
        match run.damaged() {
            0 => Step::Text(mark),
            length => Step::Damaged(length),
        }
    }

    fn found(&mut self, line: Line) -> Step {
        self.mendable = self.mendable.saturating_add(1);
        if line.head.following > 0 {
            self.width = (ArmourHead::AROUND + line.piece.len())
                .saturating_mul(8)
                .div_ceil(6);
        }
        Step::Line(line)
    }
}

/// Symbols of a line of so many columns.
const fn symbols_in(columns: usize) -> usize {
    columns - ARMOUR_MARK.len()
}
