//! x86-64: the only machine code in the recorder.

use crate::sync::AtomicU32;

/// What a filter of system calls is told of the machine, `AUDIT_ARCH_X86_64` in <linux/audit.h>.
#[cfg(not(loom))]
pub(crate) const SECCOMP_ARCH: u32 = 0xC000_003E;

/// Signals that there are.
#[cfg(not(loom))]
pub(crate) const SIGNALS: u32 = 64;

/// ELF machine number, for the process declaration.
pub(crate) const E_MACHINE: u64 = 62;

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
#[cfg(not(loom))]
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
#[cfg(not(loom))]
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
#[cfg(not(loom))]
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

/// How far above the stack pointer of a function that `forward` calls the `forward::Call` lies.
#[cfg(not(any(loom, test)))]
pub(crate) const CALL_ABOVE: usize = 8;

/// Number of the relocation "base plus addend".
#[cfg(not(loom))]
pub(crate) const RELATIVE: Option<usize> = Some(8);

/// Address of the loader's list for debuggers, where the loader exports it and we are relocated; else 0.
#[cfg(not(loom))]
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

// The compiler may call these for copies and comparisons. They are our own so that nothing is imported: an import
// cannot be called before we are relocated.
#[cfg(not(any(loom, test)))]
core::arch::global_asm!(
    ".globl memcpy, memmove, memset, memcmp, bcmp",
    ".hidden memcpy, memmove, memset, memcmp, bcmp",
    "memcpy:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    "memmove:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "cmp rdi, rsi",
    "jbe 2f",
    "lea rsi, [rsi + rcx - 1]",
    "lea rdi, [rdi + rcx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    "2:",
    "rep movsb",
    "ret",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    "memcmp:",
    "bcmp:",
    "xor eax, eax",
    "test rdx, rdx",
    "je 4f",
    "3:",
    "movzx eax, byte ptr [rdi]",
    "movzx ecx, byte ptr [rsi]",
    "sub eax, ecx",
    "jne 4f",
    "inc rdi",
    "inc rsi",
    "dec rdx",
    "jne 3b",
    "4:",
    "ret",
);

/// Entry of a hook: adds the return address and the stack pointer behind the arguments, whose number it is told, and goes
/// on in Rust.
///
/// No frame of its own: the program's caller is what the stack shows.
#[cfg(not(any(loom, test)))]
macro_rules! entry {
    ($name:ident, 1, $hook:path) => {
        entry!($name, "rsi", "rdx", $hook);
    };
    ($name:ident, 2, $hook:path) => {
        entry!($name, "rdx", "rcx", $hook);
    };
    ($name:ident, 3, $hook:path) => {
        entry!($name, "rcx", "r8", $hook);
    };
    ($name:ident, $pc:literal, $sp:literal, $hook:path) => {
        /// Stands in for the C function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                concat!("mov ", $pc, ", qword ptr [rsp]"),
                concat!("mov ", $sp, ", rsp"),
                "jmp {hook}",
                hook = sym $hook,
            )
        }
    };
}

/// Entry of a hook that does something before and after the real function: see [`forward`].
#[cfg(not(any(loom, test)))]
macro_rules! entry_forward {
    ($name:ident, $function:expr) => {
        /// Stands in for the function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "mov al, {index}",
                "jmp {forward_entry}",
                index = const $function as usize,
                forward_entry = sym $crate::arch::forward_entry,
            )
        }
    };
}

/// Goes on for `entry_forward`, with the function's index in al.
#[cfg(not(any(loom, test)))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn forward_entry() {
    core::arch::naked_asm!(
        "movzx eax, al",
        "mov r10, qword ptr [rsp]",
        "mov r11, rsp",
        "jmp {forward}",
        forward = sym forward,
    )
}

/// Entry of a hook for which `$hook` does all, unless it gives 0 or `$when` is 0: then as `entry_forward`.
///
/// `$hook` is told the two arguments, the return address, the stack pointer at entry, and `$flags`. What it gives is the
/// result, or with "jmp rax" as `$then` the function that is jumped to. `$second` may set the second argument.
#[cfg(not(any(loom, test)))]
macro_rules! entry_direct {
    ($name:ident, $function:expr, $when:path, $hook:path, $flags:expr, $second:literal, $then:literal) => {
        /// Stands in for the function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "cmp dword ptr [rip + {when}], 0",
                "je 2f",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                $second,
                "mov rdx, qword ptr [rsp + 24]",
                "lea rcx, [rsp + 24]",
                "mov r8d, {flags}",
                "call {hook}",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "test rax, rax",
                "je 2f",
                $then,
                "2:",
                "mov al, {index}",
                "jmp {forward_entry}",
                ".cfi_endproc",
                when = sym $when,
                flags = const ($flags) as u32,
                hook = sym $hook,
                index = const $function as usize,
                forward_entry = sym $crate::arch::forward_entry,
            )
        }
    };
}

/// Entry of a hook that does something before the real function and leaves the rest to it: see [`pass`].
#[cfg(not(any(loom, test)))]
macro_rules! entry_pass {
    ($name:ident, $function:expr) => {
        /// Stands in for the function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "mov r11b, {index}",
                "jmp {pass}",
                index = const $function as usize,
                pass = sym $crate::arch::pass,
            )
        }
    };
}

