//! Finds the functions that hold some addresses of one unit, and what is inlined into them there.
//!
//! What holds no address is passed over: types, declarations, and all that is in the other functions.

use super::entries::{Entries, Entry, Shapes};
use super::origins::{Named, Origins};
use super::ranges::Ranges;
use super::reader::LimitedReader;
use gimli::{Error, UnitOffset, UnitRef};
use std::collections::BTreeMap;

/// Functions inlined into each other; honest ones are a few dozen.
const MAX_INLINED: usize = 255;

type Unit<'unit, 'data> = UnitRef<'unit, LimitedReader<'data>>;

/// A function at an address.
#[derive(Clone, Debug)]
pub(super) struct Function<'data> {
    pub(super) entry: UnitOffset,
    pub(super) name: Option<LimitedReader<'data>>,
    /// What is inlined there, outermost first.
    pub(super) inlined: Vec<Inlined<'data>>,
}

/// A function that was inlined, and where it was called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inlined<'data> {
    pub(super) entry: UnitOffset,
    pub(super) name: Option<LimitedReader<'data>>,
    pub(super) file: Option<u64>,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
}

/// The function at each of `addresses`, which must ascend; `None` where there is none, or where several claim it.
///
/// # Errors
///
/// Entries that had to be read are damaged.
pub(super) fn find<'data>(
    unit: Unit<'_, 'data>,
    addresses: &[u64],
    origins: &Origins<'data>,
) -> Result<Vec<Option<Function<'data>>>, Error> {
    let mut functions = vec![None; addresses.len()];
    let shapes = Shapes::default();
    for (entry, indices) in holders(unit, addresses, &shapes)? {
        let entries = Entries::new(unit, entry, &shapes)?;
        let mut found = inlined(unit, entries, addresses, &indices, origins)?;
        let name = Named::read(unit, entry)?.name(unit, origins)?;
        for index in indices {
            functions[index] = Some(Function {
                entry,
                name,
                inlined: found.remove(&index).unwrap_or_default(),
            });
        }
    }
    Ok(functions)
}

/// The entries of functions that hold addresses, and the indices of these, which ascend.
fn holders(
    unit: Unit<'_, '_>,
    addresses: &[u64],
    shapes: &Shapes,
) -> Result<BTreeMap<UnitOffset, Vec<usize>>, Error> {
    let mut holders = vec![Holder::Unknown; addresses.len()];
    let all = || Entries::new(unit, unit.header.root_offset(), shapes);
    let is_partial = scan(unit, all()?, addresses, &mut holders, false)?;
    if is_partial && holders.contains(&Holder::Unknown) {
        // Functions of local classes are inside other functions.
        scan(unit, all()?, addresses, &mut holders, true)?;
    }
    let mut of_entry: BTreeMap<UnitOffset, Vec<usize>> = BTreeMap::new();
    for (index, holder) in holders.into_iter().enumerate() {
        if let Holder::One(entry) = holder {
            of_entry.entry(entry).or_default().push(index);
        }
    }
    Ok(of_entry)
}

/// What is known about who holds an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Unknown,
    One(UnitOffset),
    Several,
}

/// Looks for functions with code: in namespaces, and, where `is_deep`, in everything. True if something was passed over.
fn scan(
    unit: Unit<'_, '_>,
    mut entries: Entries<'_, '_>,
    addresses: &[u64],
    holders: &mut [Holder],
    is_deep: bool,
) -> Result<bool, Error> {
    let mut is_partial = false;
    while !entries.is_empty() {
        let Some(entry) = entries.next()? else {
            continue;
        };
        if entry.tag() == gimli::DW_TAG_subprogram && entry.has_code() {
            let hold = |index: usize| {
                holders[index] = match holders[index] {
                    Holder::Unknown => Holder::One(entry.offset),
                    Holder::One(known) if known == entry.offset => Holder::One(known),
                    _ => Holder::Several,
                };
            };
            Ranges::read(unit, entry.offset)?.each_of(unit, addresses, hold)?;
        }
        if is_deep || entry.depth == 0 || entry.tag() == gimli::DW_TAG_namespace {
            entries.enter(entry)?;
        } else {
            is_partial |= entries.pass(entry)?;
        }
    }
    Ok(is_partial)
}

