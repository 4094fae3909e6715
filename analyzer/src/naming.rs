//! Gives the sites that a report shows their frames: functions, files and lines.
//!
//! Each address is looked up once, however many sites and processes name it.

use crate::address::{FileAddress, ReturnAddress};
use crate::report::{Frame, ModuleCount, Stack, Warning};
use crate::sites::{Module, ModuleId, Site, SiteId, SiteTable};
use crate::symbols::{self, Located, Resolved, Source};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// The frames of sites.
pub(crate) struct Names {
    stacks: FxHashMap<SiteId, Stack>,
    /// In order of path and build id.
    files: Vec<File>,
    /// Place among the files of each module that a file can be named for.
    file_of: FxHashMap<ModuleId, usize>,
}

/// The file of one or more modules, and what it says.
pub(crate) struct File {
    pub(crate) name: symbols::Module,
    /// What it was asked; in order.
    pub(crate) addresses: Vec<FileAddress>,
    /// Call sites in it whose address in the file is not known.
    pub(crate) unplaced: usize,
    pub(crate) resolved: Resolved,
}

impl File {
    /// What was found out on the way, a sentence each.
    fn notes(&self) -> Vec<String> {
        let notes = self.resolved.notes.iter();
        notes.map(|note| sentence(note)).collect()
    }

    /// What is missing, and what would help, a sentence each.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut sentences = self.notes();
        sentences.extend(missing(&self.name, self.resolved.found));
        sentences
    }
}

impl Names {
    /// The frames of all `wanted` sites.
    pub(crate) fn of(
        wanted: &BTreeSet<SiteId>,
        sites: &SiteTable,
        options: &symbols::Options,
    ) -> Self {
        Self::answering(requests(wanted, sites, []), wanted, sites, options)
    }

    /// The frames of all sites, with all modules, be there a site in them or not.
    pub(crate) fn of_all(sites: &SiteTable, options: &symbols::Options) -> Self {
        let wanted: BTreeSet<SiteId> = sites.ids().collect();
        let requests = requests(&wanted, sites, sites.module_ids());
        Self::answering(requests, &wanted, sites, options)
    }

