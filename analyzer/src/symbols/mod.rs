//! From module and file address to functions, files and lines.
//!
//! Knows addresses and modules, nothing of events. Opens only files whose build id fits the module's, or that
//! the user named. In the order of the look-up: `search` names places, `locate` finds files there and proves
//! that they fit, `file` opens them, `moved` tells their addresses from those that ran, `dwarf` (with `functions`
//! and `lines`) and `table` look addresses up, `names` and `path` make the result readable.

mod binutils;
mod descriptors;
mod dwarf;
mod entries;
mod file;
mod functions;
mod layout;
mod line_program;
mod lines;
mod locate;
mod module;
mod moved;
mod names;
mod origins;
pub(crate) mod pack;
mod parts;
mod path;
mod ranges;
mod reader;
mod search;
mod sections;
mod supplementary;
mod sysroot;
mod table;

use crate::address::FileAddress;
pub use binutils::binutils_lines;
pub use layout::{Layout, layout};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where to look for symbols, and how to show them.
#[derive(Clone, Debug)]
pub struct Options {
    /// A copy of the traced system's files; paths of modules are looked up in it and nowhere else.
    pub sysroot: Option<PathBuf>,
    /// Directories with debug files: trees of build ids, or the files themselves.
    pub debug_dirs: Vec<PathBuf>,
    /// The program's file, for logs of glibc's mtrace, which name it as it was called.
    pub exe: Option<PathBuf>,
    /// Prefixes of source files to be replaced, old and new; the first that fits counts.
    pub map: Vec<(String, String)>,
    /// Show C++ and Rust names as in the source.
    pub demangle: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sysroot: None,
            debug_dirs: Vec::new(),
            exe: None,
            map: Vec::new(),
            demangle: true,
        }
    }
}

/// A module as the trace declares it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Module {
    /// Its path in the traced process, which need not be text.
    pub path: Option<PathBuf>,
    /// Its GNU build id.
    pub build_id: Option<Vec<u8>>,
    /// The file itself, where the user named it; then its path is not looked up.
    pub file: Option<PathBuf>,
    /// Its first page in its own addresses, as it was mapped: files that prelink did not move have others.
    pub first: Option<u64>,
}

/// Whether the path is that of no file but the kernel's own, such as `[vdso]`.
pub(crate) fn is_of_kernel(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(b"[")
}

/// What was found about the addresses of one module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// One entry an address asked for, in the same order: its frames, innermost first; none where nothing is known.
    /// Those of an address that was asked for again are shared.
    pub addresses: Vec<Arc<[Located]>>,
    /// What kind of information there was.
    pub found: Source,
    /// The files it came from.
    pub files: Vec<UsedFile>,
    /// Where else it was looked for, in that order; empty where nothing is missing.
    pub tried: Vec<TriedPlace>,
    /// What the reader of a report must know, a sentence each without its full stop.
    pub notes: Vec<String>,
}

/// One frame: a function, and the place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// The function's name.
    pub function: Option<Arc<str>>,
    /// The source file, absolute if the compiler said so, and mapped.
    pub file: Option<Arc<str>>,
    /// The line in it, from 1.
    pub line: Option<u32>,
    /// The column in that, from 1.
    pub column: Option<u32>,
    /// The compiler merged this function into the next one.
    pub inlined: bool,
}

/// What kind of information there is about a module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// None of its files was found.
    #[default]
    Missing,
    /// A file is in its place, but of another build; it was not used.
    BuildIdMismatch,
    /// A file was found, without symbols.
    NoSymbols,
    /// A symbol table: functions, but no lines.
    SymbolsOnly,
    /// Debug information.
    DebugInfo,
}

impl Source {
    /// Whether functions can be named.
    #[must_use]
    pub fn has_names(self) -> bool {
        self >= Self::SymbolsOnly
    }

    /// Whether lines can be named.
    #[must_use]
    pub fn has_lines(self) -> bool {
        self == Self::DebugInfo
    }
}

/// A file that symbols were read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedFile {
    /// Where it is.
    pub path: PathBuf,
    /// Why it was looked for there.
    pub rule: Rule,
}

/// A place where a file was looked for in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedPlace {
    /// The file, or the folder that was searched for a build id.
    pub path: PathBuf,
    /// Why nothing there was used, a sentence's end.
    pub why: String,
}

