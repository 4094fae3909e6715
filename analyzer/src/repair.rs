//! Writes a whole trace of all that can be saved of a damaged one.
//!
//! Frames that can be believed are copied as they are, those of lanes anew with the records that can be believed. In place of each
//! of the others stands a frame that says what is known of the numbers in it. Of records with the same number
//! only those are written that are equal to the one which a reader takes.

use crate::order::{self, differ};
use crate::trace::source::Slot;
use crate::trace::{
    Content, Found, Input, Judged, Source, Stream, Survey, Trace, TraceError, believed,
    holds_records,
};
use heapwire_format::{
    Crc32, FrameKind, Header, LANES_PAGE, LaneHeader, LanesTable, OBSERVER, Op, Record, SumKind,
    TRAILER_SIZE, trailer,
};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why nothing could be repaired.
#[derive(Debug)]
pub enum RepairError {
    /// The input cannot be read or has no whole frame.
    Trace(TraceError),
    /// The input is a log of glibc's mtrace.
    Log {
        /// The input as given.
        path: PathBuf,
    },
    /// The output cannot be written.
    Write(io::Error),
}

impl fmt::Display for RepairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::Log { path } => write!(
                f,
                "{} is a log of glibc's mtrace, each line of which stands for itself: there is nothing to repair, every \
                 verb passes over what cannot be read",
                path.display()
            ),
            Self::Write(_) => f.write_str("cannot write the repaired trace"),
        }
    }
}

impl Error for RepairError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Trace(error) => error.source(),
            Self::Log { .. } => None,
            Self::Write(error) => Some(error),
        }
    }
}

impl From<TraceError> for RepairError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl From<io::Error> for RepairError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// What was saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Frames written.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Frames of which no record could be saved.
    pub left_out: u64,
}

/// The record that is taken of each number that differing records have, by stream tag.
type Contested = BTreeMap<u32, BTreeMap<u64, Slot>>;

/// A damaged trace that was opened.
pub struct Repair {
    survey: Survey,
    contested: Contested,
}

impl Repair {
    /// Opens the trace at `path`.
    ///
    /// # Errors
    ///
    /// There is nothing to save in it.
    pub fn open(path: &Path) -> Result<Self, RepairError> {
        let (input, again) = Input::open_twice(path)?;
        Self::of(input, again)
    }

    /// Looks at an input that is given twice.
    pub(crate) fn of(input: Input, again: Input) -> Result<Self, RepairError> {
        let path = input.path().to_owned();
        let Some(survey) = Survey::of(input)? else {
            return Err(RepairError::Log { path });
        };
        let mut trace = Trace::of(vec![again])?;
        trace.index_all()?;
        let mut contested = Contested::new();
        for stream in 0..trace.streams.len() {
            let taken = order::contested(&mut trace, stream)?;
            if !taken.is_empty() {
                contested.insert(trace.streams[stream].tag, taken);
            }
        }
        Ok(Self { survey, contested })
    }

    /// Writes all that can be saved to `out`.
    ///
    /// # Errors
    ///
    /// The trace can no longer be read, or `out` cannot be written.
    pub fn write(self, out: &mut dyn Write) -> Result<Repaired, RepairError> {
        let mut writer = Writer {
            out,
            repaired: Repaired::default(),
            contested: self.contested,
            torn: 0,
            copies: 0,
            streams: BTreeMap::new(),
            lanes: 0,
        };
        let census = self
            .survey
            .walk(|found, judged| writer.add(found, judged))?;
        let nameless = census.condition.damaged_frames.saturating_sub(writer.torn);
        writer.repaired.left_out += nameless;
        let unknown = nameless + writer.of_unknown_length();
        let condition = &census.condition;
        let bytes = condition
            .damaged_bytes
            .saturating_add(condition.foreign_bytes);
        // Text is no damage; but where there is some, it may be more of it.
        let is_doubted = condition.damaged_frames > 0 && condition.foreign_bytes > 0;
        if unknown > 0 || writer.copies > 0 || is_doubted {
            writer.unknown(unknown, bytes)?;
        }
        writer.out.flush()?;
        Ok(writer.repaired)
    }
}

/// How far the numbers of a stream go.
#[derive(Default)]
struct Reach {
    /// All below this one are accounted for.
    known: u64,
    /// By thread: the first number of the last frame of it that is left out, and of the last that is kept.
    threads: BTreeMap<u32, (u64, u64)>,
    /// Its last record is kept, behind which there is none.
    has_last: bool,
}

