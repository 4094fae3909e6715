//! What the compiler may call for copies and comparisons. Our own, so that nothing is imported: an import cannot be called
//! before we are relocated. In a program that we are part of they are the program's.

core::arch::global_asm!(".hidden memcpy", ".hidden memmove", ".hidden memset");
core::arch::global_asm!(".hidden memcmp", ".hidden bcmp");

/// # Safety
///
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    for at in 0..length {
        // SAFETY: the caller vouches for both ranges. Volatile, or the loop would become a call of this function.
        unsafe { copy(to, from, at) };
    }
    to
}

/// # Safety
///
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    if to.addr() <= from.addr() {
        // SAFETY: forward is right for a target below.
        return unsafe { memcpy(to, from, length) };
    }
    for at in (0..length).rev() {
        // SAFETY: as in `memcpy`.
        unsafe { copy(to, from, at) };
    }
    to
}

/// # Safety
///
/// Both must hold more than `at` bytes.
#[inline(always)]
unsafe fn copy(to: *mut u8, from: *const u8, at: usize) {
    let (to, from) = (to.wrapping_add(at), from.wrapping_add(at));
    // SAFETY: the caller vouches for it.
    let byte = unsafe { from.read_volatile() };
    // SAFETY: as before.
    unsafe { to.write_volatile(byte) };
}

/// # Safety
///
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, length: usize) -> *mut u8 {
    let [byte, ..] = byte.to_le_bytes();
    for at in 0..length {
        // SAFETY: the caller vouches for the range.
        unsafe { to.wrapping_add(at).write_volatile(byte) };
    }
    to
}

/// # Safety
///
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, length: usize) -> i32 {
    for at in 0..length {
        // SAFETY: the caller vouches for both ranges.
        let left = unsafe { one.wrapping_add(at).read_volatile() };
        // SAFETY: as before.
        let right = unsafe { other.wrapping_add(at).read_volatile() };
        if left != right {
            return i32::from(left).wrapping_sub(i32::from(right));
        }
    }
    0
}

/// # Safety
///
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, length: usize) -> i32 {
    // SAFETY: the caller vouches for both ranges.
    unsafe { memcmp(one, other, length) }
}
