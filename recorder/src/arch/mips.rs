//! 32-bit MIPS, both orders of bytes. A function expects its own address in $25, so whoever calls one finds it from where
//! it is itself. The instruction behind a jump is done before the jump.

/// What a filter of system calls is told of the machine, `AUDIT_ARCH_MIPS` and `AUDIT_ARCH_MIPSEL` in <linux/audit.h>.
pub(crate) const SECCOMP_ARCH: u32 = if cfg!(target_endian = "big") {
    8
} else {
    0x4000_0008
};

/// Signals that there are: twice as many as on all other machines.
pub(crate) const SIGNALS: u32 = 128;

/// ELF machine number, for the process declaration.
pub(crate) const E_MACHINE: u64 = 8;

/// How far above the stack pointer of a function that `forward` calls the `forward::Call` lies.
#[cfg(not(any(loom, test)))]
pub(crate) const CALL_ABOVE: usize = 24;

/// Data is reached through addresses that only the linker knows: nothing here works before it has relocated us.
pub(crate) const RELATIVE: Option<usize> = None;

/// Number of the call with a 64-bit time.
pub(crate) const CLOCK_GETTIME64: libc::c_long = 4403;

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

/// Where the program was when the signal with this context came.
///
/// # Safety
///
/// `context` is the third argument of a handler with `SA_SIGINFO`.
#[cfg(not(any(loom, test)))]
pub(crate) unsafe fn interrupted_pc(context: *const u8) -> usize {
    const PC: usize = if cfg!(target_endian = "big") { 36 } else { 32 }; // the low half of `uc_mcontext.pc`
    // SAFETY: the caller vouches for the context, which is larger and aligned.
    unsafe { context.wrapping_add(PC).cast::<usize>().read() }
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

#[cfg(not(any(loom, test)))]
pub(crate) use {call_near, forward_body, forward_entry, hook_entry, variadic_entry};

/// Calls `forward::enter`, the real function that it names, and `forward::leave`.
///
/// Comes here by jump. The frame is described to unwinders: an exception of `operator new` passes through.
#[cfg(not(any(loom, test)))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn forward() {
    core::arch::naked_asm!(
        forward_body!(
            ".globl heapwire_forwarded\n.hidden heapwire_forwarded\nheapwire_forwarded:\n"
        ),
        enter = sym crate::forward::enter,
        leave = sym crate::forward::leave,
    )
}

/// Calls `process::before` with the index in $8 and the place of the arguments, and jumps to the function it names with all
/// arguments as they were. Nothing of ours is on the stack then.
#[cfg(not(any(loom, test)))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn pass() {
    core::arch::naked_asm!(
        ".set noreorder",
        "addiu $sp, $sp, -48",
        "sw $31, 44($sp)",
        "sw $4, 24($sp)",
        "sw $5, 28($sp)",
        "sw $6, 32($sp)",
        "sw $7, 36($sp)",
        "move $4, $8",
        "move $5, $31",
        "addiu $6, $sp, 24",
        call_near!("{before}", "2", "3"),
        "move $25, $2",
        "lw $4, 24($sp)",
        "lw $5, 28($sp)",
        "lw $6, 32($sp)",
        "lw $7, 36($sp)",
        "lw $31, 44($sp)",
        "jr $25",
        "addiu $sp, $sp, 48",
        ".set reorder",
        before = sym crate::process::before,
    )
}
