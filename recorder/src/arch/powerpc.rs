//! 32-bit PowerPC.

use super::Machine;

pub(crate) const MACHINE: Machine = Machine {
    seccomp: 0x14, // `AUDIT_ARCH_PPC`
    elf: 20,
    signals: 64,
    call_above: 16,
    relative: None, // data is reached through addresses that only the linker knows: nothing here works before it has relocated us
    registers: Some(48), // `uc_mcontext.uc_regs` in <sys/ucontext.h>
    interrupted_pc: 32 * 4, // `nip` among them
};

/// A raw system call: the result, or a negative error number. Leaves `errno` alone.
///
/// # Safety
///
/// As for the system call `number`: every pointer in `args` must be valid for what it does.
pub(crate) unsafe fn syscall(number: usize, args: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    let result;
    // SAFETY: the kernel keeps all registers but those that are named; the caller vouches for the call itself.
    unsafe {
        core::arch::asm!(
            "sc",
            "bns 2f",
            "neg 3, 3",
            "2:",
            inlateout("r0") number => _,
            inlateout("r3") a => result,
            inlateout("r4") b => _,
            inlateout("r5") c => _,
            inlateout("r6") d => _,
            inlateout("r7") e => _,
            inlateout("r8") f => _,
            out("r9") _, out("r10") _, out("r11") _, out("r12") _,
            out("cr0") _, out("ctr") _, out("xer") _,
            options(nostack),
        );
    }
    result
}

/// How far the thread's word lies from the thread pointer; 0 before we are relocated.
#[inline]
pub(crate) fn thread_offset() -> usize {
    let offset;
    // SAFETY: reads our own global offset table. A linker that knows the offset changes both the load and the addition, so neither can be without
    // the other.
    unsafe {
        core::arch::asm!(
            "bcl 20, 31, 2f",
            "2: mflr {offset}",
            "addis {offset}, {offset}, _GLOBAL_OFFSET_TABLE_-2b@ha",
            "addi {offset}, {offset}, _GLOBAL_OFFSET_TABLE_-2b@l",
            "lwz {offset}, heapwire_lane@got@tprel({offset})",
            "add {offset}, {offset}, heapwire_lane@tls",
            "subf {offset}, 2, {offset}",
            offset = out(reg_nonzero) offset,
            out("lr") _,
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
            "mr {}, 2",
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
        "mflr 4\n mr 5, 1\n b {hook}"
    };
    (2) => {
        "mflr 5\n mr 6, 1\n b {hook}"
    };
    (3) => {
        "mflr 6\n mr 7, 1\n b {hook}"
    };
}

macro_rules! forward_entry {
    () => {
        "li 11, {index}\n b {forward}"
    };
}

/// Lays a `forward::Call` on the stack, `$extra` bytes below the stack pointer at entry; the index is in r11.
macro_rules! forward_body {
    ($extra:literal, $label:literal) => {
        concat!(
            "mflr 0\n",
            "stwu 1, -176(1)\n",
            ".cfi_adjust_cfa_offset 176\n",
            "stw 0, 180(1)\n",
            ".cfi_rel_offset lr, 180\n",
            "stw 3, 16(1)\n",
            "stw 4, 20(1)\n",
            "stw 5, 24(1)\n",
            "stw 6, 28(1)\n",
            "stw 11, 40(1)\n",
            "stw 0, 44(1)\n",
            "addi 0, 1, 176 + ",
            $extra,
            "\n",
            "stw 0, 48(1)\n",
            "addi 3, 1, 16\n",
            "bl {enter}\n",
            "mtctr 3\n",
            "lwz 3, 16(1)\n",
            "lwz 4, 20(1)\n",
            "lwz 5, 24(1)\n",
            "lwz 6, 28(1)\n",
            "bctrl\n",
            $label,
            "mr 4, 3\n",
            "addi 3, 1, 16\n",
            "bl {leave}\n",
            "lwz 0, 180(1)\n",
            "mtlr 0\n",
            "addi 1, 1, 176 + ",
            $extra,
            "\n",
            "blr\n",
        )
    };
}

macro_rules! variadic_entry {
    (2) => {
        $crate::arch::variadic_entry!("2", "5")
    };
    (3) => {
        $crate::arch::variadic_entry!("3", "6")
    };
    ($fixed:literal, $list:literal) => {
        concat!(
            ".cfi_startproc\n",
            "stwu 1, -128(1)\n",
            ".cfi_adjust_cfa_offset 128\n",
            "stw 3, 16(1)\n",
            "stw 4, 20(1)\n",
            "stw 5, 24(1)\n",
            "stw 6, 28(1)\n",
            "stw 7, 32(1)\n",
            "stw 8, 36(1)\n",
            "stw 9, 40(1)\n",
            "stw 10, 44(1)\n",
            "bc 4, 6, 2f\n", // the caller says whether it has passed floating-point numbers
            "stfd 1, 48(1)\n",
            "stfd 2, 56(1)\n",
            "stfd 3, 64(1)\n",
            "stfd 4, 72(1)\n",
            "stfd 5, 80(1)\n",
            "stfd 6, 88(1)\n",
            "stfd 7, 96(1)\n",
            "stfd 8, 104(1)\n",
            "2:\n",
            "lis 11, ",
            $fixed,
            " << 8\n",
            "stw 11, 112(1)\n",
            "addi 11, 1, 128 + 8\n",
            "stw 11, 116(1)\n",
            "addi 11, 1, 16\n",
            "stw 11, 120(1)\n",
            "addi ",
            $list,
            ", 1, 112\n",
            "li 11, {index}\n",
            $crate::arch::forward_body!("128", ""),
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

/// Calls `process::before`, with the index in r11, and jumps to the function that it names, with all arguments as they were.
macro_rules! pass_body {
    () => {
        concat!(
            "mflr 0\n",
            "stwu 1, -64(1)\n",
            "stw 0, 68(1)\n",
            "mfcr 12\n", // in which a caller says whether there are floating-point arguments
            "stw 12, 8(1)\n",
            "stw 3, 16(1)\n",
            "stw 4, 20(1)\n",
            "stw 5, 24(1)\n",
            "stw 6, 28(1)\n",
            "stw 7, 32(1)\n",
            "stw 8, 36(1)\n",
            "stw 9, 40(1)\n",
            "stw 10, 44(1)\n",
            "mr 3, 11\n",
            "mr 4, 0\n",
            "addi 5, 1, 16\n",
            "bl {before}\n",
            "mtctr 3\n",
            "lwz 12, 8(1)\n",
            "mtcr 12\n",
            "lwz 3, 16(1)\n",
            "lwz 4, 20(1)\n",
            "lwz 5, 24(1)\n",
            "lwz 6, 28(1)\n",
            "lwz 7, 32(1)\n",
            "lwz 8, 36(1)\n",
            "lwz 9, 40(1)\n",
            "lwz 10, 44(1)\n",
            "lwz 0, 68(1)\n",
            "mtlr 0\n",
            "addi 1, 1, 64\n",
            "bctr\n",
        )
    };
}

#[cfg(not(any(loom, test)))]
pub(crate) use {
    forward_body, forward_entry, forward_function, hook_entry, pass_body, variadic_entry,
};
