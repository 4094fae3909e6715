//! What differs between machines: system calls, the thread's own word, the entry of hooks.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the recorder is written for x86-64 so far");
