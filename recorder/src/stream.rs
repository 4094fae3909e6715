//! Where a write may be cut, be it a frame on a terminal or a socket or lines of a log: what is left of it goes first.

use crate::image::Image;
use crate::output::{self, Kind, OUTPUT, Patience, piece, total};
use crate::sync::Relaxed;
use crate::sys::{self, Errno};
use crate::turn::{Gate, Turn};
use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU32;
use heapwire_format::PIPE_FRAME;

/// The one frame that is on its way. All zero is valid: nothing is.
pub(crate) struct Stream {
    pub(crate) gate: Gate,
    /// Bytes of `rest` that are still to be written, at its end.
    left: AtomicU32,
    rest: UnsafeCell<[u8; PIPE_FRAME]>,
}

// SAFETY: `rest` is used by the holder of `gate` only.
unsafe impl Sync for Stream {}

impl Stream {
    /// Writes a frame, after the rest of the one before. `false` if it was not written whole.
    pub(crate) fn write(&self, frame: &[libc::iovec; 4], kind: Kind, turn: &Turn<'_>) -> bool {
        let Some(image) = crate::image::current() else {
            return false;
        };
        let me = sys::gettid();
        if !self.gate.enter(image, me) {
            return false;
        }
        let written = self.finish_rest(image, kind, turn) && self.begin(image, frame, kind, turn);
        if !turn.is_over() {
            self.gate.leave(me);
        }
        written
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
                Err(_) => return fail(image, kind),
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
                Err(_) => return fail(image, kind),
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
    match kind {
        Kind::Socket => sys::send(OUTPUT.fd(), pieces),
        _ => output::write(OUTPUT.fd(), pieces),
    }
}

/// What cannot be written to may be given up, unless it is a file: a disk can have room again.
fn fail(image: &Image, kind: Kind) -> bool {
    if matches!(kind, Kind::Pipe | Kind::Terminal | Kind::Socket) {
        image.give_up();
    }
    false
}