/// What is inlined into the function that `entries` begin with, at those of `addresses` with these indices, outermost first.
fn inlined<'data>(
    unit: Unit<'_, 'data>,
    mut entries: Entries<'_, 'data>,
    addresses: &[u64],
    indices: &[usize],
    origins: &Origins<'data>,
) -> Result<BTreeMap<usize, Vec<Inlined<'data>>>, Error> {
    let wanted: Vec<u64> = indices.iter().map(|&index| addresses[index]).collect();
    let mut found: BTreeMap<usize, Vec<Inlined<'data>>> = BTreeMap::new();
    let Some(root) = entries.next()? else {
        return Ok(found); // whose name will not be found either
    };
    entries.enter(root)?;
    // Depths of the inlined functions around.
    let mut around: Vec<isize> = Vec::new();
    while entries.depth() > root.depth {
        let Some(entry) = entries.next()? else {
            continue;
        };
        while around.last().is_some_and(|depth| *depth >= entry.depth) {
            around.pop();
        }
        if entry.tag() == gimli::DW_TAG_inlined_subroutine {
            let mut here = Vec::new();
            Ranges::read(unit, entry.offset)?.each_of(unit, &wanted, |index| here.push(index))?;
            // Of those beside each other, the first one that claims an address has it.
            here.retain(|&index| found.get(&indices[index]).map_or(0, Vec::len) == around.len());
            here.dedup();
            if here.is_empty() {
                entries.skip(entry)?;
                continue;
            }
            let call = Inlined::read(unit, entry.offset, origins)?;
            for index in here {
                found.entry(indices[index]).or_default().push(call);
            }
            if around.len() == MAX_INLINED {
                return Err(Error::OffsetOutOfBounds(entry.offset.0 as u64));
            }
            around.push(entry.depth);
            entries.enter(entry)?;
        } else if holds_code(entry) {
            entries.enter(entry)?;
        } else {
            entries.skip(entry)?;
        }
    }
    Ok(found)
}

/// Whether inlined functions can be below.
fn holds_code(entry: Entry<'_>) -> bool {
    !matches!(
        entry.tag(),
        gimli::DW_TAG_subprogram
            | gimli::DW_TAG_call_site
            | gimli::DW_TAG_GNU_call_site
            | gimli::DW_TAG_formal_parameter
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_array_type
            | gimli::DW_TAG_subroutine_type
    )
}

impl<'data> Inlined<'data> {
    fn read(
        unit: Unit<'_, 'data>,
        entry: UnitOffset,
        origins: &Origins<'data>,
    ) -> Result<Self, Error> {
        let mut call = Self {
            entry,
            name: None,
            file: None,
            line: None,
            column: None,
        };
        // 0 stands for nothing, but for the file in version 5.
        let number = |attribute: &gimli::Attribute<LimitedReader<'_>>| {
            let number = attribute.udata_value()?;
            #[expect(clippy::cast_possible_truncation, reason = "nobody writes such lines")]
            Some(number as u32).filter(|number| *number > 0)
        };
        let named = Named::read_with(unit, entry, |attribute| {
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_call_file, gimli::AttributeValue::FileIndex(file)) => {
                    call.file = Some(file).filter(|file| *file > 0 || unit.header.version() >= 5);
                }
                (gimli::DW_AT_call_line, _) => call.line = number(attribute),
                (gimli::DW_AT_call_column, _) => call.column = number(attribute),
                _ => {}
            }
        })?;
        call.name = named.name(unit, origins)?;
        Ok(call)
    }
}
