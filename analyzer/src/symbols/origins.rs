//! Names of functions, which often stand at other entries, of other units, or in another file.

use super::reader::LimitedReader;
use gimli::{Attribute, AttributeValue, DebugInfoOffset, Dwarf, Error, Unit, UnitOffset, UnitRef};
use rustc_hash::FxHashMap;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use std::sync::Arc;

/// Entries that are followed for one name.
const MAX_ORIGINS: usize = 16;

type Reader<'data> = LimitedReader<'data>;

/// What the attributes of an entry say about its name.
#[derive(Clone, Debug, Default)]
pub(super) struct Named<'data> {
    linkage: Option<Reader<'data>>,
    plain: Option<Reader<'data>>,
    origin: Option<AttributeValue<Reader<'data>>>,
}

impl<'data> Named<'data> {
    /// That of the entry at `offset`.
    pub(super) fn read(
        unit: UnitRef<'_, Reader<'data>>,
        offset: UnitOffset,
    ) -> Result<Self, Error> {
        Self::read_with(unit, offset, |_| {})
    }

    /// That of the entry at `offset`, whose other attributes are given to `other`.
    pub(super) fn read_with(
        unit: UnitRef<'_, Reader<'data>>,
        offset: UnitOffset,
        mut other: impl FnMut(&Attribute<Reader<'data>>),
    ) -> Result<Self, Error> {
        let mut named = Self::default();
        let mut entries = unit.entries_raw(Some(offset))?;
        let Some(abbreviation) = entries.read_abbreviation()? else {
            return Err(Error::NoEntryAtGivenOffset(offset.0 as u64));
        };
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                    named.linkage = unit.attr_string(attribute.value()).ok();
                }
                gimli::DW_AT_name => named.plain = unit.attr_string(attribute.value()).ok(),
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    named.origin = Some(attribute.value());
                }
                _ => other(&attribute),
            }
        }
        Ok(named)
    }

    /// The name: for the linker, else in the source, else that of what the entry comes from.
    pub(super) fn name(
        self,
        unit: UnitRef<'_, Reader<'data>>,
        origins: &Origins<'data>,
    ) -> Result<Option<Reader<'data>>, Error> {
        let own = self.linkage.or(self.plain);
        let (None, Some(AttributeValue::UnitRef(origin)), Some(begin)) =
            (own, self.origin, unit.header.debug_info_offset())
        else {
            return self.search(unit, origins);
        };
        // Many come from the same one.
        let key = (begin, origin);
        if let Some(name) = origins.names.borrow().get(&key) {
            return Ok(*name);
        }
        let name = self.search(unit, origins)?;
        origins.names.borrow_mut().insert(key, name);
        Ok(name)
    }

    /// The name, by following entries as far as it takes.
    fn search(
        mut self,
        unit: UnitRef<'_, Reader<'data>>,
        origins: &Origins<'data>,
    ) -> Result<Option<Reader<'data>>, Error> {
        let mut place = Place::Given;
        for _ in 0..MAX_ORIGINS {
            if let Some(name) = self.linkage.or(self.plain) {
                return Ok(Some(name));
            }
            let Some((next, entry)) = origins.follow(place, self.origin)? else {
                return Ok(None);
            };
            self = Self::read(origins.unit(unit, &next), entry)?;
            place = next;
        }
        Ok(None)
    }
}

/// The unit of an entry.
#[derive(Clone, Debug)]
enum Place<'data> {
    /// That in which the name was asked for.
    Given,
    /// One of the same file.
    Main(Rc<Unit<Reader<'data>>>),
    /// One of the file that others share.
    Supplementary(Rc<Unit<Reader<'data>>>),
}

/// A unit of the main file, and an entry in it.
type EntryKey = (DebugInfoOffset, UnitOffset);

/// Finds the entries that others refer to.
pub(super) struct Origins<'data> {
    dwarf: Arc<Dwarf<Reader<'data>>>,
    main: Units<'data>,
    supplementary: Units<'data>,
    /// Names of entries that others came from, by unit and place in it.
    names: RefCell<FxHashMap<EntryKey, Option<Reader<'data>>>>,
}

impl<'data> Origins<'data> {
    pub(super) fn new(dwarf: Arc<Dwarf<Reader<'data>>>) -> Self {
        Self {
            dwarf,
            main: Units::default(),
            supplementary: Units::default(),
            names: RefCell::default(),
        }
    }

    /// The unit and the entry that an attribute of an entry in `place` refers to.
    fn follow(
        &self,
        place: Place<'data>,
        origin: Option<AttributeValue<Reader<'data>>>,
    ) -> Result<Option<(Place<'data>, UnitOffset)>, Error> {
        let found = match (origin, place) {
            (Some(AttributeValue::UnitRef(entry)), place) => (place, entry),
            (Some(AttributeValue::DebugInfoRef(entry)), Place::Given | Place::Main(_)) => {
                let (unit, entry) = self.main.find(&self.dwarf, entry)?;
                (Place::Main(unit), entry)
            }
            (Some(AttributeValue::DebugInfoRef(entry)), Place::Supplementary(_))
            | (Some(AttributeValue::DebugInfoRefSup(entry)), _) => {
                let Some(dwarf) = self.dwarf.sup() else {
                    return Ok(None);
                };
                let (unit, entry) = self.supplementary.find(dwarf, entry)?;
                (Place::Supplementary(unit), entry)
            }
            _ => return Ok(None),
        };
        Ok(Some(found))
    }

    fn unit<'a>(
        &'a self,
        given: UnitRef<'a, Reader<'data>>,
        place: &'a Place<'data>,
    ) -> UnitRef<'a, Reader<'data>> {
        match place {
            Place::Given => given,
            Place::Main(unit) => UnitRef::new(&self.dwarf, unit),
            Place::Supplementary(unit) => {
                UnitRef::new(self.dwarf.sup().unwrap_or(&self.dwarf), unit)
            }
        }
    }
}

/// The units of one file.
#[derive(Default)]
struct Units<'data> {
    /// Where each begins, ascending.
    offsets: OnceCell<Vec<usize>>,
    /// Those that were asked for.
    parsed: RefCell<BTreeMap<usize, Rc<Unit<Reader<'data>>>>>,
}

impl<'data> Units<'data> {
    /// The unit that holds the entry at `offset`, and where in it that is.
    fn find(
        &self,
        dwarf: &Dwarf<Reader<'data>>,
        offset: DebugInfoOffset,
    ) -> Result<(Rc<Unit<Reader<'data>>>, UnitOffset), Error> {
        let offsets = self.offsets.get_or_init(|| {
            let mut offsets = Vec::new();
            let mut headers = dwarf.units();
            while let Ok(Some(header)) = headers.next() {
                offsets.extend(header.debug_info_offset().map(|offset| offset.0));
            }
            offsets
        });
        let none = Error::NoEntryAtGivenOffset(offset.0 as u64);
        let after = offsets.partition_point(|begin| *begin <= offset.0);
        let begin = after.checked_sub(1).and_then(|index| offsets.get(index));
        let begin = *begin.ok_or(none)?;
        let mut parsed = self.parsed.borrow_mut();
        let unit = match parsed.entry(begin) {
            Entry::Occupied(known) => Rc::clone(known.get()),
            Entry::Vacant(place) => {
                let header = dwarf
                    .debug_info
                    .header_from_offset(DebugInfoOffset(begin))?;
                Rc::clone(place.insert(Rc::new(dwarf.unit(header)?)))
            }
        };
        let entry = offset.to_unit_offset(&unit.header).ok_or(none)?;
        Ok((unit, entry))
    }
}
