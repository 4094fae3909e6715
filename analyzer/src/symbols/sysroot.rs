//! Paths of a device, looked up in a copy of its file system.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Links followed before a path counts as a loop; the kernel's own limit.
const MAX_LINKS: usize = 40;

/// Where the file that a device calls `path` is below `root`, whether or not it exists.
///
/// Links are followed as on the device: an absolute one starts at `root` again, and `..` does not lead out of
/// it. `None` for a loop of links.
pub(super) fn resolve(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut to_do: VecDeque<OsString> = names(path).into();
    let mut below_root = PathBuf::new();
    let mut links = 0;
    while let Some(name) = to_do.pop_front() {
        if name == ".." {
            below_root.pop();
            continue;
        }
        let Ok(target) = root.join(&below_root).join(&name).read_link() else {
            below_root.push(name); // no link, or nothing at all
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return None;
        }
        if target.is_absolute() {
            below_root.clear();
        }
        for name in names(&target).into_iter().rev() {
            to_do.push_front(name);
        }
    }
    Some(root.join(below_root))
}

/// The steps of a path: names and `..`.
fn names(path: &Path) -> Vec<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}
