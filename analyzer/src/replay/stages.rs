//! Pairs batches and books them while the next ones are looked at.
//!
//! Each batch passes the heap, part by part at the same time where that pays, and then the ledger, which both take them in
//! order. Every thread does whatever can be done next, the last stage first; so does the one that looks at events, while it
//! is far enough ahead. So none has to wait for another to wake up as long as there is something to do.

use super::call::Batch;
use super::heap::{Heap, Part};
use super::ledger::Ledger;
use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Batches that may wait for the heap, and for the ledger.
const AHEAD: usize = 3;

/// Threads that have something to do beside the one that looks at events.
const MOST: usize = 8;

/// What threads do that have nothing else to do. Gives whether it was anything.
pub(super) type Idle<'i> = dyn Fn() -> bool + Sync + 'i;

/// What is done in turns by all threads.
pub(super) struct Stages<'r> {
    state: Mutex<State<'r>>,
    /// There is something to do, or nothing is to come.
    work: Condvar,
    /// The same for the thread that looks at events; or there is room for a batch.
    room: Condvar,
    threads: usize,
    idle: &'r Idle<'r>,
}

type Guard<'s, 'r> = MutexGuard<'s, State<'r>>;

struct State<'r> {
    /// Nobody else has it.
    heap: Option<&'r mut Heap>,
    ledger: Option<&'r mut Ledger>,
    looked: VecDeque<Batch>,
    pairing: Option<Pairing<'r>>,
    paired: VecDeque<Batch>,
    spare: Vec<Batch>,
    /// Threads that wait for work.
    waiting: usize,
    waits_for_room: bool,
    /// Counts what may give others something to do.
    version: u64,
    /// No batch is to come.
    has_ended: bool,
    /// A thread panicked, so what it had does not come back.
    has_failed: bool,
}

/// A batch whose parts are paired.
struct Pairing<'r> {
    heap: &'r mut Heap,
    batch: Arc<Batch>,
    /// Parts that nobody began with.
    left: Vec<Part>,
    under_way: usize,
    done: Vec<Part>,
}

/// Something to do.
#[expect(clippy::large_enum_variant, reason = "each is taken once a batch")]
enum Task<'r> {
    Begin(&'r mut Heap, Batch),
    Pair(Arc<Batch>, Part),
    Book(&'r mut Ledger, Batch),
}

impl<'r> Stages<'r> {
    pub(super) fn new(
        heap: &'r mut Heap,
        ledger: &'r mut Ledger,
        threads: usize,
        idle: &'r Idle<'r>,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                heap: Some(heap),
                ledger: Some(ledger),
                looked: VecDeque::new(),
                pairing: None,
                paired: VecDeque::new(),
                spare: Vec::new(),
                waiting: 0,
                waits_for_room: false,
                version: 0,
                has_ended: false,
                has_failed: false,
            }),
            work: Condvar::new(),
            room: Condvar::new(),
            threads,
            idle,
        }
    }

    /// Has `look` [add](Self::add) batches; what it gives, once all of them are booked.
    pub(super) fn run<T>(&self, look: impl FnOnce(&Self) -> T) -> T {
        thread::scope(|scope| {
            for _ in 0..(self.threads - 1).min(MOST) {
                scope.spawn(|| self.work());
            }
            let ended = Ended(self);
            let result = look(self);
            drop(ended);
            self.work();
            result
        })
    }

    /// A batch to fill, perhaps one that is booked.
    pub(super) fn spare(&self) -> Batch {
        self.lock().spare.pop().unwrap_or_default()
    }

    /// Adds the next batch, and does what else is to do until there is room for it.
    pub(super) fn add(&self, batch: Batch) {
        let mut state = self.lock();
        // What a thread that panicked had does not come back; the scope passes the panic on.
        while state.looked.len() >= AHEAD && !state.has_failed {
            state = self.step(state, |state| {
                state.waits_for_room = true;
                &self.room
            });
        }
        state.looked.push_back(batch);
        self.wake(&mut state, 1);
    }

    /// Does what is to do, until nothing is to come.
    fn work(&self) {
        let mut state = self.lock();
        while !state.has_failed && !state.is_done() {
            state = self.step(state, |state| {
                state.waiting += 1;
                &self.work
            });
        }
    }

    /// Does one thing, or waits for something to do as `waits` says.
    fn step<'s>(
        &'s self,
        mut state: Guard<'s, 'r>,
        waits: impl FnOnce(&mut State<'r>) -> &'s Condvar,
    ) -> Guard<'s, 'r> {
        let version = state.version;
        // Who looks at events would run out of what to look at if what was looked at always came first.
        let has_few = state.looked.len() <= AHEAD / 2;
        if !has_few && let Some(task) = state.take() {
            drop(state);
            return self.perform(task);
        }
        if !state.has_ended {
            drop(state);
            let was_idle = !(self.idle)();
            state = self.lock();
            if !was_idle {
                return state;
            }
        }
        if let Some(task) = state.take() {
            drop(state);
            return self.perform(task);
        }
        if state.version != version {
            return state;
        }
        let signal = waits(&mut state);
        signal.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn perform(&self, task: Task<'r>) -> Guard<'_, 'r> {
        let failed = Failed(self);
        let state = match task {
            Task::Begin(heap, mut batch) => {
                let parts = heap.parts(&batch, self.threads);
                let mut left = heap.part(&mut batch, parts);
                if parts == 1 {
                    left.iter_mut().for_each(|part| part.pair(&batch));
                    self.join(heap, batch, left)
                } else {
                    let mut state = self.lock();
                    state.pairing = Some(Pairing {
                        heap,
                        batch: Arc::new(batch),
                        left,
                        under_way: 0,
                        done: Vec::new(),
                    });
                    self.wake(&mut state, parts - 1);
                    state
                }
            }
            Task::Pair(batch, mut part) => {
                part.pair(&batch);
                drop(batch);
                let mut state = self.lock();
                match state.done(part) {
                    Some((heap, batch, parts)) => {
                        drop(state);
                        self.join(heap, batch, parts)
                    }
                    None => state,
                }
            }
            Task::Book(ledger, batch) => {
                ledger.book(&batch);
                let mut state = self.lock();
                state.ledger = Some(ledger);
                state.spare.push(batch);
                self.wake(&mut state, 1);
                state
            }
        };
        mem::forget(failed);
        state
    }

    /// Ends the pairing of a batch.
    fn join(&self, heap: &'r mut Heap, mut batch: Batch, parts: Vec<Part>) -> Guard<'_, 'r> {
        heap.join(&mut batch, parts);
        let mut state = self.lock();
        state.heap = Some(heap);
        state.paired.push_back(batch);
        self.wake(&mut state, 1);
        state
    }

    /// Wakes threads for so many more tasks, if any wait.
    fn wake(&self, state: &mut State<'_>, tasks: usize) {
        state.version += 1;
        if mem::take(&mut state.waits_for_room) {
            self.room.notify_one();
        }
        let woken = if state.is_done() {
            state.waiting
        } else {
            state.waiting.min(tasks)
        };
        state.waiting -= woken;
        for _ in 0..woken {
            self.work.notify_one();
        }
    }

    fn lock(&self) -> Guard<'_, 'r> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'r> State<'r> {
    /// Takes what can be done next.
    fn take(&mut self) -> Option<Task<'r>> {
        if !self.paired.is_empty()
            && let Some(ledger) = self.ledger.take()
        {
            let batch = self.paired.pop_front()?;
            return Some(Task::Book(ledger, batch));
        }
        if let Some(pairing) = &mut self.pairing
            && let Some(part) = pairing.left.pop()
        {
            pairing.under_way += 1;
            return Some(Task::Pair(Arc::clone(&pairing.batch), part));
        }
        if !self.looked.is_empty()
            && self.paired.len() < AHEAD
            && let Some(heap) = self.heap.take()
        {
            let batch = self.looked.pop_front()?;
            return Some(Task::Begin(heap, batch));
        }
        None
    }

    /// Takes back a part. Gives all of them if it was the last.
    fn done(&mut self, part: Part) -> Option<(&'r mut Heap, Batch, Vec<Part>)> {
        let pairing = self.pairing.as_mut()?;
        pairing.done.push(part);
        pairing.under_way -= 1;
        if pairing.under_way > 0 || !pairing.left.is_empty() {
            return None;
        }
        let pairing = self.pairing.take()?;
        let batch = Arc::into_inner(pairing.batch)?;
        Some((pairing.heap, batch, pairing.done))
    }

    /// Nothing is to come, and nothing under way.
    fn is_done(&self) -> bool {
        self.has_ended
            && self.looked.is_empty()
            && self.paired.is_empty()
            && self.heap.is_some()
            && self.ledger.is_some()
    }
}

