//! 32-bit MIPS, both orders of bytes. A function expects its own address in $25, so whoever calls one finds it from where
//! it is itself. The instruction behind a jump is done before the jump.

use super::Machine;

pub(crate) const MACHINE: Machine = Machine {
    seccomp: if cfg!(target_endian = "big") {
        8
    } else {
        0x4000_0008
    }, // `AUDIT_ARCH_MIPS` and `AUDIT_ARCH_MIPSEL`
    elf: 8,
    signals: 128, // twice as many as on all other machines
    call_above: 24,
    relative: None, // data is reached through addresses that only the linker knows: nothing here works before it has relocated us
    registers: None,
    interrupted_pc: if cfg!(target_endian = "big") { 36 } else { 32 }, // the low half of `uc_mcontext.pc` in <sys/ucontext.h>
};

/// A raw system call: the result, or a negative error number. Leaves `errno` alone.
///
/// # Safety
///
/// As for the system call `number`: every pointer in `args` must be valid for what it does.
pub(crate) unsafe fn syscall(number: usize, args: [usize; 6]) -> isize {
    // SAFETY: the caller vouches for the call itself.
    unsafe { trap(number, &raw const args) }
}

/// The call, with two of its arguments on the stack.
#[unsafe(naked)]
unsafe extern "C" fn trap(number: usize, args: *const [usize; 6]) -> isize {
    core::arch::naked_asm!(
        ".set noreorder",
        "addiu $sp, $sp, -32",
        "move $2, $4",
        "lw $8, 16($5)",
        "lw $9, 20($5)",
        "sw $8, 16($sp)",
        "sw $9, 20($sp)",
        "lw $4, 0($5)",
        "lw $6, 8($5)",
        "lw $7, 12($5)",
        "lw $5, 4($5)",
        "syscall",
        "beqz $7, 2f",
        "addiu $sp, $sp, 32",
        "negu $2, $2",
        "2: jr $31",
        "nop",
        ".set reorder",
    )
}

/// How far the thread's word lies from the thread pointer; 0 before we are relocated.
#[inline]
pub(crate) fn thread_offset() -> usize {
    // SAFETY: reads our own global offset table.
    unsafe { read_offset() }
}

#[unsafe(naked)]
unsafe extern "C" fn read_offset() -> usize {
    core::arch::naked_asm!(
        ".set noreorder",
        "lui $2, %hi(_gp_disp)",
        "addiu $2, $2, %lo(_gp_disp)",
        "addu $2, $2, $25",
        "lw $2, %gottprel(heapwire_lane)($2)",
        "jr $31",
        "nop",
        ".set reorder",
    )
}

#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: reads a register, which the kernel stands in for where the processor has none.
    unsafe {
        core::arch::asm!(
            ".set push",
            ".set mips32r2",
            "rdhwr $3, $29",
            ".set pop",
            out("$3") pointer,
            options(nostack, preserves_flags, nomem),
        );
    }
    pointer
}

/// Arguments of a function as [`pass`] saves them.
pub(crate) type Saved = [usize; 4];

pub(crate) const fn first_four(saved: Saved) -> [usize; 4] {
    saved
}

/// A fifth argument lies on the stack.
macro_rules! hook_entry {
    (1) => {
        $crate::arch::hook_entry!("move $5, $31\n move $6, $sp\n", "$5")
    };
    (2) => {
        $crate::arch::hook_entry!("move $6, $31\n move $7, $sp\n", "$6")
    };
    (3) => {
        concat!(
            ".set noreorder\n",
            "move $7, $31\n",
            "move $8, $sp\n",
            "addiu $sp, $sp, -32\n",
            "sw $31, 28($sp)\n",
            "sw $8, 16($sp)\n",
            $crate::arch::call_near!("{hook}", "2", "3"),
            "lw $31, 28($sp)\n",
            "jr $31\n",
            "addiu $sp, $sp, 32\n",
            ".set reorder\n",
        )
    };
    ($arguments:literal, $return:literal) => {
        concat!(
            ".set noreorder\n",
            $arguments,
            "bal 3f\n",
            "nop\n",
            "2: .word {hook}-2b\n",
            "3: lw $25, 0($31)\n",
            "addu $25, $25, $31\n",
            "jr $25\n",
            "move $31, ",
            $return,
            "\n",
            ".set reorder\n",
        )
    };
}

