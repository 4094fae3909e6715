//! What the allocator of this program is told.

/// Arenas that threads share: what one of them leaves, another can have.
#[cfg(target_env = "gnu")]
const ARENAS: libc::c_int = 2;

/// Has all threads allocate from a few places. Stages hand what they allocated to each other, and a thread that releases what another one
/// allocated leaves it in the arena of that: with an arena for each, as is usual, a report holds up to twice what it needs.
pub(crate) fn share() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "it is a setting of the C library")]
    // SAFETY: it takes and keeps nothing but numbers.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS)
    };
}
