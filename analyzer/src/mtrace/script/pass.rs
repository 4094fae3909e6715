//! The script's one pass over a log: what it complains of on the way, and what is left at the end.
//!
//! Blocks are known by the text of their address, as the script does it.

use super::perl::{fields, hex};
use rustc_hash::FxHashMap;

/// A line of the script's output before the list of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Complaint<'l> {
    pub(super) address: u64,
    /// Line of the log, from 1.
    pub(super) line: u64,
    pub(super) what: What<'l>,
}

/// What was wrong; callers are texts as in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What<'l> {
    Allocated {
        first: &'l [u8],
        again: &'l [u8],
    },
    Reallocated {
        size: u64,
        first: &'l [u8],
        again: &'l [u8],
    },
    Freed {
        at: &'l [u8],
    },
    FreedByRealloc {
        at: &'l [u8],
    },
}

/// A block that was not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left<'l> {
    /// The text of its address.
    pub(super) address: &'l [u8],
    pub(super) size: u64,
    pub(super) at: &'l [u8],
}

/// What is done with a caller that has blanks in it, such as a path: the script takes no such line for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mtrace) enum Blanks {
    PassOver,
    Read,
}

/// The fields of a line that the script looks at.
#[derive(Clone, Copy, Default)]
struct Fields<'l> {
    at: &'l [u8],
    op: &'l [u8],
    address: &'l [u8],
    size: &'l [u8],
}

impl<'l> Fields<'l> {
    fn of(line: &'l [u8]) -> Self {
        let mut fields = fields(line).peekable();
        let is_caller = fields.next_if_eq(&&b"@"[..]).is_some();
        let at = fields.next_if(|_| is_caller).unwrap_or_default();
        Self::behind(at, fields)
    }

    /// The fields where all between `@ ` and the last `]` is the caller, if it has blanks and the rest is of a record.
    fn with_blanks(line: &'l [u8]) -> Option<Self> {
        let caller = line.strip_prefix(b"@ ")?;
        let (at, rest) = caller.split_at(memchr::memrchr(b']', caller)? + 1);
        let found = Self::behind(at, fields(rest));
        let is_address = found.address.starts_with(b"0x") || found.address == b"(nil)";
        (at.contains(&b' ') && found.is_record() && is_address).then_some(found)
    }

    fn behind(at: &'l [u8], mut fields: impl Iterator<Item = &'l [u8]>) -> Self {
        let mut next = || fields.next().unwrap_or_default();
        Self {
            at,
            op: next(),
            address: next(),
            size: next(),
        }
    }

    fn is_record(&self) -> bool {
        matches!(self.op, b"+" | b"-" | b"<" | b">" | b"!")
    }
}

#[derive(Default)]
pub(super) struct Pass<'l> {
    live: FxHashMap<&'l [u8], (u64, &'l [u8])>,
    pub(super) complaints: Vec<Complaint<'l>>,
    /// Records that the script takes for none.
    pub(super) with_blanks: u64,
    line: u64,
}

impl<'l> Pass<'l> {
    pub(super) fn over(log: &'l [u8], blanks: Blanks) -> Self {
        let mut pass = Self::default();
        for line in log.split_inclusive(|byte| *byte == b'\n') {
            pass.line(line, blanks);
        }
        pass
    }

    fn line(&mut self, line: &'l [u8], blanks: Blanks) {
        self.line += 1;
        let mut fields = Fields::of(line);
        if !fields.is_record()
            && let Some(found) = Fields::with_blanks(line)
        {
            self.with_blanks += 1;
            if blanks == Blanks::Read {
                fields = found;
            }
        }
        let Fields {
            at,
            op,
            address,
            size,
        } = fields;
        let known = || self.live.get(address).copied();
        let what = match op {
            b"+" => match known() {
                Some((_, first)) => What::Allocated { first, again: at },
                None => {
                    if address.starts_with(b"0x") {
                        self.live.insert(address, (hex(size), at));
                    }
                    return;
                }
            },
            b">" => match known() {
                Some((size, first)) => What::Reallocated {
                    size,
                    first,
                    again: at,
                },
                None => {
                    self.live.insert(address, (hex(size), at));
                    return;
                }
            },
            b"-" | b"<" => {
                if self.live.remove(address).is_some() {
                    return;
                }
                if op == b"-" {
                    What::Freed { at }
                } else {
                    What::FreedByRealloc { at }
                }
            }
            _ => return,
        };
        self.complaints.push(Complaint {
            address: hex(address),
            line: self.line,
            what,
        });
    }

    /// The blocks that are left, in the order of their addresses' texts.
    pub(super) fn left(&self) -> Vec<Left<'l>> {
        let mut left: Vec<_> = self
            .live
            .iter()
            .map(|(address, (size, at))| Left {
                address,
                size: *size,
                at,
            })
            .collect();
        left.sort_unstable_by_key(|left| left.address);
        left
    }
}
