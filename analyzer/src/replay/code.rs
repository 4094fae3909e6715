//! Which site a record names, as modules come and go and stacks are declared.

use crate::address::{Machine, ReturnAddress, RuntimeAddress};
use crate::sites::{Module, ModuleId, Site, SiteId, SiteTable};
use heapwire_format::{Record, flag};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

const CACHED: usize = 1 << 13; // busy programs allocate from a few hundred lines
/// Numbers after the unloading of a module in which calls that were under way then may name it.
const UNDER_WAY: u64 = 64;

/// The code of one process image at one moment.
#[derive(Clone)]
pub(crate) struct Code {
    machine: Machine,
    /// The module last declared with each base.
    by_base: FxHashMap<u64, ModuleId>,
    /// Bases of modules that were unloaded, with the number of that.
    unloaded: FxHashMap<u64, u64>,
    /// Bases that records named before a declaration was seen, with the number of the first of these.
    undeclared: FxHashMap<u64, u64>,
    /// Loaded modules: base to end and module.
    ranges: BTreeMap<u64, (u64, ModuleId)>,
    /// Innermost site of each declared stack, by its id and epoch.
    stacks: FxHashMap<u64, SiteId>,
    /// State of the module list: an address can belong to another module in another generation.
    generation: u32,
    recent: Box<[Option<Recent>; CACHED]>,
}

#[derive(Clone, Copy)]
struct Recent {
    pc: u64,
    base: u64,
    generation: u32,
    site: SiteId,
}

impl Code {
    pub(crate) fn new(machine: Machine) -> Self {
        Self {
            machine,
            by_base: FxHashMap::default(),
            unloaded: FxHashMap::default(),
            undeclared: FxHashMap::default(),
            ranges: BTreeMap::new(),
            stacks: FxHashMap::default(),
            generation: 0,
            recent: nothing_recent(),
        }
    }

    pub(crate) fn machine(&self) -> Machine {
        self.machine
    }

    /// Modules and stack nodes known.
    pub(crate) fn size(&self) -> usize {
        self.by_base.len() + self.ranges.len() + self.stacks.len()
    }

    /// Takes note of a declaration that has counted since this number. One that repeats what is known changes nothing.
    pub(crate) fn load(&mut self, module: Module, since: u64, sites: &mut SiteTable) {
        let base = module.base;
        let end = base.saturating_add(module.size);
        self.unloaded.remove(&base);
        let is_of_undeclared = self.undeclared.remove(&base).is_some_and(|it| since < it);
        let id = match self.by_base.get(&base).copied() {
            Some(id) if *sites.module(id) == module => id,
            Some(id) if is_of_undeclared || is_without_text(sites.module(id), &module) => {
                sites.complete_module(id, module);
                id
            }
            Some(id) if is_without_text(&module, sites.module(id)) => id,
            _ => sites.add_module(module),
        };
        if self.ranges.get(&base) == Some(&(end, id)) {
            return;
        }
        self.generation += 1;
        self.by_base.insert(base, id);
        self.remove_overlapping(base, end);
        self.ranges.insert(base, (end, id));
    }

    fn remove_overlapping(&mut self, base: u64, end: u64) {
        while let Some((at, (its_end, _))) = self.ranges.range(..end).next_back()
            && *its_end > base
        {
            let at = *at;
            self.ranges.remove(&at);
        }
        self.ranges.remove(&base); // an empty range of its own
    }

    /// Takes note that a module's range can be given to another.
    pub(crate) fn unload(&mut self, base: u64, number: u64) {
        if self.by_base.contains_key(&base) {
            self.unloaded.insert(base, number);
        }
        if self.ranges.remove(&base).is_some() {
            self.generation += 1;
        }
    }

    /// Takes note of a node of the tree of stacks.
    pub(crate) fn add_stack_node(&mut self, node: &Record, number: u64, sites: &mut SiteTable) {
        let site = Site {
            call: ReturnAddress(RuntimeAddress(node.pc)),
            module: self.module(node.pc, node.base, number, sites),
            parent: self.stacks.get(&node.size).copied(),
        };
        self.stacks.insert(node.ptr, sites.add(site));
    }

