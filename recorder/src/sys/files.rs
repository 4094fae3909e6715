//! Descriptors, and paths.

use super::time::time_of;
use super::{Errno, Result, SignalSet, call, fd_arg, scalar};

/// A number of a type that differs between machines, and is never negative.
fn unsigned(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or(0)
}

/// What of `fstat` matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) mode: u32,
    pub(crate) size: u64,
}

impl Status {
    pub(crate) const fn is(&self, kind: u32) -> bool {
        self.mode & libc::S_IFMT == kind
    }
}

pub(crate) fn close(fd: i32) {
    let _ = scalar(libc::SYS_close, [fd_arg(fd), 0, 0, 0, 0, 0]);
}

/// Opens the file with the zero-terminated `path`.
pub(crate) fn open(path: &[u8], flags: i32, mode: u32) -> Result<i32> {
    if path.last() != Some(&0) {
        return Err(Errno::INVAL);
    }
    let at = fd_arg(libc::AT_FDCWD);
    let args = [
        at,
        path.as_ptr() as usize,
        fd_arg(flags),
        mode as usize,
        0,
        0,
    ];
    scalar(libc::SYS_openat, args).map(as_fd)
}

#[expect(clippy::cast_possible_truncation, reason = "descriptors are small")]
fn as_fd(result: usize) -> i32 {
    (result as u32).cast_signed()
}

