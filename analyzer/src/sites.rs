//! Numbers for modules and for the stacks of call sites, the same for all processes of a report.
//!
//! Two sites are one only if their raw return addresses and modules are; nothing is merged by name. Where code is,
//! symbols say later.

use crate::address::{LoadBias, Machine, ReturnAddress, RuntimeAddress};
use crate::symbols;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// Number of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ModuleId(u32);

/// Number of a stack of call sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SiteId(NonZeroU32); // leaves 0 to `Option`: entries of the heap are many

impl SiteId {
    /// All numbers from that with this index on.
    pub(crate) fn all_from(index: usize) -> impl Iterator<Item = Self> {
        let first = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        std::iter::successors(first, |id| id.checked_add(1)).map(Self)
    }

    /// A number that is not 0.
    pub(crate) fn raw(self) -> u32 {
        self.0.get()
    }

    /// The number that [`raw`](Self::raw) gave.
    pub(crate) fn of_raw(raw: u32) -> Option<Self> {
        NonZeroU32::new(raw).map(Self)
    }

    /// From 0.
    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A module as it was declared, or the place of one whose declaration is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Module {
    /// Bytes of the traced machine, which need not be text.
    pub(crate) path: Option<PathBuf>,
    pub(crate) build_id: Option<Vec<u8>>,
    pub(crate) base: u64,
    /// Bytes from the base to the end of the last mapped page.
    pub(crate) size: u64,
    /// `None` where it is not known how run-time addresses relate to those in the file.
    pub(crate) bias: Option<LoadBias>,
    pub(crate) machine: Machine,
    /// The file itself, where the user named it.
    pub(crate) file: Option<PathBuf>,
}

impl Module {
    /// The module as symbols are asked for it, wherever it was mapped.
    pub(crate) fn symbols(&self) -> symbols::Module {
        symbols::Module {
            path: self.path.clone(),
            build_id: self.build_id.clone(),
            file: self.file.clone(),
            first: None,
        }
    }

    /// Its path, as far as it is text.
    pub(crate) fn shown_path(&self) -> Option<Cow<'_, str>> {
        self.path.as_deref().map(Path::to_string_lossy)
    }

    /// Its first page, in its own addresses.
    pub(crate) fn first(&self) -> Option<u64> {
        let bias = self.bias.filter(|_| self.size > 0)?;
        Some(bias.to_file(RuntimeAddress(self.base)).0)
    }

    /// Whether a text came with the declaration.
    pub(crate) fn is_named(&self) -> bool {
        self.path.is_some() || self.build_id.is_some()
    }
}

/// The innermost call site of a stack, and the stack it was called from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Site {
    pub(crate) call: ReturnAddress,
    pub(crate) module: Option<ModuleId>,
    pub(crate) parent: Option<SiteId>,
}

/// All modules and sites of a report.
#[derive(Default)]
pub(crate) struct SiteTable {
    modules: Vec<Module>,
    module_ids: FxHashMap<Module, ModuleId>,
    sites: Vec<Site>,
    site_ids: FxHashMap<Site, SiteId>,
    /// Symbols that a log names, by the base of the module and the address.
    log_names: FxHashMap<(u64, RuntimeAddress), String>,
}

/// Call sites of a stack that are shown; those further out are not, so that a report stays in proportion to its trace.
const DEEPEST: usize = 128;

impl SiteTable {
    /// The number of a module; modules with equal declarations are one.
    pub(crate) fn add_module(&mut self, module: Module) -> ModuleId {
        let next = ModuleId(self.next_module());
        let id = *self.module_ids.entry(module.clone()).or_insert(next);
        if id == next {
            self.modules.push(module);
        }
        id
    }

    /// A module of which nothing is known yet.
    pub(crate) fn add_unknown_module(&mut self, machine: Machine) -> ModuleId {
        let id = ModuleId(self.next_module());
        self.modules.push(Module {
            machine,
            ..Module::default()
        });
        id
    }

    /// Says of a module of a log where it lay.
    pub(crate) fn place_module(&mut self, module: Module) {
        let mut modules = self.modules.iter_mut();
        if let Some(found) = modules.find(|it| it.base == module.base && it.bias.is_none()) {
            *found = module;
        }
    }

    /// Takes note of the symbol that a log names for an address.
    pub(crate) fn note_name(&mut self, base: u64, pc: u64, name: String) {
        let key = (base, RuntimeAddress(pc));
        self.log_names.entry(key).or_insert(name);
    }

    /// The symbol that a log names for a call.
    pub(crate) fn log_name(&self, site: Site) -> Option<&str> {
        let module = self.module(site.module?);
        let name = self.log_names.get(&(module.base, site.call.0));
        name.map(String::as_str)
    }

    /// Says of a module what was not known.
    pub(crate) fn complete_module(&mut self, id: ModuleId, module: Module) {
        self.modules[id.0 as usize] = module;
    }

    fn next_module(&self) -> u32 {
        u32::try_from(self.modules.len()).expect(FEW)
    }

    /// The number of a site.
    pub(crate) fn add(&mut self, site: Site) -> SiteId {
        let next = u32::try_from(self.sites.len() + 1).expect(FEW);
        let next = SiteId(NonZeroU32::new(next).expect("more than one"));
        let id = *self.site_ids.entry(site).or_insert(next);
        if id == next {
            self.sites.push(site);
        }
        id
    }

    /// The numbers of all sites.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SiteId> + use<> {
        SiteId::all_from(0).take(self.sites.len())
    }

    /// The numbers of all modules.
    pub(crate) fn module_ids(&self) -> impl Iterator<Item = ModuleId> + use<> {
        (0..self.next_module()).map(ModuleId)
    }

    /// A module.
    pub(crate) fn module(&self, id: ModuleId) -> &Module {
        &self.modules[id.0 as usize]
    }

    /// A site.
    pub(crate) fn site(&self, id: SiteId) -> Site {
        self.sites[id.index()]
    }

    /// The call sites of a stack, innermost first.
    pub(crate) fn stack(&self, id: SiteId) -> impl Iterator<Item = Site> + '_ {
        std::iter::successors(Some(self.site(id)), |site| {
            site.parent.map(|parent| self.site(parent))
        })
        .take(DEEPEST)
    }
}

// Each takes a record of 40 bytes, so there are 160 GiB of trace before this fails, and memory fails long before.
const FEW: &str = "fewer than 2^32 distinct sites and modules";

#[cfg(test)]
mod tests {
    use super::{DEEPEST, Site, SiteTable};
    use crate::address::{ReturnAddress, RuntimeAddress};

    fn call(pc: u64) -> Site {
        Site {
            call: ReturnAddress(RuntimeAddress(pc)),
            module: None,
            parent: None,
        }
    }

    #[test]
    fn equal_stacks_are_one_site() {
        let mut table = SiteTable::default();
        let main = table.add(call(1));
        let inner = table.add(Site {
            parent: Some(main),
            ..call(2)
        });
        assert_eq!(table.add(call(1)), main);
        assert_ne!(table.add(call(2)), inner);
        let stack: Vec<_> = table.stack(inner).map(|site| site.call.0.0).collect();
        assert_eq!(stack, [2, 1]);
    }

    #[test]
    fn stacks_do_not_grow_without_bound() {
        let mut table = SiteTable::default();
        let mut site = table.add(call(0));
        for pc in 1..1000 {
            site = table.add(Site {
                parent: Some(site),
                ..call(pc)
            });
            assert!(table.stack(site).count() <= DEEPEST);
        }
        assert_eq!(table.site(site), table.stack(site).next().unwrap());
    }
}
