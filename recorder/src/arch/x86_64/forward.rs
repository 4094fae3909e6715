//! What stands around a real function: calls of ours before it and after it.

/// Calls `forward::enter`, the real function that it names, and `forward::leave`.
///
/// Comes here by jump, with the function's index in eax, the return address in r10 and the stack pointer at entry in
/// r11. Lays a `forward::Call` on the stack. The frame is described to unwinders: an exception of
/// `operator new` passes through.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn forward() {
    core::arch::naked_asm!(
        "20:",
        "push rbp",
        "21:",
        "mov rbp, rsp",
        "22:",
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
        "23:",
        "ret",
        "29:",
        super::described_by_pointer!(),
        enter = sym crate::forward::enter,
        leave = sym crate::forward::leave,
    )
}

/// Where [`forward`]'s real functions return to: what a hook sees as caller when a real function ends in a jump.
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

pub(crate) const fn first_four([.., d, c, b, a]: Saved) -> [usize; 4] {
    [a, b, c, d]
}

/// Calls `process::before` with the index in r11b and the place of the arguments, and jumps to the function it names with all
/// arguments as they were. Nothing of ours is on the stack then.
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

/// What [`pass`] jumps to where the real function does not exist: gives -1 and does nothing.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn missing() {
    core::arch::naked_asm!("mov rax, -1", "ret")
}