pub(crate) fn read(fd: i32, into: &mut [u8]) -> Result<usize> {
    loop {
        let args = [fd_arg(fd), into.as_mut_ptr() as usize, into.len(), 0, 0, 0];
        match scalar(libc::SYS_read, args) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Reads the start of the file, wherever its position is.
pub(crate) fn read_start(fd: i32, into: &mut [u8]) -> Result<usize> {
    // Where an offset takes two words, there may be an empty one before them: all of them are 0.
    let args = [fd_arg(fd), into.as_mut_ptr() as usize, into.len(), 0, 0, 0];
    scalar(libc::SYS_pread64, args)
}

/// One write of several pieces; may be short.
///
/// The pieces may lie in memory that other threads store to: the kernel copies, we never make a reference.
pub(crate) fn writev(fd: i32, pieces: &[libc::iovec]) -> Result<usize> {
    let args = [fd_arg(fd), pieces.as_ptr() as usize, pieces.len(), 0, 0, 0];
    scalar(libc::SYS_writev, args)
}

/// Sends without waiting and without a signal; may be short.
pub(crate) fn send(fd: i32, bytes: &[u8]) -> Result<usize> {
    let flags = fd_arg(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    let args = [
        fd_arg(fd),
        bytes.as_ptr() as usize,
        bytes.len(),
        flags,
        0,
        0,
    ];
    scalar(libc::SYS_sendto, args)
}

pub(crate) fn fstat(fd: i32) -> Result<Status> {
    let mut status = core::mem::MaybeUninit::<libc::stat64>::zeroed();
    scalar(
        call::FSTAT,
        [fd_arg(fd), status.as_mut_ptr() as usize, 0, 0, 0, 0],
    )?;
    // SAFETY: all zero is a valid `stat64`, and the kernel has filled it in.
    let status = unsafe { status.assume_init() };
    Ok(Status {
        device: unsigned(status.st_dev),
        inode: unsigned(status.st_ino),
        mode: status.st_mode,
        size: unsigned(status.st_size),
    })
}

/// Magic number of the file system that `fd` lies on.
pub(crate) fn file_system(fd: i32) -> Result<u64> {
    let mut status = core::mem::MaybeUninit::<libc::statfs64>::zeroed();
    let place = status.as_mut_ptr() as usize;
    let size = size_of::<libc::statfs64>();
    let args = match size_of::<usize>() {
        8 => [fd_arg(fd), place, 0, 0, 0, 0],
        _ => [fd_arg(fd), size, place, 0, 0, 0],
    };
    scalar(call::FSTATFS, args)?;
    // SAFETY: all zero is a valid `statfs64`, and the kernel has filled it in.
    let kind = unsafe { status.assume_init() }.f_type;
    #[expect(
        clippy::allow_attributes,
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "the numbers have 32 bits, and each machine its own type for them"
    )]
    #[allow(clippy::unnecessary_cast, reason = "see above")]
    Ok(u64::from(kind as u32))
}

/// Where the open file description of `fd` stands.
pub(crate) fn position(fd: i32) -> Result<u64> {
    let current = fd_arg(libc::SEEK_CUR);
    #[cfg(target_pointer_width = "64")]
    return scalar(call::LSEEK, [fd_arg(fd), 0, current, 0, 0, 0]).map(|at| at as u64);
    #[cfg(target_pointer_width = "32")]
    {
        let mut at = 0u64;
        let args = [fd_arg(fd), 0, 0, &raw mut at as usize, current, 0];
        scalar(call::LSEEK, args).map(|_| at)
    }
}

/// A duplicate of `fd` with the lowest free number from `from` on, closed at exec.
pub(crate) fn duplicate(fd: i32, from: i32) -> Result<i32> {
    let args = [
        fd_arg(fd),
        fd_arg(libc::F_DUPFD_CLOEXEC),
        fd_arg(from),
        0,
        0,
        0,
    ];
    scalar(libc::SYS_fcntl, args).map(as_fd)
}

/// Whether bytes can be written to `fd`.
pub(crate) fn is_writable(fd: i32) -> bool {
    let args = [fd_arg(fd), fd_arg(libc::F_GETFL), 0, 0, 0, 0];
    let flags = scalar(libc::SYS_fcntl, args);
    flags.is_ok_and(|flags| as_fd(flags) & libc::O_ACCMODE != libc::O_RDONLY)
}

/// Takes or leaves a lock on the file of `fd`, for its open file description.
pub(crate) fn lock(fd: i32, operation: i32) -> Result<()> {
    let args = [fd_arg(fd), fd_arg(operation), 0, 0, 0, 0];
    scalar(libc::SYS_flock, args).map(drop)
}

pub(crate) fn is_terminal(fd: i32) -> bool {
    #[expect(clippy::cast_possible_truncation, reason = "a request has 32 bits")]
    const TCGETS: usize = libc::TCGETS as usize;
    let mut settings = [0u8; 64]; // larger than the kernel's `termios`
    let args = [fd_arg(fd), TCGETS, settings.as_mut_ptr() as usize, 0, 0, 0];
    scalar(libc::SYS_ioctl, args).is_ok()
}

/// Most descriptors that the process may have.
pub(crate) fn descriptor_limit() -> u64 {
    let mut limit = [0u64; 2];
    let args = [
        0,
        libc::RLIMIT_NOFILE as usize,
        0,
        limit.as_mut_ptr() as usize,
        0,
        0,
    ];
    let [soft, _] = limit_after(scalar(libc::SYS_prlimit64, args), limit);
    soft
}

fn limit_after(result: Result<usize>, limit: [u64; 2]) -> [u64; 2] {
    if result.is_ok() { limit } else { [1024; 2] }
}

/// Waits until `fd` takes bytes, `milliseconds` at the most, under the signal mask `mask`.
pub(crate) fn wait_writable(fd: i32, milliseconds: u64, mask: SignalSet) -> Result<bool> {
    let mut entry = libc::pollfd {
        fd,
        events: libc::POLLOUT,
        revents: 0,
    };
    let time = time_of(milliseconds);
    let args = [
        &raw mut entry as usize,
        1,
        time.as_ptr() as usize,
        &raw const mask as usize,
        size_of::<SignalSet>(),
        0,
    ];
    scalar(libc::SYS_ppoll, args).map(|ready| ready != 0)
}

/// Where the symbolic link with the zero-terminated `path` leads; the length of it.
pub(crate) fn read_link(path: &[u8], into: &mut [u8]) -> Result<usize> {
    if path.last() != Some(&0) {
        return Err(Errno::INVAL);
    }
    let at = fd_arg(libc::AT_FDCWD);
    let args = [
        at,
        path.as_ptr() as usize,
        into.as_mut_ptr() as usize,
        into.len(),
        0,
        0,
    ];
    scalar(libc::SYS_readlinkat, args)
}

/// The current folder with its zero byte; the length of it.
pub(crate) fn current_folder(into: &mut [u8]) -> Result<usize> {
    scalar(
        libc::SYS_getcwd,
        [into.as_mut_ptr() as usize, into.len(), 0, 0, 0, 0],
    )
}
