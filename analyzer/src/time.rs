//! Readings of the traced machine's clock, in nanoseconds, which tell by their last bits how far to trust them.
//!
//! Busy threads read the clock for some calls only. Of a call between two readings that lie far apart it is known that it came between
//! them; where in a pause it came, nobody knows. Such a time is the first of the two, a quarter of a microsecond late at most, and
//! about how much later the call may have been: records count milliseconds.

/// Nanoseconds that times may be off by.
pub(crate) const SHORT: u64 = 10_000_000;

/// The bits of a lower bound that are none of the time: the lowest, and a code of how much later it may have been.
const BITS: u64 = 0xFF;
/// Nanoseconds of the least difference in that.
const UNIT: u64 = 2_000_000;
/// Codes count in eighths of a power of two.
const EIGHTH: u64 = 8;
/// No bound.
const OPEN: u64 = 0;

/// A time that is known as well as the clock is.
#[inline]
pub(crate) const fn known(ns: u64) -> u64 {
    ns & !1
}

/// A time before which a call was not; and `within` how many nanoseconds it came, if that is known.
pub(crate) fn lower_bound(ns: u64, within: Option<u64>) -> u64 {
    let code = within.map_or(OPEN, code);
    ns.saturating_add(BITS) & !BITS | code << 1 | 1
}

pub(crate) const fn is_lower_bound(clock: u64) -> bool {
    clock & 1 != 0
}

/// The time, or the lower bound.
pub(crate) const fn earliest(clock: u64) -> u64 {
    if is_lower_bound(clock) {
        clock & !BITS
    } else {
        clock
    }
}

/// The time that a call was not after, if any is known.
pub(crate) const fn latest(clock: u64) -> Option<u64> {
    if !is_lower_bound(clock) {
        return Some(clock);
    }
    match (clock & BITS) >> 1 {
        OPEN => None,
        code => Some(earliest(clock).saturating_add(length(code))),
    }
}

/// Whether a call was after `moment` for sure.
pub(crate) const fn is_after(clock: u64, moment: u64) -> bool {
    let late = if is_lower_bound(clock) { BITS } else { 0 };
    earliest(clock) > moment.saturating_add(late)
}

/// Nanoseconds from `begin` to `clock`, or the lower bound of that.
pub(crate) const fn since(begin: u64, clock: u64) -> u64 {
    let passed = earliest(clock).saturating_sub(earliest(begin));
    if is_lower_bound(clock) {
        passed / 1000 * 1000
    } else {
        passed
    }
}

/// The code of the least length that is not below so many nanoseconds; `OPEN` if there is none.
fn code(within: u64) -> u64 {
    let codes = OPEN + 1..=BITS >> 1;
    codes
        .into_iter()
        .find(|code| length(*code) >= within)
        .unwrap_or(OPEN)
}

const fn length(code: u64) -> u64 {
    ((EIGHTH + code % EIGHTH) << (code / EIGHTH)) * UNIT
}

#[cfg(test)]
mod tests {
    use super::{is_after, is_lower_bound, known, latest, lower_bound, since};

    const MS: u64 = 1_000_000;

    #[test]
    fn a_lower_bound_keeps_its_time_and_about_how_much_later_it_may_have_been() {
        for begin in [0, 7, 123_456_789] {
            for ms in [0, 1, 100, 86_400_000] {
                for within in [11, 100, 523, 60_000, 900_000] {
                    let at = begin + ms * MS;
                    let clock = lower_bound(at, Some(within * MS));
                    assert!(is_lower_bound(clock));
                    assert_eq!(since(known(begin), clock), ms * MS);
                    let latest = latest(clock).unwrap();
                    assert!(latest >= at + within * MS, "{within}");
                    assert!(latest <= at + within * MS * 9 / 8 + 20 * MS, "{within}");
                    assert!(!is_after(clock, at) && is_after(clock, at - at.min(MS)) == (at > 0));
                }
            }
        }
    }

    #[test]
    fn what_is_not_known_is_open() {
        assert_eq!(latest(lower_bound(MS, None)), None);
        assert_eq!(latest(lower_bound(MS, Some(u64::MAX))), None);
        assert_eq!(latest(known(MS)), Some(MS));
        assert!(is_after(known(MS), MS - 2) && !is_after(known(MS), MS));
    }
}
