//! When and where a call was, as a report says it.

use crate::images::{Image, Images};
use crate::replay::Moment;
use crate::time;

/// What the clock of an image counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// Nanoseconds; with those when the first recorded process began, and when the last was seen to end.
    Time(u64, Option<u64>),
    /// Lines of a log, which knows no time.
    Lines,
}

impl Clock {
    pub(crate) fn of(image: &Image, images: &Images) -> Self {
        match image.session {
            Some(_) => Self::Lines,
            None => Self::Time(images.begin_clock, images.end_clock),
        }
    }

    /// Nanoseconds since the first recorded process began.
    pub(crate) fn time_ns(self, clock: u64) -> Option<u64> {
        match self {
            Self::Time(begin, _) => Some(time::since(begin, clock)),
            Self::Lines => None,
        }
    }

    /// Whether the call was then or later, by more than times are off anyway.
    pub(crate) fn is_lower_bound(self, clock: u64) -> bool {
        let Self::Time(_, end) = self else {
            return false;
        };
        let is_at_end = end.is_some_and(|end| {
            end >= time::earliest(clock) && time::since(clock, end) <= time::SHORT
        });
        time::is_lower_bound(clock) && !is_at_end
    }

    /// When the call was at the latest, if that is told and more than `time_ns` is.
    pub(crate) fn latest_ns(self, clock: u64) -> Option<u64> {
        let Self::Time(begin, _) = self else {
            return None;
        };
        let latest = time::latest(clock).filter(|_| self.is_lower_bound(clock))?;
        Some(time::since(begin, time::known(latest)))
    }

    /// Line of a log.
    pub(crate) fn line(self, clock: u64) -> Option<u64> {
        match self {
            Self::Time(..) => None,
            Self::Lines => Some(clock),
        }
    }
}

/// The thread of a call, where the trace says which it was.
pub(crate) fn thread(moment: Moment) -> Option<u64> {
    Some(moment.tid.into()).filter(|tid| *tid != 0)
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use crate::time;

    #[test]
    fn a_call_just_before_the_end_was_not_much_later() {
        let call = time::lower_bound(40_000_000, None);
        let is_bound = |end| Clock::Time(0, end).is_lower_bound(call);
        assert!(is_bound(None) && is_bound(Some(51_000_000)));
        assert!(!is_bound(Some(49_000_000)));
        // The end of another trace's processes says nothing.
        assert!(is_bound(Some(39_000_000)));
        assert!(!Clock::Time(0, None).is_lower_bound(time::known(call)));
        assert!(!Clock::Lines.is_lower_bound(call));
    }
}
