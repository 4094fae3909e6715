//! How frames are described to unwinders: by tables that are written here, of nothing but the functions that call real ones.
//!
//! What the compiler would write describes every function of the library, which is a twentieth of it and helps nobody; it is sent to
//! where the linker strips it from. The bytes below are those of the LSB's "Exception Frames", with DWARF's instructions.

// Applies to the whole file that is assembled.
core::arch::global_asm!(".cfi_sections .debug_frame");

/// Describes the function between the labels 20 and 29 by `$steps`: from its beginning on, the frame is the return address alone.
macro_rules! described {
    ($($steps:literal)*) => {
        concat!(
            ".pushsection .eh_frame,\"a\",@progbits\n",
            // What such functions have in common; equal ones are made one by the linker.
            "30: .long 32f - 31f\n",
            "31: .long 0\n",
            ".byte 1\n",
            ".asciz \"zR\"\n",
            ".byte 1, 0x78, 16, 1, 0x1b\n", // units of 1 and -8 bytes, return address, distances in four bytes
            ".byte 0x0c, 7, 8, 0x90, 1\n", // the frame ends 8 bytes above rsp, the return address is the last word in it
            ".balign 4, 0\n",
            "32: .long 34f - 33f\n",
            "33: .long 33b - 30b\n",
            ".long 20b - .\n",
            ".long 29b - 20b\n",
            ".byte 0\n",
            $($steps, "\n",)*
            ".balign 4, 0\n",
            "34: .popsection\n",
        )
    };
}

/// Describes a function whose frame has `$bytes` bytes, the return address among them, from label 21 to label 22.
macro_rules! described_by_size {
    (16) => {
        $crate::arch::described_by_size!(".byte 0x0e, 16")
    };
    (32) => {
        $crate::arch::described_by_size!(".byte 0x0e, 32")
    };
    ($bytes:literal) => {
        $crate::arch::described!(
            ".byte 2, 21b - 20b"
            $bytes
            ".byte 2, 22b - 21b, 0x0e, 8"
        )
    };
}

/// Describes a function that saves rbp before label 21, keeps its frame's place there from label 22 on, and has restored both at
/// label 23.
macro_rules! described_by_pointer {
    () => {
        $crate::arch::described!(
            ".byte 2, 21b - 20b, 0x0e, 16, 0x86, 2"
            ".byte 2, 22b - 21b, 0x0d, 6"
            ".byte 2, 23b - 22b, 0x0c, 7, 8"
        )
    };
}

pub(crate) use {described, described_by_pointer, described_by_size};
