//! Programs that give up system calls: before one of ours would be their death, the recorder gives up its own.
//!
//! The filter that the program is about to install is asked, as the kernel will ask it, about each call that the recorder makes.
//! From then on records go to lanes as long as these have room, and are counted then: both without a system call.

use crate::arch::MACHINE;
use crate::extent::ASKS_FILTERS;
use crate::function::Function;
use crate::image::Image;
use crate::output::{OUTPUT, PIECES};
use crate::sys;
use libc::c_long;

/// A call that the recorder makes once it has started, in a forked child too: its number and its first arguments.
struct Call {
    number: u16,
    arguments: [i32; 3],
}

/// In place of an argument: there are several, or nobody knows.
const ANY: i32 = i32::MIN;
/// In place of an argument: our descriptor.
const OUT: i32 = i32::MAX;

const fn call(number: c_long, arguments: [i32; 3]) -> Call {
    Call {
        number: small(number),
        arguments,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "no machine has larger numbers"
)]
const fn small(number: c_long) -> u16 {
    number as u16
}

/// Without these nothing can be written.
const NEEDED: [Call; 4] = [
    call(sys::call::FSTAT, [OUT, ANY, ANY]),
    call(libc::SYS_rt_sigprocmask, [libc::SIG_BLOCK, ANY, ANY]),
    call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK, ANY, 0]),
    call(libc::SYS_writev, [OUT, ANY, PIECES]),
];

/// The recorder knows what to do where these fail, and where those below do.
const USED: [Call; 8] = [
    call(libc::SYS_fcntl, [ANY, libc::F_DUPFD_CLOEXEC, ANY]),
    #[expect(clippy::cast_possible_truncation, reason = "a request has 32 bits")]
    call(libc::SYS_ioctl, [ANY, libc::TCGETS as i32, ANY]),
    call(
        sys::call::MMAP,
        [ANY, ANY, libc::PROT_READ | libc::PROT_WRITE],
    ),
    call(libc::SYS_openat, [libc::AT_FDCWD, ANY, ANY]),
    call(libc::SYS_prctl, [libc::PR_GET_NAME, ANY, ANY]),
    call(libc::SYS_readlinkat, [libc::AT_FDCWD, ANY, ANY]),
    call(libc::SYS_sendto, [OUT, ANY, ANY]),
    call(libc::SYS_writev, [ANY, ANY, PIECES]),
];

/// Those that are made with other arguments each time, or with some that no filter looks at.
const USED_SOMEHOW: [u16; 24] = [
    small(libc::SYS_clock_getres),
    small(libc::SYS_clock_gettime),
    small(libc::SYS_close),
    small(libc::SYS_flock),
    small(sys::call::FSTAT),
    small(sys::call::FSTATFS),
    small(libc::SYS_getpid),
    small(libc::SYS_getppid),
    small(libc::SYS_getrandom),
    small(libc::SYS_gettid),
    small(sys::call::LSEEK),
    small(libc::SYS_munmap),
    small(libc::SYS_nanosleep),
    small(libc::SYS_ppoll),
    small(libc::SYS_pread64),
    small(libc::SYS_prlimit64),
    small(libc::SYS_process_vm_readv),
    small(libc::SYS_read),
    small(libc::SYS_rt_sigaction),
    small(libc::SYS_rt_sigpending),
    small(libc::SYS_rt_sigtimedwait),
    small(libc::SYS_sched_yield),
    small(libc::SYS_tgkill),
    small(libc::SYS_uname),
];

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
            _ if !ASKS_FILTERS => true,
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
    let somehow = |number: &u16| {
        let call = Call {
            number: *number,
            arguments: [ANY; 3],
        };
        lets(program, &call, true)
    };
    let is_harmless = NEEDED.iter().all(|call| lets(program, call, false))
        && USED.iter().all(|call| lets(program, call, true))
        && USED_SOMEHOW.iter().all(somehow);
    Some(!is_harmless)
}

/// Whether the filter lets a call be made, or at least fail, whatever the arguments are that are not known.
fn lets(program: &[Instruction], call: &Call, can_fail: bool) -> bool {
    const PATIENCE: u32 = 10_000;
    let mut left = PATIENCE;
    Asked { call, can_fail }.lives(program, None, &mut left, DEEPEST)
}

type Instruction = [u8; INSTRUCTION];

/// Tests of unknown values in a row, of which each has two ways on.
const DEEPEST: u32 = 24;

struct Asked<'c> {
    call: &'c Call,
    can_fail: bool,
}

