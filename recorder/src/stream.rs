//! Where a write may be cut, be it a frame on a terminal or a socket or lines of a log: what is left of it goes first. A frame for a
//! terminal goes line by line, as pieces in armour.

use crate::config::CONFIG;
use crate::image::Image;
use crate::output::{self, Kind, OUTPUT, Patience, piece, total};
use crate::sync::Relaxed;
use crate::sys::{self, Errno};
use crate::turn::{Gate, Turn};
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::AtomicU32;
use heapwire_format::{ARMOUR_WIDE, ArmourHead, PIPE_FRAME};

/// The one frame that is on its way. All zero is valid: nothing is.
pub(crate) struct Stream {
    pub(crate) gate: Gate,
    /// Bytes of `rest` that are still to be written, at its end.
    left: AtomicU32,
    /// Bytes that were written of the line which carries the first of these.
    sent: AtomicU32,
    /// Number of the frame.
    number: AtomicU32,
    rest: UnsafeCell<[u8; PIPE_FRAME]>,
}

// SAFETY: `rest` is used by the holder of `gate` only.
unsafe impl Sync for Stream {}

impl Stream {
    /// Writes the frame of this number, or lines of a log, after the rest of what came before. `false` if nothing was written; the rest of
    /// what is begun is kept and counts as written.
    pub(crate) fn write(
        &self,
        image: &Image,
        frame: &[libc::iovec; 4],
        number: u32,
        kind: Kind,
        turn: &Turn<'_>,
    ) -> bool {
        let me = sys::gettid();
        if !self.gate.enter(image, me) {
            return false;
        }
        let mut is_written = false;
        if self.finish_rest(image, kind, turn) {
            let length = self.keep(frame, number);
            is_written = self.finish_rest(image, kind, turn) || self.is_begun(length);
            if !is_written && !turn.is_over() {
                self.left.store(0, Relaxed);
            }
        }
        if !turn.is_over() {
            self.gate.leave(me);
        }
        is_written
    }

    /// Whether something was written of what was kept, which has this length.
    fn is_begun(&self, length: u32) -> bool {
        self.left.load(Relaxed) != length || self.sent.load(Relaxed) != 0
    }

    /// Writes what is left of a frame: all at once, or a line at a time.
    fn finish_rest(&self, image: &Image, kind: Kind, turn: &Turn<'_>) -> bool {
        let room = CONFIG.get().line_room(kind);
        let mut patience = Patience::new();
        let mut line = [0; ARMOUR_WIDE + 1];
        loop {
            let left = self.left.load(Relaxed);
            if left == 0 {
                return true;
            }
            // SAFETY: we hold the lock.
            let rest = unsafe { &*self.rest.get() };
            let start = rest.len().saturating_sub(left as usize);
            let rest = rest.get(start..).unwrap_or_default();
            let (piece, bytes) = match room {
                0 => (rest, rest),
                _ => self.line(image, rest, room, &mut line),
            };
            let sent = self.sent.load(Relaxed) as usize;
            match put(bytes.get(sent..).unwrap_or_default(), kind) {
                Ok(written) => {
                    let sent = sent.wrapping_add(written);
                    let is_whole = sent >= bytes.len();
                    let left = rest
                        .len()
                        .saturating_sub(if is_whole { piece.len() } else { 0 });
                    self.sent
                        .store(if is_whole { 0 } else { short(sent) }, Relaxed);
                    self.left.store(short(left), Relaxed);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if patience.wait(image, turn) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => return fail(image, kind),
            }
        }
    }

    /// The first piece of `rest` with room for so many bytes, and the line that carries it.
    fn line<'l>(
        &self,
        image: &Image,
        rest: &'l [u8],
        room: usize,
        line: &'l mut [u8; ARMOUR_WIDE + 1],
    ) -> (&'l [u8], &'l [u8]) {
        let piece = rest.get(..room).unwrap_or(rest);
        let following = rest.len().saturating_sub(1).checked_div(room).unwrap_or(0);
        let following = u8::try_from(following).unwrap_or(u8::MAX);
        let head = ArmourHead::new(
            image.tag.load(Relaxed),
            self.number.load(Relaxed),
            following,
        );
        let length = head.encode(piece, line);
        (piece, line.get(..length).unwrap_or_default())
    }

    /// Keeps a frame, to be written from its beginning, and gives its length.
    fn keep(&self, frame: &[libc::iovec; 4], number: u32) -> u32 {
        let length = total(frame);
        // SAFETY: we hold the lock.
        let rest = unsafe { &mut *self.rest.get() };
        let mut place = rest.len().saturating_sub(length);
        for piece in frame {
            let end = place.wrapping_add(piece.iov_len);
            if let Some(to) = rest.get_mut(place..end) {
                // SAFETY: the piece points to `iov_len` bytes of the frame, which do not change while the lane is locked, and
                // `to` is our own buffer of the same length.
                unsafe {
                    ptr::copy_nonoverlapping(piece.iov_base.cast(), to.as_mut_ptr(), piece.iov_len);
                };
            }
            place = end;
        }
        self.number.store(number, Relaxed);
        self.sent.store(0, Relaxed);
        let length = short(length);
        self.left.store(length, Relaxed);
        length
    }
}

/// A length within a frame.
fn short(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(0)
}

fn put(bytes: &[u8], kind: Kind) -> Result<usize, Errno> {
    if kind == Kind::Socket {
        return sys::send(OUTPUT.fd(), bytes);
    }
    let nothing = piece::<u8>(&[]);
    output::write(OUTPUT.fd(), &[piece(bytes), nothing, nothing, nothing])
}

/// What cannot be written to may be given up, unless it is a file: a disk can have room again.
fn fail(image: &Image, kind: Kind) -> bool {
    if matches!(kind, Kind::Pipe | Kind::Terminal | Kind::Socket) {
        image.give_up();
    }
    false
}
