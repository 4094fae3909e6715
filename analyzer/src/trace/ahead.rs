//! The frames of an input that is read once, judged: ahead of who asks for them, where another thread has time for that.

use super::Condition;
use super::frames::{Account, Block, Found, Frames, Rest};
use super::input::Store;
use super::judge::Judged;
use rayon::prelude::*;
use std::collections::VecDeque;
use std::io::{self, Cursor, Read as _};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

/// Blocks that are read ahead.
const AHEAD: usize = 2;

/// The judged frames of an input, block by block.
pub(super) struct Ahead {
    reading: Arc<Reading>,
    /// The block that was given last.
    last: Option<Span>,
}

/// What is left of an input. Any thread can read on and judge what it read, several at once.
pub(crate) struct Reading {
    unread: Mutex<Option<Unread>>,
    /// What was read and not yet given. Only who holds `unread` adds to it.
    read: Mutex<Read>,
    /// A block was judged.
    judged: Condvar,
}

struct Unread {
    frames: Box<Frames>,
    /// What was found in the first block, which is read.
    found: Option<Vec<Found>>,
}

#[derive(Default)]
struct Read {
    /// In order; `None`: somebody judges it.
    blocks: VecDeque<Option<io::Result<Next>>>,
    /// Blocks that were here before the first of them.
    given: usize,
}

type Next = (Span, Vec<Judged>);

/// A block, where that and what was looked at in it begin and end in the input, and the accounts then.
pub(super) struct Span {
    pub(super) block: Block,
    pub(super) block_at: u64,
    pub(super) begin: u64,
    pub(super) before: Account,
    pub(super) end: u64,
    pub(super) after: Account,
}

impl Ahead {
    /// What `frames` gives, after `found`, which came of its last block.
    pub(super) fn of(frames: Box<Frames>, found: Vec<Found>) -> Self {
        let found = Some(found);
        Self {
            reading: Arc::new(Reading {
                unread: Mutex::new(Some(Unread { frames, found })),
                read: Mutex::default(),
                judged: Condvar::new(),
            }),
            last: None,
        }
    }

    /// For other threads, to read ahead.
    pub(super) fn reading(&self) -> Arc<Reading> {
        Arc::clone(&self.reading)
    }

    /// What the next block holds; perhaps nothing. `None`: there is no more.
    pub(super) fn next_block(&mut self) -> io::Result<Option<Vec<Judged>>> {
        let Some((span, judged)) = self.reading.next().transpose()? else {
            return Ok(None);
        };
        self.last = Some(span);
        Ok(Some(judged))
    }

    /// What the bytes outside whole frames show, up to the block that was given last.
    pub(super) fn condition(&self) -> Condition {
        let last = self.last.as_ref();
        last.map_or_else(Condition::default, |span| span.after.condition.clone())
    }

    /// All from the block that was given last on, or from its end on, to be read again.
    pub(super) fn into_rest(self, with_last: bool, store: Option<&Store>) -> io::Result<Rest> {
        let unread = lock(&self.reading.unread).take();
        let (Some(Unread { frames, .. }), Some(last)) = (unread, self.last) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let mut blocks = vec![last];
        while let Some(next) = self.reading.next_read() {
            blocks.push(next?.0);
        }
        let last = &blocks[0];
        let input = frames.input();
        let (offset, account) = if with_last {
            (last.begin, last.before.clone())
        } else {
            (last.end, last.after.clone())
        };
        if let Some(store) = store {
            return Ok(Rest::new(store.clone(), 0, input, offset, account));
        }
        let mut bytes = Vec::new();
        let mut to = offset;
        for span in blocks {
            let known = usize::try_from(to - span.block_at).unwrap_or(usize::MAX);
            bytes.extend_from_slice(span.block.get(known..).unwrap_or_default());
            to = to.max(span.block_at + span.block.len() as u64);
        }
        let mut left = Cursor::new(bytes).chain(frames.into_unread());
        let store = Store::laid_aside(&[], &mut left)?;
        Ok(Rest::new(store, offset, input, offset, account))
    }
}

impl Reading {
    /// Reads ahead, if there is more, nobody else reads, and not enough is read yet. Gives whether it did.
    pub(crate) fn read_ahead(&self) -> bool {
        if lock(&self.read).blocks.len() >= AHEAD {
            return false;
        }
        let mut unread = match self.unread.try_lock() {
            Ok(unread) => unread,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let Some(next) = unread.as_mut().and_then(Unread::next) else {
            return false;
        };
        let mut read = lock(&self.read);
        let mut place = Place {
            reading: self,
            number: read.given + read.blocks.len(),
            judged: Err(io::ErrorKind::Other.into()),
        };
        read.blocks.push_back(None);
        drop(read);
        drop(unread);
        place.judged = next.map(|(span, found)| (span, judge(found)));
        true
    }

    /// The next block. `None`: there is no more.
    fn next(&self) -> Option<io::Result<Next>> {
        if let Some(next) = self.next_read() {
            return Some(next);
        }
        let mut unread = lock(&self.unread);
        // Somebody may have read in between.
        if !lock(&self.read).blocks.is_empty() {
            drop(unread);
            return self.next_read();
        }
        let next = unread.as_mut()?.next()?;
        drop(unread);
        Some(next.map(|(span, found)| (span, judge(found))))
    }

    /// The next block that was read, once it is judged. `None`: none was.
    fn next_read(&self) -> Option<io::Result<Next>> {
        let mut read = lock(&self.read);
        loop {
            if let Some(next) = read.blocks.front_mut()?.take() {
                read.blocks.pop_front();
                read.given += 1;
                return Some(next);
            }
            // Better than to wait.
            drop(read);
            let was_idle = !self.read_ahead();
            read = lock(&self.read);
            if was_idle && read.blocks.front()?.is_none() {
                read = self
                    .judged
                    .wait(read)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Where a block goes that is judged; even if that panics.
struct Place<'r> {
    reading: &'r Reading,
    number: usize,
    judged: io::Result<Next>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let judged = mem::replace(&mut self.judged, Err(io::ErrorKind::Other.into()));
        let mut read = lock(&self.reading.read);
        let place = self.number - read.given; // it is not given before
        if let Some(block) = read.blocks.get_mut(place) {
            *block = Some(judged);
        }
        self.reading.judged.notify_all();
    }
}

impl Unread {
    /// Reads a block. `None`: there is no more.
    fn next(&mut self) -> Option<io::Result<(Span, Vec<Found>)>> {
        let found = match self.found.take() {
            Some(found) => found,
            None if self.frames.has_ended() => return None,
            None => {
                let mut found = Vec::new();
                if let Err(error) = self.frames.read_block(&mut found) {
                    return Some(Err(error));
                }
                found
            }
        };
        Some(Ok((self.frames.span(), found)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Judges frames; where other stages do not use all threads, several at once.
pub(super) fn judge(found: Vec<Found>) -> Vec<Judged> {
    if rayon::current_num_threads() <= 2 {
        return found.into_iter().map(Judged::of).collect();
    }
    found
        .into_par_iter()
        .with_min_len(4)
        .map(Judged::of)
        .collect()
}
