//! Files without a name, for what memory is too small for.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// A file in the folder for temporary ones that nobody else sees and that goes when it is closed.
pub(crate) fn file() -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .mode(0o600)
        .open(std::env::temp_dir())
}
