//! Finds the whole frames in a run of bytes, and counts what lies between them.
//!
//! Frames are found by their magic, believed by their sums and trailer, and searched for again after damage
//! (SPEC.md 12). Payloads are not looked at here. Bytes come in blocks; a frame lies in one block.

use super::Condition;
use super::ahead::Span;
use super::error::Translation;
use super::input::Store;
use super::judge::{MOST_PACKED, RECORD_SIZE};
use heapwire_format::{FRAME_MAGIC, FrameKind, Header, HeaderError, TRAILER_SIZE, trailer};
use memchr::memmem::{self, Finder};
use std::io::{self, Cursor, Read};
use std::ops::Range;
use std::sync::Arc;

/// What every frame begins with, as far as text-mode transfers leave it alone.
pub(crate) const MARK: &[u8] = FRAME_MAGIC.split_at(HALF).0;
/// Where the other half of the magic begins.
const HALF: usize = 4;
/// Bytes that are read at once.
const BLOCK: usize = 1 << 20;
/// Records after which no further frame is looked for at once: packed ones are many more in memory than they are in a block.
const RECORDS: u32 = 1 << 16;
/// Longest frame that is read (SPEC.md 6.4).
pub(crate) const LONGEST: u64 = 1 << 24;

/// Bytes of an input that were read together.
pub(crate) type Block = Arc<Vec<u8>>;

/// A whole frame.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Index of the input.
    pub(crate) input: u32,
    /// Where its header begins in the input.
    pub(crate) offset: u64,
    pub(crate) header: Header,
    /// What holds its bytes.
    pub(crate) block: Block,
    /// Where the header begins in the block.
    pub(crate) at: usize,
}

impl Frame {
    /// Where the payload lies in the block.
    pub(crate) fn payload(&self) -> Range<usize> {
        let begin = self.at + usize::from(self.header.header_length);
        begin..begin + self.header.payload_length as usize
    }

    /// Records that it may hold.
    fn records(&self) -> u32 {
        match self.header.kind {
            FrameKind::PACKED => {
                let count = self.block[self.payload()].first_chunk();
                count.map_or(0, |count| u32::from_le_bytes(*count).min(MOST_PACKED))
            }
            _ => self.header.payload_length / RECORD_SIZE,
        }
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Whole(Frame),
    /// The header of a damaged frame: it may be believed, its records may not.
    Torn(Header),
}

/// The frames of one input or a part of one.
pub(crate) struct Frames {
    from: Box<dyn Read + Send>,
    input: u32,
    block: Block,
    /// Where the block begins in the input.
    block_at: u64,
    /// Bytes of the block that were looked at.
    at: usize,
    /// Those that had been before the last time.
    begin: usize,
    /// There may be more frames in the block.
    has_more: bool,
    /// Bytes from `at` on that the next block must have.
    needed: usize,
    /// Bytes that come, at the most.
    most: usize,
    has_ended: bool,
    account: Account,
    /// The account before the last block.
    before: Account,
}

/// What was found so far, in bytes.
#[derive(Clone, Default)]
pub(super) struct Account {
    /// Bytes up to here are accounted for.
    covered: u64,
    /// Bytes up to here belong to a damaged frame, unless a whole frame comes first.
    damaged_to: u64,
    pub(super) condition: Condition,
}

impl Frames {
    /// The frames in what `from` gives, which begins at `offset` of the input.
    pub(crate) fn new(from: Box<dyn Read + Send>, input: u32, offset: u64) -> Self {
        Self {
            from,
            input,
            block: Block::default(),
            block_at: offset,
            at: 0,
            begin: 0,
            has_more: false,
            needed: 0,
            most: usize::MAX,
            has_ended: false,
            account: Account {
                covered: offset,
                ..Account::default()
            },
            before: Account::default(),
        }
    }

    /// Appends what the next block that has any holds to `found`. `false`: there is no more.
    pub(crate) fn next_block(&mut self, found: &mut Vec<Found>) -> io::Result<bool> {
        while found.is_empty() && self.read_block(found)? {}
        Ok(!found.is_empty())
    }

