//! Programs that give up system calls: before one of ours would be their death, the recorder gives up its own.
//!
//! The filter that the program is about to install is asked, as the kernel will ask it, about each call that the recorder makes.
//! From then on records go to lanes as long as these have room, and are counted then: both without a system call.

use crate::arch::SECCOMP_ARCH;
use crate::function::Function;
use crate::image::Image;
use crate::output::OUTPUT;
use crate::sys;
use libc::c_long;

/// Without these nothing can be written.
const NEEDED: [c_long; 3] = [sys::call::FSTAT, libc::SYS_rt_sigprocmask, libc::SYS_writev];

/// What else the recorder may call once it has started; it knows what to do where these fail.
const USED: [c_long; 21] = [
    libc::SYS_clock_gettime,
    libc::SYS_close,
    libc::SYS_fcntl,
    sys::call::FSTATFS,
    libc::SYS_getpid,
    libc::SYS_gettid,
    sys::call::LSEEK,
    sys::call::MMAP,
    libc::SYS_munmap,
    libc::SYS_openat,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_pread64,
    libc::SYS_process_vm_readv,
    libc::SYS_read,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_yield,
    libc::SYS_sendmsg,
    libc::SYS_tgkill,
];

/// Where a filter finds the low half of a call's first argument.
const FIRST_ARGUMENT: u32 = if cfg!(target_endian = "little") {
    16
} else {
    20
};

/// Bytes of one instruction, `struct sock_filter` in <linux/filter.h>.
const INSTRUCTION: usize = 8;

/// What a call asks the kernel to do.
#[derive(Clone, Copy)]
pub(crate) enum Wish {
    /// To leave it four calls.
    Strict,
    /// To ask the filter whose description is at this address.
    Filter(usize),
}

impl Wish {
    /// The wish of a call of `prctl` or `syscall` with these first four arguments.
    pub(crate) fn of(function: Function, arguments: [usize; 4]) -> Option<Self> {
        match function {
            Function::Prctl => by_prctl(arguments),
            Function::Syscall => by_syscall(arguments),
            _ => None,
        }
    }

    /// Whether the recorder could not go on as before.
    #[inline(never)]
    pub(crate) fn forbids(self, image: &Image) -> bool {
        match self {
            Self::Strict => true,
            Self::Filter(description) => is_deadly(image, description).unwrap_or(true),
        }
    }
}

fn by_prctl([option, mode, filter, _]: [usize; 4]) -> Option<Wish> {
    const SET: usize = libc::PR_SET_SECCOMP.cast_unsigned() as usize;
    match (option, mode) {
        (SET, 1) => Some(Wish::Strict),
        (SET, 2) => Some(Wish::Filter(filter)),
        _ => None,
    }
}

fn by_syscall([number, rest @ ..]: [usize; 4]) -> Option<Wish> {
    let [first, second, third] = rest;
    match (c_long::try_from(number), first) {
        (Ok(libc::SYS_prctl), _) => by_prctl([first, second, third, 0]),
        (Ok(libc::SYS_seccomp), 0) => Some(Wish::Strict),
        (Ok(libc::SYS_seccomp), 1) => Some(Wish::Filter(third)),
        _ => None,
    }
}

/// Whether a filter would end the process for any of our calls; `None` if that cannot be found out.
fn is_deadly(image: &Image, description: usize) -> Option<bool> {
    let mut fields = [0; size_of::<[usize; 2]>()];
    if sys::copy_own_memory(description, &mut fields) != Ok(fields.len()) {
        return Some(false); // the kernel will refuse it
    }
    let (length, _) = fields.split_first_chunk()?;
    let (_, address) = fields.split_last_chunk()?;
    let length = usize::from(u16::from_ne_bytes(*length)).wrapping_mul(INSTRUCTION);
    let address = usize::from_ne_bytes(*address);
    let mut guard = image.modules.lock(sys::gettid())?;
    let program = guard.scratch().get_mut(..length)?;
    if sys::copy_own_memory(address, program) != Ok(length) {
        return Some(false);
    }
    let (program, _) = program.as_chunks();
    let lives =
        |calls: &[c_long], can_fail| calls.iter().all(|call| lets(program, *call, can_fail));
    Some(!(lives(&NEEDED, false) && lives(&USED, true)))
}

