//! Walks the entries of a unit without reading what nobody asks for.
//!
//! An entry's attributes are passed over by the sizes of their forms, and a tree of entries by what says where the
//! next one begins. Reads are counted an entry, not an attribute: a walk goes forward only.

use super::reader::{LimitedReader, Limits};
use gimli::{
    Abbreviation, AttributeValue, EndianSlice, EntriesRaw, Error, RunTimeEndian, UnitOffset,
    UnitRef,
};
use std::cell::RefCell;

type Bytes<'data> = EndianSlice<'data, RunTimeEndian>;

/// An entry of which the attributes are still to be read or skipped.
#[derive(Clone, Copy)]
pub(super) struct Entry<'unit> {
    pub(super) offset: UnitOffset,
    /// 0 for the entry that the walk began with.
    pub(super) depth: isize,
    abbreviation: &'unit Abbreviation,
    shape: Shape,
}

impl Entry<'_> {
    pub(super) fn tag(&self) -> gimli::DwTag {
        self.abbreviation.tag()
    }

    /// Whether its attributes say where code is.
    pub(super) fn has_code(&self) -> bool {
        self.shape.has_code
    }
}

/// What is asked of an abbreviation for each of its entries.
#[derive(Clone, Copy)]
struct Shape {
    has_code: bool,
    /// Which attribute says where the next entry of the same depth begins, where there are children.
    sibling: Option<usize>,
    /// What reading the attributes costs.
    cost: usize,
}

impl Shape {
    fn of(abbreviation: &Abbreviation) -> Self {
        let attributes = abbreviation.attributes();
        let place = |is: fn(gimli::DwAt) -> bool| {
            let mut names = attributes.iter().map(gimli::AttributeSpecification::name);
            names.position(is)
        };
        let sibling = place(|name| name == gimli::DW_AT_sibling);
        let code = place(|name| matches!(name, gimli::DW_AT_low_pc | gimli::DW_AT_ranges));
        Self {
            has_code: code.is_some(),
            sibling: sibling.filter(|_| abbreviation.has_children()),
            cost: 1 + attributes.len() / 4,
        }
    }
}

/// Codes of abbreviations that are remembered; compilers number them from 1.
const MAX_SHAPES: usize = 1 << 14;

/// The shapes of one unit's abbreviations, as far as they were asked for.
#[derive(Default)]
pub(super) struct Shapes(RefCell<Vec<Option<Shape>>>);

impl Shapes {
    fn of(&self, abbreviation: &Abbreviation) -> Shape {
        let code = usize::try_from(abbreviation.code()).unwrap_or(usize::MAX);
        if code >= MAX_SHAPES {
            return Shape::of(abbreviation);
        }
        let mut shapes = self.0.borrow_mut();
        if code >= shapes.len() {
            shapes.resize(code + 1, None);
        }
        *shapes[code].get_or_insert_with(|| Shape::of(abbreviation))
    }
}

/// A walk over entries, in the order of the file.
pub(super) struct Entries<'unit, 'data> {
    raw: EntriesRaw<'unit, Bytes<'data>>,
    /// Depth of the entry at which `raw` began.
    base: isize,
    unit: UnitRef<'unit, LimitedReader<'data>>,
    shapes: &'unit Shapes,
    limits: &'data Limits,
}

impl<'unit, 'data> Entries<'unit, 'data> {
    /// Begins with the entry at `offset`.
    pub(super) fn new(
        unit: UnitRef<'unit, LimitedReader<'data>>,
        offset: UnitOffset,
        shapes: &'unit Shapes,
    ) -> Result<Self, Error> {
        let bytes = unit.header.range_from(offset..)?;
        Ok(Self {
            raw: raw(unit, bytes.unlimited(), offset),
            base: 0,
            unit,
            shapes,
            limits: bytes.limits(),
        })
    }

    /// The next entry, or `None` where a list of children ends.
    pub(super) fn next(&mut self) -> Result<Option<Entry<'unit>>, Error> {
        let offset = self.raw.next_offset();
        let depth = self.depth();
        let Some(abbreviation) = self.raw.read_abbreviation()? else {
            return Ok(None);
        };
        let shape = self.shapes.of(abbreviation);
        if !self.limits.charge(shape.cost) {
            return Err(Error::OffsetOutOfBounds(offset.0 as u64));
        }
        Ok(Some(Entry {
            offset,
            depth,
            abbreviation,
            shape,
        }))
    }

    /// Depth of the next entry.
    pub(super) fn depth(&self) -> isize {
        self.base + self.raw.next_depth()
    }

    /// Whether the unit ends here.
    pub(super) fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Goes on to the children of `entry`, which was the last, or to the next one if it has none.
    pub(super) fn enter(&mut self, entry: Entry<'_>) -> Result<(), Error> {
        self.raw.skip_attributes(entry.abbreviation.attributes())
    }

    /// Goes on behind the children of `entry`, which was the last, if it says where that is; else to its children.
    /// True if there are some that were passed over.
    pub(super) fn pass(&mut self, entry: Entry<'_>) -> Result<bool, Error> {
        let attributes = entry.abbreviation.attributes();
        let sibling = entry.shape.sibling;
        let Some((before, [sibling, after @ ..])) =
            sibling.and_then(|index| attributes.split_at_checked(index))
        else {
            self.raw.skip_attributes(attributes)?;
            return Ok(false);
        };
        self.raw.skip_attributes(before)?;
        let value = self.raw.read_attribute(*sibling)?.value();
        if let AttributeValue::UnitRef(next) = value
            && next > self.raw.next_offset()
            && let Ok(rest) = self.unit.header.range_from(next..)
        {
            self.raw = raw(self.unit, rest.unlimited(), next);
            self.base = entry.depth;
            return Ok(true);
        }
        self.raw.skip_attributes(after)?;
        Ok(false)
    }

    /// Goes on behind the children of `entry`, which was the last.
    pub(super) fn skip(&mut self, entry: Entry<'_>) -> Result<(), Error> {
        self.pass(entry)?;
        while self.depth() > entry.depth {
            if let Some(child) = self.next()? {
                self.pass(child)?;
            }
        }
        Ok(())
    }
}

fn raw<'unit, 'data>(
    unit: UnitRef<'unit, LimitedReader<'data>>,
    bytes: Bytes<'data>,
    offset: UnitOffset,
) -> EntriesRaw<'unit, Bytes<'data>> {
    let abbreviations = &unit.unit.abbreviations;
    EntriesRaw::new(bytes, unit.encoding(), abbreviations, offset)
}
