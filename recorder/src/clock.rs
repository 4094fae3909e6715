//! The coarse monotonic clock, by the function that the kernel maps into every process where it is found: it reads a page, a
//! system call takes a hundred times as long.

use crate::function::Name;
use crate::sync::Wide;
use crate::sys;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// Name of the kernel's `clock_gettime`. The program may have one of its own, which must not be called from inside `malloc`.
pub(crate) const KERNELS_NAME: &Name = if cfg!(any(
    target_arch = "aarch64",
    target_arch = "powerpc",
    target_arch = "s390x"
)) {
    b"__kernel_clock_gettime\0"
} else {
    b"__vdso_clock_gettime\0"
};

/// Address of the kernel's `clock_gettime`; 0 = not found.
static KERNELS: AtomicUsize = AtomicUsize::new(0);

/// Says where the kernel's `clock_gettime` is.
pub(crate) fn use_kernels(address: usize) {
    KERNELS.store(address, Relaxed); // code that is there since the process began
}

/// The time at which the clock was stopped; 0 = it goes.
static STOPPED: Wide = Wide::zero();

/// Stops the clock for good: from here on it asks nobody.
pub(crate) fn stop() {
    STOPPED.store(now());
    KERNELS.store(0, Relaxed);
}

/// Nanoseconds of the monotonic clock, right to a few milliseconds.
pub(crate) fn now() -> u64 {
    let address = KERNELS.load(Relaxed);
    if address == 0 {
        let stopped = STOPPED.load();
        return if stopped == 0 {
            sys::clock(libc::CLOCK_MONOTONIC_COARSE)
        } else {
            stopped
        };
    }
    // SAFETY: `use_kernels` was given the function's address.
    unsafe { sys::clock_by(address, libc::CLOCK_MONOTONIC_COARSE) }
}

/// Nanoseconds since 1970.
pub(crate) fn wall() -> u64 {
    sys::wall_clock()
}

/// Steps of the clock in nanoseconds; 0 if unknown.
pub(crate) fn resolution() -> u64 {
    sys::clock_resolution(libc::CLOCK_MONOTONIC_COARSE)
}
