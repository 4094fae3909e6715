//! The ring of records that one thread fills and whoever holds its lock empties.
//!
//! Who touches what:
//! - `head` is moved by the owning thread only, and by signal handlers above it: so one instruction that cannot be
//!   interrupted in the middle is enough, no bus lock is needed.
//! - A slot is committed once its first word is stored; that word holds the op byte, which is never 0 then.
//! - `tail` and the clearing of slots belong to whoever holds `lock`.
//!
//! Nobody waits here, nothing is written anywhere: what to do when the ring is full is for `flush`.
//!
//! What is copied into each caller on x86-64, because that is faster, is left to the compiler on small machines.
#![forbid(unsafe_code)]

use crate::arch;
use crate::sync::{Acquire, AtomicU32, FileWord, Relaxed, Release};

/// Words of a slot: those of a record.
pub(crate) const WORDS: usize = heapwire_format::Record::WORDS;

/// Room for one record.
#[repr(C)]
pub(crate) struct Slot([FileWord; WORDS]);

const _: () = assert!(size_of::<Slot>() == heapwire_format::Record::SIZE || cfg!(loom));

/// A run of committed slots, in running positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: u32,
    pub(crate) count: u32,
}

/// See the module. All zero is a valid, empty ring.
pub(crate) struct Ring {
    /// Slots reserved so far, modulo 2^32.
    head: AtomicU32,
    /// Slots emptied so far, modulo 2^32.
    tail: AtomicU32,
    /// Kernel tid of the thread that empties the ring; 0 = nobody.
    lock: AtomicU32,
}

impl Slot {
    /// The head word: 0 until the record is committed.
    #[cfg_attr(target_arch = "x86_64", inline(always))]
    pub(crate) fn head(&self) -> u64 {
        let [head, ..] = &self.0;
        head.see() // pairs with `commit`
    }

    /// The record's words. With the lock.
    #[cfg_attr(target_arch = "x86_64", inline(always))]
    pub(crate) fn words(&self) -> [u64; WORDS] {
        let [head, ptr, size, pc, base] = &self.0; // committed: ordered by `head`
        [head.load(), ptr.load(), size.load(), pc.load(), base.load()]
    }

    /// Fills the slot, which is reserved; from here on it is part of the trace.
    #[cfg_attr(target_arch = "x86_64", inline(always))]
    pub(crate) fn commit(&self, [first, ptr, size, pc, base]: [u64; WORDS]) {
        // One by one: a loop over them stays a loop where the compiler cares for size.
        let Self([head, to_ptr, to_size, to_pc, to_base]) = self;
        to_ptr.store(ptr); // as the others: published by the head word
        to_size.store(size);
        to_pc.store(pc);
        to_base.store(base);
        head.publish(first); // pairs with `head`
    }

    fn clear(&self) {
        let [head, ..] = &self.0;
        head.store(0); // published by the tail, see `Ring::release`
    }
}

#[cfg(test)]
impl Slot {
    pub(crate) fn new() -> Self {
        Self(core::array::from_fn(|_| FileWord::new()))
    }
}