    /// Appends what the next block holds to `found`, or a part of it. `false`: there is no more.
    pub(crate) fn read_block(&mut self, found: &mut Vec<Found>) -> io::Result<bool> {
        if self.has_ended() {
            return Ok(false);
        }
        if !self.has_more {
            self.read()?;
        }
        self.begin = self.at;
        self.before = self.account.clone();
        self.scan(&Marks::new(), found);
        if self.has_ended() {
            self.account.pass(self.block_at + self.block.len() as u64);
        }
        Ok(!self.has_ended())
    }

    /// Whether nothing was there that a frame begins with.
    pub(crate) fn has_nothing(&self) -> bool {
        let condition = &self.account.condition;
        self.account.covered == 0 || condition.foreign_bytes == self.account.covered
    }

    /// All bytes from the last block on, to be read again.
    pub(crate) fn into_reader(self) -> Box<dyn Read + Send> {
        let block = Cursor::new(self.block.to_vec());
        Box::new(block.chain(self.from))
    }

    /// What the bytes outside whole frames show.
    pub(crate) fn condition(&self) -> &Condition {
        &self.account.condition
    }

    /// The last block that was looked at.
    pub(super) fn span(&self) -> Span {
        Span {
            block: self.block(),
            block_at: self.block_at,
            begin: self.block_at + self.begin as u64,
            before: self.before.clone(),
            end: self.block_at + self.at as u64,
            after: self.account.clone(),
        }
    }

    /// Whether there is nothing after what was looked at last.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended && !self.has_more
    }

    /// The bytes that were not read.
    pub(super) fn into_unread(self) -> Box<dyn Read + Send> {
        self.from
    }

    /// Takes back what was looked at last, as if it had not been.
    pub(crate) fn take_back(&mut self) {
        self.at = self.begin;
        self.account = self.before.clone();
    }

    /// A place where all that was not looked at can be read again: that of the input, or one where what is left of a
    /// stream is laid aside.
    pub(crate) fn set_aside(mut self, store: Option<&Store>) -> io::Result<Rest> {
        let offset = self.block_at + self.at as u64;
        let (store, shift) = match store {
            Some(store) => (store.clone(), 0),
            None => {
                let read = &self.block[self.at..];
                (Store::laid_aside(read, &mut self.from)?, offset)
            }
        };
        Ok(Rest {
            store,
            shift,
            input: self.input,
            offset,
            account: self.account,
        })
    }

    /// The bytes that are in memory.
    pub(crate) fn block(&self) -> Block {
        Arc::clone(&self.block)
    }

    /// Whether no byte came.
    pub(crate) fn is_empty(&self) -> bool {
        self.has_ended && self.block_at == 0 && self.block.is_empty()
    }

    /// Index of the input.
    pub(crate) fn input(&self) -> u32 {
        self.input
    }

    /// Where the last block begins in the input.
    pub(super) fn begin_of_block(&self) -> u64 {
        self.block_at
    }

    /// How far the input was read.
    pub(crate) fn position(&self) -> u64 {
        self.block_at + self.block.len() as u64
    }

    /// Looks at the frames that the block holds whole, up to so many records.
    fn scan(&mut self, marks: &Marks, found: &mut Vec<Found>) {
        let block = Arc::clone(&self.block);
        let mut records = 0;
        self.has_more = false;
        let has_ended = self.has_ended;
        while let Some(place) = block
            .get(self.at..)
            .and_then(|rest| marks.find(rest, has_ended))
        {
            self.at += place;
            let rest = &block[self.at..];
            let header = Header::decode(rest);
            let needed = match &header {
                _ if rest.len() < Header::SIZE => Header::SIZE,
                Ok(header) if header.frame_length() <= LONGEST => length(header),
                _ => 0,
            };
            if needed > rest.len() && !self.has_ended {
                self.needed = needed;
                return;
            }
            records += self.examine(&block, header, found);
            if records >= RECORDS {
                self.has_more = true;
                return;
            }
        }
        let kept = FRAME_MAGIC.len() - 1;
        self.at = self.at.max(block.len().saturating_sub(kept));
        self.needed = 0;
    }

