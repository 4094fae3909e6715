//! Mappings, and memory of which nobody knows whether it is mapped.

use super::{Errno, Result, call, fd_arg, getpid, scalar, word};
use core::ptr;

/// Zeroed memory of this process alone.
pub(crate) fn map_anonymous(length: usize) -> Result<usize> {
    let protection = fd_arg(libc::PROT_READ | libc::PROT_WRITE);
    let flags = fd_arg(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    map([0, length, protection, flags, usize::MAX], 0)
}

/// Maps `length` bytes of `fd` from `offset` on, shared with the file.
pub(crate) fn map_file(fd: i32, offset: u64, length: usize) -> Result<usize> {
    let protection = fd_arg(libc::PROT_READ | libc::PROT_WRITE);
    let flags = fd_arg(libc::MAP_SHARED);
    map([0, length, protection, flags, fd_arg(fd)], offset)
}

/// Maps memory; `offset` is a multiple of 4096.
fn map([address, length, protection, flags, fd]: [usize; 5], offset: u64) -> Result<usize> {
    let unit = if cfg!(target_pointer_width = "32") {
        4096
    } else {
        1
    };
    let offset = word(offset / unit);
    let args = [address, length, protection, flags, fd, offset];
    #[cfg(target_arch = "s390x")] // which takes one argument: where the six are
    let args = [args.as_ptr() as usize, 0, 0, 0, 0, 0];
    scalar(call::MMAP, args)
}

/// Puts zeroed private memory in the place of `length` bytes at `address`.
///
/// # Safety
///
/// The range must be a mapping of ours, and its content must not be needed any more.
pub(crate) unsafe fn replace_by_anonymous(address: usize, length: usize) -> Result<usize> {
    let protection = fd_arg(libc::PROT_READ | libc::PROT_WRITE);
    let flags = fd_arg(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
    map([address, length, protection, flags, usize::MAX], 0)
}

/// Gives a mapping back.
///
/// # Safety
///
/// The range must be a mapping of ours that nothing refers to.
pub(crate) unsafe fn unmap(address: usize, length: usize) {
    let _ = scalar(libc::SYS_munmap, [address, length, 0, 0, 0, 0]);
}

/// Asks the kernel to hand a forked child zeroes in the place of this range.
pub(crate) fn wipe_on_fork(address: usize, length: usize) -> Result<()> {
    const MADV_WIPEONFORK: usize = 18;
    scalar(
        libc::SYS_madvise,
        [address, length, MADV_WIPEONFORK, 0, 0, 0],
    )
    .map(drop)
}

/// Copies bytes of this process, of which nobody knows whether they are still mapped.
pub(crate) fn copy_own_memory(address: usize, into: &mut [u8]) -> Result<usize> {
    match copy_own_bytes(address, into.as_mut_ptr(), into.len()) {
        Err(Errno::NOSYS) => Ok(copy_mapped(address, into)),
        result => result,
    }
}

/// The same into `length` bytes at `into`, which are the caller's; fails where the kernel has no call for it.
pub(crate) fn copy_own_bytes(address: usize, into: *mut u8, length: usize) -> Result<usize> {
    let to = libc::iovec {
        iov_base: into.cast(),
        iov_len: length,
    };
    let from = libc::iovec {
        iov_base: ptr::without_provenance_mut(address),
        iov_len: length,
    };
    let args = [
        getpid() as usize,
        &raw const to as usize,
        1,
        &raw const from as usize,
        1,
        0,
    ];
    scalar(libc::SYS_process_vm_readv, args)
}

/// What `copy_own_memory` does on kernels that were built without the call, and in emulators: what its callers ask for was mapped a
/// moment ago.
fn copy_mapped(address: usize, into: &mut [u8]) -> usize {
    for (at, to) in into.iter_mut().enumerate() {
        let from = ptr::with_exposed_provenance::<u8>(address.wrapping_add(at));
        // SAFETY: nobody can vouch for it here; see above.
        *to = unsafe { from.read_volatile() };
    }
    into.len()
}
