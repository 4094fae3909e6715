//! Rows of line tables as binutils read them, for the report of mtrace(1).

use super::{BYTES_PER_ADDRESS, DebugInfo, Reader, unit_key};
use gimli::{Reader as _, UnitRef};
use std::collections::BTreeMap;

/// A row of the line table, as it stands there.
#[derive(Debug, Default)]
pub(in crate::symbols) struct Row {
    pub(in crate::symbols) file: Option<String>,
    pub(in crate::symbols) line: Option<u32>,
    /// Tells blocks of one line apart; 0 where there is only one.
    pub(in crate::symbols) discriminator: u64,
}

impl<'data> DebugInfo<'data> {
    /// The rows that hold `addresses`, which must ascend; `None` where there is none, or none that can be read.
    pub(super) fn rows(&self, addresses: &[u64]) -> Vec<Option<Row>> {
        let more = BYTES_PER_ADDRESS.saturating_mul(addresses.len());
        self.store.limits.allow_for(more);
        // One pass over a unit's table is enough for all that lie in it.
        let mut by_unit = BTreeMap::new();
        for (index, &address) in addresses.iter().enumerate() {
            if let Some(unit) = self.unit(address) {
                let of_unit = by_unit.entry(unit_key(unit)).or_insert((unit, Vec::new()));
                of_unit.1.push((address, index));
            }
        }
        let mut rows: Vec<Option<Row>> = addresses.iter().map(|_| None).collect();
        for (unit, wanted) in by_unit.into_values() {
            let _damaged_behind_these = find(unit, &wanted, &mut rows);
        }
        rows
    }
}

/// Finds the rows of the table of `unit` that hold `wanted`, addresses that ascend and where their rows go: the first one of each.
///
/// # Errors
///
/// The table is damaged; what comes before is found.
fn find(
    unit: UnitRef<'_, Reader<'_>>,
    wanted: &[(u64, usize)],
    rows: &mut [Option<Row>],
) -> Result<(), gimli::Error> {
    let Some(mut program) = unit.line_program.clone() else {
        return Ok(());
    };
    let mut left = wanted.len();
    let mut instructions = program.header().instructions();
    let mut row = gimli::LineRow::new(program.header());
    let mut names_file = false;
    let mut before: Option<(gimli::LineRow, bool)> = None;
    while left > 0
        && let Some(instruction) = instructions.next_instruction(program.header())?
    {
        names_file |= matches!(instruction, gimli::LineInstruction::SetFile(_));
        if !row.execute(instruction, &mut program)? {
            continue;
        }
        if let Some((begin, names_file)) = before {
            let first = wanted.partition_point(|(address, _)| *address < begin.address());
            let rest = wanted[first..].iter();
            for (_, index) in rest.take_while(|(address, _)| *address < row.address()) {
                let place = &mut rows[*index];
                if place.is_none() {
                    *place = Row::of(&unit, program.header(), &begin, names_file).ok();
                    left -= usize::from(place.is_some());
                }
            }
        }
        before = (!row.end_sequence()).then_some((row, names_file));
        names_file &= !row.end_sequence();
        row.reset(program.header());
    }
    Ok(())
}

impl Row {
    fn of<'data>(
        unit: &UnitRef<'_, Reader<'data>>,
        header: &gimli::LineProgramHeader<Reader<'data>>,
        row: &gimli::LineRow,
        names_file: bool,
    ) -> Result<Self, gimli::Error> {
        Ok(Self {
            file: source_file(unit, header, row, names_file)?,
            line: row.line().and_then(|line| u32::try_from(line.get()).ok()),
            discriminator: row.discriminator(),
        })
    }
}

/// The path of a row's source file as binutils puts it together: parts as they stand, and in version 5 the first file where
/// no instruction before has named one.
fn source_file<'data>(
    unit: &UnitRef<'_, Reader<'data>>,
    header: &gimli::LineProgramHeader<Reader<'data>>,
    row: &gimli::LineRow,
    names_file: bool,
) -> Result<Option<String>, gimli::Error> {
    let file = if header.version() >= 5 && !names_file {
        header.file(0)
    } else {
        row.file(header)
    };
    let Some(file) = file else {
        return Ok(None);
    };
    let text = |value| -> Result<String, gimli::Error> {
        Ok(unit.attr_string(value)?.to_string_lossy()?.into_owned())
    };
    let name = text(file.path_name())?;
    // Up to version 4, folder 0 is that of the unit.
    let is_folder = file.directory_index() != 0 || header.version() >= 5;
    let folder = match file.directory(header).filter(|_| is_folder) {
        Some(folder) => Some(text(folder)?),
        None => None,
    };
    let of_unit = match &unit.comp_dir {
        Some(folder) => Some(folder.to_string_lossy()?.into_owned()),
        None => None,
    };
    let mut path = name;
    for part in [folder, of_unit].into_iter().flatten() {
        if path.starts_with('/') {
            break;
        }
        path = format!("{part}/{path}");
    }
    Ok(Some(path))
}