impl Ring {
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self {
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            lock: AtomicU32::new(0),
        }
    }

    /// Slots that are reserved and not emptied.
    pub(crate) fn pending(&self) -> u32 {
        self.head
            .load(Relaxed)
            .wrapping_sub(self.tail.load(Relaxed))
    }

    /// Position of the oldest slot that is not emptied.
    pub(crate) fn tail(&self) -> u32 {
        self.tail.load(Relaxed)
    }

    /// Reserves the next slot and gives its position, unless `limit` slots are pending.
    ///
    /// Only the owning thread, or a handler above it, may call this. Each reserved position must be committed;
    /// one that never is (a `longjmp` out of a handler) stays a hole.
    #[cfg_attr(target_arch = "x86_64", inline(always))]
    pub(crate) fn reserve(&self, limit: u32) -> Option<u32> {
        loop {
            let head = self.head.load(Relaxed); // our own
            let tail = self.tail.load(Acquire); // pairs with `release`: the slots below are clear
            if head.wrapping_sub(tail) >= limit {
                return None;
            }
            // A handler may have moved the head since it was read; then the exchange fails.
            if arch::exchange_local(&self.head, head, head.wrapping_add(1)) {
                return Some(head);
            }
        }
    }

    /// Whether a flush of our own thread went past `position` before it was committed.
    #[cfg_attr(target_arch = "x86_64", inline(always))]
    pub(crate) fn was_passed(&self, position: u32) -> bool {
        self.tail.load(Relaxed).wrapping_sub(position).cast_signed() > 0
    }

    /// Takes back a slot that was committed after it had been passed.
    pub(crate) fn take_back(&self, slots: &[Slot], position: u32) {
        if let Some(slot) = slot(slots, position) {
            slot.clear();
        }
    }

    /// The committed slots from the tail on, `most` at the most.
    ///
    /// Only for the holder of the lock.
    pub(crate) fn committed(&self, slots: &[Slot], most: u32) -> Span {
        let from = self.tail.load(Relaxed); // ours, as we hold the lock
        let pending = self.head.load(Acquire).wrapping_sub(from);
        let mut count = 0;
        while count < pending.min(most) {
            match slot(slots, from.wrapping_add(count)) {
                Some(slot) if slot.head() != 0 => count = count.wrapping_add(1),
                _ => break,
            }
        }
        Span { from, count }
    }

    /// Clears the slots of `span`, which starts at the tail, and gives them back to the owner.
    ///
    /// Only for the holder of the lock.
    pub(crate) fn release(&self, slots: &[Slot], span: Span) {
        for step in 0..span.count {
            if let Some(slot) = slot(slots, span.from.wrapping_add(step)) {
                slot.clear();
            }
        }
        // Pairs with the Acquire in `reserve`: whoever reserves these slots again sees them clear.
        self.tail.store(span.from.wrapping_add(span.count), Release);
    }

    /// Goes past the holes at the tail and says how many they were.
    ///
    /// Only for the owning thread with the lock: it alone knows that nobody is filling them at this moment.
    pub(crate) fn pass_holes(&self, slots: &[Slot]) -> u32 {
        let from = self.tail.load(Relaxed);
        let pending = self.head.load(Relaxed).wrapping_sub(from);
        let mut count = 0;
        while count < pending {
            match slot(slots, from.wrapping_add(count)) {
                Some(slot) if slot.head() == 0 => count = count.wrapping_add(1),
                _ => break,
            }
        }
        self.tail.store(from.wrapping_add(count), Release); // as in `release`
        count
    }

    /// Takes the lock for the thread `tid`, or says who has it.
    pub(crate) fn try_lock(&self, tid: u32) -> Result<(), u32> {
        // Acquire: pairs with `unlock`, so that the tail and all clearing are seen.
        self.lock
            .compare_exchange(0, tid, Acquire, Relaxed)
            .map(drop)
    }

    /// Takes the lock from a thread that is gone.
    pub(crate) fn break_lock(&self, gone: u32, tid: u32) -> bool {
        // Acquire: the dead thread's stores are visible, as the kernel told us of its end.
        self.lock
            .compare_exchange(gone, tid, Acquire, Relaxed)
            .is_ok()
    }

    /// Gives the lock back.
    pub(crate) fn unlock(&self) {
        self.lock.store(0, Release); // pairs with `try_lock`
    }

    /// Who holds the lock; 0 = nobody.
    pub(crate) fn holder(&self) -> u32 {
        self.lock.load(Relaxed) // compared with our own tid only, which nobody else stores
    }
}

/// The slot at a running position. `slots` has a power of two of them, so positions may wrap.
#[cfg_attr(target_arch = "x86_64", inline(always))]
pub(crate) fn slot(slots: &[Slot], position: u32) -> Option<&Slot> {
    slots.get(position as usize & slots.len().wrapping_sub(1))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Ring, Slot, Span, slot};

    fn slots(count: usize) -> Vec<Slot> {
        (0..count).map(|_| Slot::new()).collect()
    }

    #[test]
    fn what_is_committed_is_seen_in_order_and_once() {
        let (ring, slots) = (Ring::new(), slots(4));
        for value in 1..=10u64 {
            let position = ring.reserve(4).unwrap();
            slot(&slots, position).unwrap().commit([value; 5]);
            let span = ring.committed(&slots, 9);
            assert_eq!(span.count, 1);
            assert_eq!(slots[span.from as usize % 4].words(), [value; 5]);
            ring.release(&slots, span);
            assert_eq!(ring.pending(), 0);
        }
    }

    #[test]
    fn a_full_ring_reserves_nothing() {
        let ring = Ring::new();
        assert!((0..3).all(|_| ring.reserve(3).is_some()));
        assert_eq!(ring.reserve(3), None);
        assert!(
            ring.reserve(4).is_some(),
            "the last places are for nested records"
        );
    }

    #[test]
    fn a_hole_stops_others_and_is_passed_by_the_owner() {
        let (ring, slots) = (Ring::new(), slots(4));
        let hole = ring.reserve(4).unwrap();
        let after = ring.reserve(4).unwrap();
        slot(&slots, after).unwrap().commit([7; 5]);
        assert_eq!(
            ring.committed(&slots, 4),
            Span {
                from: hole,
                count: 0
            }
        );
        assert_eq!(ring.pass_holes(&slots), 1);
        assert!(ring.was_passed(hole) && !ring.was_passed(after));
        assert_eq!(
            ring.committed(&slots, 4),
            Span {
                from: after,
                count: 1
            }
        );
        // The interrupted hook comes back, commits, and takes its slot back: it must not look valid a lap later.
        slot(&slots, hole).unwrap().commit([8; 5]);
        ring.take_back(&slots, hole);
        ring.release(
            &slots,
            Span {
                from: after,
                count: 1,
            },
        );
        for _ in 0..3 {
            ring.reserve(4).unwrap();
        }
        assert_eq!(ring.committed(&slots, 4).count, 0);
    }

    #[test]
    fn positions_wrap() {
        let (mut ring, slots) = (Ring::new(), slots(4));
        ring.head = (u32::MAX - 1).into();
        ring.tail = (u32::MAX - 1).into();
        for value in 1..9 {
            let position = ring.reserve(4).unwrap();
            slot(&slots, position).unwrap().commit([value; 5]);
            if value % 2 == 0 {
                let span = ring.committed(&slots, 4);
                assert_eq!(span.count, 2);
                ring.release(&slots, span);
            }
        }
    }

    #[test]
    fn the_lock_names_its_holder() {
        let ring = Ring::new();
        assert_eq!(ring.try_lock(5), Ok(()));
        assert_eq!(ring.try_lock(6), Err(5));
        assert!(!ring.break_lock(4, 6) && ring.break_lock(5, 6));
        ring.unlock();
        assert_eq!(ring.try_lock(7), Ok(()));
    }
}

