//! The atomics of the lanes: core's, or loom's where the model checker runs; and 64-bit values for machines that have no
//! atomics of 64 bits.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicU32;

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::AtomicU32;

pub(crate) use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

#[cfg(not(loom))]
pub(crate) use wide::Wide;

/// A 64-bit word of the trace, in little-endian order. It counts as stored once its low half is, which
/// holds a record's op.
#[repr(C)]
pub(crate) struct FileWord(file_word::Halves);

impl FileWord {
    #[inline(always)]
    pub(crate) fn store(&self, value: u64) {
        file_word::store(&self.0, value, Relaxed);
    }

    /// Publishes what was stored before.
    #[inline(always)]
    pub(crate) fn publish(&self, value: u64) {
        file_word::store(&self.0, value, Release); // pairs with `see`
    }

    #[inline(always)]
    pub(crate) fn load(&self) -> u64 {
        file_word::load(&self.0, Relaxed)
    }

    /// Sees what was published.
    #[inline(always)]
    pub(crate) fn see(&self) -> u64 {
        file_word::load(&self.0, Acquire) // pairs with `publish`
    }

    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self(file_word::new())
    }
}

#[cfg(any(loom, target_pointer_width = "64"))]
mod file_word {
    use core::sync::atomic::Ordering;

    #[cfg(not(loom))]
    pub(super) type Halves = core::sync::atomic::AtomicU64;
    #[cfg(loom)]
    pub(super) type Halves = loom::sync::atomic::AtomicU64;

    #[inline(always)]
    pub(super) fn store(cell: &Halves, value: u64, order: Ordering) {
        cell.store(value.to_le(), order);
    }

    #[inline(always)]
    pub(super) fn load(cell: &Halves, order: Ordering) -> u64 {
        u64::from_le(cell.load(order))
    }

    #[cfg(test)]
    pub(super) fn new() -> Halves {
        Halves::new(0)
    }
}

/// Two stores are half as long as one that must be whole, where there is one at all. They are enough: a record's number, the
/// high half of its first word, is there before its op, and nobody reads it before he sees the op.
#[cfg(not(any(loom, target_pointer_width = "64")))]
mod file_word {
    use core::sync::atomic::{AtomicU32, Ordering, Ordering::Relaxed};

    pub(super) type Halves = [AtomicU32; 2];

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the other half follows")]
    pub(super) fn store([low, high]: &Halves, value: u64, order: Ordering) {
        high.store(((value >> 32) as u32).to_le(), Relaxed);
        low.store((value as u32).to_le(), order);
    }

    #[inline(always)]
    pub(super) fn load([low, high]: &Halves, order: Ordering) -> u64 {
        let low = u32::from_le(low.load(order));
        u64::from(low) | u64::from(u32::from_le(high.load(Relaxed))) << 32
    }

    #[cfg(test)]
    pub(super) fn new() -> Halves {
        [0.into(), 0.into()]
    }
}

#[cfg(all(not(loom), target_pointer_width = "64"))]
mod wide {
    use core::sync::atomic::AtomicU64;
    use core::sync::atomic::Ordering::{Acquire, Release};

    /// A 64-bit value that one thread at a time stores. All zero is 0.
    pub(crate) struct Wide(AtomicU64);

    impl Wide {
        pub(crate) const fn zero() -> Self {
            Self(AtomicU64::new(0))
        }

        /// Publishes what was stored before.
        #[inline(always)]
        pub(crate) fn store(&self, value: u64) {
            self.0.store(value, Release); // pairs with `load`
        }

        #[inline(always)]
        pub(crate) fn load(&self) -> u64 {
            self.0.load(Acquire) // pairs with `store`
        }
    }
}

#[cfg(all(not(loom), target_pointer_width = "32"))]
pub(crate) use parts as wide;

/// Where no 64-bit store is whole: the high half is there twice, and the low half is stored between the two.
#[cfg(all(not(loom), any(test, target_pointer_width = "32")))]
#[cfg_attr(target_pointer_width = "64", expect(dead_code, reason = "for tests"))]
pub(crate) mod parts {
    use core::sync::atomic::AtomicU32;
    use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

    /// A 64-bit value that one thread at a time stores. All zero is 0.
    pub(crate) struct Wide {
        high: AtomicU32,
        low: AtomicU32,
        last: AtomicU32,
    }

    /// How often a reader looks before it takes what it has: a store that another interrupts takes no longer to wait for.
    const LOOKS: usize = 1000;

    impl Wide {
        pub(crate) const fn zero() -> Self {
            Self {
                high: AtomicU32::new(0),
                low: AtomicU32::new(0),
                last: AtomicU32::new(0),
            }
        }

        /// Publishes what was stored before.
        #[expect(clippy::cast_possible_truncation, reason = "the other half follows")]
        pub(crate) fn store(&self, value: u64) {
            let high = (value >> 32) as u32;
            self.high.store(high, Relaxed); // ordered by the next
            self.low.store(value as u32, Release); // pairs with the load of `low`
            self.last.store(high, Release); // pairs with the load of `last`
        }

        /// Reads from the end to the beginning: equal halves were not changed in between.
        pub(crate) fn load(&self) -> u64 {
            let (mut high, mut low) = (0, 0);
            for _ in 0..LOOKS {
                let last = self.last.load(Acquire);
                low = self.low.load(Acquire);
                high = self.high.load(Relaxed);
                if high == last {
                    break;
                }
            }
            u64::from(low) | u64::from(high) << 32
        }
    }
}
