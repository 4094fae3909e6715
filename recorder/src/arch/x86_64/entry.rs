//! Entries of hooks: what a call of the program meets first.

use super::forward::forward;

/// Entry of a hook: adds the return address and the stack pointer behind the arguments, whose number it is told, and goes
/// on in Rust.
///
/// No frame of its own: the program's caller is what the stack shows.
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
        #[cfg_attr(not(heapwire_static), unsafe(no_mangle))]
        #[cfg_attr(heapwire_static, unsafe(export_name = concat!("__wrap_", stringify!($name))))]
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
macro_rules! entry_forward {
    ($name:ident, $function:expr) => {
        /// Stands in for the function of this name.
        #[cfg_attr(not(heapwire_static), unsafe(no_mangle))]
        #[cfg_attr(heapwire_static, unsafe(export_name = concat!("__wrap_", stringify!($name))))]
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

/// Entry of `malloc`: calls the real one, and goes on in Rust with the block, the size, the return address and the stack pointer at
/// entry; with what `malloc` was given where the real one is not known yet.
///
/// Real functions are called from here, and not by Rust: their caller's frame is described to unwinders, so that a program that
/// shows its stack in `abort` sees all of it.
macro_rules! entry_malloc {
    ($name:ident, $done:path, $first:path) => {
        /// Stands in for `malloc`.
        #[cfg_attr(not(heapwire_static), unsafe(no_mangle))]
        #[cfg_attr(heapwire_static, unsafe(export_name = concat!("__wrap_", stringify!($name))))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "20:",
                "mov rax, qword ptr [rip + {addresses} + {real}]",
                "test rax, rax",
                "je 2f",
                "push rdi",
                "21:",
                "call rax",
                "pop rsi",
                "22:",
                "mov rdi, rax",
                "mov rdx, qword ptr [rsp]",
                "mov rcx, rsp",
                "jmp {done}",
                "2:",
                "mov rsi, qword ptr [rsp]",
                "mov rdx, rsp",
                "jmp {first}",
                "29:",
                $crate::arch::described_by_size!(16),
                addresses = sym $crate::next::ADDRESSES,
                real = const size_of::<usize>() * $crate::function::Function::Malloc as usize,
                done = sym $done,
                first = sym $first,
            )
        }
    };
}

/// A function that calls `$hook` with what it is given, a block first, and jumps to the `free` that this gives, with the block.
///
/// Nothing of ours is on the stack then: what `free` finds wrong it finds in the program's call.
macro_rules! then_free {
    ($name:ident, $hook:ident($($argument:ident: $type:ty),*)) => {
        #[unsafe(naked)]
        extern "C" fn $name(block: usize, $($argument: $type),*) {
            core::arch::naked_asm!(
                "push rdi",
                "call {hook}",
                "pop rdi",
                "test rax, rax",
                "je 2f",
                "jmp rax",
                "2:",
                "ret",
                hook = sym $hook,
            )
        }
    };
}

