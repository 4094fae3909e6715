//! The bytes of one or more inputs, and where in them the records of each stream lie.
//!
//! Recognises inputs by content, finds frames and lanes, and counts damage. What a record means is not known here.
//! One input is read once, in order, as long as it holds one stream; from the first sign of another process on, the
//! rest of it is indexed, and streams are read one after the other.

mod ahead;
pub(crate) mod armour;
mod error;
mod frames;
mod index;
mod input;
mod judge;
mod lanes;
pub(crate) mod parse;
mod possible;
pub(crate) mod source;
mod stream;
mod supply;
mod survey;
#[cfg(test)]
mod tests;
mod text;
mod undo;
mod unpack;

pub use error::{TraceError, Translation};
pub(crate) use frames::{Block, Found, Frame, LONGEST, MARK};
pub(crate) use judge::{Content, Judged};
pub(crate) use source::{Head, Source};
pub(crate) use stream::{Observed, Stream, holds_records};
pub(crate) use supply::{Supplied, Supply};
pub(crate) use survey::{Census, Damage, Survey, believed, op_name};

use crate::{log, progress};
use frames::{Frames, Rest};
use heapwire_format::{FrameKind, Header, MINOR, OBSERVER, Op, Record};
use index::Index;
pub(crate) use input::Input;
use rustc_hash::FxHashMap;
use source::Holder;
use std::io;
use std::path::{Path, PathBuf};
pub(crate) use text::Text;
use unpack::Broken;

/// Damage and other things that the inputs as a whole show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Frames whose records cannot be believed.
    pub(crate) damaged_frames: u64,
    /// Bytes of these.
    pub(crate) damaged_bytes: u64,
    /// Input and offset of the first of them.
    pub(crate) first_damage: Option<(u32, u64)>,
    /// Bytes outside frames.
    pub(crate) foreign_bytes: u64,
    /// Offset of the first of them in its input.
    pub(crate) first_foreign: Option<u64>,
    /// Inputs that end inside a frame.
    pub(crate) cut_inputs: u64,
    /// Offset of such a frame.
    pub(crate) first_cut: Option<u64>,
    /// Frames of kinds that this version does not know.
    pub(crate) unknown_frames: u64,
    /// Highest major version that was refused.
    pub(crate) newer_major: Option<u8>,
    /// Highest minor version above this one's.
    pub(crate) newer_minor: Option<u8>,
}

impl Condition {
    /// Damage is found in more than one pass.
    fn note_place(&mut self, input: u32, offset: u64) {
        let first = self.first_damage.get_or_insert((input, offset));
        *first = (*first).min((input, offset));
    }

    fn damage(&mut self, (input, offset): (u32, u64), bytes: u64) {
        self.damaged_frames += 1;
        self.damaged_bytes += bytes;
        self.note_place(input, offset);
    }

    fn absorb(&mut self, other: &Self) {
        self.damaged_frames += other.damaged_frames;
        self.damaged_bytes += other.damaged_bytes;
        if let Some((input, offset)) = other.first_damage {
            self.note_place(input, offset);
        }
        self.foreign_bytes += other.foreign_bytes;
        self.first_foreign = self.first_foreign.or(other.first_foreign);
        self.cut_inputs += other.cut_inputs;
        self.first_cut = self.first_cut.or(other.first_cut);
        self.unknown_frames += other.unknown_frames;
        self.newer_major = self.newer_major.max(other.newer_major);
        self.newer_minor = self.newer_minor.max(other.newer_minor);
    }
}

/// Numbers for which records of a stream are held back, of which copies cannot be looked for later.
const HELD_OF_STREAMS: u64 = 1 << 17;

