//! Clocks and waiting.

#[cfg(target_pointer_width = "32")]
use super::call;
use super::{fd_arg, scalar, word};

/// Seconds and nanoseconds as the kernel's older calls have them: two words.
pub(super) type Time = [usize; 2];

pub(super) fn time_of(milliseconds: u64) -> Time {
    let nanoseconds = (milliseconds % 1000).wrapping_mul(1_000_000);
    [word(milliseconds / 1000), word(nanoseconds)]
}

fn nanoseconds([seconds, nanoseconds]: Time) -> u64 {
    (seconds as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(nanoseconds as u64)
}

/// Nanoseconds of the clock `id`, by the kernel.
pub(crate) fn clock(id: i32) -> u64 {
    let mut time: Time = [0; 2];
    let _ = scalar(
        libc::SYS_clock_gettime,
        [fd_arg(id), time.as_mut_ptr() as usize, 0, 0, 0, 0],
    );
    nanoseconds(time)
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
    let mut time: Time = [0; 2];
    let args = [fd_arg(id), time.as_mut_ptr() as usize, 0, 0, 0, 0];
    let _ = scalar(libc::SYS_clock_getres, args);
    nanoseconds(time)
}
