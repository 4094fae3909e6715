//! Prints every record of a trace, one a line: the tests' eye, and a reader's who wants to know what a trace says.
//!
//! Streams come in order of appearance, their records in the order of numbers. The text of a declaration stands on
//! its own line too, besides those of its text records.

use crate::event::Event;
use crate::findings;
use crate::images;
use crate::log::{Batch, Reader};
use crate::order;
use crate::report::Warning;
use crate::time;
use crate::trace::{Trace, TraceError};
use heapwire_format::{Family, Op, Record, TEXT_CHUNK, flag};
use std::error::Error;
use std::fmt;
use std::io::{self, Write};

/// Events of a log that are read at once.
const LOG_BATCH: usize = 1 << 14;
/// Text records that a declaration is held back for; a longer text stands on the lines of its records only.
const HELD_BACK: usize = 4096;

/// Why a trace was not printed to its end.
#[derive(Debug)]
pub enum DumpError {
    /// It cannot be read.
    Trace(TraceError),
    /// It cannot be written.
    Write(io::Error),
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::Write(_) => f.write_str("cannot write"),
        }
    }
}

impl Error for DumpError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Trace(error) => error.source(),
            Self::Write(error) => Some(error),
        }
    }
}

impl From<TraceError> for DumpError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl From<io::Error> for DumpError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// What of a trace was printed.
#[derive(Clone, Debug)]
pub struct Dumped {
    /// Records of heap calls.
    pub calls: u64,
    /// Why others may be missing.
    pub warnings: Vec<Warning>,
}

/// Prints the records of `trace`.
pub(crate) fn dump(trace: &mut Trace, out: &mut dyn Write) -> Result<Dumped, DumpError> {
    let (mut calls, mut missing) = (0, 0u64);
    let mut out = io::BufWriter::new(out);
    trace.index_all()?;
    for input in &trace.logs {
        calls += dump_log(trace, *input, &mut out)?;
    }
    let begin_clock = images::begin_clock(trace)?;
    for stream in 0..trace.streams.len() {
        let mut printer = Printer {
            out: &mut out,
            stream: trace.streams[stream].tag,
            begin_clock,
            held: Vec::new(),
        };
        let gone = order::walk(trace, stream, |event| -> Result<(), DumpError> {
            calls += u64::from(event.record.op.is_heap());
            Ok(printer.event(event)?)
        })?;
        missing = missing.saturating_add(gone);
        printer.release()?;
    }
    for observed in &trace.observed {
        writeln!(
            out,
            "stream=00000000 op=observed-end time_ns={} pid={} status={}",
            time::since(begin_clock, observed.clock),
            observed.pid,
            observed.wait_status
        )?;
    }
    out.flush()?;
    Ok(Dumped {
        calls,
        warnings: findings::of_records(trace, missing),
    })
}

/// Prints the records of a log; what stands for modules in these is said before.
fn dump_log(trace: &Trace, input: u32, out: &mut impl Write) -> io::Result<u64> {
    let (mut calls, mut session) = (0, 0u64);
    for mut reader in Reader::all(trace.text(input), input) {
        while reader.next_session() {
            session += 1;
            writeln!(out, "session={session}")?;
            calls += dump_session(&mut reader, out)?;
        }
    }
    Ok(calls)
}

fn dump_session(reader: &mut Reader<'_>, out: &mut impl Write) -> io::Result<u64> {
    let mut calls = 0;
    let mut batch = Batch::default();
    loop {
        batch.events.clear();
        reader.fill(&mut batch, LOG_BATCH);
        for module in batch.modules.drain(..) {
            let path = module.path.unwrap_or_default();
            writeln!(
                out,
                "base={:#x} path=\"{}\"",
                module.base,
                path.to_string_lossy().escape_debug()
            )?;
        }
        if batch.events.is_empty() {
            return Ok(calls);
        }
        for event in &batch.events {
            let record = &event.record;
            calls += u64::from(record.op.is_heap());
            writeln!(
                out,
                "line={} number={} op={} ptr={:#x} size={} pc={:#x} base={:#x}",
                event.clock,
                event.number,
                Name(record.op),
                record.ptr,
                record.size,
                record.pc,
                record.base
            )?;
        }
    }
}

