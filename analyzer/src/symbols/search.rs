//! The places where files with symbols can be, in the order in which they are tried.

use super::file::MappedFile;
use super::{Options, Rule, path::mapped, sysroot};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where distributions put debug files.
const GLOBAL: &str = "/usr/lib/debug";

/// Entries of a directory tree that are looked at when it is searched for a build id.
const MAX_ENTRIES: usize = 100_000;

/// Depth to which a tree is searched.
const MAX_DEPTH: usize = 24;

/// A file that may belong to a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) rule: Rule,
}

/// Where to look, for all modules of a report.
#[derive(Debug)]
pub(super) struct Search {
    sysroot: Option<PathBuf>,
    debug_dirs: Vec<PathBuf>,
    map: Vec<(String, String)>,
    /// Caches of debuginfod clients.
    caches: Vec<PathBuf>,
    in_debug_dirs: OnceLock<BuildIds>,
    in_sysroot: OnceLock<BuildIds>,
}

/// Files by build id.
type BuildIds = FxHashMap<Vec<u8>, Vec<PathBuf>>;

impl Search {
    /// The places that `options` and the environment name.
    pub(super) fn new(options: &Options) -> Self {
        Self {
            sysroot: options.sysroot.clone(),
            debug_dirs: options.debug_dirs.clone(),
            map: options.map.clone(),
            caches: caches(|name| std::env::var_os(name).map(PathBuf::from)),
            in_debug_dirs: OnceLock::new(),
            in_sysroot: OnceLock::new(),
        }
    }

    /// Where the file is that the traced process knew by `path`.
    pub(super) fn on_target(&self, path: &Path) -> Option<PathBuf> {
        if path.as_os_str().is_empty() || super::is_of_kernel(path) {
            return None;
        }
        self.in_root(path)
    }

    fn in_root(&self, path: &Path) -> Option<PathBuf> {
        match &self.sysroot {
            Some(root) => sysroot::resolve(root, path),
            None => Some(path.to_owned()),
        }
    }

    /// The file `name` in the directory of `file`, with links as on the device.
    fn beside(&self, file: &Path, name: &Path) -> Option<PathBuf> {
        let beside = file.parent()?.join(name);
        match &self.sysroot {
            Some(root) => match beside.strip_prefix(root) {
                Ok(path) => sysroot::resolve(root, path),
                Err(_) => Some(beside),
            },
            None => Some(beside),
        }
    }

