//! 64-bit ARM.

use super::Machine;

pub(crate) const MACHINE: Machine = Machine {
    seccomp: 0xC000_00B7, // `AUDIT_ARCH_AARCH64`
    elf: 183,
    signals: 64,
    call_above: 16,
    relative: Some(1027),
    registers: None,
    interrupted_pc: 176 + 8 + 31 * 8 + 8, // `uc_mcontext.pc` in <asm/ucontext.h>
};

/// A raw system call: the result, or a negative error number. Leaves `errno` alone.
///
/// # Safety
///
/// As for the system call `number`: every pointer in `args` must be valid for what it does.
pub(crate) unsafe fn syscall(number: usize, args: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    let result;
    // SAFETY: the kernel keeps all registers but x0; the caller vouches for the call itself.
    unsafe {
        core::arch::asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    result
}

/// How far the thread's word lies from the thread pointer; 0 before we are relocated.
#[inline(always)]
pub(crate) fn thread_offset() -> usize {
    let offset;
    // SAFETY: reads our own global offset table.
    unsafe {
        core::arch::asm!(
            "adrp {offset}, :gottprel:heapwire_lane",
            "ldr {offset}, [{offset}, :gottprel_lo12:heapwire_lane]",
            offset = out(reg) offset,
            options(nostack, preserves_flags, readonly),
        );
    }
    offset
}

#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!(
            "mrs {}, tpidr_el0",
            out(reg) pointer,
            options(nostack, preserves_flags, nomem),
        );
    }
    pointer
}

/// Arguments of a function as [`pass`] saves them.
pub(crate) type Saved = [usize; 8];

pub(crate) const fn first_four([a, b, c, d, ..]: Saved) -> [usize; 4] {
    [a, b, c, d]
}

macro_rules! hook_entry {
    (1) => {
        "mov x1, x30\n mov x2, sp\n b {hook}"
    };
    (2) => {
        "mov x2, x30\n mov x3, sp\n b {hook}"
    };
    (3) => {
        "mov x3, x30\n mov x4, sp\n b {hook}"
    };
}

macro_rules! forward_entry {
    () => {
        "mov w9, #{index}\n b {forward}"
    };
}

/// Lays a `forward::Call` on the stack, `$extra` bytes below the stack pointer at entry; the index is in w9.
macro_rules! forward_body {
    ($extra:literal, $label:literal) => {
        concat!(
            "stp x29, x30, [sp, #-176]!\n",
            ".cfi_adjust_cfa_offset 176\n",
            ".cfi_rel_offset x29, 0\n",
            ".cfi_rel_offset x30, 8\n",
            "mov x29, sp\n",
            "stp x0, x1, [sp, #16]\n",
            "stp x2, x3, [sp, #32]\n",
            "stp x4, x5, [sp, #48]\n",
            "stp x9, x30, [sp, #64]\n",
            "add x10, sp, #(176 + ",
            $extra,
            ")\n",
            "str x10, [sp, #80]\n",
            "add x0, sp, #16\n",
            "bl {enter}\n",
            "mov x9, x0\n",
            "ldp x0, x1, [sp, #16]\n",
            "ldp x2, x3, [sp, #32]\n",
            "ldp x4, x5, [sp, #48]\n",
            "blr x9\n",
            $label,
            "mov x1, x0\n",
            "add x0, sp, #16\n",
            "bl {leave}\n",
            "ldp x29, x30, [sp], #176\n",
            ".cfi_adjust_cfa_offset -176\n",
            ".cfi_restore x29\n",
            ".cfi_restore x30\n",
            "add sp, sp, #",
            $extra,
            "\n",
            "ret\n",
        )
    };
}

macro_rules! variadic_entry {
    (2) => {
        $crate::arch::variadic_entry!("2", "-48")
    };
    (3) => {
        $crate::arch::variadic_entry!("3", "-40")
    };
    ($fixed:literal, $left:literal) => {
        concat!(
            ".cfi_startproc\n",
            "sub sp, sp, #224\n",
            ".cfi_adjust_cfa_offset 224\n",
            "stp x0, x1, [sp]\n",
            "stp x2, x3, [sp, #16]\n",
            "stp x4, x5, [sp, #32]\n",
            "stp x6, x7, [sp, #48]\n",
            "stp q0, q1, [sp, #64]\n",
            "stp q2, q3, [sp, #96]\n",
            "stp q4, q5, [sp, #128]\n",
            "stp q6, q7, [sp, #160]\n",
            "add x9, sp, #224\n",
            "str x9, [sp, #192]\n",
            "add x9, sp, #64\n",
            "str x9, [sp, #200]\n",
            "add x9, sp, #192\n",
            "str x9, [sp, #208]\n",
            "mov w9, #",
            $left,
            "\n",
            "str w9, [sp, #216]\n",
            "mov w9, #-128\n",
            "str w9, [sp, #220]\n",
            "add x",
            $fixed,
            ", sp, #192\n",
            "mov w9, #{index}\n",
            $crate::arch::forward_body!("224", ""),
            ".cfi_endproc\n",
        )
    };
}

macro_rules! forward_function {
    () => {
        concat!(
            ".cfi_startproc\n",
            $crate::arch::forward_body!(
                "0",
                ".globl heapwire_forwarded\n.hidden heapwire_forwarded\nheapwire_forwarded:\n"
            ),
            ".cfi_endproc\n",
        )
    };
}

/// Calls `process::before`, with the index in w9, and jumps to the function that it names, with all arguments as they were.
macro_rules! pass_body {
    () => {
        concat!(
            "stp x29, x30, [sp, #-208]!\n",
            "mov x29, sp\n",
            "stp x0, x1, [sp, #16]\n",
            "stp x2, x3, [sp, #32]\n",
            "stp x4, x5, [sp, #48]\n",
            "stp x6, x7, [sp, #64]\n",
            "stp q0, q1, [sp, #80]\n",
            "stp q2, q3, [sp, #112]\n",
            "mov w0, w9\n",
            "mov x1, x30\n",
            "add x2, sp, #16\n",
            "bl {before}\n",
            "mov x9, x0\n",
            "ldp x0, x1, [sp, #16]\n",
            "ldp x2, x3, [sp, #32]\n",
            "ldp x4, x5, [sp, #48]\n",
            "ldp x6, x7, [sp, #64]\n",
            "ldp q0, q1, [sp, #80]\n",
            "ldp q2, q3, [sp, #112]\n",
            "ldp x29, x30, [sp], #208\n",
            "br x9\n",
        )
    };
}

#[cfg(not(any(loom, test)))]
pub(crate) use {
    forward_body, forward_entry, forward_function, hook_entry, pass_body, variadic_entry,
};
