//! The one counter of the process, whose value is the order of events.
//!
//! It lies in private memory: a forked child goes on with its copy, and the value at the fork is the fork point.
#![forbid(unsafe_code)]

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// On a cache line of its own: every thread writes it for every event.
#[repr(align(128))]
struct Counter(AtomicU64);

/// The next number. Numbers start at 1.
static NEXT: Counter = Counter(AtomicU64::new(1));

/// Takes `count` consecutive numbers and gives the first.
///
/// Relaxed order would do for the order of events: the allocator's own hand-over of a block comes between its release and
/// its next allocation. Release: pairs with `so_far`, so that whoever counts this number as taken also sees the slot
/// that was reserved for it.
#[inline]
pub(crate) fn take(count: u64) -> u64 {
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
