//! A lane: the ring of one thread, and all that this thread remembers between two calls.
//!
//! Lanes lie in memory that a forked child gets as zeroes. An all-zero lane takes no record, so a child's first call finds
//! out by itself that it must begin anew, and nothing has to be checked for it on the way.

use crate::config::CONFIG;
use crate::event::{Event, Time};
use crate::flush;
use crate::helped::Helped;
use crate::modules::Caches;
use crate::ring::{Ring, Slot};
use crate::sequence;
use crate::sync::{AtomicU32, FileWord, Relaxed, Wide};
use crate::turn::Waiting;
use crate::{clock, image, modules};
use core::sync::atomic::AtomicPtr;
use heapwire_format::{Op, flag};

/// Records between two readings of the clock, at the most.
const MOST_WITHOUT_CLOCK: u32 = 16;
/// Times that are off by more are told to be.
const LATE_MILLISECONDS: u32 = 10;
/// A record's time has 16 bits; long before they are used up the lane's base clock moves.
const MOST_MILLISECONDS: u32 = 60_000;
/// The same for the distance of a number to the lane's base number.
const MOST_DISTANCE: u64 = 1 << 30;

/// See the module. Fields are stored by the owning thread unless they say otherwise.
#[repr(C, align(128))]
pub(crate) struct Lane {
    pub(crate) ring: Ring,
    /// Pending slots at which the owner flushes; 0 = takes nothing, 1 = each record is flushed at once.
    pub(crate) limit: AtomicU32,
    /// First slot. Stored once, before the lane is given to its first owner.
    slots: AtomicPtr<Slot>,
    /// Number of slots, a power of two. Stored once, as `slots`.
    capacity: AtomicU32,
    /// Kernel tid of the owner. Stored by whoever takes the lane over, with the lock.
    pub(crate) tid: AtomicU32,
    /// Thread serial of the owner, as `tid`.
    pub(crate) thread: AtomicU32,
    /// Reference of the numbers of the records in the ring; stored with the lock and with the ring empty.
    pub(crate) base_number: Wide,
    /// Nanoseconds that the records' times count from; as `base_number`.
    pub(crate) base_clock: Wide,
    /// First number of a declaration that is being written; 0 = none.
    pub(crate) declaring: Wide,
    /// Records until the clock is read again.
    until_clock: AtomicU32,
    /// How many of them there are between two readings at present.
    clock_budget: AtomicU32,
    /// The last reading, in milliseconds since `base_clock`.
    now: AtomicU32,
    pub(crate) caches: Caches,
    pub(crate) helped: Helped,
    /// The innermost of the waits that this thread is in; null = none.
    pub(crate) waiting: AtomicPtr<Waiting>,
    /// Jumps that ended waits.
    pub(crate) jumps: AtomicU32,
    /// The lane's header in the file; null where the lane is not in a file. Stored once, as `slots`.
    header: AtomicPtr<[FileWord; 8]>,
}

impl Lane {
    /// Where the stack pointer of the note above is, for entries that look by themselves.
    #[cfg(all(target_arch = "x86_64", not(any(loom, test))))]
    pub(crate) const NOTE_AT: usize = core::mem::offset_of!(Self, helped) + Helped::SP_AT;

    /// Gives the lane its memory. Before the lane is known to any thread.
    pub(crate) fn furnish(&self, slots: *mut Slot, capacity: u32, header: *mut [FileWord; 8]) {
        self.slots.store(slots, Relaxed);
        self.header.store(header, Relaxed);
        self.capacity.store(capacity, Relaxed);
    }

