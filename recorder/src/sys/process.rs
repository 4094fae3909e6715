//! What the kernel knows of this process, this thread and itself.

use super::{Errno, Result, clock, fd_arg, scalar};

pub(crate) fn getpid() -> u32 {
    low(scalar(libc::SYS_getpid, [0; 6]))
}

pub(crate) fn getppid() -> u32 {
    low(scalar(libc::SYS_getppid, [0; 6]))
}

pub(crate) fn gettid() -> u32 {
    low(scalar(libc::SYS_gettid, [0; 6]))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "pids and tids have at most 22 bits"
)]
fn low(result: Result<usize>) -> u32 {
    result.unwrap_or(0) as u32
}

/// Whether the thread `tid` of this process `pid` exists.
pub(crate) fn is_alive(pid: u32, tid: u32) -> bool {
    scalar(libc::SYS_tgkill, [pid as usize, tid as usize, 0, 0, 0, 0]) != Err(Errno::SRCH)
}

/// Whether real and effective ids differ, so that our environment may be another user's.
pub(crate) fn is_privileged() -> bool {
    id(libc::SYS_getuid) != id(libc::SYS_geteuid) || id(libc::SYS_getgid) != id(libc::SYS_getegid)
}

#[inline(never)]
fn id(number: libc::c_long) -> u32 {
    low(scalar(number, [0; 6]))
}

pub(crate) fn yield_now() {
    let _ = scalar(libc::SYS_sched_yield, [0; 6]);
}

/// Random bits; the clock's where the kernel has none.
pub(crate) fn random() -> u32 {
    let mut bits = [0u8; 4];
    let args = [
        bits.as_mut_ptr() as usize,
        bits.len(),
        libc::GRND_NONBLOCK as usize,
        0,
        0,
        0,
    ];
    if scalar(libc::SYS_getrandom, args) == Ok(bits.len()) {
        return u32::from_ne_bytes(bits);
    }
    let time = clock(libc::CLOCK_MONOTONIC);
    #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
    let mixed = (time ^ time >> 32) as u32;
    mixed ^ getpid().rotate_left(16)
}

/// The name of this thread, up to its zero byte.
pub(crate) fn thread_name(into: &mut [u8; 16]) {
    let args = [
        fd_arg(libc::PR_GET_NAME),
        into.as_mut_ptr() as usize,
        0,
        0,
        0,
        0,
    ];
    let _ = scalar(libc::SYS_prctl, args);
}

/// The kernel's release, up to its zero byte.
pub(crate) fn kernel_release(into: &mut [u8; 65]) {
    const FIELD: usize = 65;
    let mut names = [0u8; FIELD * 6];
    let _ = scalar(
        libc::SYS_uname,
        [names.as_mut_ptr() as usize, 0, 0, 0, 0, 0],
    );
    for (to, from) in into.iter_mut().zip(names.iter().skip(FIELD * 2)) {
        *to = *from;
    }
}
