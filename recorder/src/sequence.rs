//! The one counter of the process, whose value is the order of events.
//!
//! It lies in private memory: a forked child goes on with its copy, and the value at the fork is the fork point.
//!
//! Relaxed order would do for the order of events: the allocator's own hand-over of a block comes between its release and
//! its next allocation. But whoever counts a number as taken must also see the slot that was reserved for it: so
//! `take` releases, and `so_far` acquires.

#[cfg(target_pointer_width = "64")]
pub(crate) use whole::{roughly, so_far, take, watch_threads};

#[cfg(target_pointer_width = "32")]
pub(crate) use halves::{roughly, so_far, take, watch_threads};

#[cfg(target_pointer_width = "64")]
mod whole {
    use crate::arch;
    use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
    use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};

    /// On a cache line of its own: every thread writes it for every event.
    #[repr(align(128))]
    struct Counter(AtomicU64);

    /// How many numbers are taken; they start at 1. Zero at first, so that it takes no room in the file.
    static TAKEN: Counter = Counter(AtomicU64::new(0));

    /// Address of the libc's word that is not 0 while the process has one thread; 0 = it has none.
    static IS_SINGLE: AtomicUsize = AtomicUsize::new(0);

    /// Says where the libc keeps whether the process has one thread.
    pub(crate) fn watch_threads(flag: usize) {
        IS_SINGLE.store(flag, Relaxed); // an address of the libc's data, there since before we were loaded
    }

    /// Whether this is the only thread. The libc clears its word in the one thread there is, before it makes a second;
    /// its own allocator leaves its locks out by the same rule.
    #[inline(always)]
    fn is_single() -> bool {
        let flag = core::ptr::with_exposed_provenance::<AtomicU8>(IS_SINGLE.load(Relaxed));
        // SAFETY: null, or a byte of the libc's data, which stays mapped; an atomic load of a `char` that others may
        // store.
        unsafe { flag.as_ref() }.is_some_and(|flag| flag.load(Relaxed) != 0)
    }

    /// Takes `count` consecutive numbers and gives the first.
    #[inline(always)]
    pub(crate) fn take(count: u64) -> u64 {
        if is_single() {
            // Half of what a record costs is the bus lock, and there is nobody to be locked out.
            let taken = match count {
                1 => arch::fetch_add_one_local(&TAKEN.0),
                _ => arch::fetch_add_local(&TAKEN.0, count),
            };
            return taken.wrapping_add(1);
        }
        TAKEN.0.fetch_add(count, Release).wrapping_add(1)
    }

    /// The next number that nobody has taken.
    pub(crate) fn so_far() -> u64 {
        TAKEN.0.load(Acquire).wrapping_add(1)
    }

    /// The same, where only its size matters.
    pub(crate) fn roughly() -> u64 {
        TAKEN.0.load(Relaxed).wrapping_add(1)
    }
}

/// For machines that cannot add to 64 bits at once: the low 32 bits count, and a second word counts how often they have
/// passed 0 or their middle, so that its last bit tells which half it was stored for.
///
/// Whoever sees the low bits in the other half moves the second word on, so it is never more than one behind; unless a thread
/// stands still between its two loads while others take 2^31 numbers.
#[cfg(any(test, target_pointer_width = "32"))]
#[cfg_attr(target_pointer_width = "64", expect(dead_code, reason = "for tests"))]
mod halves {
    use core::sync::atomic::AtomicU32;
    use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

    pub(super) struct Counter {
        pub(super) low: AtomicU32,
        pub(super) halves: AtomicU32,
    }

    /// The next number. Numbers start at 1.
    static NEXT: Counter = Counter {
        low: AtomicU32::new(1),
        halves: AtomicU32::new(0),
    };

    impl Counter {
        pub(super) fn take(&self, count: u32) -> u64 {
            // Before the number is taken: what is read later could be of a half that others have begun since.
            let halves = self.halves.load(Relaxed); // compared with what is added to below
            self.whole(self.low.fetch_add(count, Release), halves)
        }

        pub(super) fn so_far(&self) -> u64 {
            let halves = self.halves.load(Relaxed);
            self.whole(self.low.load(Acquire), halves)
        }

        fn whole(&self, low: u32, before: u32) -> u64 {
            let mut halves = before;
            if low >> 31 != halves & 1 {
                halves = before.wrapping_add(1);
                // Failed: somebody else did it.
                let _ = self
                    .halves
                    .compare_exchange(before, halves, Relaxed, Relaxed);
            }
            u64::from(halves >> 1) << 32 | u64::from(low)
        }
    }

    /// Takes `count` consecutive numbers and gives the first.
    #[inline]
    pub(crate) fn take(count: u64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "one, or the records of a text that fits into memory"
        )]
        NEXT.take(count as u32)
    }

    /// The next number that nobody has taken.
    pub(crate) fn so_far() -> u64 {
        NEXT.so_far()
    }

    /// The same, where only its size matters.
    pub(crate) fn roughly() -> u64 {
        NEXT.so_far()
    }

    /// There is nothing to be spared with one thread.
    pub(crate) fn watch_threads(_flag: usize) {}
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::halves::Counter;
    use core::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_number_in_halves_goes_on_past_every_half() {
        let counter = Counter {
            low: 0x7FFF_FFFE.into(),
            halves: 0.into(),
        };
        let mut expected = 0x7FFF_FFFE;
        for _ in 0..9 {
            for count in [1, 1, 3, 1, 0x2000_0000, 0x5FFF_FFF9, 1] {
                assert_eq!(counter.so_far(), expected);
                assert_eq!(counter.take(count), expected);
                expected += u64::from(count);
            }
        }
        assert!(expected > 1 << 34);
    }

    #[test]
    fn a_thread_that_saw_the_half_before_does_not_move_it_twice() {
        let counter = Counter {
            low: 0x7FFF_FFFF.into(),
            halves: 0.into(),
        };
        let numbers: Vec<_> = std::thread::scope(|scope| {
            let take = || (0..1000).map(|_| counter.take(1)).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads
                .into_iter()
                .flat_map(|one| one.join().unwrap())
                .collect()
        });
        let mut sorted = numbers;
        sorted.sort_unstable();
        let expected: Vec<u64> = (0..4000).map(|step| 0x7FFF_FFFF + step).collect();
        assert_eq!(sorted, expected);
        assert_eq!(counter.halves.load(Relaxed), 1);
    }
}
