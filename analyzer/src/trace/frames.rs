//! Finds the whole frames in a run of bytes, and counts what lies between them.
//!
//! Frames are found by their magic, believed by their sums and trailer, and searched for again after damage
//! (SPEC.md 12). Payloads are not looked at here.

use super::error::Translation;
use heapwire_format::{Header, HeaderError, TRAILER_SIZE, trailer};
use memchr::memmem::{self, Finder};

/// What every frame begins with, as far as text-mode transfers leave it alone.
const MARK: &[u8] = b"\x89HWT";
/// How far to look for the marks of a translation.
const TRANSLATION_SEARCH: usize = 1 << 20;

/// A whole frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Where its header begins.
    pub(crate) offset: usize,
    pub(crate) header: Header,
}

impl Frame {
    /// Where the payload lies in the bytes that the frame was found in.
    pub(crate) fn payload(&self) -> std::ops::Range<usize> {
        let begin = self.offset + usize::from(self.header.header_length);
        begin..begin + self.header.payload_length as usize
    }
}

/// What a run of bytes holds.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Whole frames, in order of place.
    pub(crate) frames: Vec<Frame>,
    /// Headers of damaged frames: they may be believed, their records may not.
    pub(crate) torn: Vec<Header>,
    /// Places where something begins like a frame and is none.
    pub(crate) damaged_frames: u64,
    /// The first of these places.
    pub(crate) first_damage: Option<usize>,
    /// Bytes of damaged frames.
    pub(crate) damaged_bytes: u64,
    /// Bytes outside frames.
    pub(crate) foreign_bytes: u64,
    /// The bytes end inside a frame.
    pub(crate) ends_inside: bool,
    /// Highest major version that was refused.
    pub(crate) newer_major: Option<u8>,
    /// Bytes up to here are accounted for.
    covered: usize,
    /// Bytes up to here belong to a damaged frame, unless a whole frame comes first.
    damaged_to: usize,
}

impl Scan {
    /// Whether nothing is there that a frame begins with.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.first_damage.is_none() && self.newer_major.is_none()
    }

    /// Scans all of `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mark = Finder::new(MARK);
        let mut scan = Self::default();
        let mut at = 0;
        while let Some(found) = bytes.get(at..).and_then(|rest| mark.find(rest)) {
            let offset = at + found;
            at = scan.examine(bytes, offset);
        }
        scan.account(bytes.len());
        scan
    }

    /// Looks at the mark at `offset`; gives where to search on.
    fn examine(&mut self, bytes: &[u8], offset: usize) -> usize {
        self.account(offset);
        match Header::decode(&bytes[offset..]) {
            Ok(header) => match end_of_whole(bytes, offset, &header) {
                Ok(end) => {
                    self.frames.push(Frame { offset, header });
                    self.covered = end;
                    self.damaged_to = 0;
                    return end;
                }
                Err(claimed) => {
                    self.ends_inside |= claimed > bytes.len();
                    self.torn.push(header);
                    self.damage(offset, claimed);
                }
            },
            Err(HeaderError::Version(major)) => {
                self.newer_major = self.newer_major.max(Some(major));
                self.damage(offset, usize::MAX);
            }
            Err(HeaderError::Short) => {
                self.ends_inside = true;
                self.damage(offset, usize::MAX);
            }
            Err(_) => self.damage(offset, usize::MAX),
        }
        offset + 1
    }

    fn damage(&mut self, offset: usize, claimed_end: usize) {
        self.damaged_frames += 1;
        self.first_damage.get_or_insert(offset);
        self.damaged_to = self.damaged_to.max(claimed_end);
    }

    /// Books the bytes before `to` that are not yet booked: damaged ones first, the rest is foreign.
    fn account(&mut self, to: usize) {
        let damaged_to = self.damaged_to.clamp(self.covered, to.max(self.covered));
        self.damaged_bytes += (damaged_to - self.covered) as u64;
        self.foreign_bytes += to.saturating_sub(damaged_to) as u64;
        self.covered = self.covered.max(to);
    }
}

/// Where the frame at `offset` ends if it is whole; else where it would end.
fn end_of_whole(bytes: &[u8], offset: usize, header: &Header) -> Result<usize, usize> {
    let length = usize::try_from(header.frame_length()).unwrap_or(usize::MAX);
    let end = offset.saturating_add(length);
    let found = end
        .checked_sub(TRAILER_SIZE)
        .and_then(|at| bytes.get(at..end));
    if found == Some(&trailer(header.frame)[..]) {
        Ok(end)
    } else {
        Err(end)
    }
}

/// What a transfer did to a trace whose magic is nowhere right.
pub(crate) fn translation(bytes: &[u8]) -> Option<Translation> {
    let head = &bytes[..bytes.len().min(TRANSLATION_SEARCH)];
    let marks: [(&[u8], Translation); 4] = [
        (b"\x89HWT\r\r\n\xff\x1a", Translation::LineFeedsGrew),
        (b"\x89HWT\n\xff\x1a", Translation::LineFeedsShrank),
        (b"\xff\xff\x1a", Translation::TelnetEscapes),
        (b"\x09HWT\r\n\x7f\x1a", Translation::SevenBits),
    ];
    marks
        .into_iter()
        .find(|(mark, _)| memmem::find(head, mark).is_some())
        .map(|(_, translation)| translation)
}
