//! How a module's file is laid out: what one needs to know where the trace does not say how it was mapped.

use super::locate::{self, Files};
use super::search::Search;
use super::{Module, Options};
use crate::address::Machine;
use object::{Object, ObjectKind, ObjectSegment, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet};

/// Granularity of mappings.
const PAGE: u64 = 4096;

/// The layout of a module in its own addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// It is mapped where it says, not elsewhere.
    pub is_fixed: bool,
    /// The first page that is mapped.
    pub first: u64,
    /// One past the last address that is mapped.
    pub end: u64,
    /// How its return addresses are looked up.
    pub machine: Machine,
    /// The values of the symbols that were asked for, as far as it has them.
    pub symbols: BTreeMap<String, BTreeSet<u64>>,
}

/// The layout of `module` with the values of `symbols`; `None` where no file of it is found.
#[must_use]
pub fn layout(module: &Module, symbols: &BTreeSet<&str>, options: &Options) -> Option<Layout> {
    let search = Search::new(options);
    let Files { module, debug, .. } = locate::find(module, &search);
    let file = module.or(debug)?;
    let elf = file.elf();
    let segments = || elf.segments();
    let first = segments().map(|segment| segment.address()).min()?;
    let end = segments().map(|segment| segment.address().saturating_add(segment.size()));
    let mut layout = Layout {
        is_fixed: elf.kind() == ObjectKind::Executable,
        first: first - first % PAGE,
        end: end.max()?,
        machine: match elf.architecture() {
            object::Architecture::Arm => Machine::Arm,
            object::Architecture::Mips | object::Architecture::Mips64 => Machine::Mips,
            _ => Machine::Other,
        },
        symbols: BTreeMap::new(),
    };
    let known = elf.dynamic_symbols().chain(elf.symbols());
    for symbol in known.filter(ObjectSymbol::is_definition) {
        if let Ok(name) = symbol.name()
            && symbols.contains(name)
        {
            let values = layout.symbols.entry(name.to_owned()).or_default();
            values.insert(symbol.address());
        }
    }
    Some(layout)
}
