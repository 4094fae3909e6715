//! When and where a call was, as a report says it.

use crate::images::{Image, Images};
use crate::replay::Moment;
use crate::time;

/// What the clock of an image counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// Nanoseconds; with those when the first recorded process began.
    Time(u64),
    /// Lines of a log, which knows no time.
    Lines,
}

impl Clock {
    pub(crate) fn of(image: &Image, images: &Images) -> Self {
        match image.session {
            Some(_) => Self::Lines,
            None => Self::Time(images.begin_clock),
        }
    }

    /// Nanoseconds since the first recorded process began.
    pub(crate) fn time_ns(self, clock: u64) -> Option<u64> {
        match self {
            Self::Time(begin) => Some(time::since(begin, clock)),
            Self::Lines => None,
        }
    }

    /// Whether the call was then or later.
    pub(crate) fn is_lower_bound(self, clock: u64) -> bool {
        matches!(self, Self::Time(_)) && time::is_lower_bound(clock)
    }

    /// Line of a log.
    pub(crate) fn line(self, clock: u64) -> Option<u64> {
        match self {
            Self::Time(_) => None,
            Self::Lines => Some(clock),
        }
    }
}

/// The thread of a call, where the trace says which it was.
pub(crate) fn thread(moment: Moment) -> Option<u64> {
    Some(moment.tid.into()).filter(|tid| *tid != 0)
}
