//! 32-bit ARM, with instructions of both sizes. A return address has its lowest bit set where the caller's are the short ones.
//!
//! The oldest processors' short ones cannot do what machine code of ours does, so that is of long ones there, and only the rest is short.

use super::Machine;

pub(crate) const MACHINE: Machine = Machine {
    seccomp: 0x4000_0028, // `AUDIT_ARCH_ARM`
    elf: 40,
    signals: 64,
    call_above: 0,
    relative: None, // relocations hold their addend in place here: they cannot be made twice
    registers: None,
    interrupted_pc: 20 + 18 * 4, // `uc_mcontext.arm_pc` in <sys/ucontext.h>
};

/// How far ahead of an instruction the program counter is that it sees.
#[cfg(target_feature = "thumb-mode")]
macro_rules! ahead {
    () => {
        "4"
    };
}
#[cfg(not(target_feature = "thumb-mode"))]
macro_rules! ahead {
    () => {
        "8"
    };
}

/// A raw system call: the result, or a negative error number. Leaves `errno` alone.
///
/// # Safety
///
/// As for the system call `number`: every pointer in `args` must be valid for what it does.
pub(crate) unsafe fn syscall(number: usize, args: [usize; 6]) -> isize {
    // SAFETY: the caller vouches for the call itself.
    unsafe { trap(number, &raw const args) }
}

/// The call, which takes more registers than the compiler gives away where instructions are short.
#[cfg_attr(heapwire_kernel_helpers, instruction_set(arm::a32))]
#[unsafe(naked)]
unsafe extern "C" fn trap(number: usize, args: *const [usize; 6]) -> isize {
    core::arch::naked_asm!(
        "push {{r4, r5, r7, lr}}",
        "mov r7, r0",
        "ldm r1, {{r0, r1, r2, r3, r4, r5}}",
        "svc #0",
        "pop {{r4, r5, r7, lr}}",
        "bx lr",
    )
}

/// How far the thread's word lies from the thread pointer; 0 before we are relocated.
#[inline]
pub(crate) fn thread_offset() -> usize {
    let offset;
    // SAFETY: reads our own global offset table. A literal is where it is read from, two instructions ahead at most.
    unsafe {
        core::arch::asm!(
            "ldr {offset}, 3f",
            "2: add {offset}, pc",
            "ldr {offset}, [{offset}]",
            "b 4f",
            ".p2align 2",
            concat!("3: .long heapwire_lane(GOTTPOFF)-((2b+", ahead!(), ")-3b)"),
            "4:",
            offset = out(reg) offset,
            options(nostack, preserves_flags, readonly),
        );
    }
    offset
}

/// The thread pointer.
#[cfg(not(heapwire_kernel_helpers))]
#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!(
            "mrc p15, 0, {}, c13, c0, 3",
            out(reg) pointer,
            options(nostack, preserves_flags, nomem),
        );
    }
    pointer
}

/// The thread pointer, which older processors have no register for: the kernel has a function in a place of its own.
#[cfg(heapwire_kernel_helpers)]
#[inline]
pub(crate) fn thread_pointer() -> usize {
    // SAFETY: the kernel maps `__kuser_get_tls` there for such processors.
    let helper: extern "C" fn() -> usize = unsafe { core::mem::transmute(0xFFFF_0FE0_usize) };
    helper()
}

/// Arguments of a function as [`pass`] saves them.
pub(crate) type Saved = [usize; 4];

pub(crate) const fn first_four(saved: Saved) -> [usize; 4] {
    saved
}

/// A fifth argument lies on the stack.
macro_rules! hook_entry {
    (1) => {
        "mov r1, lr\n mov r2, sp\n b {hook}"
    };
    (2) => {
        "mov r2, lr\n mov r3, sp\n b {hook}"
    };
    (3) => {
        "mov r12, sp\n push {{r12, lr}}\n mov r3, lr\n bl {hook}\n ldr lr, [sp, #4]\n add sp, sp, #8\n bx lr"
    };
}

macro_rules! forward_entry {
    () => {
        "mov r12, #{index}\n b {forward}"
    };
}

/// Lays a `forward::Call` on the stack, `$extra` bytes below the stack pointer at entry; the index is in r12.
macro_rules! forward_body {
    ($extra:literal, $label:literal) => {
        concat!(
            "push {{r4, lr}}\n",
            ".save {{r4, lr}}\n",
            "sub sp, sp, #152\n",
            ".pad #152\n",
            "str r0, [sp]\n",
            "str r1, [sp, #4]\n",
            "str r2, [sp, #8]\n",
            "str r3, [sp, #12]\n",
            "str r12, [sp, #24]\n",
            "str lr, [sp, #28]\n",
            "add r1, sp, #(160 + ",
            $extra,
            ")\n",
            "str r1, [sp, #32]\n",
            "mov r0, sp\n",
            "bl {enter}\n",
            "mov r12, r0\n",
            "ldr r0, [sp]\n",
            "ldr r1, [sp, #4]\n",
            "ldr r2, [sp, #8]\n",
            "ldr r3, [sp, #12]\n",
            $crate::arch::call_r12!(),
            $label,
            "mov r1, r0\n",
            "mov r0, sp\n",
            "bl {leave}\n",
            "add sp, sp, #152\n",
            "ldr r4, [sp]\n",
            "ldr lr, [sp, #4]\n",
            "add sp, sp, #(8 + ",
            $extra,
            ")\n",
            "bx lr\n",
        )
    };
}

#[cfg(not(heapwire_kernel_helpers))]
macro_rules! call_r12 {
    () => {
        "blx r12\n"
    };
}
/// The oldest processors have no instruction for it.
#[cfg(heapwire_kernel_helpers)]
macro_rules! call_r12 {
    () => {
        "mov lr, pc\n bx r12\n"
    };
}

macro_rules! variadic_entry {
    (2) => {
        $crate::arch::variadic_entry!("add r2, sp, #8\n")
    };
    (3) => {
        $crate::arch::variadic_entry!("add r3, sp, #12\n")
    };
    ($list:literal) => {
        concat!(
            ".fnstart\n",
            "push {{r0, r1, r2, r3}}\n",
            ".pad #16\n",
            $list,
            "mov r12, #{index}\n",
            $crate::arch::forward_body!("16", ""),
            ".cantunwind\n",
            ".fnend\n",
        )
    };
}

macro_rules! forward_function {
    () => {
        concat!(
        ".fnstart\n",
        $crate::arch::forward_body!(
            "0",
            ".globl heapwire_forwarded\n.hidden heapwire_forwarded\n.type heapwire_forwarded, %function\nheapwire_forwarded:\n"
        ),
        ".fnend\n",
        )
    };
}

/// Calls `process::before`, with the index in r12, and jumps to the function that it names, with all arguments as they were.
macro_rules! pass_body {
    () => {
        concat!(
            "push {{r0, r1, r2, r3, r4, lr}}\n",
            "mov r0, r12\n",
            "mov r1, lr\n",
            "mov r2, sp\n",
            "bl {before}\n",
            "mov r12, r0\n",
            "ldr r0, [sp]\n",
            "ldr r1, [sp, #4]\n",
            "ldr r2, [sp, #8]\n",
            "ldr r3, [sp, #12]\n",
            "ldr r4, [sp, #16]\n",
            "ldr lr, [sp, #20]\n",
            "add sp, sp, #24\n",
            "bx r12\n",
        )
    };
}

#[cfg(not(any(loom, test)))]
pub(crate) use {
    call_r12, forward_body, forward_entry, forward_function, hook_entry, pass_body, variadic_entry,
};
