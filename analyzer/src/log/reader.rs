//! A log as events, session by session.
//!
//! A session goes from one `= Start` to the next. Records are numbered within it; a line that was a record and cannot be
//! read takes a number too, so what is missing shows as it does in a trace. The clock of a log is the number of its line.

use super::callers::{Callers, Place, Seen};
use super::line::{Kind, Line, Read};
use super::mcheck;
use super::writers::Writer;
use crate::event::Event;
use crate::sites::Module;
use heapwire_format::{Op, Record};
use std::collections::VecDeque;

/// Most calls that one line can say were lost.
const MOST_LOST: u64 = 1 << 32;
/// Records between the two halves of a realloc.
const MOST_BETWEEN: usize = 64;

/// Events of one session, and the modules that they are the first to name.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) modules: Vec<Module>,
    pub(crate) events: Vec<Event>,
}

/// What a log has besides records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) damaged_lines: u64,
    pub(crate) damaged_bytes: u64,
    pub(crate) first_damaged: Option<u64>,
    pub(crate) foreign_lines: u64,
    pub(crate) foreign_bytes: u64,
    pub(crate) first_foreign: Option<u64>,
    /// The last line has no end.
    pub(crate) is_cut: bool,
}

/// What a log says of one session besides its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    /// Index of the input that holds the log, and of the writer in that.
    pub(crate) log: (u32, u32),
    /// It begins with `= Start`.
    pub(crate) has_start: bool,
    /// `= Start` stands in the middle of a line: another process writes to the same file.
    pub(crate) is_mixed: bool,
    /// All numbers below this one are taken.
    pub(crate) taken: u64,
}

/// Reads a log from its beginning to its end.
pub(crate) struct Reader<'l> {
    lines: Lines<'l>,
    /// What was read and not yet given out.
    ahead: VecDeque<Item>,
    pub(crate) session: Session,
    /// Modules that the session was told of.
    told: usize,
}

impl<'l> Reader<'l> {
    /// Readers of the log in an input: one, or one for each of those who wrote to it.
    pub(crate) fn all(log: &'l [u8], input: u32) -> Vec<Self> {
        let writers = Writer::several(log);
        if writers.is_empty() {
            return vec![Self::new(log, (input, 0), None)];
        }
        let readers = (0..).zip(writers);
        readers
            .map(|(index, writer)| Self::new(log, (input, index), Some(writer)))
            .collect()
    }

    fn new(log: &'l [u8], (input, writer_index): (u32, u32), writer: Option<Writer<'l>>) -> Self {
        // No module has the base of one in another log.
        let first_base = (u64::from(input) + 1) << 32 | u64::from(writer_index) << 24;
        let lines = Lines {
            rest: log,
            writer,
            line: 0,
            number: 0,
            damaged: 0,
            last_address: 0,
            header: mcheck::header(log),
            callers: Callers::new(first_base),
            condition: Condition::default(),
        };
        Self {
            lines,
            ahead: VecDeque::new(),
            session: Session {
                log: (input, writer_index),
                ..Session::default()
            },
            told: 0,
        }
    }

    /// Bytes of the log that were not read.
    pub(crate) fn left(&self) -> usize {
        self.lines.rest.len()
    }

    /// Goes on to the next session, once the one before has given all its events. Gives whether there is one.
    pub(crate) fn next_session(&mut self) -> bool {
        let Some(next) = self.peek(0) else {
            return false;
        };
        self.session = Session {
            log: self.session.log,
            ..Session::default()
        };
        self.told = 0;
        if let Item::Start { is_mixed } = next {
            self.session.has_start = true;
            self.session.is_mixed = is_mixed;
            self.lines.begin_session();
            self.ahead.clear(); // nothing is read beyond the start of a session
        }
        true
    }

    /// Appends up to about `most` further events of the session; nothing is left of it once there are none.
    pub(crate) fn fill(&mut self, batch: &mut Batch, most: usize) {
        while batch.events.len() < most {
            let ahead = self.ahead.pop_front();
            match ahead.or_else(|| self.lines.next()) {
                Some(Item::Record(record)) if record.kind == Kind::Old => {
                    self.realloc(record, batch);
                }
                Some(Item::Record(record)) => batch.events.push(record.event()),
                Some(Item::End { number, line }) => batch.events.push(event(number, line, END)),
                Some(start @ Item::Start { .. }) => {
                    self.ahead.push_front(start);
                    break;
                }
                None => break,
            }
        }
        self.session.taken = self.lines.taken();
        let modules = self.lines.callers.modules();
        batch
            .modules
            .extend(modules[self.told..].iter().map(Seen::module));
        self.told = modules.len();
    }

