//! A value that is stored once, by whoever starts recording, and read by all from then on.

use core::cell::UnsafeCell;

/// See the module.
pub(crate) struct StartCell<T>(UnsafeCell<T>);

// SAFETY: it is changed only by the one thread that claimed the start, before recording opens; the Release that opens
// recording and the Acquire of whoever sees it open lie between that change and every read.
unsafe impl<T: Sync> Sync for StartCell<T> {}

impl<T> StartCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) fn get(&self) -> &T {
        // SAFETY: nobody changes the value any more, see above.
        unsafe { &*self.0.get() }
    }

    /// The value, to be changed.
    ///
    /// # Safety
    ///
    /// The caller has claimed the start, and recording has not been opened.
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller vouches that nobody else looks"
    )]
    pub(crate) unsafe fn get_mut(&self) -> &mut T {
        // SAFETY: the caller is alone with the value.
        unsafe { &mut *self.0.get() }
    }
}
