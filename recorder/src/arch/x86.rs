//! 32-bit x86. Arguments lie on the stack, so hooks get copies of them.

use super::Machine;

pub(crate) const MACHINE: Machine = Machine {
    seccomp: 0x4000_0003, // `AUDIT_ARCH_I386`
    elf: 3,
    signals: 64,
    call_above: 36,
    relative: None, // relocations hold their addend in place here: they cannot be made twice
    registers: None,
    interrupted_pc: 20 + 14 * 4, // `uc_mcontext.gregs[REG_EIP]` in <sys/ucontext.h>
};

/// A raw system call: the result, or a negative error number. Leaves `errno` alone.
///
/// # Safety
///
/// As for the system call `number`: every pointer in `args` must be valid for what it does.
pub(crate) unsafe fn syscall(number: usize, args: [usize; 6]) -> isize {
    // SAFETY: the caller vouches for the call itself.
    unsafe { interrupt(number, &raw const args) }
}

/// The call, whose arguments take nearly all registers.
#[unsafe(naked)]
unsafe extern "C" fn interrupt(number: usize, args: *const [usize; 6]) -> isize {
    core::arch::naked_asm!(
        "push ebp",
        "push edi",
        "push esi",
        "push ebx",
        "mov eax, dword ptr [esp + 20]",
        "mov ebp, dword ptr [esp + 24]",
        "mov ebx, dword ptr [ebp]",
        "mov ecx, dword ptr [ebp + 4]",
        "mov edx, dword ptr [ebp + 8]",
        "mov esi, dword ptr [ebp + 12]",
        "mov edi, dword ptr [ebp + 16]",
        "mov ebp, dword ptr [ebp + 20]",
        "int 0x80",
        "pop ebx",
        "pop esi",
        "pop edi",
        "pop ebp",
        "ret",
    )
}

/// How far the thread's word lies from the thread pointer; 0 before we are relocated.
#[inline]
pub(crate) fn thread_offset() -> usize {
    let offset;
    // SAFETY: reads our own global offset table.
    unsafe {
        core::arch::asm!(
            "call 2f",
            "2: popl {offset}",
            "3: addl $_GLOBAL_OFFSET_TABLE_ + (3b - 2b), {offset}",
            "movl heapwire_lane@gotntpoff({offset}), {offset}",
            offset = out(reg) offset,
            options(att_syntax, readonly),
        );
    }
    offset
}

#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the first word of the thread's control block is its address.
    unsafe {
        core::arch::asm!(
            "mov {}, dword ptr gs:[0]",
            out(reg) pointer,
            options(nostack, preserves_flags, readonly),
        );
    }
    pointer
}

/// Arguments of a function, where its caller has laid them.
pub(crate) type Saved = [usize; 4];

pub(crate) const fn first_four(saved: Saved) -> [usize; 4] {
    saved
}

/// The hook gets the arguments, the return address and where that lies.
macro_rules! hook_entry {
    (1) => {
        $crate::arch::hook_entry!(
            "mov eax, dword ptr [ecx + 4]\n mov dword ptr [esp], eax\n",
            "4"
        )
    };
    (2) => {
        $crate::arch::hook_entry!(
            "mov eax, dword ptr [ecx + 4]\n mov dword ptr [esp], eax\n mov eax, dword ptr [ecx + 8]\n mov dword ptr [esp + 4], eax\n",
            "8"
        )
    };
    (3) => {
        $crate::arch::hook_entry!(
            "mov eax, dword ptr [ecx + 4]\n mov dword ptr [esp], eax\n mov eax, dword ptr [ecx + 8]\n mov dword ptr [esp + 4], eax\n mov eax, dword ptr [ecx + 12]\n mov dword ptr [esp + 8], eax\n",
            "12"
        )
    };
    ($arguments:literal, $next:literal) => {
        concat!(
            ".cfi_startproc\n",
            "mov ecx, esp\n",
            "sub esp, 28\n",
            ".cfi_adjust_cfa_offset 28\n",
            $arguments,
            "mov eax, dword ptr [ecx]\n",
            "mov dword ptr [esp + ", $next, "], eax\n",
            "mov dword ptr [esp + ", $next, " + 4], ecx\n",
            "call {hook}\n",
            "add esp, 28\n",
            ".cfi_adjust_cfa_offset -28\n",
            "ret\n",
            ".cfi_endproc\n",
        )
    };
}

