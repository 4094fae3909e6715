//! The bytes of one or more inputs, and where in them the records of each stream lie.
//!
//! Recognises inputs by content, finds frames and lanes, and counts damage. What a record means is not known here.

mod error;
mod frames;
mod input;
mod lanes;
pub(crate) mod parse;
mod possible;
pub(crate) mod source;
mod stream;
#[cfg(test)]
mod tests;
mod unpack;

pub use error::{TraceError, Translation};
pub(crate) use source::{Head, Source};
pub(crate) use stream::{Observed, Stream};

use crate::mtrace;
use frames::{Frame, Scan};
use heapwire_format::{FLAG_MIXED, FrameKind, Header, MINOR, Record, SumKind};
pub(crate) use input::Input;
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use source::{Holder, Place};
use std::path::{Path, PathBuf};
use unpack::Broken;

/// Damage and other things that the inputs as a whole show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Frames whose records cannot be believed.
    pub(crate) damaged_frames: u64,
    /// Bytes of these.
    pub(crate) damaged_bytes: u64,
    /// Input and offset of the first of them.
    pub(crate) first_damage: Option<(usize, usize)>,
    /// Bytes outside frames.
    pub(crate) foreign_bytes: u64,
    /// Inputs that end inside a frame.
    pub(crate) cut_inputs: u64,
    /// Frames of kinds that this version does not know.
    pub(crate) unknown_frames: u64,
    /// Highest major version that was refused.
    pub(crate) newer_major: Option<u8>,
    /// Highest minor version above this one's.
    pub(crate) newer_minor: Option<u8>,
}

/// Inputs, opened and indexed.
pub(crate) struct Trace {
    inputs: Vec<Input>,
    /// In order of appearance, without the observers' stream.
    pub(crate) streams: Vec<Stream>,
    pub(crate) observed: Vec<Observed>,
    pub(crate) condition: Condition,
    /// Inputs that are logs of glibc's mtrace.
    pub(crate) logs: Vec<u32>,
    /// Input and offset of the damaged frames that were found whole.
    damaged: FxHashSet<(usize, usize)>,
}

impl Trace {
    /// Opens the inputs in order; `-` is standard input.
    ///
    /// # Errors
    ///
    /// The first input that cannot be read or holds no whole frame.
    pub(crate) fn open(paths: &[PathBuf]) -> Result<Self, TraceError> {
        if paths.is_empty() {
            return Err(TraceError::NoInput);
        }
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

    fn of(inputs: Vec<Input>) -> Result<Self, TraceError> {
        let mut trace = Self {
            inputs,
            streams: Vec::new(),
            observed: Vec::new(),
            condition: Condition::default(),
            logs: Vec::new(),
            damaged: FxHashSet::default(),
        };
        let mut index = FxHashMap::default();
        for input in 0..trace.inputs.len() {
            let bytes = trace.inputs[input].bytes();
            let scan = Scan::of(bytes);
            if scan.is_empty() && mtrace::is_log(bytes) {
                trace.logs.push(input_index(input));
                continue;
            }
            refuse_without_frames(&trace.inputs[input], &scan)?;
            trace.add(input, &scan, &mut index);
        }
        let mut streams = std::mem::take(&mut trace.streams);
        for stream in &mut streams {
            for source in stream.survey(&trace) {
                trace.note_impossible(&source);
            }
        }
        trace.streams = streams;
        Ok(trace)
    }

    /// The inputs that could not be unpacked to their ends, and why.
    pub(crate) fn broken(&self) -> impl Iterator<Item = (&Path, Broken)> {
        let inputs = self.inputs.iter();
        inputs.filter_map(|input| Some((input.path(), input.broken()?)))
    }

    /// The bytes of an input.
    pub(crate) fn bytes(&self, input: u32) -> &[u8] {
        self.inputs[input as usize].bytes()
    }

    /// The inputs' paths as given.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.inputs.iter().map(Input::path)
    }

    fn add(&mut self, input: usize, scan: &Scan, index: &mut FxHashMap<u32, usize>) {
        self.condition.damaged_frames += scan.damaged_frames;
        self.condition.damaged_bytes += scan.damaged_bytes;
        self.condition.foreign_bytes += scan.foreign_bytes;
        self.condition.cut_inputs += u64::from(scan.ends_inside);
        self.condition.newer_major = self.condition.newer_major.max(scan.newer_major);
        if let Some(offset) = scan.first_damage {
            self.note_place(input, offset);
        }
        let damaged = self.damaged_payloads(input, scan);
        for (frame, is_damaged) in scan.frames.iter().zip(damaged) {
            let header = &frame.header;
            if header.version.1 > MINOR {
                self.condition.newer_minor = self.condition.newer_minor.max(Some(header.version.1));
            }
            if is_damaged {
                self.damage(input, frame.offset, frame.payload().len());
                self.stream(header, index).note_torn(header);
            } else {
                self.add_frame(input, frame, index);
            }
        }
        for header in &scan.torn {
            self.stream(header, index).note_torn(header);
        }
    }

