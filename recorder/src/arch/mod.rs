//! What differs between machines: system calls, the thread's own word, the entry of hooks.
//!
//! A machine's file gives the same names as every other; `shared` builds on them, except on x86-64, where each of these is
//! shorter by itself.

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