macro_rules! forward_entry {
    () => {
        "mov eax, {index}\n jmp {forward}"
    };
}

/// Lays a `forward::Call` on the stack; the index is in eax. `$list` may change its arguments.
macro_rules! forward_body {
    ($list:expr, $label:literal) => {
        concat!(
            ".cfi_startproc\n",
            "push ebp\n",
            ".cfi_def_cfa_offset 8\n",
            ".cfi_offset ebp, -8\n",
            "mov ebp, esp\n",
            ".cfi_def_cfa_register ebp\n",
            "sub esp, 184\n", // keeps 16 bytes aligned
            $crate::arch::move_arguments!("ebp + 8", "esp + 32"),
            $list,
            "mov dword ptr [esp + 56], eax\n",
            "mov ecx, dword ptr [ebp + 4]\n",
            "mov dword ptr [esp + 60], ecx\n",
            "lea ecx, [ebp + 4]\n",
            "mov dword ptr [esp + 64], ecx\n",
            "lea ecx, [esp + 32]\n",
            "mov dword ptr [esp], ecx\n",
            "call {enter}\n",
            $crate::arch::move_arguments!("esp + 32", "esp"),
            "call eax\n",
            $label,
            "lea ecx, [esp + 32]\n",
            "mov dword ptr [esp], ecx\n",
            "mov dword ptr [esp + 4], eax\n",
            "call {leave}\n",
            "leave\n",
            ".cfi_def_cfa esp, 4\n",
            "ret\n",
            ".cfi_endproc\n",
        )
    };
}

/// Copies four words: no function that is forwarded takes more.
macro_rules! move_arguments {
    ($from:literal, $to:literal) => {
        concat!(
            "mov ecx, dword ptr [",
            $from,
            "]\n mov dword ptr [",
            $to,
            "], ecx\n",
            "mov ecx, dword ptr [",
            $from,
            " + 4]\n mov dword ptr [",
            $to,
            " + 4], ecx\n",
            "mov ecx, dword ptr [",
            $from,
            " + 8]\n mov dword ptr [",
            $to,
            " + 8], ecx\n",
            "mov ecx, dword ptr [",
            $from,
            " + 12]\n mov dword ptr [",
            $to,
            " + 12], ecx\n",
        )
    };
}

macro_rules! variadic_entry {
    (2) => {
        concat!(
            "mov eax, {index}\n",
            $crate::arch::forward_body!(
                "lea ecx, [ebp + 16]\n mov dword ptr [esp + 40], ecx\n",
                ""
            )
        )
    };
    (3) => {
        concat!(
            "mov eax, {index}\n",
            $crate::arch::forward_body!(
                "lea ecx, [ebp + 20]\n mov dword ptr [esp + 44], ecx\n",
                ""
            )
        )
    };
}

macro_rules! forward_function {
    () => {
        concat!($crate::arch::forward_body!(
            "",
            ".globl heapwire_forwarded\n.hidden heapwire_forwarded\nheapwire_forwarded:\n"
        ),)
    };
}

/// Calls `process::before`, with the index in eax, and jumps to the function that it names.
macro_rules! pass_body {
    () => {
        concat!(
            "lea edx, [esp + 4]\n",
            "mov ecx, dword ptr [esp]\n",
            "sub esp, 28\n",
            "mov dword ptr [esp], eax\n",
            "mov dword ptr [esp + 4], ecx\n",
            "mov dword ptr [esp + 8], edx\n",
            "call {before}\n",
            "add esp, 28\n",
            "jmp eax\n",
        )
    };
}

#[cfg(not(any(loom, test)))]
pub(crate) use {
    forward_body, forward_entry, forward_function, hook_entry, move_arguments, pass_body,
    variadic_entry,
};