    /// Reads on, at least until `needed` bytes from `at` on are there or the input ends.
    fn read(&mut self) -> io::Result<()> {
        let kept = &self.block[self.at..];
        let more = self.needed.saturating_sub(kept.len()).max(BLOCK);
        let mut bytes = Vec::with_capacity(kept.len() + more.min(self.most));
        bytes.extend_from_slice(kept);
        self.block_at += self.at as u64;
        self.at = 0;
        let mut part = self.from.by_ref().take(more as u64);
        self.has_ended = part.read_to_end(&mut bytes)? < more;
        if self.has_ended {
            bytes.shrink_to_fit(); // a run of one frame is far shorter than a block
        }
        self.block = Arc::new(bytes);
        Ok(())
    }

    /// Looks at the mark at `at`, and moves on. Gives the records that may have been found.
    fn examine(
        &mut self,
        block: &Block,
        header: Result<Header, HeaderError>,
        found: &mut Vec<Found>,
    ) -> u32 {
        let offset = self.block_at + self.at as u64;
        let rest = &block[self.at..];
        self.account.pass(offset);
        let claimed = match header {
            Ok(header) if is_whole(rest, &header) => {
                let frame = Frame {
                    input: self.input,
                    offset,
                    header,
                    block: Arc::clone(block),
                    at: self.at,
                };
                let records = frame.records();
                found.push(Found::Whole(frame));
                self.at += length(&header);
                self.account.believe(offset + header.frame_length());
                return records;
            }
            Ok(header) => {
                found.push(Found::Torn(header));
                let end = offset.saturating_add(header.frame_length());
                if length(&header) > rest.len() && self.has_ended {
                    self.account.cut(offset);
                }
                end
            }
            Err(HeaderError::Magic) if let Some(header) = unmarked(rest) => {
                found.push(Found::Torn(header));
                offset.saturating_add(header.frame_length())
            }
            Err(error) => {
                match error {
                    HeaderError::Version(major) => {
                        let newest = &mut self.account.condition.newer_major;
                        *newest = (*newest).max(Some(major));
                    }
                    HeaderError::Short => self.account.cut(offset),
                    _ => {}
                }
                u64::MAX
            }
        };
        self.account.damage(self.input, offset, claimed);
        self.at += 1;
        0
    }
}

/// Finds what frames begin with.
struct Marks {
    first: Finder<'static>,
    second: Finder<'static>,
}

impl Marks {
    fn new() -> Self {
        let (first, second) = FRAME_MAGIC.split_at(HALF);
        Self {
            first: Finder::new(first).into_owned(),
            second: Finder::new(second).into_owned(),
        }
    }

    /// Where in `bytes` the next frame may begin: at the first half of a magic, or before the second one where a header fits.
    fn find(&self, bytes: &[u8], is_all: bool) -> Option<usize> {
        let first = self.first.find(bytes);
        let before = &bytes[..first.unwrap_or(bytes.len())];
        let halves = self.second.find_iter(before);
        let mut others = halves.filter_map(|at| at.checked_sub(HALF));
        let other = others.find(|at| {
            let rest = &bytes[*at..];
            unmarked(rest).is_some() || rest.len() < Header::SIZE && !is_all
        });
        other.or(first)
    }
}

/// The header that `bytes` begin with, if it is one but for its magic, which its sum shows.
fn unmarked(bytes: &[u8]) -> Option<Header> {
    let mut header = *bytes.first_chunk::<{ Header::SIZE }>()?;
    header[..FRAME_MAGIC.len()].copy_from_slice(&FRAME_MAGIC);
    Header::decode(&header).ok()
}

impl Account {
    fn damage(&mut self, input: u32, offset: u64, claimed_end: u64) {
        self.condition.damaged_frames += 1;
        self.condition.note_place(input, offset);
        self.damaged_to = self.damaged_to.max(claimed_end);
    }

    /// Books that the input ends inside the frame at `offset`.
    fn cut(&mut self, offset: u64) {
        self.condition.cut_inputs = 1;
        self.condition.first_cut.get_or_insert(offset);
    }

    /// Books a whole frame that ends at `end`.
    fn believe(&mut self, end: u64) {
        self.covered = end;
        self.damaged_to = 0;
    }

