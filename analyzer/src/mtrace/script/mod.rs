//! The report of mtrace(1), as the script of glibc 2.36 prints it.
//!
//! `pass` reads the log as the script does, `place` takes callers apart, `perl` is what the script's language does with
//! numbers. Blocks are never resolved by running anything: who names callers is an argument.

mod pass;
mod perl;
mod place;

use crate::trace::{Input, Text, TraceError};
pub(super) use pass::Blanks;
use pass::{Complaint, Left, Pass, What};
pub(super) use perl::hex;
use perl::{padded, right};
pub(super) use place::Place;
use rustc_hash::FxHashMap;
use std::io::{self, Write};
use std::path::Path;

/// A log, read as the script reads it.
pub(super) struct Log(Option<Text>);

impl Log {
    /// Opens `path`. The script takes a directory for an empty log.
    pub(super) fn open(path: &Path) -> Result<Self, TraceError> {
        match Input::open(path) {
            Ok(input) => input.into_text().map(|text| Self(Some(text))),
            Err(TraceError::Directory { .. }) => Ok(Self(None)),
            Err(error) => Err(error),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], Text::bytes)
    }

    pub(super) fn findings(&self, blanks: Blanks) -> Findings<'_> {
        let pass = Pass::over(self.bytes(), blanks);
        Findings {
            with_blanks: pass.with_blanks,
            left: pass.left(),
            complaints: pass.complaints,
        }
    }
}

/// What the script has to say of a log.
pub(super) struct Findings<'l> {
    /// Records that the script takes for none.
    pub(super) with_blanks: u64,
    complaints: Vec<Complaint<'l>>,
    left: Vec<Left<'l>>,
}

impl<'l> Findings<'l> {
    /// Whether blocks were left; that decides the script's exit status.
    pub(super) fn has_leaks(&self) -> bool {
        !self.left.is_empty()
    }

    /// The callers that are shown resolved, in the order in which the script asks for them.
    pub(super) fn callers(&self) -> impl Iterator<Item = &'l [u8]> + '_ {
        let complained = self.complaints.iter().flat_map(|it| match it.what {
            What::Allocated { first, .. } => [Some(first), None],
            What::Reallocated { first, again, .. } => [Some(first), Some(again)],
            What::Freed { at } | What::FreedByRealloc { at } => [Some(at), None],
        });
        let left = self.left.iter().map(|left| left.at);
        complained.flatten().chain(left)
    }

    /// Prints the script's output, with callers as `names` has them.
    pub(super) fn print(&self, names: &Names<'l>, out: &mut dyn Write) -> io::Result<()> {
        for complaint in &self.complaints {
            print_complaint(complaint, names, out)?;
        }
        if self.left.is_empty() {
            return out.write_all(b"No memory leaks.\n");
        }
        out.write_all(b"\nMemory not freed:\n-----------------\n")?;
        out.write_all(b"           Address     Size     Caller\n")?;
        for left in &self.left {
            let address = padded(hex(left.address), 18);
            write!(out, "{address} {}  at ", right(left.size))?;
            out.write_all(names.of(left.at))?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

fn print_complaint(
    complaint: &Complaint<'_>,
    names: &Names<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let line = complaint.line;
    let address = padded(complaint.address, 18);
    match complaint.what {
        What::Allocated { first, again } => {
            write!(out, "+ {address} Alloc {line} duplicate: ")?;
            out.write_all(names.of(first))?;
            out.write_all(b" ")?;
            out.write_all(again)?; // the script shows this one as it is
        }
        What::Reallocated { size, first, again } => {
            let size = padded(size, 10);
            write!(out, "+ {address} Realloc {line} duplicate: {size} ")?;
            out.write_all(names.of(first))?;
            out.write_all(b" ")?;
            out.write_all(names.of(again))?;
        }
        What::Freed { at } => {
            write!(out, "- {address} Free {line} was never alloc'd ")?;
            out.write_all(names.of(at))?;
        }
        What::FreedByRealloc { at } => {
            write!(out, "- {address} Realloc {line} was never alloc'd ")?;
            out.write_all(names.of(at))?;
        }
    }
    out.write_all(b"\n")
}

/// What each caller is shown as.
#[derive(Default)]
pub(super) struct Names<'l>(FxHashMap<&'l [u8], Vec<u8>>);

impl<'l> Names<'l> {
    /// The names that the script gives `callers`: what `line` knows of a place, else its address.
    ///
    /// As in the script, an address has one name for all of the log, the one that it was given first.
    pub(super) fn as_the_script(
        callers: impl Iterator<Item = &'l [u8]>,
        mut line: impl FnMut(Place<'l>) -> Option<Vec<u8>>,
    ) -> Self {
        let mut by_pc: FxHashMap<&[u8], Vec<u8>> = FxHashMap::default();
        let mut names = Self::default();
        for caller in callers {
            if names.0.contains_key(caller) {
                continue;
            }
            let place = Place::of(caller);
            let name = match place {
                Place::Text(text) => text.to_vec(),
                Place::Function { pc, .. } | Place::File { pc, .. } | Place::Address { pc } => {
                    let name = by_pc
                        .entry(pc)
                        .or_insert_with(|| line(place).unwrap_or_else(|| unnamed(place)));
                    name.clone()
                }
            };
            names.0.insert(caller, name);
        }
        names
    }

    /// The names that `name` gives, and where it gives none the address.
    pub(super) fn each(
        callers: impl Iterator<Item = &'l [u8]>,
        mut name: impl FnMut(&'l [u8]) -> Option<Vec<u8>>,
    ) -> Self {
        let mut names = Self::default();
        for caller in callers {
            names
                .0
                .entry(caller)
                .or_insert_with(|| name(caller).unwrap_or_else(|| unnamed(Place::of(caller))));
        }
        names
    }

    /// How many callers have another name than in `other`.
    pub(super) fn differing(&self, other: &Self) -> u64 {
        let differing = self
            .0
            .iter()
            .filter(|(caller, name)| other.of(caller) != **name);
        differing.count() as u64
    }

    fn of(&self, caller: &[u8]) -> &[u8] {
        self.0.get(caller).map_or(&[], Vec::as_slice)
    }
}

/// What the script shows where it found no line.
fn unnamed(place: Place<'_>) -> Vec<u8> {
    match place {
        Place::Function { last, pc } => {
            let mut name: Vec<u8> = last.into_iter().collect();
            name.extend_from_slice(b" @ ");
            name.extend_from_slice(pc);
            name
        }
        Place::File { pc, .. } | Place::Address { pc } => pc.to_vec(),
        Place::Text(text) => text.to_vec(),
    }
}
