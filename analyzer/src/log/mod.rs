//! Logs of glibc's mtrace.
//!
//! `line` reads one line and `caller` the text in it that names a caller; `callers` keeps these, and `reader` makes events of a log,
//! which are replayed as those of a trace are. `writers` parts logs of several processes in one file, `mcheck` knows what that does to
//! a log.

mod caller;
pub(crate) mod callers;
mod hexadecimal;
pub(crate) mod line;
mod mcheck;
mod reader;
mod writers;

pub(crate) use callers::Seen;
pub(crate) use reader::{Batch, Condition, Reader, Session};

use line::{Line, Read};
use std::path::Path;

/// Whether there is a mark or a record of a log in `bytes`.
pub(crate) fn is_log(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    lines.any(|line| {
        let read = Read::of(line).line;
        matches!(read, Line::Start | Line::End | Line::Record(_))
    })
}

/// Whether the path is one of a library.
pub(crate) fn is_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".so") || name.contains(".so.")
}