    /// Books the bytes before `to` that are not yet booked: damaged ones first, the rest is foreign.
    fn pass(&mut self, to: u64) {
        let damaged_to = self.damaged_to.clamp(self.covered, to.max(self.covered));
        self.condition.damaged_bytes += damaged_to - self.covered;
        if to > damaged_to {
            self.condition.foreign_bytes += to - damaged_to;
            self.condition.first_foreign.get_or_insert(damaged_to);
        }
        self.covered = self.covered.max(to);
    }
}

/// What of an input was not looked at yet.
pub(crate) struct Rest {
    store: Store,
    /// Where the store begins in the input.
    shift: u64,
    input: u32,
    offset: u64,
    account: Account,
}

impl Rest {
    /// What `store`, which begins at `shift` of the input, holds from `offset` of the input on.
    pub(super) fn new(store: Store, shift: u64, input: u32, offset: u64, account: Account) -> Self {
        Self {
            store,
            shift,
            input,
            offset,
            account,
        }
    }

    /// All of an input.
    pub(crate) fn all(store: Store, input: u32) -> Self {
        Self {
            store,
            shift: 0,
            input,
            offset: 0,
            account: Account::default(),
        }
    }

    /// Index of the input.
    pub(crate) fn input(&self) -> u32 {
        self.input
    }

    /// Its bytes.
    pub(crate) fn length(&self) -> u64 {
        (self.shift + self.store.length()).saturating_sub(self.offset)
    }

    /// Whether what is at `offset` of the input can be read.
    pub(super) fn reaches(&self, input: u32, offset: u64) -> bool {
        self.input == input && offset >= self.shift
    }

    /// The frame at `offset` of the input.
    pub(super) fn frame(&self, offset: u64) -> io::Result<Option<Found>> {
        let mut header = Vec::new();
        let begin = offset - self.shift;
        let size = Header::SIZE as u64;
        self.store
            .reader(begin, begin + size)
            .read_to_end(&mut header)?;
        let Ok(header) = Header::decode(&header) else {
            return Ok(None);
        };
        let end = offset.saturating_add(header.frame_length().min(LONGEST));
        let mut found = Vec::new();
        self.part(offset, end).read_block(&mut found)?;
        Ok(found.pop())
    }

    /// Its frames.
    pub(crate) fn frames(&self) -> Frames {
        Frames {
            account: self.account.clone(),
            ..self.part(self.offset, u64::MAX)
        }
    }

    /// The frames between two offsets of the input.
    pub(crate) fn part(&self, begin: u64, end: u64) -> Frames {
        let from = self
            .store
            .reader(begin - self.shift, end.saturating_sub(self.shift));
        Frames {
            most: usize::try_from(end.saturating_sub(begin)).unwrap_or(usize::MAX),
            ..Frames::new(from, self.input, begin)
        }
    }
}

fn length(header: &Header) -> usize {
    usize::try_from(header.frame_length()).unwrap_or(usize::MAX)
}

/// Whether the frame that `bytes` begin with is there to its trailer.
fn is_whole(bytes: &[u8], header: &Header) -> bool {
    let length = length(header);
    let found = bytes.get(length - TRAILER_SIZE..length);
    header.frame_length() <= LONGEST && found == Some(&trailer(header.frame)[..])
}

/// What a transfer did to a trace whose magic is nowhere right.
pub(crate) fn translation(bytes: &[u8]) -> Option<Translation> {
    let marks: [(&[u8], Translation); 7] = [
        (b"\x89HWT\r\r\n\xff\x1a", Translation::LineFeedsGrew),
        (b"\x89HWT\n\xff\x1a", Translation::LineFeedsShrank),
        (b"\x89HWT\r\0\n\xff\xff\x1a", Translation::TelnetText),
        (
            b"\x89HWT\r\r\n\xff\xff\x1a",
            Translation::TerminalAndEscapes,
        ),
        (
            b"\x89HWT\r\0\r\n\xff\xff\x1a",
            Translation::TerminalAndTelnet,
        ),
        (b"\xff\xff\x1a", Translation::TelnetEscapes),
        (b"\x09HWT\r\n\x7f\x1a", Translation::SevenBits),
    ];
    marks
        .into_iter()
        .find(|(mark, _)| memmem::find(bytes, mark).is_some())
        .map(|(_, translation)| translation)
}
