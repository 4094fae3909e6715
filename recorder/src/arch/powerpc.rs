//! 32-bit PowerPC.

/// What a filter of system calls is told of the machine, `AUDIT_ARCH_PPC` in <linux/audit.h>.
pub(crate) const SECCOMP_ARCH: u32 = 0x14;

/// Signals that there are.
pub(crate) const SIGNALS: u32 = 64;

/// ELF machine number, for the process declaration.
pub(crate) const E_MACHINE: u64 = 20;

/// How far above the stack pointer of a function that `forward` calls the `forward::Call` lies.
#[cfg(not(any(loom, test)))]
pub(crate) const CALL_ABOVE: usize = 16;

/// Data is reached through addresses that only the linker knows: nothing here works before it has relocated us.
pub(crate) const RELATIVE: Option<usize> = None;

/// Number of the call with a 64-bit time.
pub(crate) const CLOCK_GETTIME64: libc::c_long = 403;

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
    // SAFETY: reads our own global offset table.
    unsafe {
        core::arch::asm!(
            "bcl 20, 31, 2f",
            "2: mflr {offset}",
            "addis {offset}, {offset}, _GLOBAL_OFFSET_TABLE_-2b@ha",
            "addi {offset}, {offset}, _GLOBAL_OFFSET_TABLE_-2b@l",
            "lwz {offset}, heapwire_lane@got@tprel({offset})",
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

/// Where the program was when the signal with this context came.
///
/// # Safety
///
/// `context` is the third argument of a handler with `SA_SIGINFO`.
#[cfg(not(any(loom, test)))]
pub(crate) unsafe fn interrupted_pc(context: *const u8) -> usize {
    const REGISTERS: usize = 48; // `uc_mcontext.uc_regs` in <sys/ucontext.h>
    const PC: usize = 32; // `nip` among them
    // SAFETY: the caller vouches for the context, which is larger and aligned.
    let registers = unsafe {
        context
            .wrapping_add(REGISTERS)
            .cast::<*const usize>()
            .read()
    };
    // SAFETY: as before.
    unsafe { registers.wrapping_add(PC).read() }
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

#[cfg(not(any(loom, test)))]
pub(crate) use {forward_body, forward_entry, hook_entry, variadic_entry};

/// Calls `forward::enter`, the real function that it names, and `forward::leave`.
///
/// Comes here by jump. The frame is described to unwinders: an exception of `operator new` passes through.
#[cfg(not(any(loom, test)))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn forward() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        forward_body!(
            "0",
            ".globl heapwire_forwarded\n.hidden heapwire_forwarded\nheapwire_forwarded:\n"
        ),
        ".cfi_endproc",
        enter = sym crate::forward::enter,
        leave = sym crate::forward::leave,
    )
}

/// Calls `process::before` with the index in r11 and the place of the arguments, and jumps to the function it names with all
/// arguments as they were. Nothing of ours is on the stack then.
#[cfg(not(any(loom, test)))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn pass() {
    core::arch::naked_asm!(
        "mflr 0",
        "stwu 1, -64(1)",
        "stw 0, 68(1)",
        "mfcr 12", // in which a caller says whether there are floating-point arguments
        "stw 12, 8(1)",
        "stw 3, 16(1)",
        "stw 4, 20(1)",
        "stw 5, 24(1)",
        "stw 6, 28(1)",
        "stw 7, 32(1)",
        "stw 8, 36(1)",
        "stw 9, 40(1)",
        "stw 10, 44(1)",
        "mr 3, 11",
        "mr 4, 0",
        "addi 5, 1, 16",
        "bl {before}",
        "mtctr 3",
        "lwz 12, 8(1)",
        "mtcr 12",
        "lwz 3, 16(1)",
        "lwz 4, 20(1)",
        "lwz 5, 24(1)",
        "lwz 6, 28(1)",
        "lwz 7, 32(1)",
        "lwz 8, 36(1)",
        "lwz 9, 40(1)",
        "lwz 10, 44(1)",
        "lwz 0, 68(1)",
        "mtlr 0",
        "addi 1, 1, 64",
        "bctr",
        before = sym crate::process::before,
    )
}
