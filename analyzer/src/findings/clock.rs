//! When and where a call was, as a report says it.

use crate::images::{Image, Images};
use crate::replay::Moment;
use crate::time;

/// What the clock of an image counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// Nanoseconds.
    Time {
        /// When the first recorded process began.
        begin: u64,
        /// When the last process was seen to end.
        watched: Option<u64>,
        /// When the image made no call any more.
        over: Option<u64>,
    },
    /// Lines of a log, which knows no time.
    Lines,
}

impl Clock {
    pub(crate) fn of(image: &Image, images: &Images) -> Self {
        match image.session {
            Some(_) => Self::Lines,
            None => Self::Time {
                begin: images.begin_clock,
                watched: images.end_clock,
                over: over(image),
            },
        }
    }

    /// One of which no end is known.
    pub(crate) const fn since(begin: u64) -> Self {
        Self::Time {
            begin,
            watched: None,
            over: None,
        }
    }

    /// Nanoseconds since the first recorded process began.
    pub(crate) fn time_ns(self, clock: u64) -> Option<u64> {
        match self {
            Self::Time { begin, .. } => Some(time::since(begin, clock)),
            Self::Lines => None,
        }
    }

    /// Whether the call was then or later, by more than times are off anyway.
    pub(crate) fn is_lower_bound(self, clock: u64) -> bool {
        let Self::Time { watched, .. } = self else {
            return false;
        };
        let is_at_end = watched.is_some_and(|end| {
            end >= time::earliest(clock) && time::since(clock, end) <= time::SHORT
        });
        time::is_lower_bound(clock) && !is_at_end
    }

    /// When the call was at the latest, if that is told and more than `time_ns` is.
    pub(crate) fn latest_ns(self, clock: u64) -> Option<u64> {
        let Self::Time { begin, over, .. } = self else {
            return None;
        };
        if !self.is_lower_bound(clock) {
            return None;
        }
        let latest = time::latest(clock).into_iter().chain(over).min()?;
        Some(time::since(
            begin,
            time::known(latest).max(time::earliest(clock)),
        ))
    }

    /// Line of a log.
    pub(crate) fn line(self, clock: u64) -> Option<u64> {
        match self {
            Self::Time { .. } => None,
            Self::Lines => Some(clock),
        }
    }
}

/// A time after which an image made no call. It says so as its last, or somebody saw it end; with it, threads that it still has.
fn over(image: &Image) -> Option<u64> {
    let outcome = &image.outcome;
    let is_last = outcome.ending.end.is_some() || outcome.ending.is_exec;
    let told = Some(outcome.last_clock)
        .filter(|last| is_last && !image.is_stopped && !time::is_lower_bound(*last));
    image
        .seen_to_end
        .or_else(|| Some(told?.saturating_add(time::SHORT)))
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
        let of = |watched, over| Clock::Time {
            begin: 0,
            watched,
            over,
        };
        let is_bound = |end| of(end, None).is_lower_bound(call);
        assert!(is_bound(None) && is_bound(Some(51_000_000)));
        assert!(!is_bound(Some(49_000_000)));
        // The end of another trace's processes says nothing.
        assert!(is_bound(Some(39_000_000)));
        assert!(!of(None, None).is_lower_bound(time::known(call)));
        assert!(!Clock::Lines.is_lower_bound(call));
    }

    #[test]
    fn no_call_was_later_than_the_end_of_its_process() {
        let latest = |within, over| {
            let call = time::lower_bound(40_000_000, within);
            let clock = Clock::Time {
                begin: 0,
                watched: None,
                over,
            };
            clock.latest_ns(call)
        };
        assert_eq!(latest(None, None), None);
        assert_eq!(latest(None, Some(90_000_000)), Some(90_000_000));
        assert_eq!(
            latest(Some(20_000_000), Some(90_000_000)),
            latest(Some(20_000_000), None)
        );
        assert_eq!(latest(Some(20_000_000), Some(50_000_000)), Some(50_000_000));
    }
}