    /// Files that may hold the debug information of a module.
    ///
    /// `module` is its path in the traced process, `link` the name in its debug link, `file` where it is here.
    pub(super) fn debug_files<'a>(
        &'a self,
        module: Option<&'a Path>,
        id: Option<&'a [u8]>,
        link: Option<&'a str>,
        file: Option<&'a Path>,
    ) -> impl Iterator<Item = Candidate> + 'a {
        let of_rule = |rule| move |path| Candidate { path, rule };
        let folders = self.folders(module, file);
        let named_by_user = self.debug_dirs.iter().flat_map({
            let folders = folders.clone();
            move |directory| {
                let by_id = id.into_iter().flat_map(|id| trees_in(directory, id));
                let by_link = link.into_iter();
                let by_link = by_link.flat_map(|link| linked_in(directory, link, &folders));
                let by_name = module.into_iter();
                let by_name = by_name.flat_map(|module| named_in(directory, module));
                by_id
                    .map(of_rule(Rule::BuildId))
                    .chain(by_link.map(of_rule(Rule::DebugLink)))
                    .chain(by_name.map(of_rule(Rule::DebugDir)))
                    .collect::<Vec<_>>()
            }
        });
        let by_id = id.into_iter().flat_map(|id| self.in_global_tree(id));
        let by_link = link
            .into_iter()
            .flat_map(move |link| self.linked(link, file, &folders));
        let beside = file.and_then(|file| {
            let name = with_suffix(file.file_name()?, ".debug");
            self.beside(file, Path::new(&name))
        });
        let beside = beside.into_iter();
        let cached = id.into_iter().flat_map(|id| self.cached(id));
        let indexed = id
            .into_iter()
            .flat_map(move |id| self.indexed(id, file.is_none()));
        let mut seen = FxHashSet::default();
        named_by_user
            .chain(by_id.map(of_rule(Rule::BuildId)))
            .chain(by_link.map(of_rule(Rule::DebugLink)))
            .chain(beside.map(of_rule(Rule::Beside)))
            .chain(cached.map(of_rule(Rule::Debuginfod)))
            .chain(indexed.map(of_rule(Rule::BuildId)))
            .filter(move |candidate| seen.insert(candidate.path.clone()))
    }

    /// `xx/yyyy.debug` in the tree of build ids of the system.
    fn in_global_tree(&self, id: &[u8]) -> Vec<PathBuf> {
        let places = [".debug", ""].map(|suffix| super::build_id_place(id, suffix));
        let places = places.into_iter().flatten();
        places
            .filter_map(|place| self.in_root(&Path::new(GLOBAL).join(place)))
            .collect()
    }

    /// The folders that a module is in, as the traced system names them, without their root.
    fn folders(&self, module: Option<&Path>, file: Option<&Path>) -> Vec<PathBuf> {
        let real = self.real(file);
        let real_on_target = match &self.sysroot {
            Some(root) => file.and_then(|file| file.strip_prefix(root).ok()),
            None => real.as_deref(),
        };
        let paths = [module, real_on_target];
        let folders = paths.into_iter().flatten().filter_map(Path::parent);
        folders.map(below_root).collect()
    }

    /// The file behind all links, as in `/bin/prog`, whose debug file is that of `/usr/bin/prog`. Below a sysroot they were
    /// followed already.
    fn real(&self, file: Option<&Path>) -> Option<PathBuf> {
        let is_below = |root: &PathBuf| file.is_some_and(|file| file.starts_with(root));
        let file = file.filter(|_| !self.sysroot.as_ref().is_some_and(is_below));
        file?.canonicalize().ok()
    }

    /// Where a debug link's name can lead.
    fn linked(&self, link: &str, file: Option<&Path>, folders: &[PathBuf]) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        for file in [file, self.real(file).as_deref()].into_iter().flatten() {
            paths.extend(self.beside(file, Path::new(link)));
            paths.extend(self.beside(file, &Path::new(".debug").join(link)));
        }
        for folder in folders {
            paths.extend(self.in_root(&Path::new(GLOBAL).join(folder).join(link)));
        }
        paths
    }

    /// What debuginfod's client fetched earlier. Nothing is fetched now.
    fn cached(&self, id: &[u8]) -> Vec<PathBuf> {
        let id = super::hex(id);
        let directories = self.caches.iter().map(|cache| cache.join(&id));
        directories
            .flat_map(|directory| [directory.join("debuginfo"), directory.join("executable")])
            .collect()
    }

    /// Files of this build id anywhere in the directories that the user named.
    fn indexed(&self, id: &[u8], and_sysroot: bool) -> Vec<PathBuf> {
        let in_debug_dirs = self
            .in_debug_dirs
            .get_or_init(|| build_ids(&self.debug_dirs));
        let mut paths = in_debug_dirs.get(id).cloned().unwrap_or_default();
        if let (true, Some(root)) = (and_sysroot, &self.sysroot) {
            let in_sysroot = self
                .in_sysroot
                .get_or_init(|| build_ids(std::slice::from_ref(root)));
            paths.extend(in_sysroot.get(id).into_iter().flatten().cloned());
        }
        paths
    }

    /// Folders that [`Self::debug_files`] searches for a build id.
    pub(super) fn searched(&self, and_sysroot: bool) -> impl Iterator<Item = &Path> {
        let sysroot = self.sysroot.iter().filter(move |_| and_sysroot);
        self.debug_dirs.iter().chain(sysroot).map(PathBuf::as_path)
    }

    /// Where the file that debug files share can be; `name` is what the debug file `debug` calls it.
    pub(super) fn supplementary_files(&self, name: &str, id: &[u8], debug: &Path) -> Vec<PathBuf> {
        let name = Path::new(name);
        let mut paths = Vec::new();
        if name.is_absolute() {
            paths.extend(self.in_root(name));
        } else {
            paths.extend(self.beside(debug, name));
        }
        let in_trees = |directory: &PathBuf| trees_in(directory, id);
        paths.extend(self.debug_dirs.iter().flat_map(in_trees));
        paths.extend(self.in_global_tree(id));
        let below_global = name.strip_prefix(GLOBAL).ok();
        for directory in &self.debug_dirs {
            paths.extend(below_global.map(|below| directory.join(below)));
            if let Some(name) = name.file_name() {
                paths.push(directory.join(name));
                paths.push(directory.join(".dwz").join(name));
            }
        }
        paths.extend(self.cached(id));
        paths
    }

    /// Where the package with the split units of `file` can be.
    pub(super) fn packages(&self, file: &Path) -> Vec<PathBuf> {
        let Some(name) = file.file_name() else {
            return Vec::new();
        };
        let appended = with_suffix(name, ".dwp");
        let replaced = Path::new(name).with_extension("dwp");
        let mut paths = Vec::new();
        for name in [Path::new(&appended), replaced.as_path()] {
            paths.extend(self.beside(file, name));
            paths.extend(self.debug_dirs.iter().map(|base| base.join(name)));
        }
        paths
    }

    /// Where the split unit of this id can be that was written as `name` in `directory` when `file` was built.
    pub(super) fn split_files(
        &self,
        id: u64,
        directory: &str,
        name: &str,
        file: &Path,
    ) -> Vec<PathBuf> {
        let built = Path::new(directory).join(name);
        let here = mapped(built.to_string_lossy().into_owned(), &self.map);
        let mut paths = vec![PathBuf::from(here), built];
        let name = Path::new(name);
        let only_name = name.file_name().map(Path::new);
        for name in [Some(name).filter(|name| name.is_relative()), only_name]
            .into_iter()
            .flatten()
        {
            paths.extend(self.beside(file, name));
            paths.extend(self.debug_dirs.iter().map(|base| base.join(name)));
        }
        let in_bundle = super::split_unit_place(id);
        paths.extend(self.debug_dirs.iter().map(|base| base.join(&in_bundle)));
        let mut known = BTreeSet::new();
        paths.retain(|path| known.insert(path.clone()));
        paths
    }
}