/// Inputs, opened, and what was read of them.
pub(crate) struct Trace {
    inputs: Vec<Input>,
    /// In order of appearance, without the observers' stream.
    pub(crate) streams: Vec<Stream>,
    /// Place among the streams of each tag.
    places: FxHashMap<u32, usize>,
    pub(crate) observed: Vec<Observed>,
    /// Frames that a repair left out, of which nobody knows whose they were.
    pub(crate) left_out: u64,
    /// Bytes that a repair left out as they were in no frame.
    pub(crate) left_out_bytes: u64,
    /// Records that a repair left out as another of their number came first.
    pub(crate) left_out_copies: u64,
    pub(crate) condition: Condition,
    /// Inputs that are logs of glibc's mtrace.
    pub(crate) logs: Vec<u32>,
    /// Their bytes.
    texts: FxHashMap<u32, Text>,
    reading: Reading,
    /// For so many numbers records are held back, once all of them are there, for copies to be compared with. Of what can be read
    /// again none are, unless there turn out to be copies.
    pub(crate) held_for_copies: u64,
}

/// How far the inputs are read.
enum Reading {
    /// One input, whose first frames were found.
    Begun(Box<Frames>, Vec<Found>),
    /// One input, whose only stream somebody reads.
    Alone,
    Indexed(Index),
}

impl Trace {
    /// Opens the inputs in order; `-` is standard input.
    ///
    /// # Errors
    ///
    /// The first input that cannot be read or holds no whole frame.
    pub(crate) fn open(paths: &[PathBuf]) -> Result<Self, TraceError> {
        let inputs = paths
            .iter()
            .map(|path| Input::open(path))
            .collect::<Result<_, _>>()?;
        Self::of(inputs)
    }

    /// A trace of bytes in memory.
    #[cfg(test)]
    pub(crate) fn of_bytes(inputs: impl IntoIterator<Item = Vec<u8>>) -> Result<Self, TraceError> {
        let inputs = (0..).zip(inputs).map(|(index, bytes): (u32, _)| {
            Input::in_memory(PathBuf::from(format!("trace{index}")), bytes)
        });
        Self::of(inputs.collect())
    }

    /// A trace of bytes that can be read once.
    #[cfg(test)]
    pub(crate) fn of_stream(bytes: Vec<u8>) -> Result<Self, TraceError> {
        let bytes = io::Cursor::new(bytes);
        Self::of(vec![Input::streamed(PathBuf::from("trace0"), bytes)])
    }

    fn unread(inputs: Vec<Input>) -> Self {
        Self {
            inputs,
            streams: Vec::new(),
            places: FxHashMap::default(),
            observed: Vec::new(),
            left_out: 0,
            left_out_bytes: 0,
            left_out_copies: 0,
            condition: Condition::default(),
            logs: Vec::new(),
            texts: FxHashMap::default(),
            reading: Reading::Indexed(Index::default()),
            held_for_copies: 0,
        }
    }

