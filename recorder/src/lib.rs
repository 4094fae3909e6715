//! The recorder: a shared library that stands in for the allocator's functions, forwards each call, and appends one
//! fixed-size record to the trace.
//!
//! It runs inside somebody's product. So: no allocation, no panic, no formatting, no thread, nothing imported, no lock
//! that a fork or a signal could leave held, `errno` untouched, a few hundred bytes of stack. Whatever goes
//! wrong, the program gets what the allocator gave; what could not be recorded is counted.
//!
//! The way of a call: an entry in `arch` adds caller and stack pointer; `hooks`, `forward` or `process` call the next
//! definition (`next`) and say what happened (`heap`); the thread's `lane` gives it a number (`sequence`) and a slot (`ring`);
//! `flush` and `output` carry full lanes away, `pack`ed where that is wanted. `image` is what a process image knows of itself; `start` begins it.
//! `forked` children find it wiped.
#![cfg_attr(not(any(test, loom)), no_std)]
#![cfg_attr(target_arch = "mips", feature(asm_experimental_arch))]
#![cfg_attr(
    heapwire_static,
    expect(
        non_snake_case,
        reason = "hooks have the names of what they stand in for"
    ),
    expect(
        dead_code,
        reason = "a program that is one piece has no list of modules"
    )
)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::disallowed_macros,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "the recorder must not be able to panic"
)]
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::disallowed_macros,
        clippy::indexing_slicing,
        clippy::unwrap_used,
        dead_code,
        reason = "tests may panic, and do not have the hooks"
    )
)]

mod arch;
mod ring;
mod sync;

#[cfg(not(loom))]
mod auxiliary;
#[cfg(not(loom))]
mod cell;
#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
mod config;
mod cull;
#[cfg(all(target_arch = "x86_64", not(any(loom, test))))]
mod direct;
#[cfg(not(loom))]
mod early;
#[cfg(not(loom))]
mod elf;
#[cfg(not(loom))]
mod event;
#[cfg(not(loom))]
mod extent;
#[cfg(not(any(loom, test)))]
mod fatal;
#[cfg(not(loom))]
mod flush;
#[cfg(not(any(loom, test)))]
mod forward;
#[cfg(not(loom))]
mod function;
#[cfg(not(any(loom, test)))]
mod heap;
#[cfg(not(loom))]
mod helped;
#[cfg(not(any(loom, test)))]
mod hooks;
#[cfg(not(loom))]
mod image;
#[cfg(not(loom))]
mod lane;
#[cfg(not(any(loom, test, heapwire_static)))]
mod late;
#[cfg(heapwire_static)]
mod linked;
#[cfg(not(any(loom, heapwire_static)))]
mod loaded;
#[cfg(not(loom))]
#[cfg_attr(
    heapwire_static,
    expect(
        dead_code,
        reason = "a program that is one piece has no list of modules"
    )
)]
mod loader;
#[cfg(not(loom))]
mod log;
#[cfg(not(loom))]
mod maps;
#[cfg(not(loom))]
mod modules;
#[cfg(not(loom))]
mod next;
#[cfg(not(loom))]
mod output;
#[cfg(not(loom))]
mod pack;
#[cfg(not(loom))]
mod path;
#[cfg(not(loom))]
mod paths;
#[cfg(not(any(loom, test)))]
mod process;
#[cfg(not(loom))]
mod registry;
#[cfg(not(any(loom, heapwire_static)))]
mod relocate;
#[cfg(not(loom))]
mod repeat;
#[cfg(not(loom))]
#[cfg_attr(test, expect(dead_code, reason = "tests have no hooks"))]
mod sandbox;
#[cfg(not(loom))]
mod sequence;
#[cfg(not(loom))]
mod start;
#[cfg(not(loom))]
mod stream;
#[cfg(all(test, not(loom)))]
mod stress;
#[cfg(not(loom))]
mod sys;
#[cfg(not(loom))]
mod text;
#[cfg(not(loom))]
mod turn;

#[cfg(not(any(test, loom)))]
use arch::forwarded;
/// Tests have no forwarded calls.
#[cfg(any(test, loom))]
#[cfg_attr(loom, expect(dead_code, reason = "the models are of the ring alone"))]
fn forwarded() -> usize {
    usize::MAX
}

/// Never called: nothing here can panic, and a test looks at the built file for it.
#[cfg(not(any(test, loom)))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        sys::yield_now();
    }
}