struct Printer<'w, W: Write> {
    out: &'w mut W,
    stream: u32,
    begin_clock: u64,
    /// A declaration whose text is still to come, and what came of it.
    held: Vec<Event>,
}

impl<W: Write> Printer<'_, W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        if let (Some(declaration), Some(last)) = (self.held.first(), self.held.last()) {
            let goes_on = event.record.op == Op::TEXT
                && event.number == last.number.saturating_add(1)
                && self.held.len() <= chunks(&declaration.record).min(HELD_BACK);
            if goes_on {
                self.held.push(*event);
                return Ok(());
            }
            self.release()?;
        }
        if chunks(&event.record) > 0 {
            self.held.push(*event);
            return Ok(());
        }
        self.line(event, None)
    }

    /// Prints the declaration held back, with its text if all of it came.
    fn release(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        let Some((declaration, texts)) = held.split_first() else {
            return Ok(());
        };
        let is_whole = texts.len() == chunks(&declaration.record);
        let text = is_whole.then(|| {
            let records = texts.iter().map(|event| event.record.text());
            records
                .flat_map(|(bytes, used)| bytes[..used].to_vec())
                .collect::<Vec<u8>>()
        });
        self.line(declaration, text.as_deref())?;
        for event in texts {
            self.line(event, None)?;
        }
        Ok(())
    }

    fn line(&mut self, event: &Event, text: Option<&[u8]>) -> io::Result<()> {
        let record = &event.record;
        let time = time::since(self.begin_clock, event.clock);
        write!(
            self.out,
            "stream={:08x} number={} op={}",
            self.stream,
            event.number,
            Name(record.op)
        )?;
        if record.op.is_heap() {
            self.heap_flags(record.flags)?;
        } else {
            write!(self.out, " flags={}", record.flags)?;
        }
        write!(self.out, " thread={} time_ns={time}", event.tid)?;
        let (bytes, used) = record.text();
        if record.op == Op::TEXT {
            return writeln!(self.out, " text=\"{}\"", bytes[..used].escape_ascii());
        }
        write!(self.out, " ptr={:#x}", record.ptr)?;
        // A release has no size of its own, and not every end knows its status.
        if record.size == u64::MAX && matches!(record.op, Op::RELEASED | Op::END) {
            write!(self.out, " size=unknown")?;
        } else {
            write!(self.out, " size={}", record.size)?;
        }
        write!(self.out, " pc={:#x} base={:#x}", record.pc, record.base)?;
        if let Some(text) = text {
            write!(self.out, " text=\"{}\"", text.escape_ascii())?;
        }
        writeln!(self.out)
    }

    fn heap_flags(&mut self, flags: u8) -> io::Result<()> {
        let family = match Family::from_flags(flags) {
            Family::Malloc => "malloc",
            Family::Aligned => "aligned",
            Family::New => "new",
            Family::NewArray => "new[]",
            Family::NewAligned => "new-aligned",
            Family::NewArrayAligned => "new[]-aligned",
            Family::Unknown => "unknown",
        };
        write!(self.out, " family={family} flags=")?;
        let names = [
            (flag::HAS_STACK, "has-stack"),
            (flag::TIME_READ, "time-read"),
            (flag::HELPED, "helped"),
            (flag::MORE, "more"),
        ];
        let set = names.into_iter().filter(|(bit, _)| flags & bit != 0);
        let set: Vec<&str> = set.map(|(_, name)| name).collect();
        write!(self.out, "{}", set.join(","))
    }
}

/// Text records that belong to a declaration.
fn chunks(record: &Record) -> usize {
    let length = record.op.text_length(record.base).unwrap_or(0);
    usize::try_from(length.div_ceil(TEXT_CHUNK as u64)).unwrap_or(usize::MAX)
}

/// The name of an op, or its number.
struct Name(Op);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#04x}", self.0.0),
        }
    }
}