/// Calls a function of this library, whose address is found from here. The word is where a call returns to; `$word` and `$after` number labels.
macro_rules! call_near {
    ($function:literal, $word:literal, $after:literal) => {
        concat!(
            "bal ",
            $after,
            "f\n",
            "nop\n",
            $word,
            ": .word ",
            $function,
            "-",
            $word,
            "b\n",
            $after,
            ": lw $25, 0($31)\n",
            "addu $25, $25, $31\n",
            "jalr $25\n",
            "nop\n",
        )
    };
}

macro_rules! forward_entry {
    () => {
        ".set noreorder\n b {forward}\n addiu $8, $0, {index}\n .set reorder"
    };
}

/// Lays a `forward::Call` on the stack; the index is in $8.
macro_rules! forward_body {
    ($label:literal) => {
        concat!(
            ".cfi_startproc\n",
            ".set noreorder\n",
            "addiu $sp, $sp, -184\n",
            ".cfi_adjust_cfa_offset 184\n",
            "sw $31, 180($sp)\n",
            ".cfi_rel_offset $31, 180\n",
            "sw $4, 24($sp)\n",
            "sw $5, 28($sp)\n",
            "sw $6, 32($sp)\n",
            "sw $7, 36($sp)\n",
            "sw $8, 48($sp)\n",
            "sw $31, 52($sp)\n",
            "addiu $9, $sp, 184\n",
            "sw $9, 56($sp)\n",
            "addiu $4, $sp, 24\n",
            $crate::arch::call_near!("{enter}", "2", "3"),
            "move $25, $2\n",
            "lw $4, 24($sp)\n",
            "lw $5, 28($sp)\n",
            "lw $6, 32($sp)\n",
            "jalr $25\n",
            "lw $7, 36($sp)\n",
            $label,
            "move $5, $2\n",
            "addiu $4, $sp, 24\n",
            $crate::arch::call_near!("{leave}", "4", "5"),
            "lw $31, 180($sp)\n",
            "jr $31\n",
            "addiu $sp, $sp, 184\n",
            ".set reorder\n",
            ".cfi_endproc\n",
        )
    };
}

/// The caller has left room for the first four words, in front of the others.
macro_rules! variadic_entry {
    (2) => {
        $crate::arch::variadic_entry!("addiu $6, $sp, 8\n")
    };
    (3) => {
        $crate::arch::variadic_entry!("addiu $7, $sp, 12\n")
    };
    ($list:literal) => {
        concat!(
            "sw $6, 8($sp)\n",
            "sw $7, 12($sp)\n",
            $list,
            "addiu $8, $0, {index}\n",
            $crate::arch::forward_body!("")
        )
    };
}

macro_rules! forward_function {
    () => {
        concat!($crate::arch::forward_body!(
            ".globl heapwire_forwarded\n.hidden heapwire_forwarded\nheapwire_forwarded:\n"
        ),)
    };
}

/// Calls `process::before`, with the index in $8, and jumps to the function that it names, with all arguments as they were.
macro_rules! pass_body {
    () => {
        concat!(
            ".set noreorder\n",
            "addiu $sp, $sp, -48\n",
            "sw $31, 44($sp)\n",
            "sw $4, 24($sp)\n",
            "sw $5, 28($sp)\n",
            "sw $6, 32($sp)\n",
            "sw $7, 36($sp)\n",
            "move $4, $8\n",
            "move $5, $31\n",
            "addiu $6, $sp, 24\n",
            $crate::arch::call_near!("{before}", "2", "3"),
            "move $25, $2\n",
            "lw $4, 24($sp)\n",
            "lw $5, 28($sp)\n",
            "lw $6, 32($sp)\n",
            "lw $7, 36($sp)\n",
            "lw $31, 44($sp)\n",
            "jr $25\n",
            "addiu $sp, $sp, 48\n",
            ".set reorder\n",
        )
    };
}

#[cfg(not(any(loom, test)))]
pub(crate) use {
    call_near, forward_body, forward_entry, forward_function, hook_entry, pass_body, variadic_entry,
};