    /// Joins the two halves of a realloc. Where the second is missing, all that is known is that the block is gone.
    fn realloc(&mut self, old: Numbered, batch: &mut Batch) {
        let Some((at, new)) = self.second_half(&old) else {
            batch.events.push(old.as_op(Op::RELEASED));
            return;
        };
        let place = if new.place == Place::default() {
            old.place // the second half had no caller in the first versions
        } else {
            new.place
        };
        let half = |numbered: Numbered| Numbered {
            place,
            size: new.size,
            ..numbered
        };
        batch.events.push(half(old).as_op(Op::REALLOC_OLD));
        if at == 0 {
            batch.events.push(half(new).event());
            self.ahead.pop_front();
        }
    }

    /// The second half of a realloc, and how many records are before it.
    ///
    /// It is the next record where glibc wrote the log. Logs made of traces can have others in between, but never miss it.
    fn second_half(&mut self, old: &Numbered) -> Option<(usize, Numbered)> {
        let mut before = *old;
        for at in 0..MOST_BETWEEN {
            let Item::Record(record) = self.peek(at)? else {
                return None;
            };
            if record.number != before.number + 1 {
                return None; // what is missing may be what is looked for
            }
            // A half without caller is of the first versions.
            let ends = |half: &Numbered| {
                half.kind == Kind::Old
                    && (record.place == half.place || record.place == Place::default())
            };
            if record.kind == Kind::New && (at == 0 || !ends(&before)) && ends(old) {
                return Some((at, record));
            }
            before = record;
        }
        None
    }

    /// What comes after so much else.
    fn peek(&mut self, at: usize) -> Option<Item> {
        while self.ahead.len() <= at {
            let next = self.lines.next()?;
            self.ahead.push_back(next);
        }
        self.ahead.get(at).copied()
    }

    pub(crate) fn condition(&self) -> Condition {
        self.lines.condition
    }

    pub(crate) fn callers(&self) -> &Callers<'l> {
        &self.lines.callers
    }
}

/// What a log is made of.
#[derive(Clone, Copy)]
enum Item {
    Start { is_mixed: bool },
    End { number: u64, line: u64 },
    Record(Numbered),
}

/// A record with its place in the log.
#[derive(Clone, Copy)]
struct Numbered {
    number: u64,
    line: u64,
    place: Place,
    kind: Kind,
    address: u64,
    size: u64,
}

impl Numbered {
    /// The record as an event.
    fn event(&self) -> Event {
        self.as_op(match (self.kind, self.address, self.size) {
            (Kind::Allocated | Kind::New, 0, _) => Op::ALLOCATION_FAILED,
            (Kind::Allocated, ..) => Op::ALLOCATED,
            (Kind::New, ..) => Op::REALLOC_NEW,
            (Kind::Released | Kind::Old, ..) => Op::RELEASED,
            // Up to glibc 2.17 this was `realloc(p, 0)`, which frees; later nothing writes it.
            (Kind::Failed, _, 0) => Op::RELEASED,
            (Kind::Failed, ..) => Op::REALLOC_FAILED,
        })
    }

    fn as_op(&self, op: Op) -> Event {
        event(
            self.number,
            self.line,
            Record {
                op,
                flags: 0,
                time: 0,
                number: 0,
                ptr: self.address,
                size: self.size,
                pc: self.place.pc,
                base: self.place.base,
            },
        )
    }
}

fn event(number: u64, line: u64, record: Record) -> Event {
    Event {
        number,
        clock: line,
        tid: 0,
        record,
    }
}

/// `= End`, which does not say how the program went on.
const END: Record = Record {
    op: Op::END,
    flags: 0,
    time: 0,
    number: 0,
    ptr: 0,
    size: u64::MAX,
    pc: 0,
    base: 0,
};

/// The lines of a log that say something, and the account of the others.
struct Lines<'l> {
    rest: &'l [u8],
    /// Whose lines are read; all lines without it.
    writer: Option<Writer<'l>>,
    /// Number of the line read last, from 1.
    line: u64,
    /// Number of the record read last in its session.
    number: u64,
    /// Lines since then that were records.
    damaged: u64,
    /// The address read last.
    last_address: u64,
    /// How far before their blocks releases point.
    header: u64,
    callers: Callers<'l>,
    condition: Condition,
}