/// `xx/yyyy.debug` in the trees of build ids that a directory can be or hold.
fn trees_in(directory: &Path, id: &[u8]) -> Vec<PathBuf> {
    let place = |suffix| super::build_id_place(id, suffix);
    let (Some(debug), Some(module)) = (place(".debug"), place("")) else {
        return Vec::new();
    };
    let mut paths = vec![directory.join(&debug)];
    let below = debug.strip_prefix(super::BUILD_IDS);
    paths.extend(below.map(|below| directory.join(below)));
    paths.push(directory.join("usr/lib/debug").join(&debug));
    // The tree also leads to the stripped file; it may have symbols.
    paths.push(directory.join(&module));
    paths
}

/// Where a debug link's name can lead in a directory that the user named.
fn linked_in(directory: &Path, link: &str, folders: &[PathBuf]) -> Vec<PathBuf> {
    let folders = folders.iter().map(|folder| directory.join(folder));
    folders
        .chain([directory.to_owned()])
        .map(|folder| folder.join(link))
        .collect()
}

/// The module's own name, in a directory that the user named.
fn named_in(directory: &Path, module: &Path) -> Vec<PathBuf> {
    let Some(name) = module.file_name() else {
        return Vec::new();
    };
    let suffixed = with_suffix(name, ".debug");
    let full = directory.join(below_root(module));
    vec![
        full.with_file_name(&suffixed),
        full,
        directory.join(&suffixed),
        directory.join(name),
    ]
}

fn with_suffix(name: &OsStr, suffix: &str) -> std::ffi::OsString {
    let mut name = name.to_owned();
    name.push(suffix);
    name
}

/// The path without its root and without steps upwards, so that joining it stays below.
fn below_root(path: &Path) -> PathBuf {
    path.components()
        .filter(|component| matches!(component, std::path::Component::Normal(_)))
        .collect()
}

