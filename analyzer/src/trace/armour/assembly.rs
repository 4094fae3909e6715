//! Puts frames together from the pieces that lines carry.

use super::arrived::Arrived;
use heapwire_format::{ArmourHead, FRAME_MAGIC, Header, SumKind, TRAILER_SIZE, trailer};
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Frames that may be on their way at the same time, and frames that are remembered after they came.
const AT_ONCE: usize = 64;
/// Distances of the low bytes of two frames' numbers at which the earlier one gets no more lines, even after an echo.
const PASSED: RangeInclusive<u8> = 64..=191;
/// Lines of a frame, at most.
const MOST_LINES: usize = 256;

/// What a piece was good for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// It is one more of its frame.
    New,
    /// It was there already.
    Repeated,
}

/// The frames of which pieces came.
#[derive(Default)]
pub(super) struct Assembly {
    begun: VecDeque<Begun>,
    done: VecDeque<Begun>,
    arrived: Arrived,
}

/// A frame and its pieces, by the number of lines that follow each.
struct Begun {
    stream: u16,
    frame: u8,
    pieces: Vec<Option<Come>>,
    /// Pieces that came.
    come: u64,
}

/// A piece that came.
#[derive(Clone)]
struct Come {
    /// How many had come before it.
    before: u64,
    bytes: Vec<u8>,
}

impl Assembly {
    /// Adds a piece. Frames that become whole, or are given up, go to `frames`.
    pub(super) fn add(&mut self, head: ArmourHead, piece: Vec<u8>, frames: &mut Vec<u8>) -> Piece {
        let is_of = |it: &Begun| it.stream == head.stream && it.frame == head.frame;
        let following = usize::from(head.following);
        let is_known = |it: &Begun| is_of(it) && it.piece(following) == Some(&piece);
        if self.done.iter().chain(&self.begun).any(is_known) {
            return Piece::Repeated;
        }
        self.pass(&head, frames);
        let mut at = self.begun.iter().position(is_of);
        if let Some(begun) = at
            && self.begun[begun].piece(following).is_some()
        {
            self.give_up(begun, frames); // 256 frames later
            at = None;
        }
        let at = at.unwrap_or_else(|| {
            if self.begun.len() == AT_ONCE {
                self.give_up(0, frames);
            }
            self.begun.push_back(Begun {
                stream: head.stream,
                frame: head.frame,
                pieces: Vec::new(),
                come: 0,
            });
            self.begun.len() - 1
        });
        self.begun[at].put(following, piece);
        if let Some((header, bytes)) = self.begun[at].take_whole() {
            self.arrived.add(&header);
            frames.extend(bytes);
            if let Some(done) = self.begun.remove(at) {
                if self.done.len() == AT_ONCE {
                    self.done.pop_front();
                }
                self.done.push_back(done);
            }
        }
        Piece::New
    }

    /// Gives up what is not whole: no more pieces will come.
    pub(super) fn finish(&mut self, frames: &mut Vec<u8>) {
        while !self.begun.is_empty() {
            self.give_up(0, frames);
        }
    }

    /// The frames that came whole.
    pub(super) fn arrived(&self) -> &Arrived {
        &self.arrived
    }

    /// Gives up frames of the same stream that are long past: 256 frames later their number comes again.
    fn pass(&mut self, head: &ArmourHead, frames: &mut Vec<u8>) {
        let is_past = |it: &Begun| {
            it.stream == head.stream && PASSED.contains(&head.frame.wrapping_sub(it.frame))
        };
        while let Some(at) = self.begun.iter().position(is_past) {
            self.give_up(at, frames);
        }
    }

    fn give_up(&mut self, at: usize, frames: &mut Vec<u8>) {
        if let Some(begun) = self.begun.remove(at) {
            self.arrived.give_up(begun.stream, begun.frame);
            frames.extend(begun.torn());
        }
    }
}

impl Begun {
    fn piece(&self, following: usize) -> Option<&Vec<u8>> {
        Some(&self.pieces.get(following)?.as_ref()?.bytes)
    }

    fn put(&mut self, following: usize, bytes: Vec<u8>) {
        if self.pieces.len() <= following && following < MOST_LINES {
            self.pieces.resize(following + 1, None);
        }
        if let Some(place) = self.pieces.get_mut(following) {
            let before = self.come;
            *place = Some(Come { before, bytes });
            self.come += 1;
        }
    }

    /// The bytes of the frame, if all are there. Where they are of two frames, those that came before the first piece are dropped: they
    /// are of an earlier frame with the same low byte of its number.
    fn take_whole(&mut self) -> Option<(Header, Vec<u8>)> {
        let pieces = self.pieces.iter().rev();
        let bytes: Option<Vec<&[u8]>> = pieces.map(|it| Some(&it.as_ref()?.bytes[..])).collect();
        let bytes = bytes?.concat();
        if !bytes.starts_with(&FRAME_MAGIC) {
            return None;
        }
        let header = Header::decode(&bytes).ok();
        if let Some(header) = header.filter(|header| is_one_frame(header, &bytes)) {
            return Some((header, bytes));
        }
        let first = self.pieces.last()?.as_ref()?.before;
        for piece in &mut self.pieces {
            piece.take_if(|piece| piece.before < first);
        }
        None
    }

    /// What is there of the frame, so that it is seen to be damaged.
    fn torn(&self) -> Vec<u8> {
        let longest = self
            .pieces
            .iter()
            .flatten()
            .map(|piece| piece.bytes.len())
            .max()
            .unwrap_or(0);
        let missing = vec![0; longest];
        let pieces = self.pieces.iter().rev();
        let mut bytes = pieces
            .map(|piece| {
                piece
                    .as_ref()
                    .map_or(&missing, |piece| &piece.bytes)
                    .as_slice()
            })
            .collect::<Vec<_>>()
            .concat();
        if !bytes.starts_with(&FRAME_MAGIC) {
            return [&FRAME_MAGIC[..], &bytes].concat();
        }
        if let Ok(header) = Header::decode(&bytes) {
            bytes.truncate(usize::try_from(header.frame_length()).unwrap_or(usize::MAX));
        }
        let trailer = bytes.len().saturating_sub(TRAILER_SIZE);
        for byte in &mut bytes[trailer..] {
            *byte = !*byte;
        }
        bytes
    }
}

/// Whether what lies behind a header is what it says.
fn is_one_frame(header: &Header, bytes: &[u8]) -> bool {
    let behind = bytes.get(usize::from(header.header_length)..);
    let parts = behind.and_then(|it| it.split_last_chunk::<TRAILER_SIZE>());
    let is_summed = header.sum_kind == SumKind::Crc32 as u8;
    parts.is_some_and(|(payload, end)| {
        header.frame_length() == bytes.len() as u64
            && *end == trailer(header.frame)
            && (!is_summed || crc32fast::hash(payload) == header.payload_sum)
    })
}
