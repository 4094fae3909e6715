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

#[derive(Default)]
pub(super) struct Pass<'l> {
    live: FxHashMap<&'l [u8], (u64, &'l [u8])>,
    pub(super) complaints: Vec<Complaint<'l>>,
    line: u64,
}

impl<'l> Pass<'l> {
    pub(super) fn over(log: &'l [u8]) -> Self {
        let mut pass = Self::default();
        for line in log.split_inclusive(|byte| *byte == b'\n') {
            pass.line(line);
        }
        pass
    }

    fn line(&mut self, line: &'l [u8]) {
        self.line += 1;
        let mut fields = fields(line).peekable();
        let mut at = &b""[..];
        if fields.next_if_eq(&&b"@"[..]).is_some() {
            at = fields.next().unwrap_or_default();
        }
        let op = fields.next().unwrap_or_default();
        let address = fields.next().unwrap_or_default();
        let known = || self.live.get(address).copied();
        let what = match op {
            b"+" => match known() {
                Some((_, first)) => What::Allocated { first, again: at },
                None => {
                    if address.starts_with(b"0x") {
                        let size = hex(fields.next().unwrap_or_default());
                        self.live.insert(address, (size, at));
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
                    let size = hex(fields.next().unwrap_or_default());
                    self.live.insert(address, (size, at));
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
