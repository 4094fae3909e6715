//! Rows of line tables as binutils read them, for the report of mtrace(1).

use super::{BYTES_PER_ADDRESS, DebugInfo, Reader};
use gimli::{Reader as _, UnitRef};

/// A row of the line table, as it stands there.
#[derive(Debug, Default)]
pub(in crate::symbols) struct Row {
    pub(in crate::symbols) file: Option<String>,
    pub(in crate::symbols) line: Option<u32>,
    /// Tells blocks of one line apart; 0 where there is only one.
    pub(in crate::symbols) discriminator: u64,
}

impl<'data> DebugInfo<'data> {
    /// The row that holds `address`; `None` where there is none.
    ///
    /// # Errors
    ///
    /// The information about this address is damaged.
    pub(super) fn row(&self, address: u64) -> Result<Option<Row>, gimli::Error> {
        self.store.limits.allow_for(BYTES_PER_ADDRESS);
        let unit = self.unit(address);
        let program = unit.and_then(|unit| Some((unit, unit.line_program.clone()?)));
        let Some((unit, mut program)) = program else {
            return Ok(None);
        };
        let mut instructions = program.header().instructions();
        let mut row = gimli::LineRow::new(program.header());
        let mut names_file = false;
        let mut before: Option<(gimli::LineRow, bool)> = None;
        while let Some(instruction) = instructions.next_instruction(program.header())? {
            names_file |= matches!(instruction, gimli::LineInstruction::SetFile(_));
            if !row.execute(instruction, &mut program)? {
                continue;
            }
            if let Some((found, names_file)) = before
                && (found.address()..row.address()).contains(&address)
            {
                return Ok(Some(Row {
                    file: source_file(&unit, program.header(), &found, names_file)?,
                    line: found.line().and_then(|line| u32::try_from(line.get()).ok()),
                    discriminator: found.discriminator(),
                }));
            }
            before = (!row.end_sequence()).then_some((row, names_file));
            names_file &= !row.end_sequence();
            row.reset(program.header());
        }
        Ok(None)
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
