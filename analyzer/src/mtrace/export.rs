//! Traces as logs of glibc's mtrace, which its script and everything made for it can read.
//!
//! Addresses count from where their module begins, as they do from glibc 2.35 on. What the text has no words for (threads,
//! times, families, stacks, losses) is left out.

use crate::event::Event;
use crate::log::{Batch, Reader};
use crate::order;
use crate::replay::{self, Beginning, Replay};
use crate::report::Warning;
use crate::sites::{SiteId, SiteTable};
use crate::trace::{Trace, TraceError};
use crate::{DumpError, Options, bundle, findings, images};
use heapwire_format::Op;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::PathBuf;

const BATCH: usize = 1 << 14;
/// Lines that are held back for a realloc to end. One that takes longer counts as in flight.
const HELD_BACK: usize = 1 << 16;

/// Traces that can be written as logs.
pub struct Exporter {
    trace: Trace,
    /// Of each stream.
    pids: Vec<Option<u64>>,
    /// Records that are known to be missing of what was written.
    missing: u64,
}

/// What a log came to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Lines of calls.
    pub lines: u64,
}

/// One of the logs that traces become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The process that it is of, where that is known.
    pub pid: Option<u64>,
    source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Stream(usize),
    Log(u32),
}

impl Exporter {
    /// Opens the inputs.
    ///
    /// # Errors
    ///
    /// The first that cannot be read or is no trace.
    pub fn open(inputs: &[PathBuf]) -> Result<Self, TraceError> {
        let options = Options::default();
        let (inputs, _) = bundle::open(inputs, &options);
        Self::of(Trace::open(&inputs)?)
    }

    pub(crate) fn of(mut trace: Trace) -> Result<Self, TraceError> {
        trace.index_all()?;
        let pids = images::pids(&trace)?;
        Ok(Self {
            trace,
            pids,
            missing: 0,
        })
    }

    /// The logs to be written: one a process image, and one a log among the inputs.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let trace = &self.trace;
        let streams = trace.streams.iter().enumerate();
        let of_streams = streams
            .filter(|(index, stream)| stream.has_records || self.pids[*index].is_some())
            .map(|(index, _)| Part {
                pid: self.pids.get(index).copied().flatten(),
                source: Source::Stream(index),
            });
        let logs = trace.logs.iter();
        let of_logs = logs.map(|input| Part {
            pid: None,
            source: Source::Log(*input),
        });
        of_streams.chain(of_logs).collect()
    }

    /// Writes a log.
    ///
    /// # Errors
    ///
    /// The trace can no longer be read, or `out` cannot be written.
    pub fn write(&mut self, part: Part, out: &mut dyn Write) -> Result<Exported, DumpError> {
        let mut out = io::BufWriter::new(out);
        let lines = match part.source {
            Source::Stream(index) => self.write_stream(index, &mut out)?,
            Source::Log(input) => self.write_log(input, &mut out)?,
        };
        out.flush()?;
        Ok(Exported { lines })
    }

    /// Why calls may be missing in what was written.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        findings::of_records(&self.trace, self.missing)
    }

    fn write_stream(&mut self, stream: usize, out: &mut dyn Write) -> Result<u64, DumpError> {
        let mut sites = SiteTable::default();
        let mut events = Replay::new(Beginning::default()).events;
        let mut none = events.batch(replay::Batch::default());
        let mut log = Log::new(out);
        log.mark("= Start")?;
        let gone = order::walk(&mut self.trace, stream, |event| -> Result<(), DumpError> {
            if event.record.op.is_heap() {
                let site = events.site(event, &mut sites);
                log.event(event, site, &sites)?;
            } else if event.record.op == Op::END {
                log.finish()?;
                log.mark("= End")?;
            } else {
                events.apply(event, &mut sites, &mut none);
            }
            Ok(())
        })?;
        self.missing = self.missing.saturating_add(gone);
        log.finish()?;
        Ok(log.lines)
    }

    fn write_log(&self, input: u32, out: &mut dyn Write) -> io::Result<u64> {
        let mut lines = 0;
        for mut reader in Reader::all(self.trace.text(input), input) {
            while reader.next_session() {
                lines += write_session(&mut reader, out)?;
            }
        }
        Ok(lines)
    }
}

