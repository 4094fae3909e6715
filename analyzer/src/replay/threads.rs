//! What replay knows of each thread: its open reallocs, and the last block it was handed.

use super::heap::Block;
use rustc_hash::FxHashMap;

/// Open reallocs of a thread that a closing record is looked for among. More than a few can be open only where
/// signal handlers allocate, or where records are missing.
const NESTED: usize = 64;

/// A `realloc` that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenRealloc {
    pub(crate) pc: u64,
    pub(crate) size: u64,
    pub(crate) address: u64,
    /// The block, if it was live.
    pub(crate) block: Option<Block>,
    /// The block is older than the recording.
    pub(crate) is_earlier: bool,
}

#[derive(Default)]
pub(crate) struct Thread {
    pub(crate) open: Vec<OpenRealloc>,
    /// Number of the record that handed the thread its last block.
    pub(crate) last_handed_out: u64,
    /// Number of the thread's last call, from the first wrong release of any thread on.
    pub(crate) last_call: u64,
}

impl Thread {
    /// Takes the latest open realloc with this `pc` and `size`.
    pub(crate) fn close(&mut self, pc: u64, size: u64) -> Option<OpenRealloc> {
        let at = self
            .open
            .iter()
            .rposition(|open| (open.pc, open.size) == (pc, size))?;
        Some(self.open.remove(at))
    }
}

/// The threads of a process image, by kernel tid.
#[derive(Default)]
pub(crate) struct Threads {
    by_tid: FxHashMap<u32, usize>,
    threads: Vec<Thread>,
    recent: Option<(u32, usize)>,
    /// Reallocs that too many others were opened above.
    abandoned: Vec<OpenRealloc>,
}

impl Threads {
    /// The thread with this tid.
    pub(crate) fn get(&mut self, tid: u32) -> &mut Thread {
        let index = match self.recent {
            Some((recent, index)) if recent == tid => index,
            _ => {
                let next = self.threads.len();
                let index = *self.by_tid.entry(tid).or_insert(next);
                if index == next {
                    self.threads.push(Thread::default());
                }
                self.recent = Some((tid, index));
                index
            }
        };
        &mut self.threads[index]
    }

    /// Number of the record that handed a thread its last block.
    pub(crate) fn last_handed_out(&self, tid: u32) -> Option<u64> {
        let index = match self.recent {
            Some((recent, index)) if recent == tid => index,
            _ => *self.by_tid.get(&tid)?,
        };
        Some(self.threads[index].last_handed_out)
    }

    pub(crate) fn open(&mut self, tid: u32, realloc: OpenRealloc) {
        let thread = self.get(tid);
        let oldest = (thread.open.len() >= NESTED).then(|| thread.open.remove(0));
        thread.open.push(realloc);
        self.abandoned.extend(oldest);
    }

    /// All reallocs that nothing has closed.
    pub(crate) fn all_open(&self) -> impl Iterator<Item = &OpenRealloc> {
        self.threads
            .iter()
            .flat_map(|thread| &thread.open)
            .chain(&self.abandoned)
    }

    pub(crate) fn len(&self) -> usize {
        self.threads.len()
    }
}