    /// For each frame whether its payload has a sum, and the sum is wrong.
    fn damaged_payloads(&self, input: usize, scan: &Scan) -> Vec<bool> {
        let bytes = self.inputs[input].bytes();
        scan.frames
            .par_iter()
            .with_min_len(64)
            .map(|frame| {
                frame.header.sum_kind == SumKind::Crc32 as u8
                    && frame.header.kind != FrameKind::LANES
                    && crc32fast::hash(&bytes[frame.payload()]) != frame.header.payload_sum
            })
            .collect()
    }

    fn add_frame(&mut self, input: usize, frame: &Frame, index: &mut FxHashMap<u32, usize>) {
        let header = &frame.header;
        match header.kind {
            FrameKind::RECORDS => self.add_records(input, frame, index),
            FrameKind::LANES => self.add_lanes(input, frame, index),
            FrameKind::BLOB | FrameKind::PADDING | FrameKind::INDEX => {}
            FrameKind(128..) => {}
            _ => {
                self.condition.unknown_frames += 1;
                self.stream(header, index).note_torn(header);
            }
        }
    }

    fn add_records(&mut self, input: usize, frame: &Frame, index: &mut FxHashMap<u32, usize>) {
        let header = &frame.header;
        let payload = frame.payload();
        let beyond = payload.len() % Record::SIZE;
        if beyond != 0 {
            self.damage(input, frame.offset, beyond);
        }
        let source = Source::new(Place {
            input: input_index(input),
            offset: payload.start,
            slots: header.payload_length / RECORD_SIZE,
            reference: header.first,
            clock: header.clock,
            tid: header.tid,
            is_mixed: header.flags & FLAG_MIXED != 0,
            frame: frame.offset,
            holder: Holder::Frame,
            is_newer: header.version.1 > MINOR,
        });
        if header.stream == 0 {
            let surveyed = source.surveyed(self);
            if surveyed.impossible > 0 {
                self.note_impossible(&surveyed);
                return;
            }
            let streams = self.streams.len();
            let observed = source
                .slots(self)
                .iter()
                .map(Record::decode)
                .filter_map(|record| Observed::of(&record, input, streams));
            let observed: Vec<_> = observed.collect();
            self.observed.extend(observed);
            return;
        }
        let stream = self.stream(header, index);
        stream.note(header);
        stream.sources.push(source);
    }

    fn add_lanes(&mut self, input: usize, frame: &Frame, index: &mut FxHashMap<u32, usize>) {
        let bytes = self.inputs[input].bytes();
        let found = lanes::read(input_index(input), bytes, frame);
        if found.is_damaged {
            self.damage(input, frame.offset, frame.payload().len());
        }
        let stream = self.stream(&frame.header, index);
        if let Some(table) = &found.table {
            stream.note_table(table);
        }
        stream.sources.extend(found.sources);
    }

    fn damage(&mut self, input: usize, offset: usize, bytes: usize) {
        self.condition.damaged_frames += u64::from(self.damaged.insert((input, offset)));
        self.condition.damaged_bytes += bytes as u64;
        self.note_place(input, offset);
    }

    /// Damage is found in more than one pass.
    fn note_place(&mut self, input: usize, offset: usize) {
        let first = self.condition.first_damage.get_or_insert((input, offset));
        *first = (*first).min((input, offset));
    }

    /// Counts a source with slots that cannot be.
    fn note_impossible(&mut self, source: &Source) {
        let slots = match source.place.holder {
            Holder::Frame => source.place.slots,
            Holder::Lane => source.impossible,
        };
        let bytes = slots as usize * Record::SIZE;
        self.damage(source.place.input as usize, source.place.frame, bytes);
    }

    fn stream(&mut self, header: &Header, index: &mut FxHashMap<u32, usize>) -> &mut Stream {
        let next = self.streams.len();
        let at = *index.entry(header.stream).or_insert(next);
        if at == next {
            self.streams.push(Stream::new(header.stream));
        }
        &mut self.streams[at]
    }
}

const RECORD_SIZE: u32 = 40;
const _: () = assert!(RECORD_SIZE as usize == Record::SIZE);

fn input_index(input: usize) -> u32 {
    u32::try_from(input).expect("a command line has less than 2^32 words")
}

fn refuse_without_frames(input: &Input, scan: &Scan) -> Result<(), TraceError> {
    if !scan.frames.is_empty() {
        return Ok(());
    }
    let path = input.path().to_owned();
    if let Some(found) = scan.newer_major {
        return Err(TraceError::Version { path, found });
    }
    let translation = frames::translation(input.bytes());
    match (scan.first_damage, translation) {
        (None, None) => Err(TraceError::NotATrace { path }),
        (first_damage, translation) => Err(TraceError::NoWholeFrame {
            path,
            offset: first_damage.unwrap_or(0),
            translation,
        }),
    }
}