/// The rule by which a file was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The module's own path, below the sysroot if there is one.
    Path,
    /// Its build id, in a tree or in a directory that the user named.
    BuildId,
    /// Its `.gnu_debuglink`.
    DebugLink,
    /// Its name, in a directory that the user named.
    DebugDir,
    /// Its name with `.debug`, beside it.
    Beside,
    /// The local cache of debuginfod.
    Debuginfod,
    /// The debug file's `.gnu_debugaltlink`.
    AltLink,
    /// The package of its split units.
    SplitPackage,
    /// One of its split units, by its id.
    SplitUnit(u64),
}

/// Looks addresses up, each in its module; one result a module, in the same order.
///
/// The addresses must lie inside the calls, see [`ReturnAddress::call`](crate::address::ReturnAddress::call).
/// Requests for the same module are answered together. The result depends on the files found only, not on the
/// number of threads.
#[must_use]
pub fn resolve(requests: &[(Module, Vec<FileAddress>)], options: &Options) -> Vec<Resolved> {
    if requests.is_empty() {
        return Vec::new(); // threads are not made for nothing
    }
    let search = search::Search::new(options);
    let mut groups: BTreeMap<&Module, Vec<usize>> = BTreeMap::new();
    for (index, (module, _)) in requests.iter().enumerate() {
        groups.entry(module).or_default().push(index);
    }
    let groups: Vec<_> = groups.into_iter().collect();
    let look_up = || look_up(&groups, requests, &search, options);
    let mut found = with_large_stack(look_up).unwrap_or_else(look_up);
    found.sort_unstable_by_key(|(member, _)| *member);
    found.into_iter().map(|(_, resolved)| resolved).collect()
}

/// Looks up the modules of all groups, in parallel; each result has its place among the requests.
fn look_up(
    groups: &[(&Module, Vec<usize>)],
    requests: &[(Module, Vec<FileAddress>)],
    search: &search::Search,
    options: &Options,
) -> Vec<(usize, Resolved)> {
    groups
        .par_iter()
        .flat_map_iter(|(module, members)| {
            let mut addresses: Vec<u64> = members
                .iter()
                .flat_map(|&member| &requests[member].1)
                .map(|address| address.0)
                .collect();
            addresses.sort_unstable();
            addresses.dedup();
            let all = module::resolve(module, &addresses, search, options);
            if let &[member] = members.as_slice()
                && requests[member].1.is_sorted_by(|a, b| a < b)
            {
                return vec![(member, all)];
            }
            let part = |member: usize| (member, all.pick(&addresses, &requests[member].1));
            members.iter().map(|&member| part(member)).collect()
        })
        .collect()
}

/// The names as in the source, in the same order; unchanged if `options` ask for that.
#[must_use]
pub fn readable(names: &[&str], options: &Options) -> Vec<String> {
    let found = names::Names::of(names.iter().copied(), options.demangle);
    let readable = |name: &&str| found.readable(name).as_ref().to_owned();
    names.iter().map(readable).collect()
}

/// Bytes of stack for a thread that looks up symbols. Only what is used takes memory.
const STACK: usize = 32 << 20;

/// Runs `work` on threads with [`STACK`], since files decide how deep the parsers recurse; `None` where the
/// system gives no threads.
fn with_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    let threads = rayon::ThreadPoolBuilder::new()
        .num_threads(rayon::current_num_threads())
        .stack_size(STACK)
        .build()
        .ok()?;
    Some(threads.install(work))
}

impl Resolved {
    /// The answers for `asked`, out of those for `known`, which ascends.
    fn pick(&self, known: &[u64], asked: &[FileAddress]) -> Self {
        let frames = |address: &FileAddress| {
            let index = known.binary_search(&address.0).ok()?;
            self.addresses.get(index).map(Arc::clone)
        };
        Self {
            addresses: asked
                .iter()
                .map(|address| frames(address).unwrap_or_default())
                .collect(),
            files: self.files.clone(),
            tried: self.tried.clone(),
            notes: self.notes.clone(),
            ..*self
        }
    }
}

/// The tree of build ids in a debug directory.
const BUILD_IDS: &str = ".build-id";

/// The place of a file below a debug directory, by its build id; `suffix` tells debug files from modules.
pub(crate) fn build_id_place(id: &[u8], suffix: &str) -> Option<PathBuf> {
    let (first, rest) = id.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let name = format!("{first:02x}/{}{suffix}", hex(rest));
    Some(Path::new(BUILD_IDS).join(name))
}

/// The place of a split unit below a debug directory, by its id: names of units are not unique.
pub(crate) fn split_unit_place(id: u64) -> PathBuf {
    Path::new(".dwo-id").join(format!("{id:016x}.dwo"))
}

/// Bytes as lower-case hex digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a String takes everything");
        hex
    })
}