impl Asked<'_> {
    /// Runs a filter from an instruction on, with what is in its register if that is known. False as well where it does what filters
    /// usually do not, or has too many ways: `left` instructions are looked at, and `depth` tests.
    fn lives(
        &self,
        mut rest: &[Instruction],
        mut a: Option<u32>,
        left: &mut u32,
        depth: u32,
    ) -> bool {
        // Jumps lead forward only, so each turn takes at least one instruction.
        while let [[code, 0, yes, no, k @ ..], behind @ ..] = rest {
            let k = u32::from_ne_bytes(*k);
            *left = left.saturating_sub(1);
            if *left == 0 {
                return false;
            }
            rest = behind;
            match *code {
                0x20 => {
                    a = self.field(k);
                    continue;
                }
                0x54 => {
                    a = a.map(|a| a & k);
                    continue;
                }
                0x05 => {
                    rest = rest.get(k as usize..).unwrap_or_default();
                    continue;
                }
                0x06 => return self.is_good(k),
                0x15 | 0x25 | 0x35 | 0x45 => {}
                _ => return false,
            }
            let holds = a.map(|a| match *code {
                0x15 => a == k,
                0x25 => a > k,
                0x35 => a >= k,
                _ => a & k != 0,
            });
            let [yes, no] =
                [yes, no].map(|jump| rest.get(usize::from(*jump)..).unwrap_or_default());
            rest = match holds {
                Some(true) => yes,
                Some(false) => no,
                None if depth == 0 || !self.lives(yes, a, left, depth.wrapping_sub(1)) => {
                    return false;
                }
                None => no,
            };
        }
        false
    }

    /// What the filter finds at an offset in `struct seccomp_data` in <linux/seccomp.h>.
    fn field(&self, offset: u32) -> Option<u32> {
        const ARGUMENTS: u32 = 16;
        const LOW: u32 = if cfg!(target_endian = "little") { 0 } else { 4 };
        match offset {
            0 => Some(u32::from(self.call.number)),
            4 => Some(MACHINE.seccomp),
            _ => {
                let offset = offset.checked_sub(ARGUMENTS)?;
                let argument = match *self.call.arguments.get((offset / 8) as usize)? {
                    ANY => return None,
                    OUT => OUTPUT.known_fd()?,
                    argument => argument,
                };
                Some(if offset % 8 == LOW {
                    argument.cast_unsigned()
                } else {
                    0
                })
            }
        }
    }

    fn is_good(&self, verdict: u32) -> bool {
        const ALLOW: u32 = 0x7FFF;
        const LOG: u32 = 0x7FFC;
        const TRACE: u32 = 0x7FF0;
        const ERROR: u32 = 0x0005;
        match verdict >> 16 {
            ALLOW | LOG | TRACE => true,
            ERROR => self.can_fail,
            _ => false,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{ANY, Call, call, lets};

    const fn step(code: u8, yes: u8, no: u8, k: u32) -> [u8; 8] {
        let [a, b, c, d] = k.to_ne_bytes();
        [code, 0, yes, no, a, b, c, d]
    }

    const ALLOW: [u8; 8] = step(0x06, 0, 0, 0x7FFF_0000);
    const KILL: [u8; 8] = step(0x06, 0, 0, 0x8000_0000);
    const NUMBER: [u8; 8] = step(0x20, 0, 0, 0);
    const THIRD: [u8; 8] = step(0x20, 0, 0, 32);
    const READ: Call = call(libc::SYS_read, [ANY; 3]);
    const WRITE: Call = call(libc::SYS_write, [ANY; 3]);
    const WRITEV: Call = call(libc::SYS_writev, [ANY, ANY, 4]);

    #[test]
    fn a_filter_is_asked_about_one_call() {
        let only_write = [NUMBER, step(0x15, 0, 1, 1), ALLOW, KILL];
        assert!(lets(&only_write, &WRITE, false));
        assert!(!lets(&only_write, &WRITEV, true));
        let fails = [
            NUMBER,
            step(0x15, 0, 1, 1),
            ALLOW,
            step(0x06, 0, 0, 0x0005_0026),
        ];
        assert!(lets(&fails, &WRITEV, true));
        assert!(!lets(&fails, &WRITEV, false));
        let traps = [step(0x06, 0, 0, 0x0003_0000)];
        assert!(!lets(&traps, &READ, true));
        let arch = [
            step(0x20, 0, 0, 4),
            step(0x15, 1, 0, crate::arch::MACHINE.seccomp),
            KILL,
            ALLOW,
        ];
        assert!(lets(&arch, &READ, false));
        let high = [NUMBER, step(0x35, 0, 1, 0x4000_0000), KILL, ALLOW];
        assert!(lets(&high, &READ, false));
    }

    #[test]
    fn arguments_count_with_their_values_and_without_in_every_way() {
        for (allowed, are_four, are_any) in [(4, true, false), (3, false, false)] {
            let pieces = [THIRD, step(0x15, 0, 1, allowed), ALLOW, KILL];
            assert_eq!(lets(&pieces, &WRITEV, false), are_four, "{allowed}");
            assert_eq!(lets(&pieces, &READ, false), are_any, "{allowed}");
            let others = [
                THIRD,
                step(0x54, 0, 0, 0xFF),
                step(0x15, 0, 1, allowed),
                KILL,
                ALLOW,
            ];
            assert_eq!(lets(&others, &WRITEV, false), !are_four, "{allowed}");
            assert!(!lets(&others, &READ, true), "{allowed}");
        }
        let high = [step(0x20, 0, 0, 36), step(0x15, 0, 1, 0), ALLOW, KILL];
        assert_eq!(lets(&high, &WRITEV, false), cfg!(target_endian = "little"));
        let either = [THIRD, step(0x25, 0, 0, 9), ALLOW];
        assert!(lets(&either, &READ, false));
    }

    #[test]
    fn a_filter_with_too_many_ways_forbids() {
        let mut tests = vec![THIRD];
        tests.extend((0..100).map(|k| step(0x15, 0, 0, k)));
        tests.push(ALLOW);
        assert!(!lets(&tests, &READ, true));
        assert!(lets(&tests, &WRITEV, true));
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
            assert!(!lets(program, &WRITE, true));
        }
    }
}