/// Entry of a hook that calls `$real` and goes on in `$done` with the block, its size, the return address and `$flags`. As
/// `entry_forward` where `$when` is 0, where this thread has no lane yet or a note is above, and where there is no block.
///
/// `$given` may change the arguments; after the call `$size` makes the second of the first two.
macro_rules! entry_allocate {
    ($name:ident, $function:expr, $when:path, $real:expr, $given:literal, $size:literal, $flags:expr, $done:path) => {
        /// Stands in for the function of this name.
        #[cfg_attr(not(heapwire_static), unsafe(no_mangle))]
        #[cfg_attr(heapwire_static, unsafe(export_name = concat!("__wrap_", stringify!($name))))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "20:",
                "cmp dword ptr [rip + {when}], 0",
                "je 2f",
                "mov rax, qword ptr [rip + heapwire_lane@GOTTPOFF]",
                "mov rax, qword ptr fs:[rax]",
                "test rax, rax",
                "je 2f",
                "cmp rsp, qword ptr [rax + {note}]",
                "jb 2f",
                "sub rsp, 24",
                "21:",
                "mov qword ptr [rsp + 8], rsi",
                "mov qword ptr [rsp], rdi",
                $given,
                "call qword ptr [rip + {addresses} + {real}]",
                "mov rsi, qword ptr [rsp + 8]",
                "mov rdi, qword ptr [rsp]",
                "add rsp, 24",
                "22:",
                "test rax, rax",
                "je 2f",
                $size,
                "mov rdi, rax",
                "mov rdx, qword ptr [rsp]",
                "mov ecx, {flags}",
                "jmp {done}",
                "2:",
                "mov al, {index}",
                "jmp {forward_entry}",
                "29:",
                $crate::arch::described_by_size!(32),
                when = sym $when,
                note = const $crate::lane::Lane::NOTE_AT,
                addresses = sym $crate::next::ADDRESSES,
                real = const size_of::<usize>() * $real as usize,
                flags = const ($flags) as u32,
                done = sym $done,
                index = const $function as usize,
                forward_entry = sym $crate::arch::forward_entry,
            )
        }
    };
}

/// Entry of a hook that jumps to what `$hook` gives; where that or `$when` is 0, as `entry_forward`.
///
/// `$hook` is told the two arguments, the return address, the stack pointer at entry, and `$flags`. `$second` may set the second
/// argument.
macro_rules! entry_release {
    ($name:ident, $function:expr, $when:path, $hook:path, $flags:expr, $second:literal) => {
        /// Stands in for the function of this name.
        #[cfg_attr(not(heapwire_static), unsafe(no_mangle))]
        #[cfg_attr(heapwire_static, unsafe(export_name = concat!("__wrap_", stringify!($name))))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "cmp dword ptr [rip + {when}], 0",
                "je 2f",
                "push rdi",
                "push rsi",
                "sub rsp, 8",
                $second,
                "mov rdx, qword ptr [rsp + 24]",
                "lea rcx, [rsp + 24]",
                "mov r8d, {flags}",
                "call {hook}",
                "add rsp, 8",
                "pop rsi",
                "pop rdi",
                "test rax, rax",
                "je 2f",
                "jmp rax",
                "2:",
                "mov al, {index}",
                "jmp {forward_entry}",
                when = sym $when,
                flags = const ($flags) as u32,
                hook = sym $hook,
                index = const $function as usize,
                forward_entry = sym $crate::arch::forward_entry,
            )
        }
    };
}

/// Entry of a hook that does something before the real function and leaves the rest to it: see [`crate::arch::pass`].
macro_rules! entry_pass {
    ($name:ident, $function:expr) => {
        /// Stands in for the function of this name.
        #[cfg_attr(not(heapwire_static), unsafe(no_mangle))]
        #[cfg_attr(heapwire_static, unsafe(export_name = concat!("__wrap_", stringify!($name))))]
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
macro_rules! entry_variadic {
    ($name:ident, $function:expr, 2) => {
        entry_variadic!($name, $function, "16");
    };
    ($name:ident, $function:expr, 3) => {
        entry_variadic!($name, $function, "24");
    };
    ($name:ident, $function:expr, $fixed:literal) => {
        /// Stands in for the function of this name.
        #[cfg_attr(not(heapwire_static), unsafe(no_mangle))]
        #[cfg_attr(heapwire_static, unsafe(export_name = concat!("__wrap_", stringify!($name))))]
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
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn variadic() {
    core::arch::naked_asm!(
        "20:",
        "push rbp",
        "21:",
        "mov rbp, rsp",
        "22:",
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
        "23:",
        "ret",
        "29:",
        super::described_by_pointer!(),
        forward = sym forward,
    )
}

pub(crate) use {
    entry, entry_allocate, entry_forward, entry_malloc, entry_pass, entry_release, entry_variadic,
    then_free,
};
