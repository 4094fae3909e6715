//! Finds whole frames in bytes that come one after the other.

use crate::trace::{Found, Frame, LONGEST, MARK};
use heapwire_format::{Header, HeaderError, TRAILER_SIZE, trailer};
use memchr::memmem;
use std::sync::Arc;

/// See the module.
#[derive(Default)]
pub(super) struct Finder {
    held: Vec<u8>,
    found: Vec<Frame>,
    rest: Vec<u8>,
    damaged: u64,
}

impl Finder {
    /// Takes bytes that come next; `is_all`: no more will.
    pub(super) fn take(&mut self, bytes: &[u8], is_all: bool) {
        self.rest.clear();
        self.held.extend(bytes);
        let mut at = 0;
        while let Some(rest) = self.held.get(at..).filter(|rest| !rest.is_empty()) {
            let begin = memmem::find(rest, MARK).unwrap_or_else(|| {
                let kept = (1..MARK.len())
                    .rev()
                    .find(|kept| rest.ends_with(&MARK[..*kept]));
                rest.len() - kept.filter(|_| !is_all).unwrap_or(0)
            });
            self.rest.extend(&rest[..begin]);
            at += begin;
            let rest = &self.held[at..];
            if rest.len() < MARK.len() {
                break;
            }
            match frame(rest) {
                Next::Frame(header, length) => {
                    self.found.push(Frame {
                        input: 0,
                        offset: 0,
                        header,
                        block: Arc::new(rest[..length].to_vec()),
                        at: 0,
                    });
                    at += length;
                }
                Next::More if !is_all => break,
                Next::More | Next::Damaged => {
                    self.damaged += 1;
                    self.rest.push(rest[0]);
                    at += 1;
                }
            }
        }
        self.held.drain(..at);
    }

    /// The frames that were found since this was asked last.
    pub(super) fn found(&mut self) -> impl Iterator<Item = Found> + use<> {
        std::mem::take(&mut self.found)
            .into_iter()
            .map(Found::Whole)
    }

    /// What of the bytes taken last, or held before, is in no frame.
    pub(super) fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// Places that are like the beginning of a frame and have no whole one.
    pub(super) fn damaged(&self) -> u64 {
        self.damaged
    }
}

enum Next {
    Frame(Header, usize),
    More,
    Damaged,
}

/// The frame that `bytes` begin with.
fn frame(bytes: &[u8]) -> Next {
    let header = match Header::decode(bytes) {
        Ok(header) if header.frame_length() <= LONGEST => header,
        Err(HeaderError::Short) => return Next::More,
        Err(HeaderError::Magic) if bytes.len() < Header::SIZE => return Next::More,
        _ => return Next::Damaged,
    };
    let length = usize::try_from(header.frame_length()).unwrap_or(usize::MAX);
    match bytes.get(length - TRAILER_SIZE..length) {
        None => Next::More,
        Some(end) if end == trailer(header.frame) => Next::Frame(header, length),
        Some(_) => Next::Damaged,
    }
}