    /// The site of a heap record with this number.
    #[inline(always)]
    pub(crate) fn site(&mut self, record: &Record, number: u64, sites: &mut SiteTable) -> SiteId {
        let (pc, base) = (record.pc, record.base);
        if record.flags & flag::HAS_STACK == 0
            && let Some(recent) = self.recent[place_of(pc, base)]
            && (recent.pc, recent.base, recent.generation) == (pc, base, self.generation)
        {
            return recent.site;
        }
        if record.flags & flag::HAS_STACK == 0 {
            return self.find_site(pc, base, number, sites);
        }
        // Where the stack was lost, the innermost call site is not.
        match self.stacks.get(&base) {
            Some(site) => *site,
            None => self.find_site(pc, 0, number, sites),
        }
    }

    #[inline(never)]
    fn find_site(&mut self, pc: u64, base: u64, number: u64, sites: &mut SiteTable) -> SiteId {
        let module = self.module(pc, base, number, sites);
        let site = sites.add(Site {
            call: ReturnAddress(RuntimeAddress(pc)),
            module,
            parent: None,
        });
        if !self.unloaded.contains_key(&base) {
            self.recent[place_of(pc, base)] = Some(Recent {
                pc,
                base,
                generation: self.generation,
                site,
            });
        }
        site
    }

    /// The module of `pc`: the one last declared with `base`, or without a base the one whose range holds `pc`.
    fn module(
        &mut self,
        pc: u64,
        base: u64,
        number: u64,
        sites: &mut SiteTable,
    ) -> Option<ModuleId> {
        if base != 0 {
            let unloaded = self.unloaded.get(&base);
            if unloaded.is_some_and(|at| number > at.saturating_add(UNDER_WAY)) {
                // Whatever was declared there since, the trace does not have it.
                self.unloaded.remove(&base);
                self.by_base.remove(&base);
            }
            let (machine, undeclared) = (self.machine, &mut self.undeclared);
            let unknown = || {
                undeclared.insert(base, number);
                sites.add_unknown_module(machine)
            };
            return Some(*self.by_base.entry(base).or_insert_with(unknown));
        }
        let (_, (end, id)) = self.ranges.range(..=pc).next_back()?;
        (pc < *end).then_some(*id)
    }
}

/// Whether `unnamed` can be a declaration of `module` that lost its text.
fn is_without_text(unnamed: &Module, module: &Module) -> bool {
    let is_alike =
        (unnamed.base, unnamed.size, unnamed.bias) == (module.base, module.size, module.bias);
    !unnamed.is_named() && is_alike
}

#[inline]
fn place_of(pc: u64, base: u64) -> usize {
    let mixed = (pc ^ base.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 51) as usize % CACHED
}

fn nothing_recent() -> Box<[Option<Recent>; CACHED]> {
    // Not by way of the stack, where it is large.
    let none = vec![None; CACHED].into_boxed_slice();
    none.try_into().unwrap_or_else(|_| Box::new([None; CACHED]))
}

#[cfg(test)]
mod tests {
    use super::{Code, UNDER_WAY};
    use crate::address::Machine;
    use crate::sites::{Module, SiteTable};
    use crate::tests::made::{ALLOCATED, record};
    use heapwire_format::Record;

    #[test]
    fn an_unloaded_module_lends_its_name_to_no_other() {
        const BASE: u64 = 0x7000_0000;
        let (mut code, mut sites) = (Code::new(Machine::default()), SiteTable::default());
        let module = Module {
            base: BASE,
            size: 0x1000,
            path: Some("/l0.so".into()),
            ..Module::default()
        };
        code.load(module.clone(), 1, &mut sites);
        code.unload(BASE, 100);
        let call = Record::decode(&record(ALLOCATED, 0, 1, [0x1000, 1, BASE + 8, BASE]));
        let mut path = |code: &mut Code, number| {
            let site = code.site(&call, number, &mut sites);
            let module = sites.site(site).module.unwrap();
            sites.module(module).path.clone()
        };
        assert_eq!(path(&mut code, 101).as_deref(), Some("/l0.so".as_ref())); // it was under way
        assert_eq!(path(&mut code, 101 + UNDER_WAY), None);
    }
}
