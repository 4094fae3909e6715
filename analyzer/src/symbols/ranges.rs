//! Where the code of an entry is.

use super::reader::LimitedReader;
use gimli::{Attribute, AttributeValue, Error, Range, RangeListsOffset, UnitOffset, UnitRef};

/// What the attributes of an entry say about its code.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    begin: Option<u64>,
    end: Option<u64>,
    size: Option<u64>,
    list: Option<RangeListsOffset>,
}

impl Ranges {
    /// Those of the entry at `offset`.
    pub(super) fn read(
        unit: UnitRef<'_, LimitedReader<'_>>,
        offset: UnitOffset,
    ) -> Result<Self, Error> {
        let mut ranges = Self::default();
        let mut entries = unit.entries_raw(Some(offset))?;
        let abbreviation = entries.read_abbreviation()?;
        let attributes = abbreviation.map_or(&[][..], gimli::Abbreviation::attributes);
        let is_range = |name| {
            matches!(
                name,
                gimli::DW_AT_low_pc | gimli::DW_AT_high_pc | gimli::DW_AT_ranges
            )
        };
        // Nothing behind the last of them is read.
        let last = attributes.iter().rposition(|it| is_range(it.name()));
        for specification in attributes.get(..=last.unwrap_or(0)).unwrap_or_default() {
            if is_range(specification.name()) {
                ranges.add(unit, &entries.read_attribute(*specification)?)?;
            } else {
                entries.skip_attributes(std::slice::from_ref(specification))?;
            }
        }
        Ok(ranges)
    }

    fn add<'data>(
        &mut self,
        unit: UnitRef<'_, LimitedReader<'data>>,
        attribute: &Attribute<LimitedReader<'data>>,
    ) -> Result<(), Error> {
        match attribute.name() {
            gimli::DW_AT_low_pc => self.begin = unit.attr_address(attribute.value())?,
            gimli::DW_AT_high_pc => match attribute.value() {
                AttributeValue::Udata(size) => self.size = Some(size),
                value => self.end = unit.attr_address(value)?,
            },
            gimli::DW_AT_ranges => self.list = unit.attr_ranges_offset(attribute.value())?,
            _ => {}
        }
        Ok(())
    }

    /// Gives `take` the indices of those of `addresses`, which ascend, that are inside.
    pub(super) fn each_of(
        &self,
        unit: UnitRef<'_, LimitedReader<'_>>,
        addresses: &[u64],
        mut take: impl FnMut(usize),
    ) -> Result<(), Error> {
        let mut add = |range: Range| {
            let first = addresses.partition_point(|address| *address < range.begin);
            let rest = addresses.get(first..).unwrap_or_default();
            let inside = rest.iter().take_while(|address| **address < range.end);
            (first..).zip(inside).for_each(|(index, _)| take(index));
        };
        if let Some(list) = self.list {
            let mut list = unit.ranges(list)?;
            while let Some(range) = list.next()? {
                add(range);
            }
        } else if let Some(begin) = self.begin {
            // The end of what was left out overflows, and nothing is inside.
            let end = self.end.or_else(|| Some(begin.wrapping_add(self.size?)));
            end.into_iter().for_each(|end| add(Range { begin, end }));
        }
        Ok(())
    }
}
