//! Functions of the same code that the linker folded into one: each keeps its own line.

use super::{DebugInfo, Reader};
use crate::symbols::lines;
use gimli::UnitRef;

/// Entries that are followed from a function to where it is declared.
const MAX_ORIGINS: usize = 4;

impl<'data> DebugInfo<'data> {
    /// The line of `address` in the function of `entry`, where others were folded into it: the table then has several
    /// sequences of rows for the same addresses, of which any would be taken. `None` where there is only one.
    pub(super) fn own_line(
        &self,
        unit: UnitRef<'_, Reader<'data>>,
        address: u64,
        entry: gimli::UnitOffset,
    ) -> Result<Option<u32>, gimli::Error> {
        let lines = self.lines(unit)?;
        let rows = lines.as_ref().map_or(&[][..], |lines| lines.rows(address));
        if rows.len() < 2 {
            return Ok(None);
        }
        let Some(declared) = declared_line(&unit, entry) else {
            return Ok(None);
        };
        let distance = |row: &lines::Row| row.first_line?.get().checked_sub(declared);
        let nearest = rows
            .iter()
            .filter_map(|(_, row)| Some((distance(row)?, row.line?)))
            .min_by_key(|(distance, _)| *distance);
        Ok(nearest.and_then(|(_, line)| u32::try_from(line.get()).ok()))
    }
}

/// The line in which the function of this entry is declared.
fn declared_line(unit: &UnitRef<'_, Reader<'_>>, mut entry: gimli::UnitOffset) -> Option<u64> {
    for _ in 0..MAX_ORIGINS {
        let attributes = unit.entry(entry).ok()?;
        if let Some(line) = attributes.attr_value(gimli::DW_AT_decl_line) {
            return line.udata_value();
        }
        let origin = attributes
            .attr_value(gimli::DW_AT_abstract_origin)
            .or_else(|| attributes.attr_value(gimli::DW_AT_specification));
        let Some(gimli::AttributeValue::UnitRef(origin)) = origin else {
            return None;
        };
        entry = origin;
    }
    None
}
