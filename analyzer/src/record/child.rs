//! Runs the program as if heapwire were not there: same group, same signals, same descriptors.
//!
//! All that the standard library has no safe call for is here.
#![expect(
    unsafe_code,
    reason = "signals, inherited descriptors and the monotonic clock have no safe interface in std"
)]

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

/// Handed on to the program when another process sends them. The terminal sends its own to the whole group.
const FORWARDED: [i32; 4] = [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];
/// Left to the program while it runs.
const LEFT: [i32; 2] = [libc::SIGINT, libc::SIGQUIT];

/// The running program, for the signal handler; 0 = none.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// What the Rust runtime changes before `main`: bits 0 to 2 say which standard descriptors were closed, bit 3 that
/// SIGPIPE was ignored.
static FOUND: AtomicU32 = AtomicU32::new(0);
const SIGPIPE_IGNORED: u32 = 1 << 3;

#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_FIRST: extern "C" fn() = look_first;

/// Runs before the Rust runtime, which opens closed standard descriptors and ignores SIGPIPE.
extern "C" fn look_first() {
    let mut found = 0;
    for descriptor in 0..3 {
        // SAFETY: F_GETFD takes no pointer and changes nothing.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
            found |= 1 << descriptor;
        }
    }
    if is_ignored(libc::SIGPIPE) {
        found |= SIGPIPE_IGNORED;
    }
    FOUND.store(found, Relaxed); // no other thread exists yet
}

/// Starts `command`, waits until it ended, and gives its status. `started` learns the pid.
///
/// While the program runs, heapwire leaves SIGINT and SIGQUIT to it and hands on those that end or ask for things.
/// A signal that is ignored when heapwire starts stays ignored for both, as `nohup` wants it.
pub(crate) fn run(mut command: Command, started: impl FnOnce(u32)) -> io::Result<ExitStatus> {
    let mask = block_forwarded()?;
    let found = FOUND.load(Relaxed); // written before `main`
    let orphaned = is_ignored(libc::SIGCHLD);
    if orphaned {
        set_handler(libc::SIGCHLD, libc::SIG_DFL)?; // else there is no status to wait for
    }
    // SAFETY: `restore` makes system calls only, which is all that may be done between fork and exec.
    unsafe { command.pre_exec(move || restore(&mask, found, orphaned)) };
    let handled = Handled::install()?;
    let spawned = command.spawn();
    if let Ok(child) = &spawned {
        CHILD.store(child.id().cast_signed(), Relaxed); // the signals are blocked until here
    }
    set_mask(&mask)?;
    let mut child = spawned?;
    // Of a file that must not grow further what comes afterwards says so.
    set_handler(libc::SIGXFSZ, libc::SIG_IGN)?;
    started(child.id());
    wait_for_end(&child)?;
    CHILD.store(0, Relaxed); // before the pid can be given to another process
    let status = child.wait();
    drop(handled);
    status
}

/// Nanoseconds of the clock that traces use.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the kernel fills the timespec that we own.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr()) };
    // SAFETY: zero is a valid timespec, and so is what the kernel writes.
    let time = unsafe { time.assume_init() };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds * 1_000_000_000 + nanoseconds
}

/// The user whose rights this process has.
pub(crate) fn user() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// The group whose rights this process has.
pub(crate) fn group() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::getegid() }
}

/// Whether the file gives capabilities to whoever executes it.
pub(crate) fn has_capabilities(path: &CStr) -> bool {
    let name = c"security.capability";
    // SAFETY: both names end with a zero byte; with length 0 nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), ptr::null_mut(), 0) > 0 }
}