/// Models of what threads do to a ring at the same time. Each was seen to fail with the ordering it is about
/// weakened: `commit` or `Slot::head`, `release` or `reserve`, `unlock` or `try_lock` made Relaxed.
#[cfg(all(test, loom))]
mod models {
    use super::{Ring, Slot, slot};
    use loom::sync::Arc;
    use loom::thread;

    fn setup(count: usize) -> Arc<(Ring, Vec<Slot>)> {
        Arc::new((Ring::new(), (0..count).map(|_| Slot::new()).collect()))
    }

    /// Empties what is committed, checking that each record is whole and comes in its turn.
    fn drain(ring: &Ring, slots: &[Slot], tid: u32, next: &mut u64) {
        if ring.try_lock(tid).is_err() {
            return;
        }
        let span = ring.committed(slots, u32::MAX);
        for step in 0..span.count {
            let position = span.from.wrapping_add(step);
            let words = slots[position as usize % slots.len()].words();
            // The place tells which record must be there: a lap more, a number more.
            assert_eq!(words, [u64::from(position) + 1; 5], "a record is whole");
            *next = u64::from(position) + 1;
        }
        ring.release(slots, span);
        ring.unlock();
    }

    #[test]
    fn a_foreign_flusher_sees_whole_records_and_no_lap_is_mixed() {
        loom::model(|| {
            let shared = setup(2);
            let foreign = Arc::clone(&shared);
            let flusher = thread::spawn(move || {
                let mut seen = 0;
                for _ in 0..2 {
                    drain(&foreign.0, &foreign.1, 2, &mut seen);
                    thread::yield_now();
                }
            });
            let (ring, slots) = &*shared;
            let mut lost = 0;
            for _ in 0..3u64 {
                match ring.reserve(2) {
                    Some(position) => {
                        slot(slots, position)
                            .unwrap()
                            .commit([u64::from(position) + 1; 5]);
                    }
                    None => lost += 1,
                }
            }
            flusher.join().unwrap();
            let mut seen = 0;
            drain(ring, slots, 1, &mut seen);
            assert!(lost <= 1 && ring.pending() == 0);
        });
    }

    #[test]
    fn two_flushers_never_take_the_same_record() {
        loom::model(|| {
            let shared = setup(2);
            let (ring, slots) = &*shared;
            let position = ring.reserve(2).unwrap();
            slot(slots, position).unwrap().commit([1; 5]);
            let handles: Vec<_> = [2, 3]
                .map(|tid| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        let (ring, slots) = &*shared;
                        if ring.try_lock(tid).is_err() {
                            return 0;
                        }
                        let span = ring.committed(slots, 9);
                        ring.release(slots, span);
                        ring.unlock();
                        span.count
                    })
                })
                .into_iter()
                .collect();
            let taken: u32 = handles
                .into_iter()
                .map(|handle| handle.join().unwrap())
                .sum();
            assert!(taken <= 1);
        });
    }

    #[test]
    fn a_lane_that_is_taken_over_starts_where_the_dead_owner_left_it() {
        loom::model(|| {
            let shared = setup(2);
            let dead = Arc::clone(&shared);
            // The first owner fills one record and ends; joining it is what the kernel's word of its end is.
            thread::spawn(move || {
                let (ring, slots) = &*dead;
                let position = ring.reserve(2).unwrap();
                slot(slots, position)
                    .unwrap()
                    .commit([u64::from(position) + 1; 5]);
            })
            .join()
            .unwrap();
            let foreign = Arc::clone(&shared);
            let flusher = thread::spawn(move || {
                let mut seen = 0;
                drain(&foreign.0, &foreign.1, 2, &mut seen);
            });
            let (ring, slots) = &*shared;
            let mut seen = 0;
            drain(ring, slots, 3, &mut seen);
            if let Some(position) = ring.reserve(2) {
                slot(slots, position)
                    .unwrap()
                    .commit([u64::from(position) + 1; 5]);
            }
            flusher.join().unwrap();
            drain(ring, slots, 3, &mut seen);
            assert_eq!(ring.pending(), 0);
        });
    }
}