fn write_session(reader: &mut Reader<'_>, out: &mut dyn Write) -> io::Result<u64> {
    let mut sites = SiteTable::default();
    let mut events = Replay::new(Beginning::default()).events;
    let mut batch = Batch::default();
    let mut log = Log::new(out);
    if reader.session.has_start {
        log.mark("= Start")?;
    }
    loop {
        batch.events.clear();
        reader.fill(&mut batch, BATCH);
        for module in batch.modules.drain(..) {
            events.declare(module, &mut sites);
        }
        if batch.events.is_empty() {
            break;
        }
        for event in &batch.events {
            if event.record.op.is_heap() {
                let site = events.site(event, &mut sites);
                log.event(event, site, &sites)?;
            } else {
                log.finish()?;
                log.mark("= End")?;
            }
        }
    }
    log.finish()?;
    Ok(log.lines)
}

/// A line to be written.
#[derive(Clone, Copy)]
struct Line {
    sign: char,
    address: u64,
    size: Option<u64>,
    site: SiteId,
}

/// A realloc that has begun: what it comes to decides what is written, and where.
#[derive(Clone, Copy)]
struct Open {
    line: Line,
    tid: u32,
    pc: u64,
    size: u64,
}

enum Queued {
    Line(Line),
    Open(Open),
    Pair(Line, Line),
}

/// A log that is being written.
struct Log<'w> {
    out: &'w mut dyn Write,
    /// Lines from the first open realloc on; a realloc that came to nothing leaves no line.
    queue: VecDeque<Option<Queued>>,
    callers: FxHashMap<SiteId, String>,
    lines: u64,
}

impl<'w> Log<'w> {
    fn new(out: &'w mut dyn Write) -> Self {
        Self {
            out,
            queue: VecDeque::new(),
            callers: FxHashMap::default(),
            lines: 0,
        }
    }

    fn mark(&mut self, mark: &str) -> io::Result<()> {
        writeln!(self.out, "{mark}")
    }

    fn event(&mut self, event: &Event, site: SiteId, sites: &SiteTable) -> io::Result<()> {
        self.callers
            .entry(site)
            .or_insert_with(|| caller(site, sites));
        let record = &event.record;
        let line = |sign, size| Line {
            sign,
            address: record.ptr,
            size,
            site,
        };
        let size = Some(record.size);
        match record.op {
            Op::ALLOCATION_FAILED => self.push(Line {
                address: 0,
                ..line('+', size)
            }),
            _ if record.ptr == 0 => {}
            Op::ALLOCATED => self.push(line('+', size)),
            Op::RELEASED => self.push(line('-', None)),
            Op::REALLOC_OLD => self.queue.push_back(Some(Queued::Open(Open {
                line: line('<', None),
                tid: event.tid,
                pc: record.pc,
                size: record.size,
            }))),
            Op::REALLOC_NEW => match self.close(event) {
                Some((at, old)) => self.join(at, old, line('>', size)),
                None => self.push(line('>', size)),
            },
            Op::REALLOC_FAILED => {
                if let Some((at, _)) = self.close(event) {
                    self.queue[at] = None;
                }
                // With a size of 0 it would read as a release.
                self.push(line('!', size.filter(|size| *size > 0).or(Some(1))));
            }
            Op::REALLOC_FREED => match self.close(event) {
                Some((at, _)) if self.is_named_after(at, record.ptr) => {
                    self.queue[at] = Some(Queued::Line(line('-', None)));
                }
                Some((at, _)) => {
                    self.queue[at] = None;
                    self.push(line('-', None));
                }
                None => self.push(line('-', None)),
            },
            _ => {}
        }
        self.drain()
    }

    fn push(&mut self, line: Line) {
        self.queue.push_back(Some(Queued::Line(line)));
    }

    /// The open realloc that `event` ends, and its place in the queue.
    fn close(&self, event: &Event) -> Option<(usize, Line)> {
        let key = (event.tid, event.record.pc, event.record.size);
        let mut queued = self.queue.iter().enumerate().rev();
        queued.find_map(|(at, queued)| match queued {
            Some(Queued::Open(open)) if (open.tid, open.pc, open.size) == key => {
                Some((at, open.line))
            }
            _ => None,
        })
    }

