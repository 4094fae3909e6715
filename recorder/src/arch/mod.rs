//! What differs between machines: system calls, the thread's own word, the entry of hooks.
//!
//! A machine's file gives the same names as every other; `shared` builds on them, except on x86-64, where each of these is
//! shorter by itself.

#[cfg(not(any(target_arch = "x86_64", loom, test, heapwire_static)))]
mod memory;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
mod shared;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use shared::*;

#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "arm", path = "arm.rs")]
#[cfg_attr(target_arch = "mips", path = "mips.rs")]
#[cfg_attr(target_arch = "powerpc", path = "powerpc.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
#[cfg_attr(target_arch = "s390x", path = "s390x.rs")]
#[cfg_attr(target_arch = "x86", path = "x86.rs")]
#[cfg(not(target_arch = "x86_64"))]
mod machine;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use machine::*;

/// What machines differ in by a number.
#[cfg(not(loom))]
pub(crate) struct Machine {
    /// What a filter of system calls is told of it (<linux/audit.h>).
    pub(crate) seccomp: u32,
    /// Its number in ELF files.
    pub(crate) elf: u64,
    /// Signals that there are.
    pub(crate) signals: u32,
    /// How far above the stack pointer of a function that `forward` calls the `forward::Call` lies.
    pub(crate) call_above: usize,
    /// Number of the relocation "base plus addend", if we can make it ourselves.
    pub(crate) relative: Option<usize>,
    /// Where the context that a signal's handler gets says where its registers are, if they are not in it.
    registers: Option<usize>,
    /// Where among them the program counter is.
    interrupted_pc: usize,
}

/// Where the program was when the signal with this context came.
///
/// # Safety
///
/// `context` is the third argument of a handler with `SA_SIGINFO`.
#[cfg(not(any(loom, test)))]
pub(crate) unsafe fn interrupted_pc(context: *const u8) -> usize {
    let registers = match MACHINE.registers {
        None => context,
        Some(at) => {
            let place = context.wrapping_add(at).cast::<*const u8>();
            // SAFETY: the caller vouches for the context, which is larger and aligned.
            unsafe { place.read() }
        }
    };
    let place = registers.wrapping_add(MACHINE.interrupted_pc);
    // SAFETY: the same holds for the registers.
    unsafe { place.cast::<usize>().read() }
}
