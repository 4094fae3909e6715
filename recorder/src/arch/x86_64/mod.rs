//! x86-64, for which each of what the others share is shorter by itself. Addresses of symbols are computed by instructions of its own: what
//! the compiler writes can read them from a table that the loader has not relocated yet.

#[cfg(not(any(loom, test)))]
mod entry;
#[cfg(not(any(loom, test)))]
mod forward;
#[cfg(not(any(loom, test)))]
mod frames;
#[cfg(not(any(loom, test, heapwire_static)))]
mod memory;

#[cfg(not(any(loom, test)))]
pub(crate) use entry::*;
#[cfg(not(any(loom, test)))]
pub(crate) use forward::*;
#[cfg(not(any(loom, test)))]
pub(crate) use frames::*;

#[cfg(not(loom))]
use super::Machine;
use crate::sync::AtomicU32;

#[cfg(not(loom))]
pub(crate) const MACHINE: Machine = Machine {
    seccomp: 0xC000_003E, // `AUDIT_ARCH_X86_64`
    elf: 62,
    signals: 64,
    call_above: 8,
    relative: Some(8),
    registers: None,
    interrupted_pc: 40 + 16 * 8, // `uc_mcontext.gregs[REG_RIP]` in <sys/ucontext.h>
};

/// Adds one to `cell` if it holds `current`; `next` is `current + 1`.
///
/// Whole with respect to signals on this thread, not with respect to other threads: the caller is the only
/// thread that stores here, which spares the bus lock.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn exchange_local(cell: &AtomicU32, current: u32, next: u32) -> bool {
    let stored: u8;
    // SAFETY: `cell` is a live, aligned 32-bit cell; the instruction reads and writes nothing else but
    // the flags and eax.
    unsafe {
        core::arch::asm!(
            "cmpxchg dword ptr [{cell}], {next:e}",
            "sete {stored}",
            cell = in(reg) cell.as_ptr(),
            next = in(reg) next,
            stored = out(reg_byte) stored,
            inout("eax") current => _,
            options(nostack),
        );
    }
    stored != 0
}

/// As above, where the model checker must see it.
#[cfg(loom)]
pub(crate) fn exchange_local(cell: &AtomicU32, current: u32, next: u32) -> bool {
    use crate::sync::Relaxed;
    cell.compare_exchange(current, next, Relaxed, Relaxed)
        .is_ok()
}

/// Adds `count` to `cell` and gives what was there.
///
/// Whole with respect to signals on this thread, not with respect to other threads.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn fetch_add_local(cell: &core::sync::atomic::AtomicU64, count: u64) -> u64 {
    let before: u64;
    // SAFETY: `cell` is a live, aligned 64-bit cell; the instruction reads and writes nothing else but the flags.
    unsafe {
        core::arch::asm!(
            "xadd qword ptr [{cell}], {count}",
            cell = in(reg) cell.as_ptr(),
            count = inout(reg) count => before,
            options(nostack),
        );
    }
    before
}

/// The same for a count of one: where the compiler cares for size it would put that through the stack.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn fetch_add_one_local(cell: &core::sync::atomic::AtomicU64) -> u64 {
    let before: u64;
    // SAFETY: as in `fetch_add_local`.
    unsafe {
        core::arch::asm!(
            "mov {before:e}, 1",
            "xadd qword ptr [{cell}], {before}",
            cell = in(reg) cell.as_ptr(),
            before = out(reg) before,
            options(nostack),
        );
    }
    before
}

/// A raw system call: the result, or a negative error number. Leaves `errno` alone.
///
/// # Safety
///
/// As for the system call `number`: every pointer in `args` must be valid for what it does.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) unsafe fn syscall(number: usize, args: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    let result;
    // SAFETY: the kernel keeps all registers but rax, rcx and r11; the caller vouches for the call itself.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

// One word for each thread, in the static part of thread-local storage: a preloaded library is there from the start,
// so there is always room, and no access ever calls into the loader.
#[cfg(not(loom))]
core::arch::global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".p2align 3",
    ".globl heapwire_lane",
    ".hidden heapwire_lane",
    ".type heapwire_lane,@object",
    ".size heapwire_lane,8",
    "heapwire_lane:",
    ".zero 8",
    ".popsection",
);