/// Whether programs and libraries can be run from the file system that holds `path`.
pub(crate) fn is_executable_place(path: &CStr) -> bool {
    let mut answer = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path ends with a zero byte, and the kernel fills the structure that we own.
    if unsafe { libc::statvfs(path.as_ptr(), answer.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: zero is a valid statvfs, and so is what the kernel writes.
    let answer = unsafe { answer.assume_init() };
    answer.f_flag & libc::ST_NOEXEC == 0
}

/// Handlers that are in place as long as this lives.
struct Handled(Vec<i32>);

impl Handled {
    /// Handlers, not SIG_IGN: `exec` gives the program back the default by itself.
    fn install() -> io::Result<Self> {
        let mut handled = Self(Vec::new());
        for signal in FORWARDED.into_iter().chain(LEFT) {
            if !is_ignored(signal) {
                set_handler(signal, handler())?;
                handled.0.push(signal);
            }
        }
        Ok(handled)
    }
}

impl Drop for Handled {
    fn drop(&mut self) {
        for signal in &self.0 {
            let _ = set_handler(*signal, libc::SIG_DFL); // was valid when it was installed
        }
    }
}

fn handler() -> libc::sighandler_t {
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = forward;
    handler as libc::sighandler_t
}

/// Hands a signal on if a process sent it; one from the terminal reaches the program by itself.
extern "C" fn forward(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid siginfo to a handler with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    let child = CHILD.load(Relaxed); // a number only; nothing is published by it
    if child > 0 && code <= 0 && FORWARDED.contains(&signal) {
        // SAFETY: the call takes nothing and gives the place of this thread's errno.
        let place = unsafe { libc::__errno_location() };
        // SAFETY: errno is an initialized integer that only this thread uses.
        let errno = unsafe { place.read() };
        // SAFETY: `kill` takes no pointer, and `child` is not reaped while CHILD holds it.
        unsafe { libc::kill(child, signal) };
        // SAFETY: as for the read.
        unsafe { place.write(errno) };
    }
}

/// In the child, before exec: what heapwire and the Rust runtime changed is put back.
fn restore(mask: &libc::sigset_t, found: u32, orphaned: bool) -> io::Result<()> {
    for descriptor in 0..3 {
        if found & (1 << descriptor) != 0 && is_null(descriptor) {
            // SAFETY: nothing between here and exec uses the descriptor.
            unsafe { libc::close(descriptor) };
        }
    }
    if found & SIGPIPE_IGNORED != 0 {
        set_handler(libc::SIGPIPE, libc::SIG_IGN)?;
    }
    if orphaned {
        set_handler(libc::SIGCHLD, libc::SIG_IGN)?;
    }
    set_mask(mask)
}

/// Whether the descriptor is the `/dev/null` that the Rust runtime puts where it finds none.
fn is_null(descriptor: i32) -> bool {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel fills the structure that we own.
    if unsafe { libc::fstat(descriptor, status.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: zero is a valid stat, and so is what the kernel writes.
    let status = unsafe { status.assume_init() };
    status.st_mode & libc::S_IFMT == libc::S_IFCHR && status.st_rdev == libc::makedev(1, 3)
}

/// Waits until `child` ended and leaves it to be reaped, so that its pid stays its own.
fn wait_for_end(child: &Child) -> io::Result<()> {
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let how = libc::WEXITED | libc::WNOWAIT;
        // SAFETY: the kernel fills the siginfo that we own.
        if unsafe { libc::waitid(libc::P_PID, child.id(), info.as_mut_ptr(), how) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Blocks the forwarded signals and gives the mask as it was: one that arrives before the pid is known waits.
fn block_forwarded() -> io::Result<libc::sigset_t> {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `sigemptyset` fills the set that we own.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in FORWARDED {
        // SAFETY: the set was filled above.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    }
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both sets are ours, and the first was filled above.
    let result =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::from_raw_os_error(result));
    }
    // SAFETY: a set of zeroes is valid, and so is what the call wrote.
    Ok(unsafe { before.assume_init() })
}

fn set_mask(mask: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the mask is a valid set, and no old one is asked for.
    let result = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut()) };
    match result {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Whether nothing happens to this process when the signal comes.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no new action is given, and the kernel fills the structure that we own.
    if unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: zero is a valid sigaction, and so is what the kernel writes.
    let action = unsafe { action.assume_init() };
    action.sa_sigaction == libc::SIG_IGN
}

fn set_handler(signal: i32, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: a sigaction of zeroes is valid: no flags, empty mask.
    let mut action = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: `handler` is SIG_DFL, SIG_IGN or `forward`, which calls only what a handler may call.
    match unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
