//! Packing: a frame's records are packed as it is written, in memory that threads take turns at.
//!
//! Stacks are small, and lanes must hold their records until these are written. Nobody waits: who finds no memory free
//! writes a plain frame.

use crate::cull::Culling;
use crate::ring::{Slot, Span, slot};
use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use heapwire_format::{Packed, Packer};

/// Threads that can pack at the same time.
const BENCHES: usize = 4;
/// Most bytes of a payload; a full lane takes about 9,000.
pub(crate) const PAYLOAD: usize = 16 << 10;

/// The memory. All zero is valid: all of it is free.
pub(crate) struct Benches([Bench; BENCHES]);

/// Memory for one thread.
pub(crate) struct Bench {
    is_taken: AtomicU32,
    tools: UnsafeCell<Tools>,
}

struct Tools {
    packer: Packer,
    payload: [u8; PAYLOAD],
}

// SAFETY: `tools` is used by who has taken the bench only.
unsafe impl Sync for Bench {}

/// A bench that is taken.
pub(crate) struct Taken<'b>(&'b Bench);

impl Benches {
    /// A bench that nobody else has.
    pub(crate) fn take(&self) -> Option<Taken<'_>> {
        let free = |bench: &&Bench| {
            let taken = bench.is_taken.compare_exchange(0, 1, Acquire, Relaxed);
            taken.is_ok() // Acquire: pairs with the Release in `drop`
        };
        self.0.iter().find(free).map(Taken)
    }
}

impl Taken<'_> {
    /// Packs the first of these records into at most `most` bytes, no more than [`PAYLOAD`], and gives these and how many records they
    /// are. With `culling`, which has to be of all of them, there is room for all.
    #[inline(never)]
    pub(crate) fn pack(
        &mut self,
        first: u64,
        slots: &[Slot],
        span: Span,
        culling: Option<&Culling<'_>>,
        most: usize,
    ) -> (&[u8], u32) {
        // SAFETY: the bench is taken, and `self` is borrowed as long as what is given out.
        let tools = unsafe { &mut *self.0.tools.get() };
        let at = |step| slot(slots, span.from.wrapping_add(step)).map(Slot::words);
        let steps = 0..span.count;
        let room = tools
            .payload
            .get_mut(..most.min(PAYLOAD))
            .unwrap_or_default();
        let packer = &mut tools.packer;
        // Two loops: most records go through the first, which has nothing to ask.
        let Packed { records, bytes } = match culling {
            None => packer.pack(first, steps.map_while(at), room),
            Some(culling) => {
                let replaced = steps.filter_map(|step| culling.replaced(step, at(step)?));
                packer.pack(first, replaced, room)
            }
        };
        let taken = if culling.is_some() {
            span.count
        } else {
            records
        };
        (room.get(..bytes).unwrap_or_default(), taken)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.is_taken.store(0, Release); // pairs with `take`
    }
}
