//! Sets of signals, and which of them a thread lets through.

use super::time::Time;
use super::{fd_arg, scalar};
use crate::arch::MACHINE;

/// A set of signals as the kernel has it: bit `n - 1` for signal `n`, by words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct SignalSet([usize; MACHINE.signals.div_ceil(usize::BITS) as usize]);

impl SignalSet {
    pub(crate) const ALL: Self = Self([usize::MAX; MACHINE.signals.div_ceil(usize::BITS) as usize]);

    /// The set of one signal.
    pub(crate) fn of(signal: i32) -> Self {
        let mut set = Self::default();
        let (word, bit) = Self::place(signal);
        if let Some(word) = set.0.get_mut(word) {
            *word = bit;
        }
        set
    }

    pub(crate) fn without(mut self, signal: i32) -> Self {
        let (word, bit) = Self::place(signal);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
        self
    }

    pub(crate) fn has(&self, signal: i32) -> bool {
        let (word, bit) = Self::place(signal);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    fn place(signal: i32) -> (usize, usize) {
        let at = signal.wrapping_sub(1).cast_unsigned();
        let (word, bit) = (at.wrapping_shr(usize::BITS.ilog2()), at);
        (word as usize, 1usize.wrapping_shl(bit)) // wraps at the width of the word
    }
}

/// Blocks all signals for this thread but SIGBUS; gives the mask that was.
///
/// A file that somebody cuts is a SIGBUS wherever its lanes are read, and one that is blocked then ends the process.
pub(crate) fn block_signals() -> SignalSet {
    let (all, mut old) = (SignalSet::ALL.without(libc::SIGBUS), SignalSet::default());
    let args = [
        fd_arg(libc::SIG_BLOCK),
        &raw const all as usize,
        &raw mut old as usize,
        size_of::<SignalSet>(),
        0,
        0,
    ];
    let _ = scalar(libc::SYS_rt_sigprocmask, args);
    old
}

/// Sets this thread's signal mask.
pub(crate) fn restore_signals(mask: SignalSet) {
    let args = [
        fd_arg(libc::SIG_SETMASK),
        &raw const mask as usize,
        0,
        size_of::<SignalSet>(),
        0,
        0,
    ];
    let _ = scalar(libc::SYS_rt_sigprocmask, args);
}

/// Signals that wait for this thread or the process.
pub(crate) fn pending_signals() -> SignalSet {
    let mut set = SignalSet::default();
    let args = [&raw mut set as usize, size_of::<SignalSet>(), 0, 0, 0, 0];
    let _ = scalar(libc::SYS_rt_sigpending, args);
    set
}

/// Takes one waiting signal of `set` away, without waiting for one.
pub(crate) fn take_signal(set: SignalSet) {
    let none: Time = [0; 2];
    let args = [
        &raw const set as usize,
        0,
        none.as_ptr() as usize,
        size_of::<SignalSet>(),
        0,
        0,
    ];
    let _ = scalar(libc::SYS_rt_sigtimedwait, args);
}
