//! System calls, raw: they leave `errno` alone, lock nothing and allocate nothing.

#[cfg(not(test))]
mod actions;
mod files;
mod memory;
mod process;
mod signals;
mod time;

#[cfg(not(test))]
pub(crate) use actions::*;
pub(crate) use files::*;
pub(crate) use memory::*;
pub(crate) use process::*;
pub(crate) use signals::*;
pub(crate) use time::*;

use crate::arch;

/// An error number of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) const FAULT: Self = Self(libc::EFAULT);
    pub(crate) const AGAIN: Self = Self(libc::EAGAIN);
    pub(crate) const INTR: Self = Self(libc::EINTR);
    pub(crate) const NOSYS: Self = Self(libc::ENOSYS);
    pub(crate) const NXIO: Self = Self(libc::ENXIO);
    pub(crate) const PIPE: Self = Self(libc::EPIPE);
    pub(crate) const SRCH: Self = Self(libc::ESRCH);
    pub(crate) const FBIG: Self = Self(libc::EFBIG);
}

type Result<T> = core::result::Result<T, Errno>;

/// Calls that have another number, and other arguments, where words have 32 bits.
#[cfg(target_pointer_width = "64")]
pub(crate) mod call {
    use libc::c_long;
    pub(crate) const FSTAT: c_long = libc::SYS_fstat;
    pub(crate) const FSTATFS: c_long = libc::SYS_fstatfs;
    pub(crate) const LSEEK: c_long = libc::SYS_lseek;
    pub(crate) const MMAP: c_long = libc::SYS_mmap;
}
#[cfg(target_pointer_width = "32")]
pub(crate) mod call {
    use libc::c_long;
    /// With a 64-bit time; libc does not name it everywhere.
    pub(crate) const CLOCK_GETTIME64: c_long = if cfg!(target_arch = "mips") {
        4403
    } else {
        403
    };
    pub(crate) const FSTAT: c_long = libc::SYS_fstat64;
    pub(crate) const FSTATFS: c_long = libc::SYS_fstatfs64;
    pub(crate) const LSEEK: c_long = libc::SYS__llseek;
    pub(crate) const MMAP: c_long = libc::SYS_mmap2;
}

/// Makes a system call with scalar arguments only.
fn scalar(number: libc::c_long, args: [usize; 6]) -> Result<usize> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the kernel's numbers are small"
    )]
    let number = number.cast_unsigned() as usize;
    // SAFETY: every caller passes numbers, or pointers that it answers for.
    check(unsafe { arch::syscall(number, args) })
}

fn check(result: isize) -> Result<usize> {
    if (-4095..0).contains(&result) {
        #[expect(clippy::cast_possible_truncation, reason = "in the range just checked")]
        return Err(Errno(result.wrapping_neg() as i32));
    }
    Ok(result.cast_unsigned())
}

/// A number as an argument; on 32-bit targets those that are passed fit.
#[expect(clippy::cast_possible_truncation, reason = "see above")]
const fn word(value: u64) -> usize {
    value as usize
}

const fn fd_arg(fd: i32) -> usize {
    fd.cast_unsigned() as usize
}