    fn answering(
        (requests, file_of): Requests,
        wanted: &BTreeSet<SiteId>,
        sites: &SiteTable,
        options: &symbols::Options,
    ) -> Self {
        let (requests, unplaced): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
        let resolved = symbols::resolve(&requests, options);
        let files = requests.into_iter().zip(unplaced).zip(resolved);
        let mut names = Self {
            stacks: FxHashMap::default(),
            files: files
                .map(|(((name, addresses), unplaced), resolved)| File {
                    name,
                    addresses,
                    unplaced,
                    resolved,
                })
                .collect(),
            file_of,
        };
        for id in wanted {
            let sites_of_stack = sites.stack(*id);
            let frames: Vec<Frame> = sites_of_stack
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

    /// How many files the sites lie in, and of how many of them symbols were found.
    pub(crate) fn count_modules(&self, ids: &BTreeSet<SiteId>, sites: &SiteTable) -> ModuleCount {
        let used: BTreeSet<usize> = ids
            .iter()
            .flat_map(|id| sites.stack(*id))
            .filter_map(|site| self.file_of.get(&site.module?).copied())
            .collect();
        let has_names = |file: &&usize| {
            let resolved = &self.files[**file].resolved;
            let mut addresses = resolved.addresses.iter();
            resolved.found.has_names() && addresses.any(|frames| !frames.is_empty())
        };
        ModuleCount {
            resolved: used.iter().filter(has_names).count() as u64,
            used: used.len() as u64,
        }
    }

    /// What the reader of the report must know of modules: one warning each at most, and what would help where a call has no
    /// name.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = Warning> + '_ {
        self.files.iter().filter_map(|file| {
            let resolved = &file.resolved;
            let mut addresses = resolved.addresses.iter();
            let is_named = addresses.all(|frames| !frames.is_empty());
            let sentences = if resolved.found.has_names() && is_named {
                file.notes()
            } else {
                file.missing()
            };
            (!sentences.is_empty()).then(|| Warning {
                kind: "module-missing-symbols",
                count: 1,
                text: sentences.join(" "),
            })
        })
    }

    /// The files, in order of path and build id.
    pub(crate) fn files(&self) -> &[File] {
        &self.files
    }

    fn frames(&self, site: Site, sites: &SiteTable) -> Vec<Frame> {
        let module = site
            .module
            .map(|id| sites.module(id))
            .filter(|it| is_known(it));
        let mut plain = plain_frame(site, module);
        let located = self.located(site, sites);
        if located.is_empty() {
            let name = sites.log_name(site);
            plain.function = name.map(str::to_owned);
            return vec![plain];
        }
        let named = located.iter().map(|located| Frame {
            function: located.function.as_deref().map(str::to_owned),
            file: located.file.as_deref().map(str::to_owned),
            line: located.line,
            column: located.column,
            inlined: located.inlined,
            ..plain.clone()
        });
        named.collect()
    }

    fn located(&self, site: Site, sites: &SiteTable) -> &[Located] {
        let located = site.module.and_then(|id| {
            let file = &self.files[*self.file_of.get(&id)?];
            let address = file_address(site, sites.module(id))?;
            let index = file.addresses.binary_search(&address).ok()?;
            file.resolved.addresses.get(index)
        });
        located.map_or(&[], |frames| frames)
    }
}

/// What to ask of a file, and how many sites there are that it cannot be asked about.
type Request = ((symbols::Module, Vec<FileAddress>), usize);

/// The sites in a module, or in all modules of a file.
#[derive(Default)]
struct Calls {
    addresses: BTreeSet<FileAddress>,
    unplaced: BTreeSet<ReturnAddress>,
}

/// What to ask of which file, and the place of each module's file among these.
type Requests = (Vec<Request>, FxHashMap<ModuleId, usize>);

/// What to ask for the `wanted` sites, and of `modules` whether or not a site lies in them.
fn requests(
    wanted: &BTreeSet<SiteId>,
    sites: &SiteTable,
    modules: impl IntoIterator<Item = ModuleId>,
) -> Requests {
    let modules = modules.into_iter().map(|id| (id, Calls::default()));
    let mut of_module: BTreeMap<ModuleId, Calls> = modules.collect();
    for site in wanted.iter().flat_map(|id| sites.stack(*id)) {
        if let Some(id) = site.module {
            let calls = of_module.entry(id).or_default();
            match file_address(site, sites.module(id)) {
                Some(address) => calls.addresses.insert(address),
                None => calls.unplaced.insert(site.call),
            };
        }
    }
    let mut of_file: BTreeMap<symbols::Module, (Vec<ModuleId>, Calls)> = BTreeMap::new();
    for (id, calls) in of_module {
        let module = sites.module(id);
        if module.is_named() {
            let (ids, all) = of_file.entry(module.symbols()).or_default();
            ids.push(id);
            all.addresses.extend(calls.addresses);
            all.unplaced.extend(calls.unplaced);
        }
    }
    let mut requests = Vec::new();
    let mut file_of = FxHashMap::default();
    for (file, (mut name, (ids, calls))) in of_file.into_iter().enumerate() {
        name.first = ids.iter().find_map(|id| sites.module(*id).first());
        let addresses = calls.addresses.into_iter().collect();
        requests.push(((name, addresses), calls.unplaced.len()));
        file_of.extend(ids.into_iter().map(|id| (id, file)));
    }
    (requests, file_of)
}

/// The address of a call in the module's file, for look-ups.
fn file_address(site: Site, module: &Module) -> Option<FileAddress> {
    let call = site.call.call(module.machine);
    module.bias.map(|bias| bias.to_file(call))
}

/// A note as a sentence; what begins with a path stays as it is.
fn sentence(note: &str) -> String {
    let mut letters = note.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

/// Whether the module was declared at all.
fn is_known(module: &Module) -> bool {
    module.is_named() || module.size != 0
}

fn plain_frame(site: Site, module: Option<&Module>) -> Frame {
    let address = site.call.0;
    Frame {
        address: hex_address(address.0),
        module: module.and_then(|module| Some(module.shown_path()?.into_owned())),
        build_id: module.and_then(|module| module.build_id.as_deref().map(hex)),
        offset: module
            .and_then(|module| module.bias)
            .map(|bias| hex_address(bias.to_file(address).0)),
        function: None,
        file: None,
        line: None,
        column: None,
        inlined: false,
    }
}

/// What a module lacks, and the options that would help; nothing where it has lines, or is the kernel's own.
fn missing(module: &symbols::Module, found: Source) -> Option<String> {
    let path = module.path.as_deref();
    let path = path.unwrap_or(Path::new("a module without path"));
    if symbols::is_of_kernel(path) {
        return None;
    }
    let path = path.display();
    let build = module
        .build_id
        .as_deref()
        .map_or_else(String::new, |id| format!(" (build id {})", hex(id)));
    let debug_file = "--debug-dir names a directory with its debug file";
    match found {
        Source::DebugInfo => None,
        Source::SymbolsOnly => Some(format!(
            "{path}{build} has symbols without lines; {debug_file}."
        )),
        // A log of glibc's mtrace names the program as it was called.
        Source::Missing if module.build_id.is_none() => Some(format!(
            "No symbols of {path} were found; --exe names the program's file, {debug_file}, --sysroot a copy of the target's files."
        )),
        Source::NoSymbols | Source::BuildIdMismatch | Source::Missing => Some(format!(
            "No symbols of {path}{build} were found; {debug_file}, --sysroot a copy of the target's files."
        )),
    }
}

/// An address as reports show it.
pub(crate) fn hex_address(address: u64) -> String {
    format!("{address:#x}")
}

/// Bytes as lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a String takes everything");
        hex
    })
}