impl Reach {
    /// Whether a frame is left out of which nothing tells where its numbers end: neither those of others, which may lie between them, nor
    /// the thread's next ones, nor the last of all.
    fn is_open(&self) -> bool {
        let is_open = |(thread, (left_out, kept)): (&u32, &(u64, u64))| {
            *left_out > 0
                && (*left_out >= self.known || !self.has_last && (*thread == 0 || kept < left_out))
        };
        self.threads.iter().any(is_open)
    }
}

struct Writer<'w> {
    out: &'w mut dyn Write,
    repaired: Repaired,
    contested: Contested,
    /// Records left out that differ from the one that is taken of their number.
    copies: u64,
    /// Frames that end too early, but have a header to be believed.
    torn: u64,
    streams: BTreeMap<u32, Reach>,
    /// Frames of lanes that are left out or lack slots, of which no number tells.
    lanes: u64,
}

impl Writer<'_> {
    fn add(&mut self, found: &Found, judged: &Judged) -> Result<(), RepairError> {
        self.torn += u64::from(matches!(found, Found::Torn(_)));
        match (&judged.content, found) {
            (Content::Unknown | Content::Skipped, Found::Whole(frame)) => {
                // An index would say where frames lay before.
                if frame.header.kind != FrameKind::INDEX {
                    self.copy(found)?;
                }
            }
            (Content::Records(source, beyond), _) if source.impossible == 0 => {
                self.reaches(&judged.header, source);
                let kept = self.taken(&judged.header, source);
                self.repaired.records += kept.len() as u64;
                if *beyond == 0 && kept.len() == source.records as usize {
                    self.copy(found)?;
                } else {
                    let header = Header {
                        kind: FrameKind::RECORDS,
                        ..judged.header
                    };
                    self.frame(header, kept.as_flattened())?;
                }
            }
            (Content::Lanes(lanes, Some(table), is_damaged), _) => {
                // The last records, perhaps, of which no number tells.
                let lacks_slots = *is_damaged || lanes.iter().any(|lane| lane.impossible > 0);
                self.lanes += u64::from(lacks_slots);
                for lane in lanes {
                    self.reaches(&judged.header, lane);
                }
                self.lanes(judged.header, lanes, *table)?;
            }
            // The image never used them.
            (Content::Lanes(_, None, false), _) => {
                let header = &judged.header;
                let unused = Header::new(FrameKind::RECORDS, header.stream, header.frame);
                self.frame(unused, &[])?;
            }
            _ => self.leave_out(&judged.header)?,
        }
        Ok(())
    }

    /// How far the numbers of a header's stream go, with those that it accounts for.
    fn reach(&mut self, header: &Header) -> &mut Reach {
        let reach = self.streams.entry(header.stream).or_default();
        reach.known = reach.known.max(header.settled);
        reach
    }

    /// Takes note of the records of a source.
    fn reaches(&mut self, header: &Header, source: &Source) {
        let reach = self.reach(header);
        if source.is_kept() {
            reach.known = reach.known.max(source.highest.saturating_add(1));
            let (_, kept) = reach.threads.entry(header.thread).or_default();
            *kept = source.lowest.max(*kept);
            let ends = |slot: &Slot| matches!(Op(slot[0]), Op::END | Op::EXEC);
            reach.has_last |= believed(source).any(|(_, slot)| ends(slot));
        }
    }

    /// Frames left out of which nobody can tell how many records were in them: others come before whatever else is known.
    fn of_unknown_length(&self) -> u64 {
        let open = self.streams.values().filter(|reach| reach.is_open());
        self.lanes + open.count() as u64
    }

    /// The records of a source that are to be believed, without those that differ from the one that is taken of their number.
    fn taken(&mut self, header: &Header, source: &Source) -> Vec<Slot> {
        let contested = self.contested.get(&header.stream);
        let mut kept = Vec::with_capacity(source.records as usize);
        for (number, slot) in believed(source) {
            let taken = contested.and_then(|contested| contested.get(&number));
            if taken.is_some_and(|taken| differ(taken, slot)) {
                self.copies += 1;
            } else {
                kept.push(*slot);
            }
        }
        kept
    }

    /// Writes a frame without records in the place of one, that says what is known of the numbers in it.
    fn leave_out(&mut self, header: &Header) -> io::Result<()> {
        self.repaired.left_out += 1;
        if header.stream == OBSERVER {
            return Ok(());
        }
        let mut known = Stream::new(header.stream);
        known.note_torn(header);
        let reach = self.reach(header);
        if header.kind == FrameKind::LANES {
            self.lanes += 1;
        } else if holds_records(header) {
            let (left_out, _) = reach.threads.entry(header.thread).or_default();
            *left_out = header.first.max(*left_out);
        }
        let header = Header {
            first: known.first.unwrap_or(0),
            settled: known.taken,
            lost: known.lost,
            void: known.void,
            ..Header::new(FrameKind::RECORDS, header.stream, header.frame)
        };
        self.frame(header, &[])
    }

    /// Writes a frame as it is.
    fn copy(&mut self, found: &Found) -> io::Result<()> {
        let Found::Whole(frame) = found else {
            return Ok(());
        };
        let end = frame.payload().end + TRAILER_SIZE;
        self.put(&[&frame.block[frame.at..end]])
    }

    /// Writes a frame with another payload.
    fn frame(&mut self, header: Header, payload: &[u8]) -> io::Result<()> {
        let header = Header {
            header_length: 80,
            payload_length: u32::try_from(payload.len()).unwrap_or(0), // it is no longer than one that was there
            sum_kind: SumKind::Crc32 as u8,
            payload_sum: Crc32::of(payload),
            ..header
        };
        self.put(&[&header.encode(), payload, &trailer(header.frame)])
    }

    /// Writes the records of lanes that can be believed into lanes that hold just these.
    fn lanes(&mut self, header: Header, lanes: &[Source], table: LanesTable) -> io::Result<()> {
        let kept = lanes.iter().map(|lane| (lane, self.taken(&header, lane)));
        let kept: Vec<_> = kept.filter(|(_, slots)| !slots.is_empty()).collect();
        // The table begins a page of the file.
        let begin = self.repaired.bytes + Header::SIZE as u64;
        let mut payload = vec![0; padding(begin)];
        let size = |bytes: usize| u32::try_from(bytes).unwrap_or(0); // as above
        let headers_at = LanesTable::SIZE;
        let mut slots_at = headers_at + kept.len() * LaneHeader::SIZE;
        // What a lane tells of that has no record to be kept.
        let without = lanes
            .iter()
            .filter(|lane| !lane.is_kept() && lane.impossible > 0);
        let taken = without.map(|lane| lane.place.reference.saturating_add(1));
        let table = LanesTable {
            taken: taken.fold(table.taken, u64::max),
            lanes: size(kept.len()),
            headers_at: size(headers_at),
            header_size: size(LaneHeader::SIZE),
            ..table
        };
        payload.extend(table.encode());
        for (lane, slots) in &kept {
            let lane = LaneHeader {
                tid: lane.place.tid,
                thread: 0,
                slots_at: size(slots_at),
                slots: size(slots.len()),
                base_number: lane.place.reference,
                base_clock: lane.place.clock,
            };
            payload.extend(lane.encode());
            slots_at += slots.as_flattened().len();
            self.repaired.records += slots.len() as u64;
        }
        for (_, slots) in &kept {
            payload.extend(slots.as_flattened());
        }
        self.frame(header, &payload)
    }

    /// Says how much is left out of which nobody knows whose it is, what was in it, or whether it was written so.
    fn unknown(&mut self, frames: u64, bytes: u64) -> io::Result<()> {
        let record = Record {
            op: Op::LEFT_OUT,
            flags: 0,
            time: 0,
            number: 1,
            ptr: frames,
            size: bytes,
            pc: self.copies,
            base: 0,
        };
        let header = Header {
            first: 1,
            ..Header::new(FrameKind::RECORDS, OBSERVER, 0)
        };
        self.frame(header, &record.encode())
    }

    fn put(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        for part in parts {
            self.out.write_all(part)?;
            self.repaired.bytes += part.len() as u64;
        }
        self.repaired.frames += 1;
        Ok(())
    }
}

/// Bytes from `offset` to the next page of a file.
fn padding(offset: u64) -> usize {
    let past = usize::try_from(offset % LANES_PAGE as u64).unwrap_or(0);
    past.next_multiple_of(LANES_PAGE) - past
}
