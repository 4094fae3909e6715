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

/// An error number of the kernel. A word, so that a result comes back in two registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(usize);

impl Errno {
    pub(crate) const FAULT: Self = Self(libc::EFAULT.cast_unsigned() as usize);
    pub(crate) const AGAIN: Self = Self(libc::EAGAIN.cast_unsigned() as usize);
    pub(crate) const BADF: Self = Self(libc::EBADF.cast_unsigned() as usize);
    pub(crate) const INVAL: Self = Self(libc::EINVAL.cast_unsigned() as usize);
    pub(crate) const INTR: Self = Self(libc::EINTR.cast_unsigned() as usize);
    pub(crate) const MFILE: Self = Self(libc::EMFILE.cast_unsigned() as usize);
    pub(crate) const NFILE: Self = Self(libc::ENFILE.cast_unsigned() as usize);
    pub(crate) const NOSYS: Self = Self(libc::ENOSYS.cast_unsigned() as usize);
    pub(crate) const NXIO: Self = Self(libc::ENXIO.cast_unsigned() as usize);
    pub(crate) const PIPE: Self = Self(libc::EPIPE.cast_unsigned() as usize);
    pub(crate) const SRCH: Self = Self(libc::ESRCH.cast_unsigned() as usize);
    pub(crate) const FBIG: Self = Self(libc::EFBIG.cast_unsigned() as usize);
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
#[cfg_attr(target_arch = "x86_64", inline(always))]
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
        return Err(Errno(result.unsigned_abs()));
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
