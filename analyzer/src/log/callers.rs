//! The callers that a log names, each taken apart once, and what they tell of the modules that they lie in.

use super::caller::{Caller, Symbol};
use crate::address::Machine;
use crate::sites::Module;
use rustc_hash::FxHashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What stands in records for a caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The address as the log has it; 0 where it has none.
    pub(crate) pc: u64,
    /// What the module was declared with; 0 where the caller lies in none.
    pub(crate) base: u64,
}

/// A module as the callers in it show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its path in the log.
    pub(crate) path: PathBuf,
    /// Stands for it in records. Logs do not say where a module lay, so this is no address.
    pub(crate) base: u64,
    /// Lowest and highest address in it.
    pub(crate) addresses: (u64, u64),
    /// Addresses with the symbols below them.
    pub(crate) symbols: Vec<SeenSymbol>,
}

/// A symbol below an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenSymbol {
    pub(crate) pc: u64,
    pub(crate) name: String,
    pub(crate) offset: u64,
    /// See [`Symbol::is_prefixed`].
    pub(crate) is_prefixed: bool,
}

impl SeenSymbol {
    fn new(pc: u64, symbol: &Symbol<'_>) -> Self {
        Self {
            pc,
            name: String::from_utf8_lossy(symbol.name).into_owned(),
            offset: symbol.offset,
            is_prefixed: symbol.is_prefixed,
        }
    }
}

impl Seen {
    /// The module of callers in no module that the log names, if there are any: a program that is linked statically.
    pub(crate) fn nameless(addresses: &[u64]) -> Option<Self> {
        let (lowest, highest) = (addresses.iter().min()?, addresses.iter().max()?);
        Some(Self {
            path: PathBuf::new(),
            base: 0,
            addresses: (*lowest, *highest),
            symbols: Vec::new(),
        })
    }

    /// The declaration: how its addresses relate to those in its file is found out later.
    pub(crate) fn module(&self) -> Module {
        Module {
            path: Some(self.path.clone()),
            build_id: None,
            base: self.base,
            size: 0,
            bias: None,
            machine: Machine::Other,
            file: None,
        }
    }
}

/// All callers of a log.
#[derive(Default)]
pub(crate) struct Callers<'l> {
    /// By their texts; `None` for a text that names none.
    places: FxHashMap<&'l [u8], Option<Place>>,
    by_path: FxHashMap<&'l [u8], usize>,
    modules: Vec<Seen>,
    /// Base of the first module.
    first_base: u64,
}

impl<'l> Callers<'l> {
    /// None yet; modules get bases from `first_base` on.
    pub(crate) fn new(first_base: u64) -> Self {
        Self {
            first_base,
            ..Self::default()
        }
    }

    /// The place of a caller; `None` where the text names none.
    pub(crate) fn place(&mut self, text: &'l [u8]) -> Option<Place> {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = Caller::of(text).map(|caller| self.add(caller));
        self.places.insert(text, place);
        place
    }

    fn add(&mut self, caller: Caller<'l>) -> Place {
        let pc = caller.address.unwrap_or(0);
        let Some(path) = caller.file else {
            return Place { pc, base: 0 };
        };
        let next = self.modules.len();
        let index = *self.by_path.entry(path).or_insert(next);
        if index == next {
            self.modules.push(Seen {
                path: OsStr::from_bytes(path).into(),
                base: self.first_base + next as u64,
                addresses: (pc, pc),
                symbols: Vec::new(),
            });
        }
        let module = &mut self.modules[index];
        let (lowest, highest) = module.addresses;
        module.addresses = (lowest.min(pc), highest.max(pc));
        module
            .symbols
            .extend(caller.symbol.map(|symbol| SeenSymbol::new(pc, &symbol)));
        Place {
            pc,
            base: module.base,
        }
    }

    /// The modules, in order of appearance.
    pub(crate) fn modules(&self) -> &[Seen] {
        &self.modules
    }
}
