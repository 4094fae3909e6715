//! Releases that stand in a log after their address was handed out again.
//!
//! From 2.34 on, glibc's mtrace writes a release after it happened and without a lock around both, so another thread can
//! be given the address and write that down first. An address that is handed out while a block is live was released
//! then; the record of it is still to come.

use rustc_hash::FxHashMap;

/// The releases still to come, by address.
#[derive(Debug, Default)]
pub(super) struct Late(FxHashMap<u64, u32>);

impl Late {
    pub(super) fn expect(&mut self, address: u64) {
        let expected = self.0.entry(address).or_default();
        *expected = expected.saturating_add(1);
    }

    /// Whether none is to come.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a release of `address` was still to come; it has come now.
    #[inline(never)]
    pub(super) fn take(&mut self, address: u64) -> bool {
        let Some(expected) = self.0.get_mut(&address) else {
            return false;
        };
        *expected -= 1;
        if *expected == 0 {
            self.0.remove(&address);
        }
        true
    }
}
