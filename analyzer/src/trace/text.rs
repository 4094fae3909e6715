//! The text of a log, mapped: lines are taken from where they are, however many there are.

use super::input::Store;
use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// All bytes of an input.
pub(crate) enum Text {
    Mapped(Mmap),
    InMemory(Arc<[u8]>),
}

impl Text {
    /// What `store` holds.
    pub(crate) fn of(store: &Store) -> io::Result<Self> {
        match store {
            Store::Memory(bytes) => Ok(Self::InMemory(Arc::clone(bytes))),
            // A file without bytes cannot be mapped.
            Store::File(file) if file.metadata()?.len() == 0 => Ok(Self::InMemory(Arc::default())),
            Store::File(file) => map(file).map(Self::Mapped),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::InMemory(bytes) => bytes,
        }
    }
}

fn map(file: &File) -> io::Result<Mmap> {
    #[expect(
        unsafe_code,
        reason = "mapping a file is the one way to read large logs without a copy"
    )]
    // SAFETY: the user is asked not to write to a log while it is read; that keeps the bytes as they are.
    unsafe {
        Mmap::map(file)
    }
}
