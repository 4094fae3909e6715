//! IBM Z. A caller leaves 160 bytes for what the callee wants to save.

use super::Machine;

pub(crate) const MACHINE: Machine = Machine {
    seccomp: 0x8000_0016, // `AUDIT_ARCH_S390X`
    elf: 22,
    signals: 64,
    call_above: 160,
    relative: Some(12),
    registers: None,
    interrupted_pc: 48, // `uc_mcontext.psw.addr` in <sys/ucontext.h>
};

/// A raw system call: the result, or a negative error number. Leaves `errno` alone.
///
/// # Safety
///
/// As for the system call `number`: every pointer in `args` must be valid for what it does.
pub(crate) unsafe fn syscall(number: usize, args: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    let result;
    // SAFETY: the kernel keeps all registers but r2; the caller vouches for the call itself.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("r1") number,
            inlateout("r2") a => result,
            in("r3") b, in("r4") c, in("r5") d, in("r6") e, in("r7") f,
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
            "larl {offset}, heapwire_lane@indntpoff",
            "lg {offset}, 0({offset})",
            offset = out(reg_addr) offset,
            options(nostack, preserves_flags, readonly),
        );
    }
    offset
}

#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: reads registers.
    unsafe {
        core::arch::asm!(
            "ear {pointer}, %a0",
            "sllg {pointer}, {pointer}, 32",
            "ear {pointer}, %a1",
            pointer = out(reg_addr) pointer,
            options(nostack, preserves_flags, nomem),
        );
    }
    pointer
}

/// Arguments of a function as [`pass`] saves them.
pub(crate) type Saved = [usize; 5];

pub(crate) const fn first_four([a, b, c, d, _]: Saved) -> [usize; 4] {
    [a, b, c, d]
}

/// The fifth argument's register is the caller's.
macro_rules! hook_entry {
    (1) => {
        "lgr %r3, %r14\n lgr %r4, %r15\n jg {hook}"
    };
    (2) => {
        "lgr %r4, %r14\n lgr %r5, %r15\n jg {hook}"
    };
    (3) => {
        "stmg %r6, %r15, 48(%r15)\n lgr %r5, %r14\n lgr %r6, %r15\n aghi %r15, -160\n brasl %r14, {hook}\n lmg %r6, %r15, 208(%r15)\n br %r14"
    };
}

macro_rules! forward_entry {
    () => {
        "lghi %r1, {index}\n jg {forward}"
    };
}

/// Lays a `forward::Call` on the stack, `$extra` bytes below the stack pointer at entry; the index is in r1.
macro_rules! forward_body {
    ($extra:literal, $label:literal) => {
        concat!(
            "stmg %r6, %r15, 48(%r15)\n",
            ".cfi_rel_offset %r6, 48\n",
            ".cfi_rel_offset %r14, 112\n",
            ".cfi_rel_offset %r15, 120\n",
            "la %r0, ",
            $extra,
            "(%r15)\n",
            "aghi %r15, -320\n",
            ".cfi_adjust_cfa_offset 320\n",
            "stmg %r2, %r6, 160(%r15)\n",
            "stg %r1, 208(%r15)\n",
            "stg %r14, 216(%r15)\n",
            "stg %r0, 224(%r15)\n",
            "la %r2, 160(%r15)\n",
            "brasl %r14, {enter}\n",
            "lgr %r1, %r2\n",
            "lmg %r2, %r6, 160(%r15)\n",
            "basr %r14, %r1\n",
            $label,
            "lgr %r3, %r2\n",
            "la %r2, 160(%r15)\n",
            "brasl %r14, {leave}\n",
            "lmg %r6, %r15, 368(%r15)\n",
            "aghi %r15, ",
            $extra,
            "\n",
            "br %r14\n",
        )
    };
}

macro_rules! variadic_entry {
    (2) => {
        $crate::arch::variadic_entry!("2", "%r4")
    };
    (3) => {
        $crate::arch::variadic_entry!("3", "%r5")
    };
    ($fixed:literal, $list:literal) => {
        concat!(
            "stmg %r2, %r6, 16(%r15)\n",
            "std %f0, 128(%r15)\n",
            "std %f2, 136(%r15)\n",
            "std %f4, 144(%r15)\n",
            "std %f6, 152(%r15)\n",
            "lgr %r1, %r15\n",
            "aghi %r15, -192\n",
            "lghi %r0, ",
            $fixed,
            "\n",
            "stg %r0, 160(%r15)\n",
            "lghi %r0, 0\n",
            "stg %r0, 168(%r15)\n",
            "la %r0, 160(%r1)\n",
            "stg %r0, 176(%r15)\n",
            "stg %r1, 184(%r15)\n",
            "la ",
            $list,
            ", 160(%r15)\n",
            "lghi %r1, {index}\n",
            ".cfi_startproc\n",
            ".cfi_adjust_cfa_offset 192\n",
            $crate::arch::forward_body!("192", ""),
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

/// Calls `process::before`, with the index in r1, and jumps to the function that it names, with all arguments as they were.
macro_rules! pass_body {
    () => {
        concat!(
            "stmg %r6, %r15, 48(%r15)\n",
            "aghi %r15, -200\n",
            "stmg %r2, %r6, 160(%r15)\n",
            "lgr %r3, %r14\n",
            "lgr %r2, %r1\n",
            "la %r4, 160(%r15)\n",
            "brasl %r14, {before}\n",
            "lgr %r1, %r2\n",
            "lmg %r2, %r5, 160(%r15)\n",
            "lmg %r6, %r15, 248(%r15)\n",
            "br %r1\n",
        )
    };
}

#[cfg(not(any(loom, test)))]
pub(crate) use {
    forward_body, forward_entry, forward_function, hook_entry, pass_body, variadic_entry,
};