    /// A trace of these inputs.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub(crate) fn of(inputs: Vec<Input>) -> Result<Self, TraceError> {
        let mut trace = Self::unread(inputs);
        match &mut trace.inputs[..] {
            [] => return Err(TraceError::NoInput),
            [input] => match Opened::of(input, 0)? {
                Opened::Trace(frames, found) => trace.reading = Reading::Begun(frames, found),
                Opened::Log(text) => trace.add_log(0, text),
            },
            _ => trace.index_each()?,
        }
        if !trace.can_be_read_again() {
            trace.held_for_copies = HELD_OF_STREAMS;
        }
        Ok(trace)
    }

    /// Forgets what was read, to be read again with all copies in view that ever are. `false`: that cannot be, or was so.
    pub(crate) fn begin_again(&mut self) -> Result<bool, TraceError> {
        if self.held_for_copies > 0 {
            return Ok(false);
        }
        let logs = std::mem::take(&mut self.logs);
        let texts = std::mem::take(&mut self.texts);
        let inputs = self.inputs.iter().enumerate().filter_map(|(index, input)| {
            let index = input_index(index);
            let store = input.store().filter(|_| !logs.contains(&index))?;
            Some(Rest::all(store.clone(), index))
        });
        let rests = inputs.collect();
        *self = Self {
            logs,
            texts,
            held_for_copies: u64::MAX,
            ..Self::unread(std::mem::take(&mut self.inputs))
        };
        self.index(rests)?;
        Ok(true)
    }

    /// Makes an index of all inputs.
    fn index_each(&mut self) -> Result<(), TraceError> {
        let mut rests = Vec::new();
        for index in 0..self.inputs.len() {
            let input = &mut self.inputs[index];
            let index = input_index(index);
            match Opened::of(input, index)? {
                Opened::Trace(mut frames, _) => {
                    frames.take_back();
                    let rest = match input.store() {
                        Some(store) => Ok(Rest::all(store.clone(), index)),
                        None => frames.set_aside(None),
                    };
                    rests.push(rest.map_err(|error| self.failed(index, error))?);
                }
                Opened::Log(text) => self.add_log(index, text),
            }
        }
        self.index(rests)
    }

    fn add_log(&mut self, input: u32, text: Text) {
        self.logs.push(input);
        self.texts.insert(input, text);
    }

    /// The bytes of a log.
    pub(crate) fn text(&self, log: u32) -> &[u8] {
        self.texts.get(&log).map_or(&[], Text::bytes)
    }

    /// Makes an index of the input, if there is one and it is not yet read.
    pub(crate) fn index_all(&mut self) -> Result<(), TraceError> {
        match std::mem::replace(&mut self.reading, Reading::Alone) {
            Reading::Begun(mut frames, _) => {
                frames.take_back();
                let rest = frames.set_aside(self.inputs[0].store());
                let rest = rest.map_err(|error| self.failed(0, error))?;
                self.index(vec![rest])
            }
            other => {
                self.reading = other;
                Ok(())
            }
        }
    }

    /// Whether all inputs can be read a second time as they are.
    pub(crate) fn can_be_read_again(&self) -> bool {
        self.inputs.iter().all(|input| input.store().is_some())
    }

    /// Bytes of the inputs that can be read again.
    pub(crate) fn length(&self) -> u64 {
        let stores = self.inputs.iter().filter_map(Input::store);
        stores.map(|store| store.length()).sum()
    }

    /// Makes an index of what `rests` hold.
    fn index(&mut self, rests: Vec<Rest>) -> Result<(), TraceError> {
        progress::expect(rests.iter().map(Rest::length).sum());
        let mut index = Index::default();
        for (place, rest) in rests.iter().enumerate() {
            let mut frames = rest.frames();
            let mut found = Vec::new();
            while frames
                .next_block(&mut found)
                .map_err(|error| self.failed(rest.input(), error))?
            {
                for one in found.drain(..) {
                    self.add_to_index(&mut index, place, one);
                }
            }
            self.condition.absorb(frames.condition());
        }
        index.rests = rests;
        self.reading = Reading::Indexed(index);
        Ok(())
    }

    fn add_to_index(&mut self, index: &mut Index, rest: usize, found: Found) {
        match found {
            Found::Whole(frame) if frame.header.stream == OBSERVER => {
                self.commit(Judged::of(Found::Whole(frame)), &mut Vec::new());
            }
            Found::Whole(frame) => {
                let stream = self.stream(&frame.header);
                let is_of_records =
                    matches!(frame.header.kind, FrameKind::RECORDS | FrameKind::PACKED);
                self.streams[stream].has_records |= is_of_records && holds_records(&frame.header);
                let before = self.streams[stream].first;
                self.streams[stream].note_first(&frame.header);
                if self.streams[stream].first != before {
                    self.streams[stream].first_frame = Some((rest, frame.offset));
                }
                index.add(stream, rest, frame.offset, frame.header.frame_length());
            }
            Found::Torn(header) => self.note_torn(&header),
        }
    }

    /// The inputs that could not be unpacked to their ends, and why.
    pub(crate) fn broken(&self) -> impl Iterator<Item = (&Path, Broken)> {
        let inputs = self.inputs.iter();
        inputs.filter_map(|input| Some((input.path(), input.broken()?)))
    }

    /// Whether an input was packed.
    pub(crate) fn is_packed(&self) -> bool {
        self.inputs.iter().any(Input::is_packed)
    }

    /// The inputs whose bytes were translated on the way, which was taken back.
    pub(crate) fn taken_back(&self) -> impl Iterator<Item = (&Path, Translation)> {
        let inputs = self.inputs.iter();
        inputs.filter_map(|input| Some((input.path(), input.taken_back()?)))
    }

    /// What was found of armour in each input that had any.
    pub(crate) fn armour(&self) -> impl Iterator<Item = armour::Found> {
        self.inputs.iter().filter_map(Input::armour)
    }

    /// Whether all damage is of frames that came as lines and are known to be missing, with all numbers that they may have had.
    pub(crate) fn accounts_for_damage(&self) -> bool {
        self.inputs.iter().all(|input| {
            let found = input.armour();
            found.is_some_and(|it| it.damaged == 0 && it.arrived.accounts_for_all())
        })
    }

    /// The inputs' paths as given.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.inputs.iter().map(Input::path)
    }

    /// Takes over what was found in a frame: sources go to `sources`, with the place of their stream.
    fn commit(&mut self, judged: Judged, sources: &mut Vec<(usize, Source)>) {
        let Judged {
            header,
            place,
            content,
        } = judged;
        if header.version.1 > MINOR {
            self.condition.newer_minor = self.condition.newer_minor.max(Some(header.version.1));
        }
        match content {
            Content::Torn => self.note_torn(&header),
            Content::Damaged => {
                self.condition.damage(place, header.payload_length.into());
                self.note_torn(&header);
            }
            Content::Unknown => {
                self.condition.unknown_frames += 1;
                self.note_torn(&header);
            }
            Content::Skipped => {}
            Content::Records(source, beyond) => {
                let impossible = impossible_bytes(&source);
                if beyond + impossible > 0 {
                    self.condition.damage(place, beyond + impossible);
                }
                if header.stream == OBSERVER {
                    if impossible == 0 {
                        self.observe(&source);
                    }
                    return;
                }
                let stream = self.stream(&header);
                self.streams[stream].note(&header);
                self.add_source(stream, source, sources);
            }
            Content::Lanes(lanes, table, is_damaged) => {
                let whole = u64::from(header.payload_length) * u64::from(is_damaged);
                let bytes = whole + lanes.iter().map(impossible_bytes).sum::<u64>();
                if bytes > 0 {
                    self.condition.damage(place, bytes);
                }
                let stream = self.stream(&header);
                if let Some(table) = &table {
                    self.streams[stream].note_table(table);
                }
                for source in lanes {
                    self.add_source(stream, source, sources);
                }
            }
        }
        if let Some(stream) = self.places.get(&header.stream) {
            self.streams[*stream].note_frame(&header);
        }
    }

    fn add_source(&mut self, stream: usize, source: Source, sources: &mut Vec<(usize, Source)>) {
        if source.is_kept() {
            self.streams[stream].has_records = true;
            let source = match source.place.holder {
                Holder::Lane => source.detached(),
                Holder::Frame => source,
            };
            sources.push((stream, source));
        } else if source.impossible > 0 {
            self.streams[stream].note_taken(source.place.reference);
        }
    }

    fn observe(&mut self, source: &Source) {
        let streams = self.streams.len();
        for record in source.slots().iter().map(Record::decode) {
            if record.op == Op::LEFT_OUT {
                self.left_out = self.left_out.saturating_add(record.ptr);
                self.left_out_bytes = self.left_out_bytes.saturating_add(record.size);
                self.left_out_copies = self.left_out_copies.saturating_add(record.pc);
            }
            let observed = Observed::of(&record, source.place.clock, streams);
            self.observed.extend(observed);
        }
    }

    /// Takes note of what a frame held that cannot be read.
    fn note_torn(&mut self, header: &Header) {
        if header.stream != OBSERVER {
            let stream = self.stream(header);
            self.streams[stream].note_torn(header);
        }
    }

    fn stream(&mut self, header: &Header) -> usize {
        let next = self.streams.len();
        let at = *self.places.entry(header.stream).or_insert(next);
        if at == next {
            self.streams.push(Stream::new(header.stream));
        }
        at
    }

    fn failed(&self, input: u32, error: io::Error) -> TraceError {
        TraceError::open(self.inputs[input as usize].path(), error)
    }
}

