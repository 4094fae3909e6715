//! What a signal does, and sending one.

use super::{Result, SignalSet, fd_arg, getpid, gettid, scalar};
use core::ptr;

/// The disposition of `signal`.
pub(crate) fn action(signal: i32) -> Result<crate::fatal::Action> {
    let mut action = crate::fatal::Action::default();
    let old = &raw mut action as usize;
    let args = [fd_arg(signal), 0, old, size_of::<SignalSet>(), 0, 0];
    scalar(libc::SYS_rt_sigaction, args).map(|_| action)
}

/// Sets the disposition of `signal`.
pub(crate) fn set_action(signal: i32, action: &crate::fatal::Action) {
    let new = ptr::from_ref(action) as usize;
    let args = [fd_arg(signal), new, 0, size_of::<SignalSet>(), 0, 0];
    let _ = scalar(libc::SYS_rt_sigaction, args);
}

/// Sends `signal` to this thread.
pub(crate) fn send_to_this_thread(signal: i32) {
    let args = [
        getpid() as usize,
        gettid() as usize,
        fd_arg(signal),
        0,
        0,
        0,
    ];
    let _ = scalar(libc::SYS_tgkill, args);
}