/// Whether the dynamic linker has relocated this library. Before, even the thread's word cannot be reached.
#[cfg(not(any(loom, heapwire_static)))]
pub(crate) fn is_relocated() -> bool {
    let offset: usize;
    // SAFETY: reads our own global offset table, which is mapped as long as this code is.
    unsafe {
        core::arch::asm!(
            "mov {offset}, qword ptr [rip + heapwire_lane@GOTTPOFF]",
            offset = out(reg) offset,
            options(nostack, preserves_flags, readonly),
        );
    }
    offset != 0
}

/// This thread's word; 0 in a new thread. Only after `is_relocated`.
#[cfg(not(loom))]
#[inline]
pub(crate) fn thread_word() -> usize {
    let word;
    // SAFETY: the offset names a word in the static thread-local storage of the running thread.
    unsafe {
        core::arch::asm!(
            "mov {word}, qword ptr [rip + heapwire_lane@GOTTPOFF]",
            "mov {word}, qword ptr fs:[{word}]",
            word = out(reg) word,
            options(nostack, preserves_flags, readonly),
        );
    }
    word
}

/// Sets this thread's word. Only after `is_relocated`.
#[cfg(not(loom))]
pub(crate) fn set_thread_word(word: usize) {
    // SAFETY: as in `thread_word`; the word is ours alone.
    unsafe {
        core::arch::asm!(
            "mov {offset}, qword ptr [rip + heapwire_lane@GOTTPOFF]",
            "mov qword ptr fs:[{offset}], {word}",
            offset = out(reg) _,
            word = in(reg) word,
            options(nostack, preserves_flags),
        );
    }
}

/// Run-time address of our own dynamic section: it tells which entry of the loader's list we are.
#[cfg(not(any(loom, heapwire_static)))]
pub(crate) fn own_dynamic_section() -> usize {
    let address;
    // SAFETY: computes an address, reads nothing. The linker defines `_DYNAMIC` in every shared library, and
    // hidden keeps it our own.
    unsafe {
        core::arch::asm!(
            ".hidden _DYNAMIC",
            "lea {address}, [rip + _DYNAMIC]",
            address = out(reg) address,
            options(nostack, preserves_flags, nomem),
        );
    }
    address
}

/// Run-time address of the start of this library.
#[cfg(not(any(loom, heapwire_static)))]
pub(crate) fn own_base() -> usize {
    let address;
    // SAFETY: computes an address, reads nothing. The linker defines the symbol at the ELF header.
    unsafe {
        core::arch::asm!(
            ".hidden __ehdr_start",
            "lea {address}, [rip + __ehdr_start]",
            address = out(reg) address,
            options(nostack, preserves_flags, nomem),
        );
    }
    address
}

/// Address of the loader's list for debuggers, where the loader exports it and we are relocated; else 0.
#[cfg(not(any(loom, heapwire_static)))]
pub(crate) fn loader_debug_list() -> usize {
    let address;
    // SAFETY: reads our own global offset table; a weak symbol that nobody defines is 0 there.
    unsafe {
        core::arch::asm!(
            ".weak _r_debug",
            "mov {address}, qword ptr [rip + _r_debug@GOTPCREL]",
            address = out(reg) address,
            options(nostack, preserves_flags, readonly),
        );
    }
    address
}

/// This kernel wants to be told where a handler returns to.
#[cfg(not(any(loom, test)))]
pub(crate) fn set_restorer(action: &mut crate::fatal::Action) {
    const RESTORER: usize = 0x0400_0000;
    action.flags |= RESTORER;
    action.restorer = return_from_signal as *const () as usize;
}

/// Where a handler of ours returns to: the kernel takes the signal's frame away.
#[cfg(not(any(loom, test)))]
#[unsafe(naked)]
unsafe extern "C" fn return_from_signal() {
    core::arch::naked_asm!("mov eax, 15", "syscall")
}
