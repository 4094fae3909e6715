//! Which frames of each stream came, and which did not: they are numbered one after the other.

use heapwire_format::Header;
use std::collections::BTreeMap;
use std::ops::Range;

/// Streams that are told apart, and gaps of each that are listed.
const MOST_STREAMS: usize = 1 << 12;
const MOST_GAPS: usize = 1 << 10;

/// By stream tag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived(BTreeMap<u32, Frames>);

/// The frames of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Frames {
    /// One more than the highest number that came.
    next: u32,
    /// Lower numbers that did not come.
    gaps: Vec<Range<u32>>,
}

impl Arrived {
    pub(super) fn add(&mut self, header: &Header) {
        if self.0.len() >= MOST_STREAMS && !self.0.contains_key(&header.stream) {
            return;
        }
        let frames = self.0.entry(header.stream).or_default();
        if header.frame >= frames.next {
            if header.frame > frames.next && frames.gaps.len() < MOST_GAPS {
                frames.gaps.push(frames.next..header.frame);
            }
            frames.next = header.frame.saturating_add(1);
        } else {
            frames.fill(header.frame);
        }
    }

    /// The frames that are missing: stream tags and numbers.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (u32, Range<u32>)> {
        let streams = self.0.iter();
        streams.flat_map(|(stream, frames)| frames.gaps.iter().map(|gap| (*stream, gap.clone())))
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