/// Whether the filter lets a call be made, or at least fail.
fn lets(program: &[[u8; INSTRUCTION]], call: c_long, can_fail: bool) -> bool {
    const ALLOW: u32 = 0x7FFF;
    const LOG: u32 = 0x7FFC;
    const TRACE: u32 = 0x7FF0;
    const ERROR: u32 = 0x0005;
    match run(program, call).map(|verdict| verdict >> 16) {
        Some(ALLOW | LOG | TRACE) => true,
        Some(ERROR) => can_fail,
        _ => false,
    }
}

/// Runs a filter on a call whose first argument is our descriptor. `None`: it does what filters usually do not.
#[inline(never)]
fn run(program: &[[u8; INSTRUCTION]], call: c_long) -> Option<u32> {
    let mut a = 0;
    let mut left = program;
    // Jumps lead forward only, so each turn takes at least one instruction.
    while let [[code, 0, yes, no, k @ ..], rest @ ..] = left {
        let k = u32::from_ne_bytes(*k);
        let holds = match *code {
            0x20 => {
                // struct seccomp_data in <linux/seccomp.h>
                a = match k {
                    0 => u32::try_from(call).ok()?,
                    4 => SECCOMP_ARCH,
                    FIRST_ARGUMENT => OUTPUT.fd().cast_unsigned(),
                    _ => 0,
                };
                left = rest;
                continue;
            }
            0x54 => {
                a &= k;
                left = rest;
                continue;
            }
            0x05 => {
                left = rest.get(k as usize..)?;
                continue;
            }
            0x06 => return Some(k),
            0x15 => a == k,
            0x25 => a > k,
            0x35 => a >= k,
            0x45 => a & k != 0,
            _ => return None,
        };
        left = rest.get(usize::from(if holds { *yes } else { *no })..)?;
    }
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{lets, run};

    const fn step(code: u8, yes: u8, no: u8, k: u32) -> [u8; 8] {
        let [a, b, c, d] = k.to_ne_bytes();
        [code, 0, yes, no, a, b, c, d]
    }

    const ALLOW: [u8; 8] = step(0x06, 0, 0, 0x7FFF_0000);
    const KILL: [u8; 8] = step(0x06, 0, 0, 0x8000_0000);
    const NUMBER: [u8; 8] = step(0x20, 0, 0, 0);

    #[test]
    fn a_filter_is_asked_about_one_call() {
        let only_write = [NUMBER, step(0x15, 0, 1, 1), ALLOW, KILL];
        assert!(lets(&only_write, libc::SYS_write, false));
        assert!(!lets(&only_write, libc::SYS_writev, true));
        let fails = [
            NUMBER,
            step(0x15, 0, 1, 1),
            ALLOW,
            step(0x06, 0, 0, 0x0005_0026),
        ];
        assert!(lets(&fails, libc::SYS_writev, true));
        assert!(!lets(&fails, libc::SYS_writev, false));
        let traps = [step(0x06, 0, 0, 0x0003_0000)];
        assert!(!lets(&traps, libc::SYS_read, true));
        let arch = [
            step(0x20, 0, 0, 4),
            step(0x15, 1, 0, 0xC000_003E),
            KILL,
            ALLOW,
        ];
        assert!(lets(&arch, libc::SYS_read, false));
        let high = [NUMBER, step(0x35, 0, 1, 0x4000_0000), KILL, ALLOW];
        assert!(lets(&high, libc::SYS_read, false));
    }

    #[test]
    fn a_filter_that_is_none_forbids_everything() {
        let broken: [&[[u8; 8]]; 4] = [
            &[],
            &[NUMBER],
            &[step(0x05, 0, 0, u32::MAX), ALLOW],
            &[step(0x7F, 0, 0, 0), ALLOW],
        ];
        for program in broken {
            assert_eq!(run(program, 1), None);
            assert!(!lets(program, 1, true));
        }
    }
}
