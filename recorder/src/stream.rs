//! Terminals and sockets, where a write may be cut: what is left of a frame goes first.

use crate::image::Image;
use crate::output::{Kind, OUTPUT, Patience, piece, total};
use crate::sync::Relaxed;
use crate::sys::{self, Errno};
use crate::turn::Turn;
use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Release};
use heapwire_format::PIPE_FRAME;

/// The one frame that is on its way. All zero is valid: nothing is.
pub(crate) struct Stream {
    /// Kernel tid of the thread that writes; 0 = nobody.
    lock: AtomicU32,
    /// Bytes of `rest` that are still to be written, at its end.
    left: AtomicU32,
    rest: UnsafeCell<[u8; PIPE_FRAME]>,
}

// SAFETY: `rest` is used by the holder of `lock` only.
unsafe impl Sync for Stream {}

impl Stream {
    /// Writes a frame, after the rest of the one before. `false` if it was not written whole.
    pub(crate) fn write(&self, frame: &[libc::iovec; 4], kind: Kind, turn: &Turn<'_>) -> bool {
        let Some(image) = crate::image::current() else {
            return false;
        };
        if !self.lock(image) {
            return false;
        }
        let written = self.finish_rest(image, kind, turn) && self.begin(image, frame, kind, turn);
        if !turn.is_over() {
            self.lock.store(0, Release);
        }
        written
    }

    /// Gives the lock back, if the thread `tid` has it. The rest of a frame is kept.
    pub(crate) fn leave(&self, tid: u32) {
        // Release: as above.
        let _ = self.lock.compare_exchange(tid, 0, Release, Relaxed);
    }

    /// Takes the lock. `false` if this thread has it: we are a handler above a write that waits for its reader.
    fn lock(&self, image: &Image) -> bool {
        let me = sys::gettid();
        loop {
            // Acquire: pairs with the Release in `write`, so that the rest is seen.
            match self.lock.compare_exchange(0, me, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(holder) if holder == me => return false,
                Err(_) if crate::image::is_off() => return false,
                Err(holder) if !sys::is_alive(image.pid.load(Relaxed), holder) => {
                    let _ = self.lock.compare_exchange(holder, 0, Relaxed, Relaxed);
                }
                Err(_) => sys::yield_now(), // the holder waits a bounded time
            }
        }
    }

    fn finish_rest(&self, image: &Image, kind: Kind, turn: &Turn<'_>) -> bool {
        let mut patience = Patience::new();
        loop {
            let left = self.left.load(Relaxed) as usize;
            if left == 0 {
                return true;
            }
            // SAFETY: we hold the lock.
            let rest = unsafe { &*self.rest.get() };
            let start = rest.len().saturating_sub(left);
            let bytes = rest.get(start..).unwrap_or_default();
            let nothing = piece::<u8>(&[]);
            let mut pieces = [piece(bytes), nothing, nothing, nothing];
            match put(&mut pieces, kind) {
                Ok(written) => {
                    let left = left.saturating_sub(written);
                    self.left.store(u32::try_from(left).unwrap_or(0), Relaxed);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if patience.wait(image, turn) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => {
                    image.give_up();
                    return false;
                }
            }
        }
    }

    /// Writes a frame as far as it goes; the rest of a begun one is kept and counts as written.
    fn begin(&self, image: &Image, frame: &[libc::iovec; 4], kind: Kind, turn: &Turn<'_>) -> bool {
        let mut patience = Patience::new();
        loop {
            let mut pieces = *frame;
            match put(&mut pieces, kind) {
                Ok(written) => {
                    self.keep_rest(frame, written);
                    return self.finish_rest(image, kind, turn) || written != 0;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if patience.wait(image, turn) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => {
                    image.give_up();
                    return false;
                }
            }
        }
    }

    fn keep_rest(&self, frame: &[libc::iovec; 4], written: usize) {
        let left = total(frame).saturating_sub(written);
        // SAFETY: we hold the lock.
        let rest = unsafe { &mut *self.rest.get() };
        let mut place = rest.len().saturating_sub(left);
        let mut skip = written;
        for piece in frame {
            let skipped = skip.min(piece.iov_len);
            skip = skip.wrapping_sub(skipped);
            let length = piece.iov_len.wrapping_sub(skipped);
            let end = place.wrapping_add(length);
            if let Some(to) = rest.get_mut(place..end) {
                let from = piece.iov_base.cast::<u8>().wrapping_add(skipped);
                // SAFETY: `from` points to `length` bytes of the frame, which do not change while the lane is locked, and
                // `to` is our own buffer of the same length.
                unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), length) };
            }
            place = end;
        }
        self.left.store(u32::try_from(left).unwrap_or(0), Relaxed);
    }
}

fn put(pieces: &mut [libc::iovec], kind: Kind) -> Result<usize, Errno> {
    if kind == Kind::Socket {
        sys::send(OUTPUT.fd(), pieces)
    } else {
        sys::writev(OUTPUT.fd(), pieces)
    }
}
