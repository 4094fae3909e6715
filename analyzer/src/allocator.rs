//! What the allocator of this program is told.

#[cfg(target_env = "gnu")]
use libc::c_int;

/// Arenas that threads share: what one of them leaves, another can have.
#[cfg(target_env = "gnu")]
const ARENAS: c_int = 2;

/// Bytes up to which a block comes out of an arena, and up to which what is free at an arena's end stays there. Stretches of a trace
/// are larger than what usually does: each was made of pages that the kernel had to clear, a fifth of the time of a report.
#[cfg(target_env = "gnu")]
const KEPT: c_int = 4 << 20;

/// Has all threads allocate from a few places. Stages hand what they allocated to each other, and a thread that releases what another one
/// allocated leaves it in the arena of that: with an arena for each, as is usual, a report holds up to twice what it needs.
pub(crate) fn share() {
    #[cfg(target_env = "gnu")]
    for (setting, value) in [
        (libc::M_ARENA_MAX, ARENAS),
        (libc::M_MMAP_THRESHOLD, KEPT),
        (libc::M_TRIM_THRESHOLD, KEPT),
    ] {
        #[expect(unsafe_code, reason = "they are settings of the C library")]
        // SAFETY: it takes and keeps nothing but numbers.
        unsafe {
            libc::mallopt(setting, value)
        };
    }
}