/// Directories in which debuginfod's client keeps what it fetched.
fn caches(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let variable = |name| variable(name).filter(|path| path.is_absolute());
    if let Some(cache) = variable("DEBUGINFOD_CACHE_PATH") {
        return vec![cache];
    }
    let home = variable("HOME");
    let xdg = variable("XDG_CACHE_HOME").or(home.as_ref().map(|home| home.join(".cache")));
    let new = xdg.map(|cache| cache.join("debuginfod_client"));
    let old = home.map(|home| home.join(".debuginfod_client_cache"));
    new.into_iter().chain(old).collect()
}

/// The build ids of all ELF files below `roots`. Links are not followed, and large trees not searched to the end.
fn build_ids(roots: &[PathBuf]) -> BuildIds {
    let mut found = BuildIds::default();
    for root in roots {
        let mut entries_left = MAX_ENTRIES;
        let mut to_do = vec![(root.clone(), 0)];
        while let Some((directory, depth)) = to_do.pop() {
            let Ok(entries) = fs::read_dir(&directory) else {
                continue;
            };
            let mut entries: Vec<_> = entries.flatten().take(entries_left).collect();
            entries_left -= entries.len();
            entries.sort_unstable_by_key(fs::DirEntry::file_name);
            for entry in entries {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() && depth < MAX_DEPTH => {
                        to_do.push((entry.path(), depth + 1));
                    }
                    Ok(kind) if kind.is_file() => {
                        if let Ok(file) = MappedFile::open(&entry.path())
                            && let Some(id) = file.build_id()
                        {
                            found.entry(id).or_default().push(entry.path());
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Search, caches};
    use crate::symbols::Options;
    use std::path::{Path, PathBuf};

    #[test]
    fn caches_of_debuginfod() {
        let with = |set: &'static [(&str, &str)]| {
            caches(|name| {
                let value = set.iter().find(|(key, _)| *key == name);
                value.map(|(_, value)| PathBuf::from(value))
            })
        };
        assert_eq!(
            with(&[("HOME", "/home/me"), ("DEBUGINFOD_CACHE_PATH", "/c")]),
            [Path::new("/c")]
        );
        assert_eq!(
            with(&[("HOME", "/home/me"), ("XDG_CACHE_HOME", "/x")]),
            [
                Path::new("/x/debuginfod_client"),
                Path::new("/home/me/.debuginfod_client_cache")
            ]
        );
        assert!(with(&[("HOME", "relative")]).is_empty());
    }

    #[test]
    fn order_of_places() {
        let mut search = Search::new(&Options {
            debug_dirs: vec![PathBuf::from("/nonexistent/d")],
            ..Options::default()
        });
        search.caches = vec![PathBuf::from("/cache")];
        let module = Path::new("/nonexistent/bin/prog");
        let found = search.debug_files(
            Some(module),
            Some(&[0xAB, 0xCD, 0xEF]),
            Some("prog.dbg"),
            Some(module),
        );
        let paths: Vec<String> = found
            .map(|candidate| candidate.path.to_str().unwrap().replace("/nonexistent", ""))
            .collect();
        assert_eq!(
            paths,
            [
                "/d/.build-id/ab/cdef.debug",
                "/d/ab/cdef.debug",
                "/d/usr/lib/debug/.build-id/ab/cdef.debug",
                "/d/.build-id/ab/cdef",
                "/d/bin/prog.dbg",
                "/d/prog.dbg",
                "/d/bin/prog.debug",
                "/d/bin/prog",
                "/d/prog.debug",
                "/d/prog",
                "/usr/lib/debug/.build-id/ab/cdef.debug",
                "/usr/lib/debug/.build-id/ab/cdef",
                "/bin/prog.dbg",
                "/bin/.debug/prog.dbg",
                "/usr/lib/debug/bin/prog.dbg",
                "/bin/prog.debug",
                "/cache/abcdef/debuginfo",
                "/cache/abcdef/executable",
            ]
        );
    }
}
