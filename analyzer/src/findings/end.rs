//! How a process image ended, as far as its trace and who watched it say.

use crate::images::Image;

/// How a process image ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Normal,
    Signal(u64),
    Exec,
    Cut,
    /// A log does not say it.
    Unknown,
}

impl End {
    /// The end of an image (SPEC.md 10.5).
    pub(crate) fn of(image: &Image) -> Self {
        let ending = image.outcome.ending;
        if ending.end.is_some() {
            return Self::Normal;
        }
        if ending.is_exec {
            return Self::Exec;
        }
        match image.wait_status.and_then(signal).or(ending.fault) {
            Some(signal) => Self::Signal(signal),
            None if image.session.is_some() => Self::Unknown,
            // It ended by itself, by a call that no hook sees; lanes in the trace tell that nothing is missing then.
            None if image.has_lanes && image.wait_status.and_then(exit_status).is_some() => {
                Self::Normal
            }
            None => Self::Cut,
        }
    }

    /// Whether what it recorded last may be missing, which no higher number tells of: who waited for it alone says that it ended, and
    /// lanes that had the last records are not there.
    pub(crate) fn may_lack_last(image: &Image) -> bool {
        let ending = image.outcome.ending;
        let has_last = ending.end.is_some() || ending.is_exec || ending.fault.is_some();
        let has_all_lanes = image.has_lanes && !image.lacks_frames;
        image.wait_status.is_some() && !has_last && !has_all_lanes && !image.is_stopped
    }

    /// The exit status of an image, where it is known.
    pub(crate) fn status(image: &Image) -> Option<u64> {
        let told = image.outcome.ending.end.flatten();
        told.or_else(|| image.wait_status.and_then(exit_status))
    }

    /// The signal that ended it.
    pub(crate) fn signal(self) -> Option<u64> {
        match self {
            Self::Signal(signal) => Some(signal),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Signal(_) => "signal",
            Self::Exec => "exec",
            Self::Cut => "cut",
            Self::Unknown => "unknown",
        }
    }
}

/// The signal in a wait status that a process ended by one has.
fn signal(wait_status: u64) -> Option<u64> {
    Some(wait_status & 0x7F).filter(|signal| *signal != 0 && *signal != 0x7F)
}

/// The exit status in a wait status that a process ended by itself has.
fn exit_status(wait_status: u64) -> Option<u64> {
    (wait_status & 0x7F == 0).then_some(wait_status >> 8 & 0xFF)
}
