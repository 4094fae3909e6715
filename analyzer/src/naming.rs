//! Gives the sites that a report shows their frames: functions, files and lines.
//!
//! Each address is looked up once, however many sites and processes name it.

use crate::address::FileAddress;
use crate::report::{Frame, ModuleCount, Stack, Warning};
use crate::sites::{Module, Site, SiteId, SiteTable};
use crate::symbols::{self, Located, Resolved};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The frames of sites.
pub(crate) struct Names {
    stacks: FxHashMap<SiteId, Stack>,
    /// What was found about each module.
    modules: BTreeMap<symbols::Module, Found>,
}

struct Found {
    addresses: Vec<FileAddress>,
    resolved: Resolved,
}

impl Names {
    /// The frames of all `wanted` sites.
    pub(crate) fn of(
        wanted: &BTreeSet<SiteId>,
        sites: &SiteTable,
        options: &symbols::Options,
    ) -> Self {
        let mut requests: BTreeMap<symbols::Module, BTreeSet<FileAddress>> = BTreeMap::new();
        for site in wanted.iter().flat_map(|id| sites.stack(*id)) {
            if let Some((module, address)) = request(site, sites) {
                requests.entry(module).or_default().insert(address);
            }
        }
        let requests: Vec<(symbols::Module, Vec<FileAddress>)> = requests
            .into_iter()
            .map(|(module, addresses)| (module, addresses.into_iter().collect()))
            .collect();
        let resolved = symbols::resolve(&requests, options);
        let mut names = Self {
            stacks: FxHashMap::default(),
            modules: requests
                .into_iter()
                .zip(resolved)
                .map(|((module, addresses), resolved)| {
                    let found = Found {
                        addresses,
                        resolved,
                    };
                    (module, found)
                })
                .collect(),
        };
        for id in wanted {
            let frames: Vec<Frame> = sites
                .stack(*id)
                .flat_map(|site| names.frames(site, sites))
                .collect();
            names.stacks.insert(*id, frames.into());
        }
        names
    }

    /// The frames of a site; none of one that was not wanted.
    pub(crate) fn stack(&self, id: SiteId) -> Stack {
        self.stacks.get(&id).cloned().unwrap_or_default()
    }

    /// How many modules the sites lie in, and of how many of them symbols were found.
    pub(crate) fn count_modules(&self, ids: &BTreeSet<SiteId>, sites: &SiteTable) -> ModuleCount {
        let used: BTreeSet<symbols::Module> = ids
            .iter()
            .flat_map(|id| sites.stack(*id))
            .filter_map(|site| Some(request(site, sites)?.0))
            .collect();
        let resolved = used.iter().filter(|module| {
            self.modules
                .get(module)
                .is_some_and(|found| found.resolved.found.has_names())
        });
        ModuleCount {
            resolved: resolved.count() as u64,
            used: used.len() as u64,
        }
    }

    /// What the reader of the report must know of modules.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = Warning> + '_ {
        self.modules.iter().flat_map(|(module, found)| {
            let resolved = &found.resolved;
            let notes = resolved.notes.iter().map(|note| format!("{note}."));
            let missing = (!resolved.found.has_names() && resolved.notes.is_empty())
                .then(|| missing_symbols(module));
            notes.chain(missing).map(|text| Warning {
                kind: "module-missing-symbols",
                count: 1,
                text,
            })
        })
    }

    fn frames(&self, site: Site, sites: &SiteTable) -> Vec<Frame> {
        let module = site
            .module
            .map(|id| sites.module(id))
            .filter(|it| is_known(it));
        let plain = plain_frame(site, module);
        let located = self.located(site, sites);
        if located.is_empty() {
            return vec![plain];
        }
        let named = located.iter().map(|located| Frame {
            function: located.function.clone(),
            file: located.file.clone(),
            line: located.line,
            column: located.column,
            inlined: located.inlined,
            ..plain.clone()
        });
        named.collect()
    }

    fn located(&self, site: Site, sites: &SiteTable) -> &[Located] {
        let located = request(site, sites).and_then(|(module, address)| {
            let found = self.modules.get(&module)?;
            let index = found.addresses.binary_search(&address).ok()?;
            found.resolved.addresses.get(index)
        });
        located.map_or(&[], Vec::as_slice)
    }
}

/// What to ask of which module for a site; `None` where no file can be named.
fn request(site: Site, sites: &SiteTable) -> Option<(symbols::Module, FileAddress)> {
    let module = sites.module(site.module?);
    let call = site.call.call(module.machine);
    module.is_named().then(|| {
        let name = symbols::Module {
            path: module.path.clone(),
            build_id: module.build_id.clone(),
        };
        (name, module.bias.to_file(call))
    })
}

/// Whether the module was declared at all.
fn is_known(module: &Module) -> bool {
    module.is_named() || module.size != 0
}

fn plain_frame(site: Site, module: Option<&Module>) -> Frame {
    let address = site.call.0;
    Frame {
        address: hex_address(address.0),
        module: module.and_then(|module| module.path.clone()),
        build_id: module.and_then(|module| module.build_id.as_deref().map(hex)),
        offset: module.map(|module| hex_address(module.bias.to_file(address).0)),
        function: None,
        file: None,
        line: None,
        column: None,
        inlined: false,
    }
}

fn missing_symbols(module: &symbols::Module) -> String {
    let path = module.path.as_deref().unwrap_or("a module without path");
    let build = module
        .build_id
        .as_deref()
        .map_or_else(String::new, |id| format!(" (build id {})", hex(id)));
    format!(
        "No symbols of {path}{build} were found; --debug-dir names a directory with its debug file, --sysroot a copy of the target's files."
    )
}

/// An address as reports show it.
pub(crate) fn hex_address(address: u64) -> String {
    format!("{address:#x}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a String takes everything");
        hex
    })
}
