//! One line of a log: a mark, a record, or something else.
//!
//! The usual form is tried first. What does not have it is searched for a record from its end, since whatever stands
//! before one (a time, a pid, an indent, output of the program) is not of our making and can be anything.

use super::caller;
use super::hexadecimal::{fail, hexadecimal};
use nom::character::complete::u64;
use nom::combinator::{all_consuming, map_opt};
use nom::number::complete::u8 as byte;
use nom::sequence::preceded;
use nom::{IResult, Parser};

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line<'l> {
    /// `= Start`
    Start,
    /// `= End`
    End,
    /// `= Lost N`: the recorder could not write the lines of so many calls.
    Lost(u64),
    Record(Entry<'l>),
    /// Nothing but blanks.
    Blank,
    /// What is left of one record or more.
    Damaged,
    /// Not of a log.
    Foreign,
}

/// A line, and what stood before it on the same line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read<'l> {
    pub(crate) line: Line<'l>,
    /// The rest of a record that was cut off by this one.
    pub(crate) follows_damage: bool,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'l> {
    /// The text of the caller, if there is one.
    pub(crate) caller: Option<&'l [u8]>,
    pub(crate) kind: Kind,
    /// 0 for `(nil)`.
    pub(crate) address: u64,
    /// 0 where the kind has none.
    pub(crate) size: u64,
}

/// The kinds of record, each by its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `+`
    Allocated,
    /// `-`
    Released,
    /// `<`, the first half of a realloc
    Old,
    /// `>`, the second half
    New,
    /// `!`, a realloc that failed
    Failed,
}

/// Bytes of the longest line: a path has 4,096 at most, names of symbols can have more. What is longer was never a record.
const LONGEST: usize = 1 << 20;

impl<'l> Read<'l> {
    /// Reads a line without its line feed.
    pub(crate) fn of(line: &'l [u8]) -> Self {
        match usual(line) {
            _ if line.len() > LONGEST => Self::whole(Line::Damaged),
            Some(entry) => Self::whole(Line::Record(entry)),
            None => Self::unusual(line),
        }
    }

    fn whole(line: Line<'l>) -> Self {
        Self {
            line,
            follows_damage: false,
        }
    }

    /// Reads a line that has not the usual form.
    #[cold]
    pub(crate) fn unusual(line: &'l [u8]) -> Self {
        // A hole is left by a process that writes to a file which another one began anew.
        if let Some(hole) = memchr::memrchr(0, line) {
            let after = Self::of(&line[hole + 1..]);
            return Self {
                line: match after.line {
                    Line::Blank | Line::Foreign => Line::Damaged,
                    line => line,
                },
                follows_damage: after.line != Line::Damaged,
            };
        }
        let line = line.trim_ascii();
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        if line.is_empty() {
            return Self::whole(Line::Blank);
        }
        for (mark, read) in [(&b"= Start"[..], Line::Start), (b"= End", Line::End)] {
            if let Some(before) = line.strip_suffix(mark) {
                return Self {
                    line: read,
                    follows_damage: has_traces(before),
                };
            }
        }
        if let Some(count) = lost(line) {
            return Self::whole(Line::Lost(count));
        }
        let signs = (0..line.len()).rev().filter(|at| is_sign(line, *at));
        for at in signs {
            if let Ok((_, mut entry)) = record(&line[at..]) {
                let Some((caller, follows_damage)) = caller::before_sign(&line[..at]) else {
                    continue;
                };
                entry.caller = caller;
                return Self {
                    line: Line::Record(entry),
                    follows_damage,
                };
            }
        }
        Self::whole(if has_traces(line) || is_tail(line) {
            Line::Damaged
        } else {
            Line::Foreign
        })
    }
}

/// `= Lost N`, behind whatever else.
fn lost(line: &[u8]) -> Option<u64> {
    let at = memchr::memmem::rfind(line, b"= Lost ")?;
    let parsed: IResult<&[u8], u64> = all_consuming(u64).parse(&line[at + 7..]);
    parsed.ok().map(|(_, count)| count)
}

