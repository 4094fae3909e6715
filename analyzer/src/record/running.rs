//! Processes that go on writing to a trace when the program itself has ended, as a daemon does.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;

/// How often processes are looked at.
const MOST_LOOKS: usize = 16;

/// A process in which a recorder has a trace open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Writer {
    pub(crate) pid: u32,
    /// The name of its executable.
    pub(crate) name: OsString,
}

/// Who writes to one of `traces`, of the processes that were started after this one and that it may look at.
///
/// A process that becomes a daemon forks and ends while it is looked for, so looks go on until two agree.
pub(crate) fn writers(traces: &[PathBuf]) -> Vec<Writer> {
    let traces: Vec<Trace<'_>> = traces.iter().filter_map(|path| Trace::of(path)).collect();
    let Some(own) = started(Path::new("/proc/self")) else {
        return Vec::new();
    };
    let mut last = Vec::new();
    for _ in 0..MOST_LOOKS {
        let (found, is_whole) = look(&traces, own);
        let is_same = found == last;
        last = found;
        if is_whole && is_same {
            break;
        }
    }
    last
}

/// One look at all processes, and whether none of them ended meanwhile: it may have left another one behind.
fn look(traces: &[Trace<'_>], since: u64) -> (Vec<Writer>, bool) {
    let (mut found, mut is_whole) = (Vec::new(), true);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in entries {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(pid) = pid.filter(|pid| *pid != process::id()) else {
            continue;
        };
        let folder = entry.path();
        if started(&folder).is_some_and(|at| at < since) {
            continue;
        }
        if traces.iter().any(|trace| trace.is_written_by(&folder)) {
            let exe = fs::read_link(folder.join("exe")).unwrap_or_default();
            let name = exe.file_name().unwrap_or_default().to_owned();
            found.push(Writer { pid, name });
        }
        is_whole &= folder.exists();
    }
    found.sort();
    (found, is_whole)
}

struct Trace<'p> {
    path: &'p Path,
    device: u64,
    inode: u64,
}

impl<'p> Trace<'p> {
    fn of(path: &'p Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self {
            path,
            device: found.dev(),
            inode: found.ino(),
        })
    }

    /// Whether the process of this folder below `/proc` has it open or mapped. A program may close what it does not know.
    fn is_written_by(&self, folder: &Path) -> bool {
        self.is_open(folder) || self.is_mapped(folder)
    }

    fn is_open(&self, folder: &Path) -> bool {
        let Ok(descriptors) = fs::read_dir(folder.join("fd")) else {
            return false;
        };
        descriptors.flatten().any(|descriptor| {
            let info = folder.join("fdinfo").join(descriptor.file_name());
            fs::metadata(descriptor.path())
                .is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode))
                && fs::read_to_string(info).is_ok_and(|text| is_for_writing(&text))
        })
    }

    /// The device that `maps` names is not always that of the file, so the name has to do.
    fn is_mapped(&self, folder: &Path) -> bool {
        let (Ok(maps), Some(name)) = (fs::read(folder.join("maps")), self.path.file_name()) else {
            return false;
        };
        let inode = self.inode.to_string();
        String::from_utf8_lossy(&maps).lines().any(|line| {
            let mut words = line.split_ascii_whitespace();
            words.nth(1) == Some("rw-s")
                && words.nth(2) == Some(&inode)
                && line.ends_with(&*name.to_string_lossy())
        })
    }
}

/// When a process was started, in ticks of a clock that all of them share.
fn started(folder: &Path) -> Option<u64> {
    let text = fs::read(folder.join("stat")).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let (_, fields) = text.rsplit_once(')')?; // before it is the name, with whatever is in that
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Whether a descriptor, by what `fdinfo` says of it, can be written to.
fn is_for_writing(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|digits| i32::from_str_radix(digits.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}

#[cfg(test)]
mod tests {
    use super::{Trace, Writer, is_for_writing, started, writers};
    use std::fs::{self, File};
    use std::path::Path;
    use std::process::{Command, Stdio};

    #[test]
    fn who_has_a_file_open_for_writing_is_found() {
        let path = std::env::temp_dir().join(format!("heapwire-running-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        let sleeper = |output: Stdio, input: Stdio| {
            let mut command = Command::new("sleep");
            command
                .arg("60")
                .stdin(input)
                .stdout(output)
                .spawn()
                .unwrap()
        };
        let mut writer = sleeper(file.into(), Stdio::null());
        let mut reader = sleeper(Stdio::null(), File::open(&path).unwrap().into());
        let found = writers(std::slice::from_ref(&path));
        for child in [&mut writer, &mut reader] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let expected = Writer {
            pid: writer.id(),
            name: "sleep".into(),
        };
        assert_eq!(found, [expected]);
        assert_eq!(writers(std::slice::from_ref(&path)), []);
        fs::remove_file(&path).unwrap();
        assert!(Trace::of(&path).is_none());
    }

    #[test]
    fn what_the_kernel_says_is_understood() {
        assert!(started(Path::new("/proc/self")) >= started(Path::new("/proc/1")));
        assert!(is_for_writing("pos:\t0\nflags:\t02106002\nmnt_id:\t1\n"));
        assert!(!is_for_writing("pos:\t0\nflags:\t0100000\n"));
        assert!(!is_for_writing("flags:\tx\n"));
    }
}
