//! Splits the addresses of a module into parts that can be looked up side by side.
//!
//! All addresses of a unit are in one part, so that each unit is parsed once. The parts depend on the file and the
//! addresses only, not on the number of threads.

use super::reader::LimitedReader;
use gimli::{Dwarf, UnitHeader};

/// Parts of a module at most. Each indexes all units, which takes little beside parsing them.
const MAX_PARTS: usize = 8;

/// Bytes of units for which another part is worth its index.
const BYTES_PER_PART: usize = 4 << 20;

/// Indices of `addresses`, which ascend, part by part; each ascends.
pub(super) fn of(dwarf: &Dwarf<LimitedReader<'_>>, addresses: &[u64]) -> Vec<Vec<usize>> {
    let mut ranges = Vec::new();
    let mut sizes = Vec::new();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        sizes.push(header.length_including_self());
        // A unit whose ranges cannot be read has none: its addresses go with those of no unit.
        let _ = add_ranges(dwarf, header, sizes.len(), &mut ranges);
    }
    ranges.sort_unstable();
    let total: usize = sizes.iter().fold(0, |sum, size| sum.saturating_add(*size));
    let parts = (total / BYTES_PER_PART).clamp(1, MAX_PARTS);
    let mut of_unit: Vec<Vec<usize>> = vec![Vec::new(); sizes.len() + 1];
    let mut next = 0;
    for (index, &address) in addresses.iter().enumerate() {
        while ranges.get(next).is_some_and(|(_, end, _)| *end <= address) {
            next += 1;
        }
        let unit = ranges.get(next).filter(|(begin, _, _)| *begin <= address);
        // The first place is that of addresses in no unit.
        of_unit[unit.map_or(0, |(_, _, unit)| *unit)].push(index);
    }
    let mut wanted: Vec<(usize, Vec<usize>)> = of_unit
        .into_iter()
        .enumerate()
        .filter(|(_, addresses)| !addresses.is_empty())
        .map(|(unit, addresses)| (unit.checked_sub(1).map_or(0, |unit| sizes[unit]), addresses))
        .collect();
    wanted.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    let mut filled: Vec<(usize, Vec<usize>)> = vec![(0, Vec::new()); parts];
    for (size, addresses) in wanted {
        // Large ones first, each to where there is least so far.
        if let Some(part) = filled.iter_mut().min_by_key(|(size, _)| *size) {
            part.0 = part.0.saturating_add(size);
            part.1.extend(addresses);
        }
    }
    filled
        .into_iter()
        .map(|(_, mut addresses)| {
            addresses.sort_unstable();
            addresses
        })
        .filter(|addresses| !addresses.is_empty())
        .collect()
}

/// Adds begin and end of a unit's ranges, with its number from 1.
fn add_ranges(
    dwarf: &Dwarf<LimitedReader<'_>>,
    header: UnitHeader<LimitedReader<'_>>,
    number: usize,
    ranges: &mut Vec<(u64, u64, usize)>,
) -> Result<(), gimli::Error> {
    let unit = dwarf.unit(header)?;
    let mut of_unit = dwarf.unit_ranges(&unit)?;
    while let Some(range) = of_unit.next()? {
        if range.begin < range.end {
            ranges.push((range.begin, range.end, number));
        }
    }
    Ok(())
}
