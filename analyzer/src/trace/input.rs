//! One input: a file that can be read in any place, or a stream that gives its bytes once.

use super::armour;
use super::frames::Frames;
use super::text::Text;
use super::unpack::{self, Broken};
use super::{TraceError, Translation, undo};
use crate::{nameless, progress};
use std::fs::File;
use std::io::{self, Cursor, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

/// An input that was opened.
pub(crate) struct Input {
    path: PathBuf,
    bytes: Bytes,
    /// Why not all of it could be unpacked.
    broken: Arc<OnceLock<Broken>>,
    /// What was done to the bytes on the way, and is taken back.
    taken_back: Option<Translation>,
    /// What was found of armour, where frames come as lines.
    armour: Option<Arc<Mutex<armour::Found>>>,
    is_packed: bool,
}

enum Bytes {
    Stored(Store),
    /// `None` once it is being read.
    Streamed(Option<Box<dyn Read + Send>>),
}

/// Bytes that can be read in any place, more than once.
#[derive(Clone)]
pub(crate) enum Store {
    File(Arc<File>),
    Memory(Arc<[u8]>),
}

impl Input {
    /// Opens `path`; `-` is standard input.
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        let bytes = if path.as_os_str() == "-" {
            Bytes::Streamed(Some(Box::new(Counted(io::stdin()))))
        } else {
            open_file(path)?
        };
        let broken = Arc::default();
        let (bytes, is_packed) =
            unpacked(bytes, &broken).map_err(|source| TraceError::open(path, source))?;
        Ok(Self {
            path: path.to_owned(),
            bytes,
            broken,
            taken_back: None,
            armour: None,
            is_packed,
        })
    }

    /// Opens `path` to be read twice: what can be read only once is laid aside.
    pub(crate) fn open_twice(path: &Path) -> Result<(Self, Self), TraceError> {
        let mut input = Self::open(path)?;
        let store = match input.store() {
            Some(store) => store.clone(),
            None => Store::laid_aside(&[], &mut input.reader())
                .map_err(|source| TraceError::open(path, source))?,
        };
        let again = |store| Self {
            path: input.path.clone(),
            bytes: Bytes::Stored(store),
            broken: Arc::clone(&input.broken),
            taken_back: None,
            armour: None,
            is_packed: input.is_packed,
        };
        Ok((again(store.clone()), again(store)))
    }

    /// Whether its bytes were packed.
    pub(super) fn is_packed(&self) -> bool {
        self.is_packed
    }

    #[cfg(test)]
    pub(crate) fn in_memory(path: PathBuf, bytes: Vec<u8>) -> Self {
        Self {
            path,
            bytes: Bytes::Stored(Store::Memory(bytes.into())),
            broken: Arc::default(),
            taken_back: None,
            armour: None,
            is_packed: false,
        }
    }

    /// An input that gives its bytes once.
    #[cfg(test)]
    pub(crate) fn streamed(path: PathBuf, bytes: impl Read + Send + 'static) -> Self {
        Self {
            path,
            bytes: Bytes::Streamed(Some(Box::new(bytes))),
            broken: Arc::default(),
            taken_back: None,
            armour: None,
            is_packed: false,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All of its bytes.
    pub(crate) fn into_text(mut self) -> Result<Text, TraceError> {
        let reader = self.reader();
        self.text(reader)
            .map_err(|source| TraceError::open(&self.path, source))
    }

    /// All of its bytes; those of a stream are what `all` gives.
    pub(super) fn text(&self, mut all: Box<dyn Read + Send>) -> io::Result<Text> {
        match self.store() {
            Some(store) => Text::of(store),
            None => Text::of(&Store::laid_aside(&[], &mut all)?),
        }
    }

    /// Whether what was done to the bytes on the way can be taken back, and is not yet.
    pub(super) fn can_take_back(&self, translation: Translation) -> bool {
        self.taken_back.is_none() && undo::is_exact(translation)
    }

    /// Has `translation` taken back, as `all` its bytes are read.
    pub(super) fn take_back(&mut self, translation: Translation, all: Box<dyn Read + Send>) {
        self.bytes = Bytes::Streamed(Some(undo::undo(all, translation)));
        self.taken_back = Some(translation);
    }

    /// Has its frames taken out of lines of armour. `frames` has read it up to the block that shows the first of them.
    pub(super) fn take_armour_off(&mut self, frames: Frames) {
        let (all, skipped) = match self.store() {
            Some(store) => (store.reader(0, u64::MAX), 0),
            None => {
                let skipped = frames.begin_of_block();
                (frames.into_reader(), skipped)
            }
        };
        let found = Arc::default();
        let frames = armour::Frames::new(all, skipped, Arc::clone(&found));
        self.bytes = Bytes::Streamed(Some(Box::new(frames)));
        self.armour = Some(found);
    }

    /// What was found of armour so far, if it has any.
    pub(super) fn armour(&self) -> Option<armour::Found> {
        self.armour
            .as_ref()
            .map(|found| armour::lock(found).clone())
    }

    pub(super) fn taken_back(&self) -> Option<Translation> {
        self.taken_back
    }

    pub(super) fn broken(&self) -> Option<Broken> {
        self.broken.get().copied()
    }

    /// Where its bytes can be read again, if they can.
    pub(crate) fn store(&self) -> Option<&Store> {
        match &self.bytes {
            Bytes::Stored(store) => Some(store),
            Bytes::Streamed(_) => None,
        }
    }

    /// All its bytes, in order; none of a stream that somebody reads already.
    pub(crate) fn reader(&mut self) -> Box<dyn Read + Send> {
        match &mut self.bytes {
            Bytes::Stored(store) => store.reader(0, u64::MAX),
            Bytes::Streamed(stream) => stream.take().unwrap_or_else(|| Box::new(io::empty())),
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
    // Files of length 0 below /proc have content all the same.
    Ok(if metadata.is_file() && metadata.len() != 0 {
        progress::expect(metadata.len());
        Bytes::Stored(Store::File(Arc::new(file)))
    } else {
        Bytes::Streamed(Some(Box::new(Counted(file))))
    })
}

/// The bytes that are packed in `bytes`, or the bytes themselves; and whether they were.
fn unpacked(bytes: Bytes, broken: &Arc<OnceLock<Broken>>) -> io::Result<(Bytes, bool)> {
    let mut head = Vec::new();
    let (mut from, again) = match bytes {
        Bytes::Stored(store) => (store.reader(0, u64::MAX), Some(store)),
        Bytes::Streamed(stream) => (stream.unwrap_or_else(|| Box::new(io::empty())), None),
    };
    from.by_ref()
        .take(unpack::MARK as u64)
        .read_to_end(&mut head)?;
    let is_packed = unpack::is_packed(&head);
    if let Some(store) = again.filter(|_| !is_packed) {
        return Ok((Bytes::Stored(store), false));
    }
    let all: Box<dyn Read + Send> = Box::new(Cursor::new(head.clone()).chain(from));
    let all = if is_packed {
        unpack::unpack(all, &head, Arc::clone(broken))
    } else {
        all
    };
    Ok((Bytes::Streamed(Some(all)), is_packed))
}

impl Store {
    /// Bytes that it holds.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::File(file) => file.metadata().map_or(0, |metadata| metadata.len()),
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// What `bytes` and all of `rest` hold, laid aside in a file without a name, or in memory where there can be none.
    pub(crate) fn laid_aside(bytes: &[u8], rest: &mut dyn Read) -> io::Result<Self> {
        let Ok(mut file) = nameless::file() else {
            let mut all = bytes.to_vec();
            rest.read_to_end(&mut all)?;
            return Ok(Self::Memory(all.into()));
        };
        file.write_all(bytes)?;
        io::copy(rest, &mut file)?;
        Ok(Self::File(Arc::new(file)))
    }

    /// The bytes from `begin` up to `end`, or to where they end.
    pub(crate) fn reader(&self, begin: u64, end: u64) -> Box<dyn Read + Send> {
        match self {
            Self::File(file) => Box::new(Part {
                file: Arc::clone(file),
                at: begin,
                end,
            }),
            Self::Memory(bytes) => {
                let mut cursor = Cursor::new(Arc::clone(bytes));
                cursor.set_position(begin);
                Box::new(cursor.take(end.saturating_sub(begin)))
            }
        }
    }
}

/// What is read once.
struct Counted<R>(R);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        progress::advance(read as u64);
        Ok(read)
    }
}

/// A part of a file, read in order.
struct Part {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let read = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += read as u64;
        progress::advance(read as u64);
        Ok(read)
    }
}
