//! How far the inputs are read, for who waits for a result.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static READ: AtomicU64 = AtomicU64::new(0);
static EXPECTED: AtomicU64 = AtomicU64::new(0);

/// Bytes of inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Read so far, by all analyses of this process.
    pub read: u64,
    /// To be read in all, as far as is known: a stream may go on for ever.
    pub expected: u64,
}

/// How far all inputs of this process are read. What is read twice counts twice.
#[must_use]
pub fn progress() -> Progress {
    // Relaxed: the numbers are shown, and nothing else depends on them.
    Progress {
        read: READ.load(Relaxed),
        expected: EXPECTED.load(Relaxed),
    }
}

/// Says that so many bytes were read.
pub(crate) fn advance(bytes: u64) {
    READ.fetch_add(bytes, Relaxed);
}

/// Says that so many bytes more are to be read.
pub(crate) fn expect(bytes: u64) {
    EXPECTED.fetch_add(bytes, Relaxed);
}
