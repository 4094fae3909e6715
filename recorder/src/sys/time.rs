//! Clocks and waiting.

#[cfg(target_pointer_width = "32")]
use super::call;
use super::{fd_arg, scalar};

/// Seconds and nanoseconds as the kernel's older calls have them: two words.
pub(super) type Time = [usize; 2];

/// Of more than seven weeks as many.
pub(super) fn time_of(milliseconds: u64) -> Time {
    let milliseconds = u32::try_from(milliseconds).unwrap_or(u32::MAX);
    let nanoseconds = (milliseconds % 1000).wrapping_mul(1_000_000);
    [(milliseconds / 1000) as usize, nanoseconds as usize]
}

fn nanoseconds([seconds, nanoseconds]: Time) -> u64 {
    (seconds as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(nanoseconds as u64)
}

fn read(number: libc::c_long, id: i32) -> Time {
    let mut time: Time = [0; 2];
    let _ = scalar(number, [fd_arg(id), time.as_mut_ptr() as usize, 0, 0, 0, 0]);
    time
}

/// Nanoseconds of the clock `id`, by the kernel.
pub(crate) fn clock(id: i32) -> u64 {
    nanoseconds(read(libc::SYS_clock_gettime, id))
}

/// Milliseconds of the monotonic clock.
pub(crate) fn milliseconds() -> u64 {
    let [seconds, nanoseconds] = read(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC);
    (seconds as u64)
        .wrapping_mul(1000)
        .wrapping_add((nanoseconds / 1_000_000) as u64)
}

/// The same by the kernel's function that it maps into every process.
///
/// # Safety
///
/// `address` is that of the function.
pub(crate) unsafe fn clock_by(address: usize, id: i32) -> u64 {
    let mut time: Time = [0; 2];
    // SAFETY: the kernel's function has this type, with `time_t` and `long` as wide as a word.
    let real: extern "C" fn(i32, *mut Time) -> i32 = unsafe { core::mem::transmute(address) };
    real(id, &raw mut time);
    nanoseconds(time)
}

/// Nanoseconds since 1970, also where a word ends in 2038.
pub(crate) fn wall_clock() -> u64 {
    #[cfg(target_pointer_width = "32")]
    {
        let mut time = [0u64; 2];
        let place = time.as_mut_ptr() as usize;
        let id = fd_arg(libc::CLOCK_REALTIME);
        if scalar(call::CLOCK_GETTIME64, [id, place, 0, 0, 0, 0]).is_ok() {
            let [seconds, nanoseconds] = time;
            return seconds
                .wrapping_mul(1_000_000_000)
                .wrapping_add(nanoseconds & 0xFFFF_FFFF); // the other half may be anything
        }
    }
    clock(libc::CLOCK_REALTIME)
}

/// Sleeps a while.
pub(crate) fn sleep(milliseconds: u64) {
    let time = time_of(milliseconds);
    let _ = scalar(libc::SYS_nanosleep, [time.as_ptr() as usize, 0, 0, 0, 0, 0]);
}

/// Steps of the clock `id` in nanoseconds.
pub(crate) fn clock_resolution(id: i32) -> u64 {
    nanoseconds(read(libc::SYS_clock_getres, id))
}
