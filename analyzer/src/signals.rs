//! Signals that ask to end, and what is to be done before.

use crate::record::is_ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// A flag that Ctrl-C and the like raise; a second Ctrl-C ends at once.
pub(crate) fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    const INTERRUPTED: i32 = 130;
    let should_stop = Arc::new(AtomicBool::new(false));
    flag::register_conditional_shutdown(SIGINT, INTERRUPTED, Arc::clone(&should_stop))?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&should_stop))?;
    }
    Ok(should_stop)
}

/// Signals that end the process, but not while they are held.
pub(crate) struct Held {
    /// The last that came; 0 = none.
    last: Arc<AtomicUsize>,
    ends_at_once: Arc<AtomicBool>,
}

impl Held {
    /// Those that are ignored stay so.
    pub(crate) fn watched() -> Self {
        let signals = Self {
            last: Arc::default(),
            ends_at_once: Arc::new(AtomicBool::new(true)),
        };
        for signal in [SIGINT, SIGTERM] {
            if !is_ignored(signal) {
                let number = usize::try_from(signal).unwrap_or(0);
                // Where it cannot be watched, it ends the process as it does without.
                let _ = flag::register_usize(signal, Arc::clone(&signals.last), number);
                let at_once = Arc::clone(&signals.ends_at_once);
                let _ = flag::register_conditional_default(signal, at_once);
            }
        }
        signals
    }

    /// From now on they wait.
    pub(crate) fn hold(&self) {
        self.ends_at_once.store(false, SeqCst);
    }

    /// Whether one waits.
    pub(crate) fn came(&self) -> bool {
        self.last.load(SeqCst) != 0
    }

    /// Ends the process if a signal came meanwhile.
    pub(crate) fn release(&self) {
        self.ends_at_once.store(true, SeqCst);
        if let Some(signal) = i32::try_from(self.last.load(SeqCst))
            .ok()
            .filter(|it| *it != 0)
        {
            let _ = low_level::emulate_default_handler(signal); // only of signals that there are
        }
    }
}
