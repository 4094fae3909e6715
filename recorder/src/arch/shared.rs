//! What all machines but x86-64 share, built on what each machine's file gives.

use super::machine;
use crate::sync::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// Adds one to `cell` if it holds `current`; `next` is `current + 1`. May fail without a reason.
#[inline(always)]
pub(crate) fn exchange_local(cell: &AtomicU32, current: u32, next: u32) -> bool {
    cell.compare_exchange_weak(current, next, Relaxed, Relaxed)
        .is_ok()
}

/// Adds `count` to `cell` and gives what was there.
#[cfg(target_pointer_width = "64")]
#[inline(always)]
pub(crate) fn fetch_add_local(cell: &core::sync::atomic::AtomicU64, count: u64) -> u64 {
    cell.fetch_add(count, Relaxed)
}

/// The same for a count of one.
#[cfg(target_pointer_width = "64")]
#[inline(always)]
pub(crate) fn fetch_add_one_local(cell: &core::sync::atomic::AtomicU64) -> u64 {
    fetch_add_local(cell, 1)
}

// One word for each thread, in the static part of thread-local storage: a preloaded library is there from the start, so
// there is always room. Not at the start of that part: its offset from the thread pointer is 0 only before the
// dynamic linker has stored it.
#[cfg(target_pointer_width = "64")]
core::arch::global_asm!(
    ".pushsection .tbss,\"awT\",%nobits",
    ".p2align 3",
    ".zero 8",
    ".globl heapwire_lane",
    ".hidden heapwire_lane",
    ".type heapwire_lane,%object",
    ".size heapwire_lane,8",
    "heapwire_lane:",
    ".zero 8",
    ".popsection",
);
#[cfg(target_pointer_width = "32")]
core::arch::global_asm!(
    ".pushsection .tbss,\"awT\",%nobits",
    ".p2align 2",
    ".zero 4",
    ".globl heapwire_lane",
    ".hidden heapwire_lane",
    ".type heapwire_lane,%object",
    ".size heapwire_lane,4",
    "heapwire_lane:",
    ".zero 4",
    ".popsection",
);

#[cfg(not(heapwire_static))]
/// Whether the dynamic linker has relocated this library. Before, even the thread's word cannot be reached.
pub(crate) fn is_relocated() -> bool {
    machine::thread_offset() != 0
}

/// This thread's word; 0 in a new thread. Only after `is_relocated`.
#[inline]
pub(crate) fn thread_word() -> usize {
    // SAFETY: the offset names a word in the static thread-local storage of the running thread, which is ours alone.
    unsafe { thread_place().read() }
}

/// Sets this thread's word. Only after `is_relocated`.
pub(crate) fn set_thread_word(word: usize) {
    // SAFETY: as in `thread_word`.
    unsafe { thread_place().write(word) };
}

#[inline(always)]
fn thread_place() -> *mut usize {
    let place = machine::thread_pointer().wrapping_add(machine::thread_offset());
    core::ptr::with_exposed_provenance_mut(place)
}

// Symbols that the linker, the loader and the machine's own code define. Nobody else is to take ours, and the loader's list is
// not everywhere.
#[cfg(not(heapwire_static))]
core::arch::global_asm!(".hidden _DYNAMIC", ".hidden __ehdr_start", ".weak _r_debug");

unsafe extern "C" {
    #[cfg(not(heapwire_static))]
    static _DYNAMIC: u8;
    #[cfg(not(heapwire_static))]
    static __ehdr_start: u8;
    #[cfg(not(heapwire_static))]
    static _r_debug: u8;
    #[cfg(not(any(loom, test)))]
    fn heapwire_forwarded();
}

#[cfg(not(heapwire_static))]
/// Run-time address of our own dynamic section: it tells which entry of the loader's list we are.
pub(crate) fn own_dynamic_section() -> usize {
    (&raw const _DYNAMIC).expose_provenance()
}

#[cfg(not(heapwire_static))]
/// Run-time address of the start of this library.
pub(crate) fn own_base() -> usize {
    (&raw const __ehdr_start).expose_provenance()
}

#[cfg(not(heapwire_static))]
/// Address of the loader's list for debuggers, where the loader exports it and we are relocated; else 0.
pub(crate) fn loader_debug_list() -> usize {
    // What is weak can be nowhere, which the compiler does not expect.
    core::hint::black_box((&raw const _r_debug).expose_provenance())
}

/// Where [`forward`]'s real functions return to: what a hook sees as caller when a real function ends in a jump.
#[cfg(not(any(loom, test)))]
pub(crate) fn forwarded() -> usize {
    heapwire_forwarded as *const () as usize
}

/// These kernels know where a handler returns to.
#[cfg(not(any(loom, test)))]
pub(crate) fn set_restorer(_action: &mut crate::fatal::Action) {}

