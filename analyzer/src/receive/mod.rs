//! Takes a trace as it comes over a line, frame by frame: what is whole is kept, what is not is counted.

mod finder;
mod live;

use crate::trace::armour::Parting;
use crate::trace::{Content, Found, Judged, believed};
use finder::Finder;
use heapwire_format::{Op, Record};
use live::Live;
use rustc_hash::FxHashMap;

/// Streams whose losses are kept apart.
const MOST_STREAMS: usize = 1 << 16;

/// What came so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Calls in whole frames.
    pub events: u64,
    /// Whole frames.
    pub frames: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Frames and lines of which only parts came, or that were changed on the way.
    pub damaged: u64,
    /// Frames that did not come, as their numbers tell; of those that come as lines.
    pub missing: u64,
    /// Records that the recorder could not write.
    pub lost: u64,
    /// About how many bytes of blocks are live; `None` if there are more blocks than can be followed.
    pub live_bytes: Option<u64>,
}

/// Parts what comes into whole frames and everything else.
pub struct Receiver {
    parting: Parting,
    /// Frames that came as they are, between text.
    plain: Finder,
    /// Frames that came as lines.
    of_lines: Finder,
    live: Live,
    /// By stream.
    lost: FxHashMap<u32, u32>,
    received: Received,
    frames: Vec<u8>,
    text: Vec<u8>,
}

impl Default for Receiver {
    fn default() -> Self {
        Self::new()
    }
}

impl Receiver {
    /// One to which nothing came.
    #[must_use]
    pub fn new() -> Self {
        Self {
            parting: Parting::new(),
            plain: Finder::default(),
            of_lines: Finder::default(),
            live: Live::default(),
            lost: FxHashMap::default(),
            received: Received::default(),
            frames: Vec::new(),
            text: Vec::new(),
        }
    }

    /// Takes bytes that come next; `is_all`: the line was cut behind them.
    pub fn take(&mut self, bytes: &[u8], is_all: bool) {
        self.frames.clear();
        self.text.clear();
        self.parting.take(bytes, is_all);
        self.plain.take(self.parting.text(), is_all);
        self.of_lines.take(self.parting.frames(), is_all);
        self.text.extend(self.plain.rest());
        for found in self.plain.found().chain(self.of_lines.found()) {
            self.add(&found);
        }
        let found = self.parting.found();
        let gaps = found.arrived.missing();
        self.received.missing = gaps.map(|(_, gap)| u64::from(gap.end - gap.start)).sum();
        self.received.damaged = found.damaged + self.plain.damaged() + self.of_lines.damaged();
        self.received.live_bytes = self.live.bytes();
        self.received.lost = self.lost.values().map(|lost| u64::from(*lost)).sum();
    }

    /// The frames that became whole by what was taken last.
    #[must_use]
    pub fn frames(&self) -> &[u8] {
        &self.frames
    }

    /// What of it is no frame.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// What came so far.
    #[must_use]
    pub fn received(&self) -> Received {
        self.received
    }

    fn add(&mut self, found: &Found) {
        let Found::Whole(frame) = found else { return };
        self.frames.extend(frame.block.iter());
        self.received.frames += 1;
        self.received.bytes += frame.block.len() as u64;
        let judged = Judged::of(found.clone());
        let stream = judged.header.stream;
        if self.lost.len() < MOST_STREAMS {
            let lost = self.lost.entry(stream).or_default();
            *lost = judged.header.lost.max(*lost);
        }
        let sources = match &judged.content {
            Content::Records(source, _) => std::slice::from_ref(source),
            Content::Lanes(sources, ..) => sources,
            _ => &[],
        };
        for (_, slot) in sources.iter().flat_map(believed) {
            let record = Record::decode(slot);
            self.received.events += u64::from(record.op.is_heap() && record.op != Op::REALLOC_OLD);
            self.live.add(stream, &record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Receiver;
    use crate::tests::made::Made;

    /// Three blocks, one of which is released and one resized.
    fn trace() -> Vec<u8> {
        let mut made = Made::new(0xA0);
        made.malloc(0x1000, 100, 0x10).malloc(0x2000, 50, 0x10);
        made.malloc(0x3000, 7, 0x10).free(0x1000, 0x20);
        made.bytes()
    }

    #[test]
    fn frames_are_kept_and_text_is_handed_on_wherever_bytes_are_parted() {
        let trace = trace();
        let log = [b"login: ", &trace[..], b"~ done\x89HW", &trace, b"\n"].concat();
        for step in [1, 7, 1000, log.len()] {
            let mut receiver = Receiver::new();
            let (mut frames, mut text) = (Vec::<u8>::new(), Vec::<u8>::new());
            let chunks: Vec<_> = log.chunks(step).collect();
            for (index, chunk) in chunks.iter().enumerate() {
                receiver.take(chunk, index + 1 == chunks.len());
                frames.extend(receiver.frames());
                text.extend(receiver.text());
            }
            assert!(frames == [&trace[..], &trace].concat(), "{step}");
            assert_eq!(text, b"login: ~ done\x89HW\n");
            let received = receiver.received();
            assert_eq!((received.events, received.damaged), (8, 0));
            assert_eq!(received.bytes, frames.len() as u64);
        }
    }

    #[test]
    fn live_bytes_and_damage_are_counted_as_they_come() {
        let mut trace = trace();
        let mut receiver = Receiver::new();
        receiver.take(&trace, false);
        assert_eq!(receiver.received().live_bytes, Some(57));
        *trace.last_mut().unwrap() ^= 1;
        receiver.take(&trace, true);
        assert_eq!(receiver.frames(), b"");
        assert!(receiver.received().damaged > 0);
    }
}
