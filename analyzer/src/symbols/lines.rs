//! Looks up addresses in the line table of one unit, in one pass that keeps only what was asked for.

use super::line_program::{LineProgram, Registers};
use super::reader::{LimitedReader, Limits};
use gimli::{Error, IncompleteLineProgram, LineProgramHeader, Reader as _, UnitRef};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::NonZeroU64;
use std::sync::Arc;

/// Rows of one address that are kept; more than one where functions were folded into each other.
const MAX_ROWS: usize = 64;

/// A row that holds an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    file: u64,
    pub(super) line: Option<NonZeroU64>,
    column: u64,
    /// The first line in the row's sequence, which is most often one function.
    pub(super) first_line: Option<NonZeroU64>,
}

impl Row {
    fn new(row: Registers) -> Self {
        let line = NonZeroU64::new(row.line);
        Self {
            file: row.file,
            line,
            column: row.column,
            first_line: line,
        }
    }
}

/// The place that a line table names.
#[derive(Clone, Debug, Default)]
pub(super) struct Location {
    pub(super) file: Option<Arc<str>>,
    pub(super) line: Option<u32>,
    /// 0 stands for the line's left edge.
    pub(super) column: Option<u32>,
}

/// What a line table says of some addresses.
pub(super) struct Lines<'data> {
    header: LineProgramHeader<LimitedReader<'data>>,
    /// By address; those of the same one in the order of the table.
    rows: Vec<(u64, Row)>,
    /// Paths of files that were asked for.
    files: RefCell<BTreeMap<u64, Option<Arc<str>>>>,
}

impl<'data> Lines<'data> {
    /// Reads the table of `unit`; `None` if it has none. The addresses must ascend.
    ///
    /// # Errors
    ///
    /// The table is damaged.
    pub(super) fn read(
        unit: UnitRef<'_, LimitedReader<'data>>,
        addresses: &[u64],
        limits: &Limits,
    ) -> Result<Option<Self>, Error> {
        let Some(program) = unit.line_program.clone() else {
            return Ok(None);
        };
        let mut table = LineProgram::new(program.header())?;
        let mut found = Vec::new();
        let mut counts = vec![0; addresses.len()];
        // The row before in the same sequence, where it begins, and the first address that is not below.
        let mut before: Option<(Row, usize)> = None;
        while let Some(row) = table.next()? {
            let mut next = Row::new(row);
            let mut first = match before {
                Some((_, first)) => first,
                None => addresses.partition_point(|address| *address < row.address),
            };
            if let Some((row_before, _)) = before {
                next.first_line = row_before.first_line.or(next.first_line);
                while let Some(&address) = addresses.get(first)
                    && address < row.address
                    && limits.charge(1)
                {
                    if counts[first] < MAX_ROWS {
                        counts[first] += 1;
                        found.push((address, row_before));
                    }
                    first += 1;
                }
            }
            before = (!row.is_end).then_some((next, first));
        }
        found.sort_by_key(|(address, _)| *address);
        Ok(Some(Self {
            header: header(program, table.names_files)?,
            rows: found,
            files: RefCell::default(),
        }))
    }

    /// The rows that hold an address, which must be one of those that were asked for.
    pub(super) fn rows(&self, address: u64) -> &[(u64, Row)] {
        let first = self.rows.partition_point(|(known, _)| *known < address);
        let rows = self.rows.get(first..).unwrap_or_default();
        let count = rows.partition_point(|(known, _)| *known == address);
        &rows[..count]
    }

    /// The place of an address; the first one where there are several.
    pub(super) fn location(
        &self,
        unit: UnitRef<'_, LimitedReader<'data>>,
        address: u64,
    ) -> Result<Location, Error> {
        let Some((_, row)) = self.rows(address).first() else {
            return Ok(Location::default());
        };
        Ok(Location {
            file: self.file(unit, row.file)?,
            line: row.line.map(|line| truncated(line.get())),
            column: row.line.map(|_| truncated(row.column)),
        })
    }

    /// The path of a file of the table: absolute if the compiler said so.
    pub(super) fn file(
        &self,
        unit: UnitRef<'_, LimitedReader<'data>>,
        index: u64,
    ) -> Result<Option<Arc<str>>, Error> {
        let mut files = self.files.borrow_mut();
        let file = match files.entry(index) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(self.path(unit, index)?.map(Arc::from)),
        };
        Ok(file.clone())
    }

    fn path(
        &self,
        unit: UnitRef<'_, LimitedReader<'data>>,
        index: u64,
    ) -> Result<Option<String>, Error> {
        let Some(file) = self.header.file(index) else {
            // Up to version 4, there is no file of this number.
            return Ok((index == 0).then(String::new));
        };
        let mut path = match &unit.comp_dir {
            Some(folder) => folder.to_string_lossy()?.into_owned(),
            None => String::new(),
        };
        // Folder 0 is that of the unit.
        let folder = file.directory(&self.header);
        let folder = folder.filter(|_| file.directory_index() != 0);
        for part in folder.into_iter().chain([file.path_name()]) {
            add(&mut path, &unit.attr_string(part)?.to_string_lossy()?);
        }
        Ok(Some(path))
    }
}

/// The header of a table, with the files that its program names where there are some.
fn header<'data>(
    program: IncompleteLineProgram<LimitedReader<'data>>,
    names_files: bool,
) -> Result<LineProgramHeader<LimitedReader<'data>>, Error> {
    if !names_files {
        return Ok(program.header().clone());
    }
    let mut rows = program.rows();
    while rows.next_row()?.is_some() {}
    Ok(rows.header().clone())
}

/// Adds a part of a path; compilers for Linux run on Windows as well.
fn add(path: &mut String, part: &str) {
    let is_windows = |part: &str| part.starts_with('\\') || part.get(1..3) == Some(":\\");
    if part.starts_with('/') || part.get(1..3) == Some(":/") || is_windows(part) {
        path.clear();
    }
    let separator = if is_windows(path) { '\\' } else { '/' };
    if !path.is_empty() && !path.ends_with(separator) {
        path.push(separator);
    }
    path.push_str(part);
}

/// A number of a line or column, which nobody writes beyond 32 bits.
pub(super) fn truncated(number: u64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "damage may read as it likes"
    )]
    let number = number as u32;
    number
}
