//! A thread's turn to empty a lane, which a jump can end.
//!
//! While a frame waits for its reader the program's signal handlers run, above locks that are held. One of them may jump and never come
//! back. So each jump gives the locks back beforehand; who waits finds out, if it is he after all who goes on, and lets all as it is:
//! what he has not written is still in its lane.

use crate::image::{self, Image};
use crate::lane::Lane;
use crate::output::OUTPUT;
use crate::sync::{Acquire, AtomicU32, Relaxed, Release};
use crate::sys::{self, Errno, SignalSet};
use core::ptr;

/// A lock that one thread at a time has: its kernel tid; 0 = nobody has it.
pub(crate) struct Gate(AtomicU32);

impl Gate {
    /// Waits for the lock. `false` if the thread `me` has it: we are a handler above what it does.
    pub(crate) fn enter(&self, of: &Image, me: u32) -> bool {
        let mut turns: u32 = 0;
        loop {
            turns = turns.wrapping_add(1);
            // Acquire: pairs with the Release in `leave`.
            match self.0.compare_exchange(0, me, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(holder) if holder == me => return false,
                Err(_) if image::is_off() && !image::is_waiting() => return false,
                Err(holder)
                    if turns.is_multiple_of(64) && !sys::is_alive(of.pid.load(Relaxed), holder) =>
                {
                    let _ = self.0.compare_exchange(holder, 0, Relaxed, Relaxed);
                }
                Err(_) => sys::yield_now(), // the holder waits a bounded time
            }
        }
    }

    /// Whether the thread `me` has the lock.
    pub(crate) fn is_of(&self, me: u32) -> bool {
        self.0.load(Relaxed) == me
    }

    /// Gives the lock back, if the thread `me` has it.
    pub(crate) fn leave(&self, me: u32) {
        // Release: pairs with the Acquire in `enter`.
        let _ = self.0.compare_exchange(me, 0, Release, Relaxed);
    }
}

/// See the module.
pub(crate) struct Turn<'l> {
    /// The program's own signal mask; all signals are blocked now.
    pub(crate) mask: SignalSet,
    /// The lane that is emptied, whose lock is held.
    lane: &'l Lane,
    /// The lane of the thread whose turn it is, and its jumps until now. Without it no handlers run.
    own: Option<(&'l Lane, u32)>,
}

/// A wait, on the stack of its thread. Handlers can wait above it.
pub(crate) struct Waiting {
    lane: *const Lane,
    outer: *const Self,
}

impl<'l> Turn<'l> {
    /// With the lock of `lane`.
    pub(crate) fn new(lane: &'l Lane, own: Option<&'l Lane>, mask: SignalSet) -> Self {
        let own = own.map(|own| (own, own.jumps.load(Relaxed)));
        Self { mask, lane, own }
    }

    /// Whether a jump has ended it: nothing is ours any more.
    pub(crate) fn is_over(&self) -> bool {
        self.own
            .is_some_and(|(own, jumps)| own.jumps.load(Relaxed) != jumps)
    }

    /// Gives the lock back.
    pub(crate) fn end(&self) {
        if !self.is_over() {
            self.lane.ring.unlock();
        }
    }

    /// Waits until the output takes bytes, at most that long, under the program's own signal mask.
    pub(crate) fn wait(&self, milliseconds: u64) -> Result<bool, Errno> {
        let Some((own, _)) = self.own else {
            return sys::wait_writable(OUTPUT.fd(), milliseconds, SignalSet::ALL);
        };
        let waiting = Waiting {
            lane: self.lane,
            outer: own.waiting.load(Relaxed),
        };
        own.waiting
            .store(ptr::from_ref(&waiting).cast_mut(), Relaxed);
        let result = sys::wait_writable(OUTPUT.fd(), milliseconds, self.mask);
        if !self.is_over() {
            own.waiting.store(waiting.outer.cast_mut(), Relaxed);
        }
        result
    }
}

/// Before the thread of `own` jumps: ends its turns, if it waits in any.
pub(crate) fn end_all(image: &Image, own: &Lane) {
    let me = own.tid.load(Relaxed);
    image.log.gate.leave(me);
    let mut at = own.waiting.swap(ptr::null_mut(), Relaxed).cast_const();
    if at.is_null() {
        return;
    }
    own.jumps
        .store(own.jumps.load(Relaxed).wrapping_add(1), Relaxed);
    own.declaring.store(0);
    image.stream.gate.leave(me);
    // SAFETY: the waits that are noted lie below us on this thread's stack; their lanes are never unmapped.
    while let Some(waiting) = unsafe { at.as_ref() } {
        // SAFETY: as above.
        unsafe { &*waiting.lane }.ring.unlock();
        at = waiting.outer;
    }
}
