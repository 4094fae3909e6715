//! Where to put the files of a module so that the same rules find them again, on any machine.

use super::file::{MappedFile, has_debug_info};
use super::{Module, Rule, UsedFile, build_id_place, split_unit_place, supplementary};
use std::path::{Component, Path, PathBuf};

/// The folder for modules by their paths, to be a sysroot.
pub(crate) const ROOT: &str = "root";
/// The folder for debug files, to be a debug directory.
pub(crate) const DEBUG: &str = "debug";

/// A file, and where its copies go below a common folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) from: PathBuf,
    pub(crate) to: Vec<PathBuf>,
}

/// The places of all `files` of a module. What can no longer be opened is left out.
pub(crate) fn places(module: &Module, files: &[UsedFile]) -> Vec<Placed> {
    let mut hosts: Vec<PathBuf> = Vec::new();
    let mut placed = Vec::new();
    for used in files {
        let Ok(file) = MappedFile::open(&used.path) else {
            continue;
        };
        let to = match used.rule {
            Rule::SplitUnit(id) => vec![Path::new(DEBUG).join(split_unit_place(id))],
            // A package is known by the file it lies beside.
            Rule::SplitPackage => hosts.iter().map(|host| with_suffix(host, ".dwp")).collect(),
            rule => {
                let to = place(module, &file, rule);
                hosts.extend(to.clone());
                to.into_iter().collect()
            }
        };
        placed.push(Placed {
            from: used.path.clone(),
            to,
        });
    }
    placed
}

/// The place of a module or of a debug file.
fn place(module: &Module, file: &MappedFile, rule: Rule) -> Option<PathBuf> {
    let path = module.path.as_deref().map(below_root);
    let by_id = |suffix| {
        let id = match rule {
            Rule::AltLink => supplementary::id(file),
            _ => file.build_id(),
        };
        Some(Path::new(DEBUG).join(build_id_place(&id?, suffix)?))
    };
    if rule != Rule::AltLink && (rule == Rule::Path || !has_debug_info(&file.elf())) {
        return path.map_or_else(|| by_id(""), |path| Some(Path::new(ROOT).join(path)));
    }
    by_id(".debug").or_else(|| Some(with_suffix(&Path::new(DEBUG).join(path?), ".debug")))
}

/// A path without its root, and without `.` and `..`, which lead nowhere above that.
fn below_root(path: &Path) -> PathBuf {
    let mut below = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => below.push(name),
            Component::ParentDir => {
                below.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    below
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}