/// Entry of a hook: adds the return address and the stack pointer behind the arguments, whose number it is told, and goes
/// on in Rust.
///
/// No frame of its own where it can be: the program's caller is what the stack shows.
#[cfg(not(any(loom, test)))]
macro_rules! entry {
    ($name:ident, $count:tt, $hook:path) => {
        /// Stands in for the C function of this name.
        #[cfg_attr(not(heapwire_static), unsafe(no_mangle))]
        #[cfg_attr(heapwire_static, unsafe(export_name = concat!("__wrap_", stringify!($name))))]
        #[cfg_attr(heapwire_kernel_helpers, instruction_set(arm::a32))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!($crate::arch::hook_entry!($count), hook = sym $hook)
        }
    };
}

/// Entry of `malloc`: calls the real one, and goes on with the block, the size, the return address and the stack pointer at entry;
/// with what `malloc` was given where the real one is not known yet.
#[cfg(not(any(loom, test)))]
macro_rules! entry_malloc {
    ($name:ident, $done:path, $first:path) => {
        extern "C" fn malloc_hook(size: usize, pc: usize, sp: usize) -> usize {
            let Some(real) = $crate::next::known($crate::function::Function::Malloc) else {
                return $first(size, pc, sp);
            };
            // SAFETY: the libc's `malloc`, or another that stands in for it.
            $done(unsafe { $crate::hooks::call_one(real, size) }, size, pc, sp)
        }
        $crate::arch::entry!($name, 1, malloc_hook);
    };
}

/// A function that calls `$hook` with what it is given, a block first, and calls the `free` that this gives with the block.
#[cfg(not(any(loom, test)))]
macro_rules! then_free {
    ($name:ident, $hook:ident($($argument:ident: $type:ty),*)) => {
        extern "C" fn $name(block: usize, $($argument: $type),*) {
            let real = $hook(block, $($argument),*);
            if real != 0 {
                // SAFETY: the libc's `free`, or another that stands in for it; the block is our caller's to release.
                unsafe { $crate::hooks::free_by(real, block) };
            }
        }
    };
}

/// Entry of a hook that does something before and after the real function: see `forward`.
#[cfg(not(any(loom, test)))]
macro_rules! entry_forward {
    ($name:ident, $function:expr) => {
        /// Stands in for the function of this name.
        #[cfg_attr(not(heapwire_static), unsafe(no_mangle))]
        #[cfg_attr(heapwire_static, unsafe(export_name = concat!("__wrap_", stringify!($name))))]
        #[cfg_attr(heapwire_kernel_helpers, instruction_set(arm::a32))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                $crate::arch::forward_entry!(),
                index = const $function as usize,
                forward = sym $crate::arch::forward,
            )
        }
    };
}

/// Entry of a hook that does something before the real function and leaves the rest to it: see `pass`.
#[cfg(not(any(loom, test)))]
macro_rules! entry_pass {
    ($name:ident, $function:expr) => {
        /// Stands in for the function of this name.
        #[cfg_attr(not(heapwire_static), unsafe(no_mangle))]
        #[cfg_attr(heapwire_static, unsafe(export_name = concat!("__wrap_", stringify!($name))))]
        #[cfg_attr(heapwire_kernel_helpers, instruction_set(arm::a32))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                $crate::arch::forward_entry!(),
                index = const $function as usize,
                forward = sym $crate::arch::pass,
            )
        }
    };
}

/// Entry of a hook with variable arguments: makes a `va_list` of them and forwards to `$function`, which takes one in
/// their place. `$fixed` is the number of named arguments.
#[cfg(not(any(loom, test)))]
macro_rules! entry_variadic {
    ($name:ident, $function:expr, $fixed:tt) => {
        /// Stands in for the function of this name.
        #[cfg_attr(not(heapwire_static), unsafe(no_mangle))]
        #[cfg_attr(heapwire_static, unsafe(export_name = concat!("__wrap_", stringify!($name))))]
        #[cfg_attr(heapwire_kernel_helpers, instruction_set(arm::a32))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                $crate::arch::variadic_entry!($fixed),
                index = const $function as usize,
                enter = sym $crate::forward::enter,
                leave = sym $crate::forward::leave,
            )
        }
    };
}

#[cfg(not(any(loom, test)))]
pub(crate) use {entry, entry_forward, entry_malloc, entry_pass, entry_variadic, then_free};

/// Calls `forward::enter`, the real function that it names, and `forward::leave`.
///
/// Comes here by jump. The frame is described to unwinders: an exception of `operator new` passes through.
#[cfg(not(any(loom, test)))]
#[cfg_attr(heapwire_kernel_helpers, instruction_set(arm::a32))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn forward() {
    core::arch::naked_asm!(
        super::forward_function!(),
        enter = sym crate::forward::enter,
        leave = sym crate::forward::leave,
    )
}

/// Calls `process::before` with the place of the arguments, and jumps to the function it names. Nothing of ours is on the
/// stack then.
#[cfg(not(any(loom, test)))]
#[cfg_attr(heapwire_kernel_helpers, instruction_set(arm::a32))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn pass() {
    core::arch::naked_asm!(super::pass_body!(), before = sym crate::process::before)
}

/// What [`pass`] jumps to where the real function does not exist: gives -1 and does nothing.
#[cfg(not(any(loom, test)))]
pub(crate) extern "C" fn missing() -> isize {
    -1
}
