//! Parts what came over a terminal into the frames of a trace and the text between them.

use crate::trace::armour::{Parted, halved};
use crate::trace::{Input, TraceError};
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why nothing could be parted.
#[derive(Debug)]
pub enum SplitError {
    /// The log cannot be read.
    Trace(TraceError),
    /// No frame came as a line.
    NoLine {
        /// The log as given.
        path: PathBuf,
    },
    /// An output cannot be written.
    Write(io::Error),
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::NoLine { path } => write!(
                f,
                "no line of {} carries a frame: nothing is to be split",
                path.display()
            ),
            Self::Write(_) => f.write_str("cannot write what was split"),
        }
    }
}

impl Error for SplitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Trace(error) => error.source(),
            Self::NoLine { .. } => None,
            Self::Write(error) => Some(error),
        }
    }
}

impl From<io::Error> for SplitError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// What there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Lines of frames.
    pub lines: u64,
    /// Of these, lines that had come before.
    pub repeated: u64,
    /// Lines that were changed on the way.
    pub damaged: u64,
    /// Bytes of text written.
    pub text: u64,
    /// Bytes of frames written.
    pub frames: u64,
}

/// Writes the text of the log at `path` to `text`, and its frames to `frames`.
///
/// What the way made of a line feed is one again in the text, as far as the first line of a frame shows it.
///
/// # Errors
///
/// The log cannot be read or has no line of a frame, or an output cannot be written.
pub fn split(
    path: &Path,
    text: &mut dyn Write,
    frames: &mut dyn Write,
) -> Result<Split, SplitError> {
    let cannot_read = |error| SplitError::Trace(TraceError::open(path, error));
    let (mut first, mut again) = Input::open_twice(path).map_err(SplitError::Trace)?;
    let mut parted = Parted::new(first.reader());
    while parted.advance().map_err(cannot_read)? {}
    if parted.parting().found().lines == 0 {
        return Err(SplitError::NoLine {
            path: path.to_owned(),
        });
    }
    let mut lines = LineEnds::new(parted.parting().line_end());
    let log = if parted.parting().has_doubled() {
        halved(again.reader())
    } else {
        again.reader()
    };
    let mut parted = Parted::new(log);
    let mut split = Split::default();
    while parted.advance().map_err(cannot_read)? {
        lines.take(parted.parting().text());
        split.text += lines.restored.len() as u64;
        split.frames += parted.parting().frames().len() as u64;
        text.write_all(&lines.restored)?;
        frames.write_all(parted.parting().frames())?;
    }
    split.text += lines.held.len() as u64;
    text.write_all(&lines.held)?;
    text.flush()?;
    frames.flush()?;
    let found = parted.parting().found();
    Ok(Split {
        lines: found.lines,
        repeated: found.repeated,
        damaged: found.damaged,
        ..split
    })
}

/// Text whose line feeds are made what they were.
struct LineEnds {
    /// What the way made of one.
    changed: Vec<u8>,
    /// The end of what was taken, where it may be the beginning of one.
    held: Vec<u8>,
    restored: Vec<u8>,
}

impl LineEnds {
    fn new(changed: Option<&[u8]>) -> Self {
        Self {
            changed: changed.unwrap_or(b"\n").to_vec(),
            held: Vec::new(),
            restored: Vec::new(),
        }
    }

    /// Restores what goes on with `text`.
    fn take(&mut self, text: &[u8]) {
        self.restored.clear();
        let text = [&std::mem::take(&mut self.held), text].concat();
        let mut rest = &text[..];
        while let Some((first, others)) = rest.split_first() {
            if let Some(after) = rest.strip_prefix(&self.changed[..]) {
                self.restored.push(b'\n');
                rest = after;
            } else if self.changed.starts_with(rest) {
                self.held.extend(rest);
                return;
            } else {
                self.restored.push(*first);
                rest = others;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LineEnds;

    #[test]
    fn line_feeds_are_restored_wherever_the_text_is_parted() {
        let text = b"a\r\r\nb\r\nc\r\r\r\n\r";
        for parted in 0..=text.len() {
            let mut lines = LineEnds::new(Some(b"\r\r\n"));
            let mut all = Vec::<u8>::new();
            for part in [&text[..parted], &text[parted..]] {
                lines.take(part);
                all.extend(&lines.restored);
            }
            all.extend(&lines.held);
            assert_eq!(all, b"a\nb\r\nc\r\n\r", "{parted}");
        }
    }
}
