//! Which frames of each stream came, and which did not: they are numbered one after the other.

use heapwire_format::{ArmourHead, Header};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Streams that are told apart, and gaps of each that are listed.
const MOST_STREAMS: usize = 1 << 12;
const MOST_GAPS: usize = 1 << 10;
/// Frames given up that are remembered, and threads of each stream.
const MOST: usize = 1 << 10;

/// What came, and what came in part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// By stream tag.
    streams: BTreeMap<u32, Frames>,
    /// Frames that were given up, as their lines name them.
    given_up: Vec<ArmourHead>,
}

/// The frames of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Frames {
    /// One more than the highest number that came.
    next: u32,
    /// Lower numbers that did not come.
    gaps: Vec<Range<u32>>,
    /// Threads that made frames which came since the last gap.
    since: BTreeSet<u32>,
    /// A thread made two of them: the records of the second were made when all before the first was written. So no record in the gaps has
    /// a higher number than those that came.
    is_closed: bool,
}

impl Arrived {
    pub(super) fn add(&mut self, header: &Header) {
        if self.streams.len() >= MOST_STREAMS && !self.streams.contains_key(&header.stream) {
            return;
        }
        let frames = self.streams.entry(header.stream).or_default();
        if header.frame >= frames.next {
            if header.frame > frames.next {
                if frames.gaps.len() < MOST_GAPS {
                    frames.gaps.push(frames.next..header.frame);
                }
                frames.is_closed = false;
                frames.since.clear();
            }
            frames.next = header.frame.saturating_add(1);
            if frames.since.len() < MOST {
                frames.is_closed |= !frames.since.insert(header.thread);
            }
        } else {
            frames.fill(header.frame);
        }
    }

    /// The frames that are missing: stream tags and numbers.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (u32, Range<u32>)> {
        let streams = self.streams.iter();
        streams.flat_map(|(stream, frames)| frames.gaps.iter().map(|gap| (*stream, gap.clone())))
    }
}

impl Arrived {
    /// The frame that lines with this stream and number were of was given up.
    pub(super) fn give_up(&mut self, stream: u16, frame: u8) {
        if self.given_up.len() < MOST {
            self.given_up.push(ArmourHead {
                stream,
                frame,
                following: 0,
            });
        }
    }

    /// Whether each frame that was given up is known to be one of those that are missing, and to hold no record beyond those that came.
    pub(crate) fn accounts_for_all(&self) -> bool {
        self.given_up.len() < MOST
            && self.given_up.iter().all(|head| {
                self.streams.iter().any(|(tag, frames)| {
                    let is_it = |number| ArmourHead::new(*tag, number, 0) == *head;
                    let mut gaps = frames.gaps.iter();
                    frames.is_closed && gaps.any(|gap| gap.clone().take(1 << 8).any(is_it))
                })
            })
    }
}

impl Frames {
    fn fill(&mut self, number: u32) {
        let Some(at) = self.gaps.iter().position(|gap| gap.contains(&number)) else {
            return;
        };
        let gap = self.gaps[at].clone();
        let rest = [gap.start..number, number + 1..gap.end];
        self.gaps
            .splice(at..=at, rest.into_iter().filter(|gap| !gap.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    use super::Arrived;
    use heapwire_format::{FrameKind, Header};

    #[test]
    fn what_was_given_up_is_accounted_for_where_a_thread_goes_on_after_it() {
        let mut arrived = Arrived::default();
        let add = |arrived: &mut Arrived, frame, thread| {
            arrived.add(&Header {
                thread,
                ..Header::new(FrameKind::PACKED, 0x1_0007, frame)
            });
        };
        add(&mut arrived, 0, 1);
        add(&mut arrived, 1, 1);
        arrived.give_up(7, 2);
        assert!(!arrived.accounts_for_all(), "it may have been the last");
        add(&mut arrived, 3, 1);
        assert!(!arrived.accounts_for_all(), "its records may be later ones");
        add(&mut arrived, 4, 2);
        assert!(!arrived.accounts_for_all());
        add(&mut arrived, 5, 1);
        assert!(arrived.accounts_for_all());
        arrived.give_up(8, 2);
        assert!(!arrived.accounts_for_all(), "nothing else came of that one");
    }

    #[test]
    fn gaps_are_what_did_not_come_in_whatever_order() {
        let mut arrived = Arrived::default();
        for (stream, frame) in [
            (7, 2),
            (7, 3),
            (7, 9),
            (8, 0),
            (7, 6),
            (7, 1),
            (7, 6),
            (8, 1),
        ] {
            arrived.add(&Header::new(FrameKind::PACKED, stream, frame));
        }
        let missing: Vec<_> = arrived.missing().collect();
        assert_eq!(missing, [(7, 0..1), (7, 4..6), (7, 7..9)]);
    }
}