/// Entry of a hook with variable arguments: makes a `va_list` of them and forwards to `$function`, which takes one. `$fixed` is
/// the number of named arguments; then eight times that.
#[cfg(not(any(loom, test)))]
macro_rules! entry_variadic {
    ($name:ident, $function:expr, 2) => {
        entry_variadic!($name, $function, "16");
    };
    ($name:ident, $function:expr, 3) => {
        entry_variadic!($name, $function, "24");
    };
    ($name:ident, $function:expr, $fixed:literal) => {
        /// Stands in for the function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "mov r10d, {index}",
                concat!("mov r11d, ", $fixed),
                "jmp {variadic}",
                index = const $function as usize,
                variadic = sym $crate::arch::variadic,
            )
        }
    };
}

/// Goes on for `entry_variadic`, with the function's index in r10 and what its named arguments take in r11: 16 bytes, or more.
#[cfg(not(any(loom, test)))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn variadic() {
    core::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "sub rsp, 208",
        "mov qword ptr [rsp], rdi",
        "mov qword ptr [rsp + 8], rsi",
        "mov qword ptr [rsp + 16], rdx",
        "mov qword ptr [rsp + 24], rcx",
        "mov qword ptr [rsp + 32], r8",
        "mov qword ptr [rsp + 40], r9",
        "test al, al",
        "je 2f",
        "movaps xmmword ptr [rsp + 48], xmm0",
        "movaps xmmword ptr [rsp + 64], xmm1",
        "movaps xmmword ptr [rsp + 80], xmm2",
        "movaps xmmword ptr [rsp + 96], xmm3",
        "movaps xmmword ptr [rsp + 112], xmm4",
        "movaps xmmword ptr [rsp + 128], xmm5",
        "movaps xmmword ptr [rsp + 144], xmm6",
        "movaps xmmword ptr [rsp + 160], xmm7",
        "2:",
        "mov dword ptr [rsp + 176], r11d",
        "mov dword ptr [rsp + 180], 48",
        "lea rax, [rbp + 16]",
        "mov qword ptr [rsp + 184], rax",
        "mov qword ptr [rsp + 192], rsp",
        // The list is the argument behind the named ones.
        "lea rax, [rsp + 176]",
        "cmp r11d, 16",
        "cmove rdx, rax",
        "cmovne rcx, rax",
        "mov eax, r10d",
        "mov r10, qword ptr [rbp + 8]",
        "lea r11, [rbp + 8]",
        "call {forward}",
        "leave",
        "ret",
        forward = sym forward,
    )
}

#[cfg(not(any(loom, test)))]
pub(crate) use {entry, entry_direct, entry_forward, entry_pass, entry_variadic};

/// Calls `forward::enter`, the real function that it names, and `forward::leave`.
///
/// Comes here by jump, with the function's index in eax, the return address in r10 and the stack pointer at entry in
/// r11. Lays a `forward::Call` on the stack. The frame is described to unwinders: an exception of
/// `operator new` passes through.
#[cfg(not(any(loom, test)))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn forward() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, 88",
        "push r11",
        "push r10",
        "push rax",
        "push r9",
        "push r8",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "mov rdi, rsp",
        "call {enter}",
        "mov r10, rax",
        "mov rdi, qword ptr [rsp]",
        "mov rsi, qword ptr [rsp + 8]",
        "mov rdx, qword ptr [rsp + 16]",
        "mov rcx, qword ptr [rsp + 24]",
        "mov r8, qword ptr [rsp + 32]",
        "mov r9, qword ptr [rsp + 40]",
        "call r10",
        ".globl heapwire_forwarded",
        ".hidden heapwire_forwarded",
        "heapwire_forwarded:",
        "mov rdi, rsp",
        "mov rsi, rax",
        "call {leave}",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        enter = sym crate::forward::enter,
        leave = sym crate::forward::leave,
    )
}

/// Where [`forward`]'s real functions return to: what a hook sees as caller when a real function ends in a jump.
#[cfg(not(any(loom, test)))]
pub(crate) fn forwarded() -> usize {
    let address;
    // SAFETY: computes an address, reads nothing.
    unsafe {
        core::arch::asm!(
            "lea {address}, [rip + heapwire_forwarded]",
            address = out(reg) address,
            options(nostack, preserves_flags, nomem),
        );
    }
    address
}

/// What [`pass`] has saved: the arguments of a function, the sixth first.
pub(crate) type Saved = [usize; 7];

#[cfg(not(any(loom, test)))]
pub(crate) const fn first_four([.., d, c, b, a]: Saved) -> [usize; 4] {
    [a, b, c, d]
}

/// Calls `process::before` with the index in r11b and the place of the arguments, and jumps to the function it names with all
/// arguments as they were. Nothing of ours is on the stack then.
#[cfg(not(any(loom, test)))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn pass() {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "mov rdx, rsp",
        "movzx edi, r11b",
        "mov rsi, qword ptr [rsp + 56]",
        "call {before}",
        "mov r11, rax",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp r11",
        before = sym crate::process::before,
    )
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

/// Where the program was when the signal with this context came.
///
/// # Safety
///
/// `context` is the third argument of a handler with `SA_SIGINFO`.
#[cfg(not(any(loom, test)))]
pub(crate) unsafe fn interrupted_pc(context: *const u8) -> usize {
    const PC: usize = 40 + 16 * 8; // `uc_mcontext.gregs[REG_RIP]` in <sys/ucontext.h>
    // SAFETY: the caller vouches for the context, which is larger and aligned.
    unsafe { context.wrapping_add(PC).cast::<usize>().read() }
}

/// What [`pass`] jumps to where the real function does not exist: gives -1 and does nothing.
#[cfg(not(any(loom, test)))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn missing() {
    core::arch::naked_asm!("mov rax, -1", "ret")
}
