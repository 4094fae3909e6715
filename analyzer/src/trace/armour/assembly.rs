//! Puts frames together from the pieces that lines carry.

use super::arrived::Arrived;
use heapwire_format::{ArmourHead, FRAME_MAGIC, Header, TRAILER_SIZE};
use std::collections::VecDeque;

/// Frames that may be on their way at the same time, and frames that are remembered after they came.
const AT_ONCE: usize = 64;
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
    pieces: Vec<Option<Vec<u8>>>,
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
            });
            self.begun.len() - 1
        });
        self.begun[at].put(following, piece);
        if let Some((header, bytes)) = self.begun[at].whole() {
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

    fn give_up(&mut self, at: usize, frames: &mut Vec<u8>) {
        if let Some(begun) = self.begun.remove(at) {
            frames.extend(begun.torn());
        }
    }
}

impl Begun {
    fn piece(&self, following: usize) -> Option<&Vec<u8>> {
        self.pieces.get(following)?.as_ref()
    }

    fn put(&mut self, following: usize, piece: Vec<u8>) {
        if self.pieces.len() <= following && following < MOST_LINES {
            self.pieces.resize(following + 1, None);
        }
        if let Some(place) = self.pieces.get_mut(following) {
            *place = Some(piece);
        }
    }

    /// The bytes of the frame, if all are there.
    fn whole(&self) -> Option<(Header, Vec<u8>)> {
        let pieces: Option<Vec<&[u8]>> = self.pieces.iter().rev().map(Option::as_deref).collect();
        let bytes = pieces?.concat();
        let header = Header::decode(&bytes).ok()?;
        (header.frame_length() == bytes.len() as u64).then_some((header, bytes))
    }

    /// What is there of the frame, so that it is seen to be damaged.
    fn torn(&self) -> Vec<u8> {
        let longest = self
            .pieces
            .iter()
            .flatten()
            .map(Vec::len)
            .max()
            .unwrap_or(0);
        let missing = vec![0; longest];
        let pieces = self.pieces.iter().rev();
        let mut bytes = pieces
            .map(|piece| piece.as_deref().unwrap_or(&missing))
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