    /// Writes both halves in one place, as glibc does: where the second belongs, unless somebody was given the old
    /// address meanwhile; else where the first does, unless somebody released the new one.
    fn join(&mut self, at: usize, old: Line, new: Line) {
        if !self.is_named_after(at, old.address) {
            self.queue[at] = None;
            self.queue.push_back(Some(Queued::Pair(old, new)));
        } else if !self.is_named_after(at, new.address) {
            self.queue[at] = Some(Queued::Pair(old, new));
        } else {
            self.queue[at] = Some(Queued::Line(old));
            self.push(new);
        }
    }

    /// Whether a line behind this place is about the address.
    fn is_named_after(&self, at: usize, address: u64) -> bool {
        self.queue
            .iter()
            .skip(at + 1)
            .flatten()
            .any(|queued| match queued {
                Queued::Line(line) => line.address == address,
                Queued::Open(open) => open.line.address == address,
                Queued::Pair(old, new) => old.address == address || new.address == address,
            })
    }

    /// Writes what no open realloc is in front of.
    fn drain(&mut self) -> io::Result<()> {
        while let Some(first) = self.queue.front() {
            if matches!(first, Some(Queued::Open(_))) && self.queue.len() <= HELD_BACK {
                return Ok(());
            }
            match self.queue.pop_front().flatten() {
                Some(Queued::Line(line)) => self.line(line)?,
                Some(Queued::Pair(old, new)) => {
                    self.line(old)?;
                    self.line(new)?;
                }
                Some(Queued::Open(_)) | None => {}
            }
        }
        Ok(())
    }

    /// Writes all that is left. The blocks of reallocs that nothing ended are live, unless somebody was given their addresses.
    fn finish(&mut self) -> io::Result<()> {
        for at in 0..self.queue.len() {
            if let Some(Queued::Open(open)) = self.queue[at] {
                let is_gone = self.is_named_after(at, open.line.address);
                self.queue[at] = is_gone.then_some(Queued::Line(open.line));
            }
        }
        self.drain()
    }

    fn line(&mut self, line: Line) -> io::Result<()> {
        self.lines += 1;
        let caller = self.callers.get(&line.site).map_or("", String::as_str);
        write!(self.out, "{caller}{} ", line.sign)?;
        match line.address {
            0 => write!(self.out, "(nil)")?,
            address => write!(self.out, "{address:#x}")?,
        }
        match line.size {
            None => writeln!(self.out),
            Some(0) => writeln!(self.out, " 0"),
            Some(size) => writeln!(self.out, " {size:#x}"),
        }
    }
}

/// A call site as the text that names it, with a blank behind it.
fn caller(site: SiteId, sites: &SiteTable) -> String {
    let site = sites.site(site);
    let pc = site.call.0.0;
    let module = site.module.map(|id| sites.module(id));
    let Some((module, path)) = module.and_then(|module| Some((module, module.shown_path()?)))
    else {
        return match pc {
            0 => String::new(),
            pc => format!("@ [{pc:#x}] "),
        };
    };
    // Modules of logs lay nobody knows where; their addresses stay as they are.
    let begin = module.bias.map_or(0, |_| module.base);
    let path = harmless(&path);
    if pc == 0 && module.bias.is_none() {
        return format!("@ {path} ");
    }
    format!("@ {path}:[{:#x}] ", pc.wrapping_sub(begin))
}

/// The path without what the script would take apart, or what its shell would act upon.
fn harmless(path: &str) -> String {
    let is_plain = |letter: char| {
        letter.is_alphanumeric()
            || matches!(letter, '/' | '.' | '_' | '-' | '+' | '=' | ',' | '%' | '~')
    };
    let plain = path
        .chars()
        .map(|letter| if is_plain(letter) { letter } else { '_' });
    let plain: String = plain.collect();
    // A name that begins so would be an option, or somebody's home.
    if plain.starts_with(['-', '~', '=']) {
        return format!("./{plain}");
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn names_do_nothing_in_a_shell() {
        assert_eq!(
            harmless("/opt/gw-2.1/lib_x+y.so.1"),
            "/opt/gw-2.1/lib_x+y.so.1"
        );
        assert_eq!(harmless("/opt/größe"), "/opt/größe");
        assert_eq!(
            harmless("a b;c|d&e$(f)`g`<h>'i'\"j\"\\k\nl[m]:n*?{}!#"),
            "a_b_c_d_e__f__g__h__i__j__k_l_m__n______"
        );
        assert_eq!(harmless("-e"), "./-e");
        assert_eq!(harmless("~root/x"), "./~root/x");
    }
}
