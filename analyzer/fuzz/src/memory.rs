//! Counts what is allocated, so that a length in the input cannot ask for memory unnoticed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of live bytes.
#[derive(Debug)]
pub struct Counting;

// SAFETY: every call is passed on as it came; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size(); // counts publish nothing
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller's promise for `layout` is the one that is asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `block` came from `alloc` above with this layout, as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Most live bytes while `work` ran, above those before it.
pub fn peak_of(work: impl FnOnce()) -> usize {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    work();
    PEAK.load(Relaxed).saturating_sub(before)
}
