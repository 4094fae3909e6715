//! Frames that came as printable lines (SPEC.md 9), taken out of the log of a terminal program, with the text between them.

mod arrived;
mod assembly;
mod lines;
mod run;
#[cfg(test)]
mod tests;

use super::undo;
use arrived::Arrived;
use assembly::{Assembly, Piece};
use lines::{Line, Lines, Step};
use run::{Mark, mark};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// `log` with one line feed for each two.
pub(crate) fn halved(log: Bytes) -> Bytes {
    undo::joined(log, |one, other| {
        ((one, other) == (b'\n', b'\n')).then_some(b'\n')
    })
}

/// Bytes that are looked at together.
const STEP: usize = 1 << 16;

/// Bytes in order.
type Bytes = Box<dyn Read + Send>;

/// What was found of armour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Lines whose sum fits.
    pub(crate) lines: u64,
    /// Of these, lines that came before.
    pub(crate) repeated: u64,
    /// Of these, lines that text was taken out of.
    pub(crate) mended: u64,
    /// Lines whose sum does not fit.
    pub(crate) damaged: u64,
    /// Bytes that are in no line.
    pub(crate) text: u64,
    /// The frames that came whole.
    pub(crate) arrived: Arrived,
}

/// Whether a line of armour is in `bytes`, or begins at their end where more may come.
pub(super) fn is_in(bytes: &[u8], is_all: bool) -> bool {
    let mut lines = Lines::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        match lines.step(rest, is_all) {
            Step::Line(_) => return true,
            Step::Undecided => return !matches!(mark(rest), Mark::None),
            Step::Text(length) | Step::Damaged(length) => {
                rest = rest.get(length..).unwrap_or_default();
            }
        }
    }
    false
}

/// Parts what comes over a terminal into frames and text.
pub(crate) struct Parting {
    /// Bytes that came and are not yet told what they are.
    held: Vec<u8>,
    lines: Lines,
    assembly: Assembly,
    found: Found,
    line_end: Option<Vec<u8>>,
    /// Lines that end with a line feed after which something is known to come, and lines that another line feed comes after.
    ended: (u64, u64),
    text: Vec<u8>,
    frames: Vec<u8>,
}

impl Parting {
    pub(crate) fn new() -> Self {
        Self {
            held: Vec::new(),
            lines: Lines::new(),
            assembly: Assembly::default(),
            found: Found::default(),
            line_end: None,
            ended: (0, 0),
            text: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Takes bytes that come next; `is_all`: no more will. What they are is there until it takes others.
    pub(crate) fn take(&mut self, bytes: &[u8], is_all: bool) {
        self.text.clear();
        self.frames.clear();
        self.held.extend(bytes);
        self.part(is_all);
    }

    /// The text of the part.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The frames that were whole in the part, and what is left of those that will not be.
    pub(crate) fn frames(&self) -> &[u8] {
        &self.frames
    }

    /// All that was found so far.
    pub(crate) fn found(&self) -> &Found {
        &self.found
    }

    /// What the way made of a line feed, as the first line shows it.
    pub(crate) fn line_end(&self) -> Option<&[u8]> {
        self.line_end.as_deref()
    }

    /// Whether the way made two line feeds of each: CR LF, of which CR became another one.
    pub(crate) fn has_doubled(&self) -> bool {
        let (ended, doubled) = self.ended;
        ended > 0 && ended == doubled
    }

    fn part(&mut self, is_all: bool) {
        let mut at = 0;
        while let Some(rest) = self.held.get(at..).filter(|rest| !rest.is_empty()) {
            match self.lines.step(rest, is_all) {
                Step::Undecided => break,
                Step::Text(length) => {
                    self.text.extend(rest.iter().take(length));
                    at += length;
                }
                Step::Damaged(length) => {
                    self.found.damaged += 1;
                    at += length;
                }
                Step::Line(line) => {
                    at += line.length;
                    if line.end.as_deref() == Some(b"\n")
                        && let Some(next) = rest.get(line.length)
                    {
                        self.ended.0 += 1;
                        self.ended.1 += u64::from(*next == b'\n');
                    }
                    self.add(line);
                }
            }
        }
        self.held.drain(..at);
        if is_all {
            self.assembly.finish(&mut self.frames);
        }
        self.found.text += self.text.len() as u64;
        self.found.arrived.clone_from(self.assembly.arrived());
    }

    fn add(&mut self, line: Line) {
        self.found.lines += 1;
        self.found.mended += u64::from(line.is_mended);
        if self.line_end.is_none() {
            self.line_end = line.end;
        }
        self.text.extend(line.within);
        let piece = self.assembly.add(line.head, line.piece, &mut self.frames);
        self.found.repeated += u64::from(piece == Piece::Repeated);
    }
}

/// A log, parted as it is read.
pub(crate) struct Parted {
    from: Bytes,
    has_ended: bool,
    parting: Parting,
}

impl Parted {
    pub(crate) fn new(from: Bytes) -> Self {
        Self {
            from,
            has_ended: false,
            parting: Parting::new(),
        }
    }

    /// Goes on to the next part. `false`: there is no more.
    pub(crate) fn advance(&mut self) -> io::Result<bool> {
        let mut bytes = Vec::new();
        if !self.has_ended {
            let mut part = self.from.by_ref().take(STEP as u64);
            part.read_to_end(&mut bytes)?;
        }
        let goes_on = !self.has_ended;
        self.has_ended |= bytes.len() < STEP;
        self.parting.take(&bytes, self.has_ended);
        Ok(goes_on)
    }

    /// What the last part is, and all that was found so far.
    pub(crate) fn parting(&self) -> &Parting {
        &self.parting
    }
}

/// The frames that came as lines in a log.
pub(super) struct Frames {
    parted: Parted,
    /// Bytes of the part's frames that were given.
    given: usize,
    /// Where others see how far it came.
    shared: Arc<Mutex<Found>>,
}

impl Frames {
    /// `skipped` bytes of text came before.
    pub(super) fn new(from: Bytes, skipped: u64, shared: Arc<Mutex<Found>>) -> Self {
        let mut parted = Parted::new(from);
        parted.parting.found.text = skipped;
        Self {
            parted,
            given: 0,
            shared,
        }
    }
}

impl Read for Frames {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.given == self.parted.parting.frames.len() {
            self.given = 0;
            if !self.parted.advance()? {
                return Ok(0);
            }
            lock(&self.shared).clone_from(&self.parted.parting.found);
        }
        let given = (&self.parted.parting.frames[self.given..]).read(to)?;
        self.given += given;
        Ok(given)
    }
}

/// What somebody told; nobody panics with it in hand.
pub(super) fn lock(found: &Mutex<Found>) -> std::sync::MutexGuard<'_, Found> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}
