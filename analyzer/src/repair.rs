//! Writes a whole trace of all that can be saved of a damaged one.
//!
//! Frames that can be believed are copied as they are, those of lanes anew with the records that can be believed. What
//! is known of the others, the numbers that they had, is said in a last frame of each stream.

use crate::trace::{
    Content, Found, Input, Judged, Source, Survey, TraceError, believed, holds_records,
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

/// A damaged trace that was opened.
pub struct Repair(Survey);

impl Repair {
    /// Opens the trace at `path`.
    ///
    /// # Errors
    ///
    /// There is nothing to save in it.
    pub fn open(path: &Path) -> Result<Self, RepairError> {
        match Survey::of(Input::open(path)?)? {
            Some(survey) => Ok(Self(survey)),
            None => Err(RepairError::Log {
                path: path.to_owned(),
            }),
        }
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
            streams: BTreeMap::new(),
            torn: 0,
        };
        let census = self.0.walk(|found, judged| writer.add(found, judged))?;
        let nameless = census.condition.damaged_frames.saturating_sub(writer.torn);
        if nameless > 0 {
            writer.nameless(nameless, census.condition.damaged_bytes)?;
        }
        writer.finish()
    }
}

/// What is known of a stream's frames that are left out.
#[derive(Default)]
struct Known {
    /// The number of the next frame.
    next_frame: u32,
    /// Lower numbers were taken.
    taken: u64,
    lost: u32,
    void: u32,
    /// Something of it is left out.
    has_gaps: bool,
}

struct Writer<'w> {
    out: &'w mut dyn Write,
    repaired: Repaired,
    streams: BTreeMap<u32, Known>,
    /// Frames that end too early, but have a header to be believed.
    torn: u64,
}

impl Writer<'_> {
    fn add(&mut self, found: &Found, judged: &Judged) -> Result<(), RepairError> {
        self.note(&judged.header);
        self.torn += u64::from(matches!(found, Found::Torn(_)));
        match (&judged.content, found) {
            (Content::Unknown | Content::Skipped, Found::Whole(frame)) => {
                // An index would say where frames lay before.
                if frame.header.kind != FrameKind::INDEX {
                    self.copy(found)?;
                }
            }
            (Content::Records(source, 0), _) if source.impossible == 0 => {
                self.repaired.records += u64::from(source.records);
                self.copy(found)?;
            }
            (Content::Records(source, _), _) if source.impossible == 0 => {
                let records = source.slots().concat();
                self.repaired.records += u64::from(source.records);
                self.frame(judged.header, &records)?;
            }
            (Content::Lanes(lanes, Some(table), _), _) => {
                self.lanes(judged.header, lanes, *table)?;
            }
            // The image never used them.
            (Content::Lanes(_, None, false), _) => {}
            _ => self.leave_out(&judged.header),
        }
        Ok(())
    }

    /// Takes over what a header says of its stream.
    fn note(&mut self, header: &Header) {
        if header.stream != 0 {
            let known = self.streams.entry(header.stream).or_default();
            known.next_frame = known.next_frame.max(header.frame.wrapping_add(1));
            known.taken = known.taken.max(header.settled);
            known.lost = known.lost.max(header.lost);
            known.void = known.void.max(header.void);
        }
    }

    fn leave_out(&mut self, header: &Header) {
        self.repaired.left_out += 1;
        if header.stream != 0 {
            let known = self.streams.entry(header.stream).or_default();
            known.has_gaps = true;
            if header.first != 0 && holds_records(header) {
                known.taken = known.taken.max(header.first.saturating_add(1));
            }
        }
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
        let kept = lanes
            .iter()
            .map(|lane| (lane, believed(lane).flatten().copied().collect::<Vec<u8>>()));
        let kept: Vec<_> = kept.filter(|(_, slots)| !slots.is_empty()).collect();
        // The table begins a page of the file.
        let begin = self.repaired.bytes + Header::SIZE as u64;
        let mut payload = vec![0; padding(begin)];
        let size = |bytes: usize| u32::try_from(bytes).unwrap_or(0); // as above
        let headers_at = LanesTable::SIZE;
        let mut slots_at = headers_at + kept.len() * LaneHeader::SIZE;
        let table = LanesTable {
            lanes: size(kept.len()),
            headers_at: size(headers_at),
            header_size: size(LaneHeader::SIZE),
            ..table
        };
        payload.extend(table.encode());
        for (lane, slots) in &kept {
            let count = slots.len() / Record::SIZE;
            let lane = LaneHeader {
                tid: lane.place.tid,
                thread: 0,
                slots_at: size(slots_at),
                slots: size(count),
                base_number: lane.place.reference,
                base_clock: lane.place.clock,
            };
            payload.extend(lane.encode());
            slots_at += slots.len();
            self.repaired.records += count as u64;
        }
        for (_, slots) in &kept {
            payload.extend(slots);
        }
        self.frame(header, &payload)
    }

    /// Says how much is left out of which nobody knows whose it is.
    fn nameless(&mut self, frames: u64, bytes: u64) -> io::Result<()> {
        self.repaired.left_out += frames;
        let record = Record {
            op: Op::LEFT_OUT,
            flags: 0,
            time: 0,
            number: 1,
            ptr: frames,
            size: bytes,
            pc: 0,
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

    /// Says in a last frame of each stream what is known of frames that were left out.
    fn finish(mut self) -> Result<Repaired, RepairError> {
        for (stream, known) in std::mem::take(&mut self.streams) {
            if known.has_gaps {
                let header = Header {
                    settled: known.taken,
                    lost: known.lost,
                    void: known.void,
                    ..Header::new(FrameKind::RECORDS, stream, known.next_frame)
                };
                self.frame(header, &[])?;
            }
        }
        self.out.flush()?;
        Ok(self.repaired)
    }
}

/// Bytes from `offset` to the next page of a file.
fn padding(offset: u64) -> usize {
    let past = usize::try_from(offset % LANES_PAGE as u64).unwrap_or(0);
    past.next_multiple_of(LANES_PAGE) - past
}