/// Says when it is dropped that no batch is to come.
struct Ended<'s, 'r>(&'s Stages<'r>);

impl Drop for Ended<'_, '_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.has_ended = true;
        self.0.wake(&mut state, 0);
    }
}

/// Says when a panic drops it that the others should not wait.
struct Failed<'s, 'r>(&'s Stages<'r>);

impl Drop for Failed<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().has_failed = true;
        self.0.work.notify_all();
        self.0.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::{AHEAD, Stages};
    use crate::replay::Beginning;
    use crate::replay::call::Batch;
    use crate::replay::heap::Heap;
    use crate::replay::ledger::Ledger;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use std::thread;

    fn run(idle: &super::Idle<'_>, look: impl FnOnce(&Stages<'_>)) {
        let mut heap = Heap::default();
        let mut ledger = Ledger::new(&Beginning::default(), 0, (0, 0));
        Stages::new(&mut heap, &mut ledger, 3, idle).run(look);
    }

    #[test]
    #[should_panic(expected = "nothing to look at")]
    fn a_panic_while_looking_leaves_nobody_waiting() {
        run(&|| false, |stages| {
            stages.add(Batch::default());
            panic!("nothing to look at");
        });
    }

    #[test]
    #[should_panic(expected = "scoped thread panicked")]
    fn a_panic_of_another_thread_leaves_nobody_waiting() {
        let looks = thread::current().id();
        let has_panicked = AtomicBool::new(false);
        let idle = || {
            let is_other = thread::current().id() != looks;
            has_panicked.fetch_or(is_other, Relaxed);
            assert!(!is_other, "nothing to read");
            false
        };
        run(&idle, |stages| {
            while !has_panicked.load(Relaxed) {
                thread::yield_now(); // another thread may begin late
            }
            for _ in 0..4 * AHEAD {
                stages.add(Batch::default());
            }
        });
    }

    #[test]
    fn threads_without_work_do_what_else_there_is() {
        let left = AtomicUsize::new(1000);
        let idle = || {
            left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
                .is_ok()
        };
        run(&idle, |_| {
            while left.load(Relaxed) > 0 {
                thread::yield_now();
            }
        });
        assert_eq!(left.into_inner(), 0);
    }
}