fn impossible_bytes(source: &Source) -> u64 {
    let slots = match (source.place.holder, source.impossible) {
        (_, 0) => 0,
        (Holder::Frame, _) => source.place.slots,
        (Holder::Lane, impossible) => impossible,
    };
    u64::from(slots) * Record::SIZE as u64
}

fn input_index(input: usize) -> u32 {
    u32::try_from(input).expect("a command line has less than 2^32 words")
}

/// Bytes without a whole frame after which a stream is given up, which may have no end. A capture can begin with a boot's
/// messages, or a day's; whoever has more of them has a file, and that is read to its end.
const MOST_WITHOUT_FRAME: u64 = if cfg!(test) { 4 << 20 } else { 4 << 30 };

/// What an input turned out to be.
enum Opened {
    /// A trace, and the frames up to the first block that holds a whole one.
    Trace(Box<Frames>, Vec<Found>),
    /// A log of glibc's mtrace: its text.
    Log(Text),
}

impl Opened {
    fn of(input: &mut Input, index: u32) -> Result<Self, TraceError> {
        let path = input.path().to_owned();
        let failed = |source| TraceError::open(&path, source);
        let mut frames = Frames::new(input.reader(), index, 0);
        let mut all = Vec::new();
        let mut head: Option<Block> = None;
        loop {
            let mut found = Vec::new();
            let goes_on = frames.read_block(&mut found).map_err(failed)?;
            if head.is_none() && frames.has_nothing() && log::is_log(&frames.block()) {
                let text = input.text(frames.into_reader());
                return text.map(Self::Log).map_err(failed);
            }
            let has_frame = found.iter().any(|it| matches!(it, Found::Whole(_)));
            if head.is_none()
                && !has_frame
                && let Some(translation) = frames::translation(&frames.block())
                && input.can_take_back(translation)
            {
                input.take_back(translation, frames.into_reader());
                return Self::of(input, index);
            }
            if !has_frame && input.armour().is_none() && armour::is_in(&frames.block(), !goes_on) {
                input.take_armour_off(frames);
                return Self::of(input, index);
            }
            head.get_or_insert_with(|| frames.block());
            all.append(&mut found);
            if has_frame {
                return Ok(Self::Trace(Box::new(frames), all));
            }
            let may_be_endless = input.store().is_none();
            if !goes_on || may_be_endless && frames.position() >= MOST_WITHOUT_FRAME {
                break;
            }
        }
        if frames.has_nothing()
            && let Some(store) = input.store()
        {
            let text = Text::of(store).map_err(failed)?;
            if log::is_log(text.bytes()) {
                return Ok(Self::Log(text));
            }
        }
        let is_unarmoured = input.armour().is_some();
        let head = head.unwrap_or_default();
        Err(refusal(path, &frames, &head, is_unarmoured))
    }
}

/// Why an input without a whole frame is none to read.
fn refusal(path: PathBuf, frames: &Frames, head: &[u8], is_unarmoured: bool) -> TraceError {
    let condition = frames.condition();
    if frames.is_empty() && !is_unarmoured {
        return TraceError::Empty { path };
    }
    if let Some(found) = condition.newer_major {
        return TraceError::Version { path, found };
    }
    match (condition.first_damage, frames::translation(head)) {
        (None, None) => TraceError::NotATrace { path },
        (first_damage, translation) => TraceError::NoWholeFrame {
            path,
            offset: first_damage.map_or(0, |(_, offset)| offset),
            translation,
        },
    }
}