/// `@ CALLER] SIGN ADDRESS [SIZE]` and nothing else.
fn usual(line: &[u8]) -> Option<Entry<'_>> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = line.strip_prefix(b"@ ")?;
    let (caller, rest) = text.split_at(memchr::memrchr(b']', text)? + 1);
    let (rest, mut entry) = record(rest.strip_prefix(b" ")?).ok()?;
    entry.caller = Some(caller);
    rest.is_empty().then_some(entry)
}

/// Whether a sign stands at `at`: with blanks around it, or where these were lost between a caller and an address.
fn is_sign(line: &[u8], at: usize) -> bool {
    let (before, after) = (&line[..at], &line[at + 1..]);
    matches!(line[at], b'+' | b'-' | b'<' | b'>' | b'!')
        && matches!(before, [] | [.., b' ' | b'\t' | b']'])
        && (matches!(after, [b' ' | b'\t', ..]) || after.starts_with(b"0x"))
}

/// Whether there is what only a record has, though none is whole.
fn has_traces(text: &[u8]) -> bool {
    text.starts_with(b"@ ")
        || memchr::memmem::find(text, b"[0x").is_some()
        || memchr::memmem::find(text, b"] + 0x").is_some()
}

/// Whether the line is the end of a record: some digits, and perhaps a size.
fn is_tail(line: &[u8]) -> bool {
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit);
    let mut parts = line.splitn(2, |byte| *byte == b' ');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    second
        .and_then(|size| size.strip_prefix(b"0x"))
        .is_some_and(|size| digits(size) && digits(first.strip_prefix(b"0x").unwrap_or(first)))
}

/// A record from its sign on. What follows it must be parted from it.
fn record(text: &[u8]) -> IResult<&[u8], Entry<'_>> {
    let (rest, (kind, _, address)) = (kind, blanks, address).parse(text)?;
    let (rest, size) = match kind {
        Kind::Released | Kind::Old => (rest, 0),
        Kind::Allocated | Kind::New | Kind::Failed => preceded(part, size).parse(rest)?,
    };
    let (_, ()) = part(rest)?;
    let entry = Entry {
        caller: None,
        kind,
        address,
        size,
    };
    Ok((rest, entry))
}

fn kind(text: &[u8]) -> IResult<&[u8], Kind> {
    map_opt(byte, |sign| match sign {
        b'+' => Some(Kind::Allocated),
        b'-' => Some(Kind::Released),
        b'<' => Some(Kind::Old),
        b'>' => Some(Kind::New),
        b'!' => Some(Kind::Failed),
        _ => None,
    })
    .parse(text)
}

/// Nothing more, or a blank.
fn part(text: &[u8]) -> IResult<&[u8], ()> {
    match text {
        [] | [b' ' | b'\t', ..] => Ok((text, ())),
        _ => fail(text),
    }
}

/// Any blanks. This and what follows is done for each line: one look at the first bytes decides.
fn blanks(text: &[u8]) -> IResult<&[u8], ()> {
    let mut rest = text;
    while let [b' ' | b'\t', after @ ..] = rest {
        rest = after;
    }
    Ok((rest, ()))
}

fn address(text: &[u8]) -> IResult<&[u8], u64> {
    match text {
        [b'0', b'x' | b'X', digits @ ..] => hexadecimal(digits),
        [b'(', b'n', b'i', b'l', b')', rest @ ..] => Ok((rest, 0)),
        _ => fail(text),
    }
}

/// Sizes had no prefix in the first versions; zero never has one.
fn size(text: &[u8]) -> IResult<&[u8], u64> {
    let (text, ()) = blanks(text)?;
    match text {
        [b'0', b'x' | b'X', digits @ ..] => hexadecimal(digits),
        _ => hexadecimal(text),
    }
}
