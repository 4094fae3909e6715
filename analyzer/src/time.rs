//! Readings of the traced machine's clock, in nanoseconds, which tell by their last bit how far to trust them.
//!
//! Busy threads read the clock for some calls only. Of a call between two readings that lie far apart it is known that it came after the
//! first; where in a pause it came, nobody knows.

/// Nanoseconds that times may be off by.
pub(crate) const SHORT: u64 = 10_000_000;

/// A time that is known as well as the clock is.
#[inline]
pub(crate) const fn known(ns: u64) -> u64 {
    ns & !1
}

/// A time before which a call was not.
#[inline]
pub(crate) const fn lower_bound(ns: u64) -> u64 {
    ns | 1
}

pub(crate) const fn is_lower_bound(clock: u64) -> bool {
    clock & 1 != 0
}

/// Nanoseconds from `begin` to `clock`.
pub(crate) const fn since(begin: u64, clock: u64) -> u64 {
    known(clock).saturating_sub(known(begin))
}
