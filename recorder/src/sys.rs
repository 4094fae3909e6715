//! System calls, raw: they leave `errno` alone, lock nothing and allocate nothing.

use crate::arch;
use core::ptr;

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

/// A set of signals as the kernel has it: bit `n - 1` for signal `n`, by words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct SignalSet([usize; arch::SIGNALS.div_ceil(usize::BITS) as usize]);

impl SignalSet {
    pub(crate) const ALL: Self = Self([usize::MAX; arch::SIGNALS.div_ceil(usize::BITS) as usize]);

    /// The set of one signal.
    pub(crate) fn of(signal: i32) -> Self {
        let mut set = Self::default();
        let (word, bit) = Self::place(signal);
        if let Some(word) = set.0.get_mut(word) {
            *word = bit;
        }
        set
    }

    pub(crate) fn without(mut self, signal: i32) -> Self {
        let (word, bit) = Self::place(signal);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
        self
    }

    pub(crate) fn has(&self, signal: i32) -> bool {
        let (word, bit) = Self::place(signal);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    fn place(signal: i32) -> (usize, usize) {
        let at = signal.wrapping_sub(1).cast_unsigned();
        let (word, bit) = (at.wrapping_shr(usize::BITS.ilog2()), at);
        (word as usize, 1usize.wrapping_shl(bit)) // wraps at the width of the word
    }
}

/// Seconds and nanoseconds as the kernel's older calls have them: two words.
type Time = [usize; 2];

fn time_of(milliseconds: u64) -> Time {
    let nanoseconds = (milliseconds % 1000).wrapping_mul(1_000_000);
    [word(milliseconds / 1000), word(nanoseconds)]
}

fn nanoseconds([seconds, nanoseconds]: Time) -> u64 {
    (seconds as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(nanoseconds as u64)
}

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
    pub(crate) const FSTAT: c_long = libc::SYS_fstat64;
    pub(crate) const FSTATFS: c_long = libc::SYS_fstatfs64;
    pub(crate) const LSEEK: c_long = libc::SYS__llseek;
    pub(crate) const MMAP: c_long = libc::SYS_mmap2;
}

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

/// Makes a system call with scalar arguments only.
fn scalar(number: libc::c_long, args: [usize; 6]) -> Result<usize> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the kernel's numbers are small"
    )]
    let number = number.cast_unsigned() as usize;
    // SAFETY: every caller below passes numbers, or pointers that it answers for.
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
    let id = |number| low(scalar(number, [0; 6]));
    id(libc::SYS_getuid) != id(libc::SYS_geteuid) || id(libc::SYS_getgid) != id(libc::SYS_getegid)
}

pub(crate) fn yield_now() {
    let _ = scalar(libc::SYS_sched_yield, [0; 6]);
}

pub(crate) fn close(fd: i32) {
    let _ = scalar(libc::SYS_close, [fd_arg(fd), 0, 0, 0, 0, 0]);
}

/// Opens the file with the zero-terminated `path`.
pub(crate) fn open(path: &[u8], flags: i32, mode: u32) -> Result<i32> {
    if path.last() != Some(&0) {
        return Err(Errno(libc::EINVAL));
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

/// Sends several pieces without waiting and without a signal; may be short.
pub(crate) fn send(fd: i32, pieces: &mut [libc::iovec]) -> Result<usize> {
    let message = libc::msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: pieces.as_mut_ptr(),
        msg_iovlen: pieces.len(),
        msg_control: ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    };
    let flags = fd_arg(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    scalar(
        libc::SYS_sendmsg,
        [fd_arg(fd), &raw const message as usize, flags, 0, 0, 0],
    )
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

/// Blocks all signals for this thread but SIGBUS; gives the mask that was.
///
/// A file that somebody cuts is a SIGBUS wherever its lanes are read, and one that is blocked then ends the process.
pub(crate) fn block_signals() -> SignalSet {
    let (all, mut old) = (SignalSet::ALL.without(libc::SIGBUS), SignalSet::default());
    let args = [
        fd_arg(libc::SIG_BLOCK),
        &raw const all as usize,
        &raw mut old as usize,
        size_of::<SignalSet>(),
        0,
        0,
    ];
    let _ = scalar(libc::SYS_rt_sigprocmask, args);
    old
}

/// Sets this thread's signal mask.
pub(crate) fn restore_signals(mask: SignalSet) {
    let args = [
        fd_arg(libc::SIG_SETMASK),
        &raw const mask as usize,
        0,
        size_of::<SignalSet>(),
        0,
        0,
    ];
    let _ = scalar(libc::SYS_rt_sigprocmask, args);
}

/// Signals that wait for this thread or the process.
pub(crate) fn pending_signals() -> SignalSet {
    let mut set = SignalSet::default();
    let args = [&raw mut set as usize, size_of::<SignalSet>(), 0, 0, 0, 0];
    let _ = scalar(libc::SYS_rt_sigpending, args);
    set
}

/// Takes one waiting signal of `set` away, without waiting for one.
pub(crate) fn take_signal(set: SignalSet) {
    let none: Time = [0; 2];
    let args = [
        &raw const set as usize,
        0,
        none.as_ptr() as usize,
        size_of::<SignalSet>(),
        0,
        0,
    ];
    let _ = scalar(libc::SYS_rt_sigtimedwait, args);
}

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
        if scalar(arch::CLOCK_GETTIME64, [id, place, 0, 0, 0, 0]).is_ok() {
            let [seconds, nanoseconds] = time;
            return seconds
                .wrapping_mul(1_000_000_000)
                .wrapping_add(nanoseconds & 0xFFFF_FFFF); // the other half may be anything
        }
    }
    clock(libc::CLOCK_REALTIME)
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

/// Where the symbolic link with the zero-terminated `path` leads; the length of it.
pub(crate) fn read_link(path: &[u8], into: &mut [u8]) -> Result<usize> {
    if path.last() != Some(&0) {
        return Err(Errno(libc::EINVAL));
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

/// The disposition of `signal`.
#[cfg(not(test))]
pub(crate) fn action(signal: i32) -> Result<crate::fatal::Action> {
    let mut action = crate::fatal::Action::default();
    let old = &raw mut action as usize;
    let args = [fd_arg(signal), 0, old, size_of::<SignalSet>(), 0, 0];
    scalar(libc::SYS_rt_sigaction, args).map(|_| action)
}

/// Sets the disposition of `signal`.
#[cfg(not(test))]
pub(crate) fn set_action(signal: i32, action: &crate::fatal::Action) {
    let new = ptr::from_ref(action) as usize;
    let args = [fd_arg(signal), new, 0, size_of::<SignalSet>(), 0, 0];
    let _ = scalar(libc::SYS_rt_sigaction, args);
}

/// Sends `signal` to this thread.
#[cfg(not(test))]
pub(crate) fn send_to_this_thread(signal: i32) {
    let args = [
        getpid() as usize,
        gettid() as usize,
        fd_arg(signal),
        0,
        0,
        0,
    ];
    let _ = scalar(libc::SYS_tgkill, args);
}
