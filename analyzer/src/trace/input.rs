//! One input: a file mapped into memory, or all that a pipe or standard input gave.

use super::TraceError;
use super::unpack::{Broken, Unpacked, unpack};
use memmap2::Mmap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// An input and its bytes.
pub(crate) struct Input {
    path: PathBuf,
    bytes: Bytes,
    /// Why not all of it could be unpacked.
    broken: Option<Broken>,
}

enum Bytes {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl Input {
    /// Opens `path`; `-` is standard input.
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        let bytes = if path.as_os_str() == "-" {
            read_all(io::stdin().lock()).map_err(|source| TraceError::open(path, source))?
        } else {
            open_file(path)?
        };
        let (bytes, broken) = match unpack(bytes.as_slice()) {
            None => (bytes, None),
            Some(unpacked) => unpacked
                .and_then(|(unpacked, broken)| Ok((Bytes::of(unpacked)?, broken)))
                .map_err(|source| TraceError::open(path, source))?,
        };
        if bytes.as_slice().is_empty() {
            return Err(TraceError::Empty {
                path: path.to_owned(),
            });
        }
        Ok(Self {
            path: path.to_owned(),
            bytes,
            broken,
        })
    }

    #[cfg(test)]
    pub(crate) fn in_memory(path: PathBuf, bytes: Vec<u8>) -> Self {
        Self {
            path,
            bytes: Bytes::Read(bytes),
            broken: None,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn broken(&self) -> Option<Broken> {
        self.broken
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }
}

impl Bytes {
    fn of(unpacked: Unpacked) -> io::Result<Self> {
        match unpacked {
            Unpacked::InFile(file) if file.metadata()?.len() > 0 => map(&file).map(Self::Mapped),
            Unpacked::InFile(_) => Ok(Self::Read(Vec::new())),
            Unpacked::InMemory(bytes) => Ok(Self::Read(bytes)),
        }
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(bytes) => bytes,
        }
    }
}

fn open_file(path: &Path) -> Result<Bytes, TraceError> {
    let failed = |source| TraceError::open(path, source);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(TraceError::Directory {
            path: path.to_owned(),
        });
    }
    // A file of length 0 cannot be mapped, and those below /proc have content all the same.
    if !metadata.is_file() || metadata.len() == 0 {
        return read_all(file).map_err(failed);
    }
    map(&file).map(Bytes::Mapped).map_err(failed)
}

fn map(file: &File) -> io::Result<Mmap> {
    #[expect(
        unsafe_code,
        reason = "mapping a file is the one way to read large traces fast"
    )]
    // SAFETY: the user is asked not to write to a trace while it is read; that keeps the bytes as they are.
    unsafe {
        Mmap::map(file)
    }
}

fn read_all(mut from: impl Read) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    Ok(Bytes::Read(bytes))
}
