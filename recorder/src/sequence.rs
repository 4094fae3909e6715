//! The one counter of the process, whose value is the order of events.
//!
//! It lies in private memory: a forked child goes on with its copy, and the value at the fork is the fork point.

use crate::arch;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};

/// On a cache line of its own: every thread writes it for every event.
#[repr(align(128))]
struct Counter(AtomicU64);

/// The next number. Numbers start at 1.
static NEXT: Counter = Counter(AtomicU64::new(1));

/// Address of the libc's word that is not 0 while the process has one thread; 0 = it has none.
static IS_SINGLE: AtomicUsize = AtomicUsize::new(0);

/// Says where the libc keeps whether the process has one thread.
pub(crate) fn watch_threads(flag: usize) {
    IS_SINGLE.store(flag, Relaxed); // an address of the libc's data, there since before we were loaded
}

/// Whether this is the only thread. The libc clears its word in the one thread there is, before it makes a second; its own
/// allocator leaves its locks out by the same rule.
#[inline(always)]
fn is_single() -> bool {
    let flag = core::ptr::with_exposed_provenance::<AtomicU8>(IS_SINGLE.load(Relaxed));
    // SAFETY: null, or a byte of the libc's data, which stays mapped; an atomic load of a `char` that others may store.
    unsafe { flag.as_ref() }.is_some_and(|flag| flag.load(Relaxed) != 0)
}

/// Takes `count` consecutive numbers and gives the first.
///
/// Relaxed order would do for the order of events: the allocator's own hand-over of a block comes between its release and
/// its next allocation. Release: pairs with `so_far`, so that whoever counts this number as taken also sees the slot
/// that was reserved for it.
#[inline(always)]
pub(crate) fn take(count: u64) -> u64 {
    if is_single() {
        // Half of what a record costs is the bus lock, and there is nobody to be locked out.
        return arch::fetch_add_local(&NEXT.0, count);
    }
    NEXT.0.fetch_add(count, Release)
}

/// The next number that nobody has taken.
pub(crate) fn so_far() -> u64 {
    NEXT.0.load(Acquire) // pairs with `take`
}

/// The same, where only its size matters.
pub(crate) fn roughly() -> u64 {
    NEXT.0.load(Relaxed)
}
