//! The recorder as a file that the dynamic linker can load.
//!
//! One copy a user and version, which stays: a daemon that the program leaves behind still needs it when it executes
//! something later, and the dynamic linker would complain on the program's standard error if it were gone.

use super::child::{is_executable_place, user};
use anyhow::{Context, Result, bail};
use heapwire_format::Crc32;
use std::env;
use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;

/// A recorder that this command carries.
pub(crate) struct Recorder {
    /// Its target.
    pub(crate) name: &'static str,
    /// For the dynamic linker.
    pub(crate) library: &'static [u8],
    /// For programs that it is linked into.
    pub(crate) object: &'static [u8],
}

/// All of them, this machine's first.
pub(crate) const CARRIED: &[Recorder] = include!(concat!(env!("OUT_DIR"), "/recorders.rs"));

/// The recorder for `target`, by its name or by the machine in it; without one, that for this machine.
pub(crate) fn carried(target: Option<&str>) -> Result<&'static Recorder> {
    let is_asked = |name: &str| match target {
        Some(target) => target == name || name.split('-').next() == Some(target),
        None => is_own(name),
    };
    let found = CARRIED.iter().find(|recorder| is_asked(recorder.name));
    match (found, target) {
        (Some(recorder), _) => Ok(recorder),
        (None, Some(target)) => {
            bail!(
                "this heapwire carries no recorder for {target}: heapwire recorder --list shows those it does; for others, run \
                 tests/devices/build DIR in the sources and build heapwire with HEAPWIRE_RECORDERS=DIR"
            )
        }
        (None, None) => bail!("no recorder for this machine: this heapwire was built without one"),
    }
}

/// Whether the library of this name is one that a program of this machine can load. Those for others have names without a
/// system.
fn is_own(name: &str) -> bool {
    name.contains('-')
}

/// Puts the library where every process of the program can load it, and gives the path.
pub(crate) fn installed() -> Result<PathBuf> {
    let library = carried(None)?.library;
    let name = format!("libheapwire-{:08x}.so", Crc32::of(library));
    let mut last = None;
    for place in places() {
        match install(&place, &name, library) {
            Ok(path) => return Ok(path),
            Err(error) => last = Some(error.context(format!("cannot use {}", place.display()))),
        }
    }
    Err(last.unwrap_or_else(|| anyhow::anyhow!("no folder whose name has no space or colon")))
        .context("no place for the recorder library")
}

/// Folders to try, the best first.
///
/// Those that all users can reach come first, since a program may give up its rights before it executes another. A
/// path with a space or a colon cannot stand in `LD_PRELOAD`.
fn places() -> Vec<PathBuf> {
    let own = format!("heapwire-{}", user());
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
        .map(|cache| cache.join("heapwire"));
    let shared = [
        Some("/var/tmp".into()),
        Some("/tmp".into()),
        env::var_os("TMPDIR"),
    ];
    let mut places: Vec<PathBuf> = shared
        .into_iter()
        .flatten()
        .map(|folder| Path::new(&folder).join(&own))
        .chain(cache)
        .filter(|place| place.is_absolute() && can_be_preloaded(place))
        .collect();
    places.sort_by_key(|place| !is_reachable_by_all(place));
    places
}

fn can_be_preloaded(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    !bytes
        .iter()
        .any(|byte| matches!(byte, b' ' | b':' | b'$') || byte.is_ascii_control())
}

fn is_reachable_by_all(place: &Path) -> bool {
    place
        .ancestors()
        .skip(1)
        .all(|folder| fs::metadata(folder).is_ok_and(|found| found.mode() & 0o001 != 0))
}

fn install(place: &Path, name: &str, library: &[u8]) -> Result<PathBuf> {
    make_own_folder(place)?;
    let folder = CString::new(place.as_os_str().as_bytes()).context("a zero byte in its name")?;
    if !is_executable_place(&folder) {
        bail!("its file system is mounted noexec");
    }
    let path = place.join(name);
    if !holds(&path, library) {
        write_new(&path, library)?;
    }
    Ok(path)
}

/// Makes the folder, or makes sure that the one there is is ours and that nobody else can put files into it.
fn make_own_folder(place: &Path) -> Result<()> {
    if let Some(parent) = place.parent().filter(|parent| !parent.exists()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
    }
    match DirBuilder::new().mode(0o755).create(place) {
        Ok(()) => fs::set_permissions(place, Permissions::from_mode(0o755))?, // whatever the umask
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.into()),
    }
    let found = fs::symlink_metadata(place)?;
    if !found.is_dir() || found.uid() != user() || found.mode() & 0o022 != 0 {
        bail!("it is not a folder that only this user can write to");
    }
    Ok(())
}

/// Whether the file is there, whole and loadable by all.
fn holds(path: &Path, library: &[u8]) -> bool {
    let same = || -> io::Result<bool> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.mode() & 0o7777 != 0o755 {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        let enough = u64::try_from(library.len()).map_or(u64::MAX, |length| length + 1);
        file.take(enough).read_to_end(&mut bytes)?;
        Ok(bytes == library)
    };
    same().unwrap_or(false)
}

/// Writes the whole file under another name first: a process that loads it meanwhile sees all of it or none.
fn write_new(path: &Path, library: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension(format!("{}.new", process::id()));
    let written = File::create(&unfinished).and_then(|mut file| {
        file.set_permissions(Permissions::from_mode(0o755))?;
        file.write_all(library)
    });
    written
        .and_then(|()| fs::rename(&unfinished, path))
        .inspect_err(|_| {
            let _ = fs::remove_file(&unfinished);
        })
}

#[cfg(test)]
mod tests {
    use super::{can_be_preloaded, holds, install};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    /// A folder of its own for each test, removed at its end.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("heapwire-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_damaged_copy_is_replaced() {
        let folder = Folder::new("damaged");
        let place = folder.0.join("own");
        let path = install(&place, "lib.so", b"library").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"library");
        fs::write(&path, b"librarY").unwrap();
        assert!(!holds(&path, b"library"));
        install(&place, "lib.so", b"library").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"library");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
            0o755
        );
    }

    #[test]
    fn a_folder_of_others_is_refused() {
        let folder = Folder::new("others");
        let open = folder.0.join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        assert!(install(&open, "lib.so", b"x").is_err());
        let link = folder.0.join("link");
        fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        symlink(&open, &link).unwrap();
        assert!(install(&link, "lib.so", b"x").is_err());
        assert!(install(&open, "lib.so", b"x").is_ok());
    }

    #[test]
    fn separators_cannot_stand_in_a_preload() {
        assert!(can_be_preloaded(Path::new("/var/tmp/heapwire-0")));
        for path in ["/a b", "/a:b", "/a\nb", "/$LIB"] {
            assert!(!can_be_preloaded(Path::new(path)), "{path}");
        }
    }
}
