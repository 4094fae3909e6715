//! What is known of each thread: its open reallocs, the last block it was handed, and what it did in all.

use rustc_hash::FxHashMap;

/// Open reallocs of a thread that a closing record is looked for among. More than a few can be open only where
/// signal handlers allocate, or where records are missing.
const NESTED: usize = 64;
/// Threads whose last blocks are compared one by one.
const FEW: usize = 8;

/// A `realloc` that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenRealloc {
    pub(super) pc: u64,
    pub(super) size: u64,
    pub(super) address: u64,
    /// Number of the record that opened it.
    pub(super) number: u64,
}

/// What a thread did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadUsage {
    /// Kernel tid; 0 = unknown.
    pub(crate) tid: u32,
    /// Blocks that it was handed, by reallocs as well.
    pub(crate) handed_out: u64,
    /// Requested bytes of these.
    pub(crate) handed_out_bytes: u64,
    /// Its releases.
    pub(crate) releases: u64,
}

#[derive(Clone, Default)]
struct Thread {
    open: Vec<OpenRealloc>,
    /// Address and number of the block that it was handed last.
    last: (u64, u64),
    /// Number of its last call.
    last_call: u64,
    usage: ThreadUsage,
}

/// The threads of a process image, by kernel tid.
#[derive(Clone, Default)]
pub(super) struct Threads {
    by_tid: FxHashMap<u32, usize>,
    threads: Vec<Thread>,
    recent: Option<(u32, usize)>,
    /// Where there are many threads, the number of the last block of each by its address; of several there the highest.
    last: FxHashMap<u64, u64>,
}

impl Threads {
    /// The thread with this tid.
    #[inline]
    fn get(&mut self, tid: u32) -> &mut Thread {
        let index = match self.recent {
            Some((recent, index)) if recent == tid => index,
            _ => self.find(tid),
        };
        &mut self.threads[index]
    }

    #[inline(never)]
    fn find(&mut self, tid: u32) -> usize {
        let next = self.threads.len();
        let index = *self.by_tid.entry(tid).or_insert(next);
        if index == next {
            self.threads.push(Thread {
                usage: ThreadUsage {
                    tid,
                    ..ThreadUsage::default()
                },
                ..Thread::default()
            });
            if next == FEW {
                let mut all: Vec<_> = self.threads.iter().map(|thread| thread.last).collect();
                all.sort_unstable_by_key(|(_, number)| *number);
                self.last = all.into_iter().collect();
            }
        }
        self.recent = Some((tid, index));
        index
    }

    /// Takes note of a block that was handed to a thread.
    #[inline(always)]
    pub(super) fn hand_out(&mut self, tid: u32, address: u64, number: u64, size: u64) {
        let thread = self.get(tid);
        let before = std::mem::replace(&mut thread.last, (address, number));
        thread.last_call = number;
        let usage = &mut thread.usage;
        usage.handed_out += 1;
        usage.handed_out_bytes = usage.handed_out_bytes.saturating_add(size);
        if self.threads.len() > FEW {
            self.replace_last(before, (address, number));
        }
    }

    #[inline(never)]
    fn replace_last(&mut self, before: (u64, u64), after: (u64, u64)) {
        if self.last.get(&before.0) == Some(&before.1) {
            self.last.remove(&before.0);
        }
        self.last.insert(after.0, after.1);
    }

    /// Takes note of a release. Gives the number of the last block that some thread was handed, if it was one at this
    /// address: that block was a temporary one, if it is the one that is released.
    #[inline(always)]
    pub(super) fn release(&mut self, tid: u32, address: u64, number: u64) -> u64 {
        let thread = self.get(tid);
        thread.last_call = number;
        thread.usage.releases += 1;
        let (last, number) = thread.last;
        if self.threads.len() == 1 {
            return if last == address { number } else { 0 };
        }
        self.last_at(address)
    }

    /// The highest number of a block that some thread was handed last, if it was one at this address: the others there are gone.
    #[inline(never)]
    fn last_at(&self, address: u64) -> u64 {
        if self.threads.len() > FEW {
            return self.last.get(&address).copied().unwrap_or(0);
        }
        let all = self.threads.iter().map(|thread| thread.last);
        let there = all.filter(|(last, _)| *last == address);
        there.map(|(_, number)| number).max().unwrap_or(0)
    }

    pub(super) fn open(&mut self, tid: u32, realloc: OpenRealloc) {
        let thread = self.get(tid);
        thread.last_call = realloc.number;
        let open = &mut thread.open;
        if open.len() >= NESTED {
            open.remove(0);
        }
        open.push(realloc);
    }

    /// Takes the latest open realloc of a thread with this `pc` and `size`.
    pub(super) fn close(
        &mut self,
        tid: u32,
        pc: u64,
        size: u64,
        number: u64,
    ) -> Option<OpenRealloc> {
        let thread = self.get(tid);
        thread.last_call = number;
        let open = &mut thread.open;
        let at = open
            .iter()
            .rposition(|open| (open.pc, open.size) == (pc, size))?;
        Some(open.remove(at))
    }

    /// Takes note of a call that gave no block.
    pub(super) fn note_call(&mut self, tid: u32, number: u64) {
        self.get(tid).last_call = number;
    }

    /// Takes note that a thread did something else after its last call.
    pub(super) fn went_on(&mut self, tid: u32, number: u64) {
        if let Some(index) = self.by_tid.get(&tid) {
            self.threads[*index].last_call = number;
        }
    }

    /// Number of the last call of a thread.
    pub(super) fn last_call(&self, tid: u32) -> Option<u64> {
        let index = self.by_tid.get(&tid)?;
        Some(self.threads[*index].last_call)
    }

    /// What each thread did, in order of appearance.
    pub(super) fn usage(&self) -> Vec<ThreadUsage> {
        self.threads.iter().map(|thread| thread.usage).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Threads;
    use proptest::prelude::proptest;
    use std::collections::BTreeMap;

    proptest! {
        /// Blocks of a few addresses, handed to any thread and released by any.
        #[test]
        fn a_block_is_temporary_until_its_thread_is_handed_another(
            threads in 1u32..20, // few, and many
            calls in proptest::collection::vec((0u64..4, 0u32..1000), 0..300),
        ) {
            let mut tested = Threads::default();
            let mut live: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
            let mut last: BTreeMap<u32, u64> = BTreeMap::new();
            for ((place, random), number) in calls.into_iter().zip(1..) {
                let (address, tid) = (0x1000 + place, 1 + random % threads);
                match live.remove(&address) {
                    None => {
                        tested.hand_out(tid, address, number, 8);
                        live.insert(address, (tid, number));
                        last.insert(tid, number);
                    }
                    Some((owner, block)) => {
                        let is_temporary = tested.release(tid, address, number) == block;
                        assert_eq!(is_temporary, last[&owner] == block, "{number}");
                    }
                }
            }
        }
    }
}