impl<'l> Lines<'l> {
    fn begin_session(&mut self) {
        self.number = 0;
        self.damaged = 0;
    }

    /// The number after those that are taken.
    fn taken(&self) -> u64 {
        self.number + self.damaged + 1
    }

    /// The next line that says something.
    fn next(&mut self) -> Option<Item> {
        while !self.rest.is_empty() {
            self.line += 1;
            let (line, is_whole) = match memchr::memchr(b'\n', self.rest) {
                Some(end) => {
                    let line = &self.rest[..end];
                    self.rest = &self.rest[end + 1..];
                    (line, true)
                }
                None => (std::mem::take(&mut self.rest), false),
            };
            if self.writer.is_some_and(|writer| !writer.wrote(line)) {
                continue;
            }
            if let Some(item) = self.item(line, is_whole) {
                return Some(item);
            }
        }
        None
    }

    fn item(&mut self, line: &'l [u8], is_whole: bool) -> Option<Item> {
        let mut read = Read::of(line);
        let mut place = Place::default();
        if let Line::Record(entry) = read.line
            && let Some(caller) = entry.caller
        {
            match self.callers.place(caller) {
                Some(found) => place = found,
                None => {
                    read = Read::unusual(line);
                    place = self.place(&read);
                }
            }
        }
        if !is_whole && !self.can_end_the_log(line, &read) {
            self.condition.is_cut = true;
            self.note_damage(line.len());
            return None;
        }
        if read.follows_damage {
            self.note_damage(line.len());
        }
        self.account(read, line.len(), is_whole, place)
    }

    /// What a line that can be believed says.
    fn account(
        &mut self,
        read: Read<'l>,
        length: usize,
        is_whole: bool,
        place: Place,
    ) -> Option<Item> {
        match read.line {
            Line::Record(entry) => {
                self.last_address = entry.address;
                let header = match entry.kind {
                    Kind::Released | Kind::Old if entry.address != 0 => self.header,
                    _ => 0,
                };
                Some(Item::Record(Numbered {
                    number: self.take_number(),
                    line: self.line,
                    place,
                    kind: entry.kind,
                    address: entry.address.wrapping_add(header),
                    size: entry.size,
                }))
            }
            Line::Start => Some(Item::Start {
                is_mixed: read.follows_damage,
            }),
            Line::End => Some(Item::End {
                number: self.take_number(),
                line: self.line,
            }),
            Line::Blank => None,
            Line::Lost(count) => {
                self.damaged += count.min(MOST_LOST);
                None
            }
            Line::Damaged => {
                self.note_damage(length);
                None
            }
            Line::Foreign => {
                let condition = &mut self.condition;
                condition.foreign_lines += 1;
                condition.foreign_bytes += length as u64 + u64::from(is_whole);
                condition.first_foreign.get_or_insert(self.line);
                None
            }
        }
    }

    fn place(&mut self, read: &Read<'l>) -> Place {
        let caller = match read.line {
            Line::Record(entry) => entry.caller,
            _ => None,
        };
        caller
            .and_then(|caller| self.callers.place(caller))
            .unwrap_or_default()
    }

    /// Whether a line without an end can be believed: a size may lack digits, and so may an address that is shorter
    /// than the one before it.
    fn can_end_the_log(&self, line: &[u8], read: &Read<'_>) -> bool {
        match read.line {
            Line::Start | Line::End | Line::Blank => true,
            Line::Lost(_) => false, // digits may be missing
            Line::Foreign => !line.starts_with(b"@") && !line.starts_with(b"="),
            Line::Record(entry) => {
                let digits = |address: u64| address.leading_zeros() / 4;
                entry.kind == Kind::Released && digits(entry.address) == digits(self.last_address)
            }
            Line::Damaged => false,
        }
    }

    fn take_number(&mut self) -> u64 {
        self.number += 1 + self.damaged;
        self.damaged = 0;
        self.number
    }

    fn note_damage(&mut self, bytes: usize) {
        self.damaged += 1;
        let condition = &mut self.condition;
        condition.damaged_lines += 1;
        condition.damaged_bytes += bytes as u64;
        condition.first_damaged.get_or_insert(self.line);
    }
}
