//! 64-bit RISC-V.

use super::Machine;

pub(crate) const MACHINE: Machine = Machine {
    seccomp: 0xC000_00F3, // `AUDIT_ARCH_RISCV64`
    elf: 243,
    signals: 64,
    call_above: 0,
    relative: Some(3),
    registers: None,
    interrupted_pc: 176, // `uc_mcontext.sc_regs.pc` in <asm/ucontext.h>
};

/// A raw system call: the result, or a negative error number. Leaves `errno` alone.
///
/// # Safety
///
/// As for the system call `number`: every pointer in `args` must be valid for what it does.
pub(crate) unsafe fn syscall(number: usize, args: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    let result;
    // SAFETY: the kernel keeps all registers but a0; the caller vouches for the call itself.
    unsafe {
        core::arch::asm!(
            "ecall",
            in("a7") number,
            inlateout("a0") a => result,
            in("a1") b, in("a2") c, in("a3") d, in("a4") e, in("a5") f,
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
            "la.tls.ie {}, heapwire_lane",
            out(reg) offset,
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
            "mv {}, tp",
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
        "mv a1, ra\n mv a2, sp\n tail {hook}"
    };
    (2) => {
        "mv a2, ra\n mv a3, sp\n tail {hook}"
    };
    (3) => {
        "mv a3, ra\n mv a4, sp\n tail {hook}"
    };
}

macro_rules! forward_entry {
    () => {
        "li t2, {index}\n tail {forward}"
    };
}

/// Lays a `forward::Call` on the stack, `$extra` bytes below the stack pointer at entry; the index is in t2.
macro_rules! forward_body {
    ($extra:literal, $label:literal) => {
        concat!(
            "addi sp, sp, -176\n",
            ".cfi_adjust_cfa_offset 176\n",
            "sd ra, 168(sp)\n",
            ".cfi_rel_offset ra, 168\n",
            "sd a0, 0(sp)\n",
            "sd a1, 8(sp)\n",
            "sd a2, 16(sp)\n",
            "sd a3, 24(sp)\n",
            "sd a4, 32(sp)\n",
            "sd a5, 40(sp)\n",
            "sd t2, 48(sp)\n",
            "sd ra, 56(sp)\n",
            "addi t2, sp, 176 + ",
            $extra,
            "\n",
            "sd t2, 64(sp)\n",
            "mv a0, sp\n",
            "call {enter}\n",
            "mv t2, a0\n",
            "ld a0, 0(sp)\n",
            "ld a1, 8(sp)\n",
            "ld a2, 16(sp)\n",
            "ld a3, 24(sp)\n",
            "ld a4, 32(sp)\n",
            "ld a5, 40(sp)\n",
            "jalr t2\n",
            $label,
            "mv a1, a0\n",
            "mv a0, sp\n",
            "call {leave}\n",
            "ld ra, 168(sp)\n",
            "addi sp, sp, 176 + ",
            $extra,
            "\n",
            "ret\n",
        )
    };
}

macro_rules! variadic_entry {
    (2) => {
        $crate::arch::variadic_entry!("addi a2, sp, 16\n")
    };
    (3) => {
        $crate::arch::variadic_entry!("addi a3, sp, 24\n")
    };
    ($list:literal) => {
        concat!(
            ".cfi_startproc\n",
            "addi sp, sp, -64\n",
            ".cfi_adjust_cfa_offset 64\n",
            "sd a0, 0(sp)\n",
            "sd a1, 8(sp)\n",
            "sd a2, 16(sp)\n",
            "sd a3, 24(sp)\n",
            "sd a4, 32(sp)\n",
            "sd a5, 40(sp)\n",
            "sd a6, 48(sp)\n",
            "sd a7, 56(sp)\n",
            $list,
            "li t2, {index}\n",
            $crate::arch::forward_body!("64", ""),
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

/// Calls `process::before`, with the index in t2, and jumps to the function that it names, with all arguments as they were.
macro_rules! pass_body {
    () => {
        concat!(
            "addi sp, sp, -80\n",
            "sd a0, 0(sp)\n",
            "sd a1, 8(sp)\n",
            "sd a2, 16(sp)\n",
            "sd a3, 24(sp)\n",
            "sd a4, 32(sp)\n",
            "sd a5, 40(sp)\n",
            "sd a6, 48(sp)\n",
            "sd a7, 56(sp)\n",
            "sd ra, 72(sp)\n",
            "mv a0, t2\n",
            "mv a1, ra\n",
            "mv a2, sp\n",
            "call {before}\n",
            "mv t2, a0\n",
            "ld a0, 0(sp)\n",
            "ld a1, 8(sp)\n",
            "ld a2, 16(sp)\n",
            "ld a3, 24(sp)\n",
            "ld a4, 32(sp)\n",
            "ld a5, 40(sp)\n",
            "ld a6, 48(sp)\n",
            "ld a7, 56(sp)\n",
            "ld ra, 72(sp)\n",
            "addi sp, sp, 80\n",
            "jr t2\n",
        )
    };
}

#[cfg(not(any(loom, test)))]
pub(crate) use {
    forward_body, forward_entry, forward_function, hook_entry, pass_body, variadic_entry,
};