    pub(crate) fn slots(&self) -> &'static [Slot] {
        let (first, count) = (self.slots.load(Relaxed), self.capacity.load(Relaxed));
        if first.is_null() {
            return &[];
        }
        // SAFETY: `furnish` was given `capacity` zeroed, aligned slots that stay mapped as long as the process
        // image lives; slots are atomics, so sharing them is sound.
        unsafe { core::slice::from_raw_parts(first, count as usize) }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity.load(Relaxed)
    }

    fn header(&self) -> Option<&'static [FileWord; 8]> {
        // SAFETY: null, or the zeroed, aligned header that `furnish` was given, mapped as the slots are.
        unsafe { self.header.load(Relaxed).as_ref() }
    }

    /// Says whose records the lane holds from now on. With the lock, and with the ring empty.
    pub(crate) fn assign(&self, tid: u32, thread: u32) {
        self.tid.store(tid, Relaxed);
        self.thread.store(thread, Relaxed);
        self.helped.clear();
        self.waiting.store(core::ptr::null_mut(), Relaxed);
        self.declaring.store(0);
        self.clock_budget.store(1, Relaxed);
        self.until_clock.store(0, Relaxed);
        self.rebase(sequence::roughly(), clock::now());
    }

    /// Makes `number` and `clock` what later records are relative to. With the lock, and with the ring empty.
    pub(crate) fn rebase(&self, number: u64, clock: u64) {
        self.base_number.store(number);
        self.base_clock.store(clock);
        self.now.store(0, Relaxed);
        if let Some([owner, _, base_number, base_clock, ..]) = self.header() {
            let identity =
                u64::from(self.tid.load(Relaxed)) | u64::from(self.thread.load(Relaxed)) << 32;
            // Nothing is published: the file is read by others only when we are gone.
            owner.store(identity);
            base_number.store(number);
            base_clock.store(clock);
        }
    }

    /// Puts an event into the trace that is said rarely: two fields, and where it was called from, if that is not 0.
    #[cold]
    #[inline(never)]
    pub(crate) fn append_rare(&self, op: Op, ptr: u64, size: u64, pc: usize) {
        let base = if pc == 0 {
            0
        } else {
            modules::base_of(self, pc)
        };
        let event = Event::of(op, ptr, size);
        // In the others that field says something else.
        let base = if op == Op::FORK { base } else { 0 };
        self.append(event.with_pc(pc, base));
    }

    /// Puts one event into the trace.
    #[inline(never)]
    pub(crate) fn append(&self, event: Event) {
        let time = self.time();
        if let Some(position) = self.ring.reserve(self.limit.load(Relaxed)) {
            // The slot is reserved before the number is taken: so a flusher that sees the number taken sees that
            // the lane is not done with it.
            self.fill(position, event, sequence::take(1), time);
        } else {
            flush::append_slowly(self, event);
        }
    }

    /// The same for the usual case, without a call of anything: the two hooks that nearly all calls go through need no stack
    /// then.
    #[inline(always)]
    pub(crate) fn append_quickly(&self, event: Event) -> Quick {
        let left = self.until_clock.load(Relaxed);
        if left == 0 {
            return Quick::NotBegun;
        }
        let Some(position) = self.ring.reserve(self.limit.load(Relaxed)) else {
            return Quick::NotBegun;
        };
        self.until_clock.store(left.wrapping_sub(1), Relaxed);
        let number = sequence::take(1);
        if self.is_far(number) {
            return Quick::Begun { position, number };
        }
        self.slot(position)
            .commit(event.words(number, self.last_time()));
        if self.ring.was_passed(position) {
            return Quick::Begun { position, number };
        }
        Quick::Done
    }

    /// Ends what `append_quickly` has begun.
    pub(crate) fn finish(&self, event: Event, position: u32, number: u64) {
        if self.ring.was_passed(position) {
            flush::append_again(self, position, event, number, 0);
        } else {
            flush::refill_after_rebase(self, position, event, number);
        }
    }

    /// Fills a reserved slot.
    pub(crate) fn fill(&self, position: u32, event: Event, number: u64, time: Time) {
        if self.is_far(number) {
            flush::refill_after_rebase(self, position, event, number);
            return;
        }
        self.slot(position).commit(event.words(number, time));
        if self.ring.was_passed(position) {
            flush::append_again(self, position, event, number, time.read_flag);
        }
    }

    /// Whether the number is too far from the lane's base to be told by its low half.
    #[inline(always)]
    fn is_far(&self, number: u64) -> bool {
        let base = self.base_number.load();
        number.wrapping_sub(base).wrapping_add(MOST_DISTANCE) >= MOST_DISTANCE.wrapping_mul(2)
    }

    /// The slot at a position that was reserved.
    #[inline(always)]
    fn slot(&self, position: u32) -> &Slot {
        let index = position & self.capacity.load(Relaxed).wrapping_sub(1);
        let slot = self.slots.load(Relaxed).wrapping_add(index as usize);
        // SAFETY: a lane without memory has the limit 0 and reserves nothing, so the slots are there, as in `slots`, and the
        // index is below their number.
        unsafe { &*slot }
    }

    /// The time field for the next record.
    pub(crate) fn time(&self) -> Time {
        let left = self.until_clock.load(Relaxed);
        if left == 0 {
            return self.read_clock();
        }
        self.until_clock.store(left.wrapping_sub(1), Relaxed);
        self.last_time()
    }

    /// Has the next record carry a new reading of the clock: the records before it are then known to lie before that.
    pub(crate) fn renew_clock(&self) {
        self.until_clock.store(0, Relaxed);
    }

    /// The last reading of the clock.
    pub(crate) fn last_time(&self) -> Time {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "at most u16::MAX, see `read_clock`"
        )]
        Time {
            milliseconds: self.now.load(Relaxed) as u16,
            read_flag: 0,
        }
    }

    #[cold]
    #[inline(never)]
    fn read_clock(&self) -> Time {
        let now = clock::now();
        let mut passed = self.since_base(now);
        if passed > MOST_MILLISECONDS && flush::rebase_clock(self, now) {
            passed = 0;
        }
        // Where the ring could not be emptied the time stands still at the end of what the field holds.
        let milliseconds = u16::try_from(passed).unwrap_or(u16::MAX);
        let before = self.now.load(Relaxed); // the owner's alone, which spares the bus lock of an exchange
        self.now.store(u32::from(milliseconds), Relaxed);
        let budget = if u32::from(milliseconds) == before {
            self.clock_budget
                .load(Relaxed)
                .wrapping_mul(2)
                .clamp(1, MOST_WITHOUT_CLOCK)
        } else {
            1
        };
        self.clock_budget.store(budget, Relaxed);
        self.until_clock.store(budget.wrapping_sub(1), Relaxed);
        Time {
            milliseconds,
            read_flag: flag::TIME_READ,
        }
    }

    /// Milliseconds from the base clock to `now`, or four minutes where it is longer.
    fn since_base(&self, now: u64) -> u32 {
        let passed = now.saturating_sub(self.base_clock.load());
        // A million is 64 times this, and few machines divide 64 bits at once.
        u32::try_from(passed >> 6).unwrap_or(u32::MAX) / 15_625
    }

    /// Writes a declaration: its record and the records of its text, under consecutive numbers. Gives the first, or 0 where a log is
    /// written.
    pub(crate) fn declare(&self, event: Event, text: &[u8]) -> u64 {
        if CONFIG.get().is_log() {
            return 0; // which has no words for it
        }
        let pieces = text.len().div_ceil(heapwire_format::TEXT_CHUNK) as u64;
        self.declaring.store(sequence::roughly().max(1)); // a lower bound is enough
        let number = sequence::take(pieces.wrapping_add(1));
        let time = self.last_time();
        flush::append_numbered(
            self,
            Event {
                base: text.len() as u64,
                ..event
            },
            number,
            time,
        );
        let mut next = number;
        for record in heapwire_format::text_records(text, 0) {
            next = next.wrapping_add(1);
            let event = Event {
                op: record.op,
                flags: record.flags,
                ptr: record.ptr,
                size: record.size,
                pc: record.pc,
                base: record.base,
            };
            flush::append_numbered(self, event, next, time);
        }
        self.declaring.store(0);
        number
    }

    /// Whether the image that this lane belonged to was forked away: the lane is zeroes.
    pub(crate) fn is_wiped(&self) -> bool {
        self.capacity() == 0
    }

    /// Whether records without a reading can be much later than the last one that has one.
    pub(crate) fn is_late(&self, now: u64) -> bool {
        self.since_base(now) > self.now.load(Relaxed).wrapping_add(LATE_MILLISECONDS)
    }

    /// Milliseconds since the oldest reading that a pending record can have.
    pub(crate) fn age(&self, now: u64) -> u32 {
        self.since_base(now)
    }
}

/// How far `Lane::append_quickly` came.
#[derive(Clone, Copy)]
pub(crate) enum Quick {
    Done,
    /// Nothing is done: `Lane::append` is to do it.
    NotBegun,
    /// A slot and a number are taken: `Lane::finish` is to do the rest.
    Begun {
        position: u32,
        number: u64,
    },
}

/// This thread's lane, if recording is on.
#[inline]
pub(crate) fn current() -> Option<&'static Lane> {
    own().or_else(image::attach)
}

/// This thread's lane, if it has one.
#[inline(always)]
pub(crate) fn own() -> Option<&'static Lane> {
    let lane = core::ptr::with_exposed_provenance::<Lane>(crate::arch::thread_word());
    // SAFETY: the word of a thread is 0 or the address of a lane, stored by `set_current`; lanes are never unmapped.
    unsafe { lane.as_ref() }
}

/// Makes `lane` this thread's.
pub(crate) fn set_current(lane: &'static Lane) {
    crate::arch::set_thread_word(core::ptr::from_ref(lane).expose_provenance());
}
