//! Splits the addresses of a module into parts that can be looked up side by side.
//!
//! All addresses of a unit are in one part, so that each unit is parsed once. The parts depend on the file and the
//! addresses only, not on the number of threads.

use super::reader::LimitedReader;
use gimli::{DebugInfoOffset, Dwarf, UnitHeader};
use std::cmp::Reverse;

/// Parts of a module at most. Each indexes all units, which takes little beside parsing them.
const MAX_PARTS: usize = 8;

/// Bytes of units for which another part is worth its index.
const BYTES_PER_PART: usize = 4 << 20;

/// The addresses of one unit.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// Where the unit begins; `None` for addresses in no unit.
    pub(super) unit: Option<DebugInfoOffset>,
    /// Indices of addresses that only this unit claims; they ascend.
    pub(super) own: Vec<usize>,
    /// Indices of addresses that other units may claim as well.
    pub(super) others: Vec<usize>,
}

/// Units whose addresses are looked up by the same thread.
pub(super) type Part = Vec<Group>;

/// Addresses that a unit says are its.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnitRange {
    begin: u64,
    end: u64,
    /// Its number, from 1.
    unit: usize,
    /// Another range has some of them too.
    is_shared: bool,
}

/// Splits `addresses`, which ascend.
pub(super) fn of(dwarf: &Dwarf<LimitedReader<'_>>, addresses: &[u64]) -> Vec<Part> {
    let mut ranges = Vec::new();
    // The first place is that of addresses in no unit.
    let mut groups = vec![(0, Group::default())];
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let size = header.length_including_self();
        let unit = header.debug_info_offset();
        // A unit whose ranges cannot be read has none: its addresses go with those of no unit.
        let _ = add_ranges(dwarf, header, groups.len(), &mut ranges);
        groups.push((
            size,
            Group {
                unit,
                ..Group::default()
            },
        ));
    }
    ranges.sort_unstable();
    mark_shared(&mut ranges);
    let total: usize = groups
        .iter()
        .fold(0, |sum, (size, _)| sum.saturating_add(*size));
    let mut next = 0;
    for (index, &address) in addresses.iter().enumerate() {
        while ranges.get(next).is_some_and(|range| range.end <= address) {
            next += 1;
        }
        let range = ranges.get(next).filter(|range| range.begin <= address);
        let (_, group) = &mut groups[range.map_or(0, |range| range.unit)];
        if range.is_some_and(|range| !range.is_shared) {
            group.own.push(index);
        } else {
            group.others.push(index);
        }
    }
    groups.retain(|(_, group)| !group.own.is_empty() || !group.others.is_empty());
    groups.sort_by_key(|(size, _)| Reverse(*size));
    let parts = (total / BYTES_PER_PART).clamp(1, MAX_PARTS);
    let mut filled = vec![(0usize, Part::new()); parts];
    for (size, group) in groups {
        // Large ones first, each to where there is least so far.
        if let Some(part) = filled.iter_mut().min_by_key(|(size, _)| *size) {
            part.0 = part.0.saturating_add(size);
            part.1.push(group);
        }
    }
    filled.retain(|(_, part)| !part.is_empty());
    filled.into_iter().map(|(_, part)| part).collect()
}

/// Marks all of `ranges`, which are sorted, that have addresses in common with another one.
fn mark_shared(ranges: &mut [UnitRange]) {
    let mut widest = 0;
    for index in 1..ranges.len() {
        if ranges[index].begin < ranges[widest].end {
            ranges[index].is_shared = true;
            ranges[widest].is_shared = true;
        }
        if ranges[index].end > ranges[widest].end {
            widest = index;
        }
    }
}

/// Adds the ranges of a unit, with its number from 1.
fn add_ranges(
    dwarf: &Dwarf<LimitedReader<'_>>,
    header: UnitHeader<LimitedReader<'_>>,
    unit_number: usize,
    ranges: &mut Vec<UnitRange>,
) -> Result<(), gimli::Error> {
    let unit = dwarf.unit(header)?;
    let mut of_unit = dwarf.unit_ranges(&unit)?;
    while let Some(range) = of_unit.next()? {
        if range.begin < range.end {
            ranges.push(UnitRange {
                begin: range.begin,
                end: range.end,
                unit: unit_number,
                is_shared: false,
            });
        }
    }
    Ok(())
}
