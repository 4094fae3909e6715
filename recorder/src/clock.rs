//! The coarse monotonic clock, by the function that the kernel maps into every process where it is found: it reads a page, a
//! system call takes a hundred times as long.

use crate::sys;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU64, AtomicUsize};

/// Address of the kernel's `clock_gettime`; 0 = not found.
static KERNELS: AtomicUsize = AtomicUsize::new(0);

/// Says where the kernel's `clock_gettime` is.
pub(crate) fn use_kernels(address: usize) {
    KERNELS.store(address, Relaxed); // code that is there since the process began
}

/// The time at which the clock was stopped; 0 = it goes.
static STOPPED: AtomicU64 = AtomicU64::new(0);

/// Stops the clock for good: from here on it asks nobody.
pub(crate) fn stop() {
    STOPPED.store(now(), Relaxed);
    KERNELS.store(0, Relaxed);
}

/// Nanoseconds of the monotonic clock, right to a few milliseconds.
pub(crate) fn now() -> u64 {
    let address = KERNELS.load(Relaxed);
    if address == 0 {
        let stopped = STOPPED.load(Relaxed);
        return if stopped == 0 {
            sys::clock(libc::CLOCK_MONOTONIC_COARSE)
        } else {
            stopped
        };
    }
    let mut time = [0u64; 2];
    // SAFETY: the kernel's function has this type on 64-bit targets, where `time_t` and `long` are 64 bits wide.
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
