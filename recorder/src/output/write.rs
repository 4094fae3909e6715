//! One write: without the signals that it may cause, and with as much patience as the user has.

use super::OUTPUT;
use crate::config::CONFIG;
use crate::image::Image;
use crate::sync::Relaxed;
use crate::sys::{self, Errno, SignalSet};
use crate::turn::Turn;

/// Pieces of memory in each write: a filter of system calls may look at their number.
pub(crate) const PIECES: i32 = 4;

pub(crate) fn piece<T>(memory: &[T]) -> libc::iovec {
    libc::iovec {
        iov_base: memory.as_ptr().cast_mut().cast(),
        iov_len: size_of_val(memory),
    }
}

pub(crate) fn total(pieces: &[libc::iovec]) -> usize {
    pieces
        .iter()
        .fold(0, |sum, piece| sum.wrapping_add(piece.iov_len))
}

/// Appends a frame. After a short write the whole frame is written again: the torn one is known by its trailer.
pub(super) fn write_file(frame: &[libc::iovec]) -> bool {
    for _ in 0..3 {
        match write(OUTPUT.fd(), frame) {
            Ok(written) if written == total(frame) => return true,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    false
}

/// Writes a frame to a pipe, which takes it whole or not at all.
pub(super) fn write_pipe(image: &Image, frame: &[libc::iovec], turn: &Turn<'_>) -> bool {
    let mut patience = Patience::new();
    loop {
        match write(OUTPUT.fd(), frame) {
            Ok(written) => return written == total(frame),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                if !patience.wait(image, turn) {
                    return false;
                }
            }
            Err(Errno::PIPE) => {
                image.give_up();
                return false;
            }
            Err(_) => return false,
        }
    }
}

/// Writes without the signals that this may cause. All signals are blocked, so one can only wait; it is taken away unless one
/// waited before.
#[inline(never)]
pub(crate) fn write(fd: i32, pieces: &[libc::iovec]) -> Result<usize, Errno> {
    let waiting = sys::pending_signals();
    let result = sys::writev(fd, pieces);
    let signal = match result {
        Err(Errno::PIPE) => libc::SIGPIPE,
        Err(Errno::FBIG) => libc::SIGXFSZ,
        _ => return result,
    };
    if !waiting.has(signal) {
        sys::take_signal(SignalSet::of(signal));
    }
    result
}

/// How long a slow reader is still waited for, over all tries of one frame.
pub(crate) struct Patience {
    end: u64,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { end: 0 }
    }

    /// Waits for the reader under the program's own signal mask. `false` where it took too long, where the user chose to drop, and
    /// where a jump has ended the turn.
    pub(crate) fn wait(&mut self, image: &Image, turn: &Turn<'_>) -> bool {
        self.is_ready(image, turn) && !turn.is_over()
    }

    fn is_ready(&mut self, image: &Image, turn: &Turn<'_>) -> bool {
        let config = CONFIG.get();
        if config.drops || image.is_stalled.load(Relaxed) != 0 {
            // After one frame waited in vain, the next ones only try: a program that reads its own trace must not hang.
            let is_ready = turn.wait(0) == Ok(true);
            image
                .is_stalled
                .store(u32::from(!is_ready && !config.drops), Relaxed);
            return is_ready && self.once();
        }
        let now = sys::milliseconds();
        if self.end == 0 {
            self.end = now.wrapping_add(config.wait_milliseconds);
        }
        if now >= self.end {
            image.is_stalled.store(1, Relaxed);
            return false;
        }
        let left = self.end.wrapping_sub(now);
        // An interruption is the program's handler that ran; the time goes on.
        !matches!(turn.wait(left), Err(error) if error != Errno::INTR)
    }

    fn once(&mut self) -> bool {
        let first = self.end == 0;
        self.end = u64::MAX;
        first
    }
}
