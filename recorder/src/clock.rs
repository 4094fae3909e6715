//! The coarse monotonic clock, through the libc's function where there is one: it reads a page, the kernel's call takes a
//! hundred times as long.

use crate::function::Function;
use crate::{next, sys};

/// Nanoseconds of the monotonic clock, right to a few milliseconds.
pub(crate) fn now() -> u64 {
    let Some(address) = next::known(Function::ClockGettime) else {
        return sys::clock(libc::CLOCK_MONOTONIC_COARSE);
    };
    let mut time = [0u64; 2];
    // SAFETY: `clock_gettime` of the libc has this type on 64-bit targets, where `time_t` and `long` are 64 bits wide.
    let real: extern "C" fn(i32, *mut [u64; 2]) -> i32 = unsafe { core::mem::transmute(address) };
    real(libc::CLOCK_MONOTONIC_COARSE, &raw mut time);
    let [seconds, nanoseconds] = time;
    seconds
        .wrapping_mul(1_000_000_000)
        .wrapping_add(nanoseconds)
}

/// Nanoseconds since 1970.
pub(crate) fn wall() -> u64 {
    sys::clock(libc::CLOCK_REALTIME)
}

/// Steps of the clock in nanoseconds; 0 if unknown.
pub(crate) fn resolution() -> u64 {
    sys::clock_resolution(libc::CLOCK_MONOTONIC_COARSE)
}
