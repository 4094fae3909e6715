//! The frames of an input that is read once, judged: ahead of who asks for them, where there is a thread for that.

use super::Condition;
use super::frames::{Account, Block, Found, Frames, Rest};
use super::input::Store;
use super::judge::Judged;
use rayon::prelude::*;
use std::io::{self, Cursor, Read};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

/// Blocks that are read ahead.
const AHEAD: usize = 2;

/// The judged frames of an input, block by block.
pub(super) struct Ahead {
    from: From,
    /// The block that was given last.
    last: Option<Span>,
}

enum From {
    /// Found already, or to be looked for when it is asked for.
    Here(Box<Frames>, Vec<Found>),
    Thread(Reading),
}

/// A thread that reads.
struct Reading {
    blocks: Receiver<io::Result<(Span, Vec<Judged>)>>,
    thread: JoinHandle<Frames>,
    should_stop: Arc<AtomicBool>,
}

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
        let from = if rayon::current_num_threads() == 1 {
            From::Here(frames, found)
        } else {
            let (to, blocks) = mpsc::sync_channel(AHEAD);
            let should_stop = Arc::new(AtomicBool::new(false));
            let stop = Arc::clone(&should_stop);
            From::Thread(Reading {
                blocks,
                thread: thread::spawn(move || read_on(*frames, found, &to, &stop)),
                should_stop,
            })
        };
        Self { from, last: None }
    }

    /// What the next block holds; perhaps nothing. `None`: there is no more.
    pub(super) fn next_block(&mut self) -> io::Result<Option<Vec<Judged>>> {
        let next = match &mut self.from {
            From::Here(frames, found) => {
                if self.last.is_some() {
                    if frames.has_ended() {
                        return Ok(None);
                    }
                    frames.read_block(found)?;
                }
                Ok((frames.span(), judge(mem::take(found))))
            }
            From::Thread(reading) => match reading.blocks.recv() {
                Ok(next) => next,
                Err(_) => return Ok(None),
            },
        };
        let (span, judged) = next?;
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
        let mut blocks = Vec::new();
        let frames = match self.from {
            From::Here(frames, _) => Some(*frames),
            From::Thread(reading) => {
                reading.should_stop.store(true, Relaxed); // the channel orders the rest
                for block in &reading.blocks {
                    blocks.push(block?.0);
                }
                reading.thread.join().ok()
            }
        };
        let (Some(frames), Some(last)) = (frames, self.last) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let input = frames.input();
        let (offset, account) = if with_last {
            (last.begin, last.before.clone())
        } else {
            (last.end, last.after.clone())
        };
        if let Some(store) = store {
            return Ok(Rest::new(store.clone(), 0, input, offset, account));
        }
        blocks.insert(0, last);
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

fn read_on(
    mut frames: Frames,
    mut found: Vec<Found>,
    to: &SyncSender<io::Result<(Span, Vec<Judged>)>>,
    should_stop: &AtomicBool,
) -> Frames {
    loop {
        let block = (frames.span(), judge(mem::take(&mut found)));
        let goes_on = to.send(Ok(block)).is_ok() && !should_stop.load(Relaxed);
        if !goes_on || frames.has_ended() {
            return frames;
        }
        if let Err(error) = frames.read_block(&mut found) {
            let _ = to.send(Err(error)); // nobody reads on if nobody listens
            return frames;
        }
    }
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
