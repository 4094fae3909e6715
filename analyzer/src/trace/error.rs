//! Why no report can be made.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why an input gives nothing to report. Damage that leaves something to tell is a warning instead.
#[derive(Debug)]
pub enum TraceError {
    /// No input was named.
    NoInput,
    /// The input cannot be opened or read.
    Open {
        /// The input as given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The input is a directory.
    Directory {
        /// The input as given.
        path: PathBuf,
    },
    /// The input has no bytes.
    Empty {
        /// The input as given.
        path: PathBuf,
    },
    /// No frame is in the input.
    NotATrace {
        /// The input as given.
        path: PathBuf,
    },
    /// Something begins like a frame, but no frame is whole.
    NoWholeFrame {
        /// The input as given.
        path: PathBuf,
        /// Where the first of them begins.
        offset: u64,
        /// What seems to have happened on the way, if its mark is there.
        translation: Option<Translation>,
    },
    /// Blocks that were laid aside in a temporary file cannot be read back.
    LaidAside(io::Error),
    /// No process that is asked for is in the inputs.
    NoProcess {
        /// The pid that was asked for.
        pid: u64,
    },
    /// All frames are of a newer major version of the format.
    Version {
        /// The input as given.
        path: PathBuf,
        /// Major version of the frames.
        found: u8,
    },
}

/// What a transfer did to the bytes, as the magic shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// Each line feed became carriage return and line feed.
    LineFeedsGrew,
    /// Carriage return and line feed became a line feed.
    LineFeedsShrank,
    /// Each byte 255 was doubled.
    TelnetEscapes,
    /// The same, and a zero byte was put after each carriage return.
    TelnetText,
    /// Each line feed became carriage return and line feed, and then each byte 255 was doubled.
    TerminalAndEscapes,
    /// The same, and a zero byte was put after each carriage return that no line feed followed.
    TerminalAndTelnet,
    /// The high bit of each byte was cleared.
    SevenBits,
}

impl TraceError {
    /// The exit status of a verb that ends with this error.
    #[must_use]
    pub const fn exit_status(&self) -> u8 {
        3
    }

    pub(crate) fn open(path: &Path, source: io::Error) -> Self {
        Self::Open {
            path: path.to_owned(),
            source,
        }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInput => write!(f, "no trace was named"),
            Self::Open { path, .. } => write!(f, "cannot read trace {}", path.display()),
            Self::Directory { path } => {
                write!(f, "{} is a directory, not a trace", path.display())
            }
            Self::Empty { path } => write!(f, "{} is empty: nothing was recorded", path.display()),
            Self::NotATrace { path } => write!(f, "{} is not a heapwire trace", path.display()),
            Self::NoWholeFrame {
                path,
                offset,
                translation,
            } => {
                write!(
                    f,
                    "{} has no whole frame; the first damaged one is at byte {offset}",
                    path.display()
                )?;
                translation.map_or(Ok(()), |translation| write!(f, ": {translation}"))
            }
            Self::LaidAside(_) => write!(f, "cannot read back a temporary file"),
            Self::NoProcess { pid } => write!(f, "no process {pid} is in the trace"),
            Self::Version { path, found } => write!(
                f,
                "{} is of format version {found}; this heapwire reads version {}",
                path.display(),
                heapwire_format::MAJOR
            ),
        }
    }
}

impl Error for TraceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Open { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl fmt::Display for Translation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LineFeedsGrew => "looks like a terminal changed line ends (LF to CR LF)",
            Self::LineFeedsShrank => {
                "looks like a text-mode transfer changed line ends (CR LF to LF)"
            }
            Self::TelnetEscapes | Self::TelnetText => {
                "looks like telnet escapes were left in (byte 255 doubled)"
            }
            Self::TerminalAndEscapes | Self::TerminalAndTelnet => {
                "looks like a terminal changed line ends (LF to CR LF), and telnet escapes were left in (byte 255 doubled)"
            }
            Self::SevenBits => "looks like the line carried only seven bits",
        })
    }
}
