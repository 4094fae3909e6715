//! Where the trace goes: what may be overwritten, what the recorder is told, and which files came of it.

use super::declared::{self, Declared};
use anyhow::{Context, Result, bail};
use heapwire_format::{
    ARMOUR_MARK, ARMOUR_WIDE, ArmourHead, FRAME_MAGIC, armour_bytes, armour_symbol,
};
use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const DEFAULT: &str = "%e.%p.hwt";
/// What a text log of `mtrace` begins with.
const LOG_MAGIC: &[u8] = b"= Start";
/// How much the clock of a file system may lag behind the system's.
const CLOCK_SLACK: Duration = Duration::from_secs(2);

/// Where the trace goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// One file for all processes.
    File(PathBuf),
    /// A file for each process image, named after it; the recorder fills in the name.
    Pattern(PathBuf),
    /// A descriptor, a device or a pipe: opened by the recorder, left alone here.
    Elsewhere(OsString),
}

impl Output {
    /// What `-o` asks for.
    pub(crate) fn of(given: Option<&Path>) -> Result<Self> {
        let given = given.unwrap_or(Path::new(DEFAULT));
        let bytes = given.as_os_str().as_bytes();
        if bytes == b"-" {
            return Ok(Self::Elsewhere("fd:1".into()));
        }
        if bytes.starts_with(b"fd:") || given.starts_with("/proc") || given.starts_with("/dev") {
            return Ok(Self::Elsewhere(given.into()));
        }
        let folder = env::current_dir().context("cannot find the current folder")?;
        if is_pattern(bytes) {
            return Ok(Self::Pattern(escaped(&folder).join(given)));
        }
        let path = folder.join(unescaped(given));
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => {
                bail!("cannot record to {}: it is a folder", path.display())
            }
            Ok(found) if !found.is_file() => Ok(Self::Elsewhere(path.into())),
            _ => Ok(Self::File(path)),
        }
    }

    /// Makes the output ready: a trace that is there gives way, another file is refused and left as it is.
    pub(crate) fn start(&self) -> Result<()> {
        match self {
            Self::File(path) => start_file(path),
            Self::Pattern(path) => {
                let folder = path.parent().unwrap_or(path);
                if !is_pattern(folder.as_os_str().as_bytes()) && !unescaped(folder).is_dir() {
                    bail!(
                        "cannot record to {}: no such folder",
                        unescaped(folder).display()
                    );
                }
                Ok(())
            }
            Self::Elsewhere(_) => Ok(()),
        }
    }

    /// The value of `HEAPWIRE_OUT`.
    pub(crate) fn variable(&self) -> OsString {
        match self {
            Self::File(path) => escaped(path).into(),
            Self::Pattern(path) => path.into(),
            Self::Elsewhere(path) => path.clone(),
        }
    }

    /// Where the trace of process `child` goes, as a person would name it. `name` is that of its executable.
    pub(crate) fn shown(&self, child: u32, name: &OsStr) -> String {
        let path = self.path(child, name);
        let here = env::current_dir().unwrap_or_default();
        path.strip_prefix(here)
            .unwrap_or(&path)
            .to_string_lossy()
            .into_owned()
    }

    /// Whether there is a trace where that of process `child` goes.
    pub(crate) fn is_begun(&self, child: u32, name: &OsStr) -> bool {
        is_begun(&self.path(child, name))
    }

    fn path(&self, child: u32, name: &OsStr) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Pattern(path) => filled(path, child, name),
            Self::Elsewhere(place) => place.into(),
        }
    }

    /// The traces that the program and its children left, that of process `child` first.
    pub(crate) fn traces(&self, child: u32, started: SystemTime) -> Vec<PathBuf> {
        match self {
            Self::File(path) if is_begun(path) => vec![path.clone()],
            Self::Pattern(path) => traces_of_pattern(path, child, started).unwrap_or_default(),
            Self::File(_) | Self::Elsewhere(_) => Vec::new(),
        }
    }

    /// Takes back the file that `start` made, if nothing was written to it.
    pub(crate) fn discard_if_empty(&self) {
        if let Self::File(path) = self
            && fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0)
        {
            let _ = fs::remove_file(path); // an empty file does no harm
        }
    }
}

fn start_file(path: &Path) -> Result<()> {
    make_afresh(path).with_context(|| format!("cannot record to {}", path.display()))
}

/// Makes an empty file: a trace that is there gives way, another file is refused and left as it is.
pub(crate) fn make_afresh(path: &Path) -> Result<()> {
    match fs::canonicalize(path) {
        Ok(path) => start_afresh(&path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(new_file().open(path).map(drop)?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Puts a new file in the place of an old trace.
///
/// The old one is not cut: a program that still records to it has its end mapped, and would be killed.
fn start_afresh(path: &Path) -> Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).open(path)?;
    let found = file.metadata()?;
    if found.len() == 0 {
        return Ok(());
    }
    if !begins_as_trace(&mut file) {
        bail!("it is not empty and not a trace, so it is left as it is");
    }
    if fs::remove_file(path).is_err() {
        return Ok(file.set_len(0)?); // the folder is not ours to change
    }
    new_file()
        .open(path)?
        .set_permissions(found.permissions())?;
    Ok(())
}

fn begins_as_trace(file: &mut File) -> bool {
    let start = start_of(file);
    begins_trace(&start) || begins_log(&start)
}

/// Whether it is what a program with `HEAPWIRE_FORMAT=mtrace` writes.
fn begins_log(start: &[u8]) -> bool {
    start.starts_with(LOG_MAGIC)
}

/// The first bytes of a file, at most those of the longest line that a trace begins with.
fn start_of(file: &mut File) -> Vec<u8> {
    let mut start = Vec::new();
    let most = ARMOUR_WIDE as u64 + 1;
    match file.take(most).read_to_end(&mut start) {
        Ok(_) => start,
        Err(_) => Vec::new(),
    }
}

/// Whether it is a frame that begins, or a whole line with a piece of one.
fn begins_trace(start: &[u8]) -> bool {
    let line = start.split(|byte| *byte == b'\n').next();
    let symbols = line.and_then(|line| line.strip_prefix(&ARMOUR_MARK));
    let is_line = symbols.is_some_and(|symbols| {
        let symbols = symbols.iter().filter_map(|byte| armour_symbol(*byte));
        ArmourHead::decode(&armour_bytes(symbols).collect::<Vec<_>>()).is_some()
    });
    start.starts_with(&FRAME_MAGIC) || is_line
}

/// Opens a file to go on with: a new or empty one, or one that begins as a trace does.
pub(crate) fn go_on_with(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o666);
    let mut file = options.open(path)?;
    if file.metadata()?.len() > 0 && !begins_as_trace(&mut file) {
        bail!("it is not empty and not a trace, so it is left as it is");
    }
    Ok(file)
}

fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true).create_new(true).mode(0o666);
    options
}

/// A path in which the recorder fills nothing in.
fn escaped(path: &Path) -> PathBuf {
    let mut bytes = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        bytes.push(*byte);
        if *byte == b'%' {
            bytes.push(*byte);
        }
    }
    OsString::from_vec(bytes).into()
}

fn unescaped(path: &Path) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = path.as_os_str().as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        bytes.push(*byte);
        rest = match byte {
            b'%' => after.strip_prefix(b"%").unwrap_or(after),
            _ => after,
        };
    }
    OsString::from_vec(bytes).into()
}

/// The path as the recorder fills it in.
fn filled(pattern: &Path, pid: u32, name: &OsStr) -> PathBuf {
    let mut path = Vec::new();
    let mut rest = pattern.as_os_str().as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let (part, left) = match rest {
            [b'%', b'p', left @ ..] => (pid.to_string().into_bytes(), left),
            [b'%', b'e', left @ ..] => (name.as_bytes().to_vec(), left),
            [b'%', b'%', left @ ..] => (vec![b'%'], left),
            _ => (vec![*byte], after),
        };
        path.extend(part);
        rest = left;
    }
    OsString::from_vec(path).into()
}

/// The pattern of what process `pid` writes, whatever its name.
fn with_pid(pattern: &Path, pid: u32) -> Vec<u8> {
    let mut of_process = Vec::new();
    let mut rest = pattern.as_os_str().as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let (part, left) = match rest {
            [b'%', b'p', left @ ..] => (pid.to_string().into_bytes(), left),
            [b'%', b'%', left @ ..] => (b"%%".to_vec(), left),
            _ => (vec![*byte], after),
        };
        of_process.extend(part);
        rest = left;
    }
    of_process
}

/// Whether the recorder fills something in.
fn is_pattern(path: &[u8]) -> bool {
    match path {
        [] => false,
        [b'%', b'p' | b'e', ..] => true,
        [b'%', b'%', rest @ ..] | [_, rest @ ..] => is_pattern(rest),
    }
}

/// Whether the recorder could make `name` of `pattern`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern {
        [] => name.is_empty(),
        [b'%', b'%', pattern @ ..] => name
            .strip_prefix(b"%")
            .is_some_and(|name| matches(pattern, name)),
        [b'%', b'p', pattern @ ..] => {
            let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
            (1..=digits).any(|count| matches(pattern, &name[count..]))
        }
        [b'%', b'e', pattern @ ..] => {
            (1..=name.len()).any(|count| matches(pattern, &name[count..]))
        }
        [byte, pattern @ ..] => name
            .strip_prefix(&[*byte])
            .is_some_and(|name| matches(pattern, name)),
    }
}

/// Whether the file holds anything of a trace.
fn is_begun(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file())
        && File::open(path).is_ok_and(|mut file| begins_as_trace(&mut file))
}

/// Who wrote the trace, as it says; a log says nothing, but the recorder named it after its process.
fn writer(path: &Path, pattern: &Path, child: u32) -> Declared {
    let is_log = File::open(path).is_ok_and(|mut file| begins_log(&start_of(&mut file)));
    if is_log && matches(&with_pid(pattern, child), path.as_os_str().as_bytes()) {
        return Declared {
            pid: child.into(),
            ..Declared::default()
        };
    }
    declared::first(path).unwrap_or_default()
}

fn traces_of_pattern(path: &Path, child: u32, started: SystemTime) -> io::Result<Vec<PathBuf>> {
    let (Some(folder), Some(pattern)) = (path.parent(), path.file_name()) else {
        return Ok(Vec::new());
    };
    let since = started.checked_sub(CLOCK_SLACK).unwrap_or(started);
    let mut found = Vec::new();
    for entry in fs::read_dir(unescaped(folder))? {
        let entry = entry?;
        let changed = entry.metadata().and_then(|of| of.modified());
        if matches(pattern.as_bytes(), entry.file_name().as_bytes())
            && changed.is_ok_and(|changed| changed >= since)
            && is_begun(&entry.path())
        {
            let writer = writer(&entry.path(), path, child);
            found.push((entry.path(), writer));
        }
    }
    found.sort();
    Ok(descendants(found, u64::from(child)))
}

/// Of the traces found, those of `child` and of what it started, its own first: others may record into the folder.
fn descendants(mut found: Vec<(PathBuf, Declared)>, child: u64) -> Vec<PathBuf> {
    let (mut pids, mut streams) = (BTreeSet::from([child]), BTreeSet::new());
    let mut traces = Vec::new();
    loop {
        let (family, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, declared)| {
            pids.contains(&declared.pid)
                || declared.parent.is_some_and(|pid| pids.contains(&pid))
                || declared
                    .forked_from
                    .is_some_and(|tag| streams.contains(&tag))
        });
        if family.is_empty() {
            traces.sort();
            return traces.into_iter().map(|(_, path)| path).collect();
        }
        for (path, declared) in family {
            pids.insert(declared.pid);
            streams.insert(declared.stream);
            traces.push((declared.pid != child, path));
        }
        found = others;
    }
}

#[cfg(test)]
mod tests {
    use super::{Declared, Output, descendants, escaped, matches, start_file, unescaped, with_pid};
    use heapwire_format::FRAME_MAGIC;
    use std::fs;
    use std::io::Read;
    use std::path::{Path, PathBuf};

    #[test]
    fn places_are_told_apart() {
        let of = |path: &str| Output::of(Some(Path::new(path))).unwrap();
        assert!(matches!(of("a.hwt"), Output::File(path) if path.is_absolute()));
        assert!(matches!(of("a.%p.hwt"), Output::Pattern(path) if path.is_absolute()));
        assert!(matches!(of("100%.hwt"), Output::File(path) if path.ends_with("100%.hwt")));
        assert!(matches!(of("100%%p.hwt"), Output::File(path) if path.ends_with("100%p.hwt")));
        for path in ["fd:3", "/proc/self/fd/1", "/dev/stderr"] {
            assert_eq!(of(path), Output::Elsewhere(path.into()));
        }
        assert!(Output::of(Some(Path::new("/"))).is_err());
    }

    #[test]
    fn names_fit_their_patterns() {
        for (pattern, name, fits) in [
            ("%e.%p.hwt", "gatewayd.4711.hwt", true),
            ("%e.%p.hwt", "a.b.1.hwt", true),
            ("%e.%p.hwt", "gatewayd.x.hwt", false),
            ("%e.%p.hwt", ".1.hwt", false),
            ("t-%p", "t-12", true),
            ("t-%p", "t-12x", false),
            ("100%%-%p", "100%-7", true),
            ("%e", "anything", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                fits,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn patterns_are_filled_in_as_the_recorder_does() {
        let filled = |pattern: &str| super::filled(Path::new(pattern), 12, "prog".as_ref());
        assert_eq!(filled("/a%%p/%e.%p.hwt%"), Path::new("/a%p/prog.12.hwt%"));
    }

    #[test]
    fn patterns_of_a_process_leave_names_open() {
        let pattern = with_pid(Path::new("/a%%p/%e.%p.hwt"), 12);
        assert!(matches(&pattern, b"/a%p/any.12.hwt"));
        assert!(!matches(&pattern, b"/a%p/any.13.hwt"));
    }

    #[test]
    fn percent_signs_of_folders_stay() {
        let path = Path::new("/a%b/%p");
        assert_eq!(escaped(path), Path::new("/a%%b/%%p"));
        assert_eq!(unescaped(&escaped(path)), path);
    }

    #[test]
    fn a_file_that_is_no_trace_is_left_alone() {
        let path = std::env::temp_dir().join(format!("heapwire-output-{}", std::process::id()));
        fs::write(&path, b"precious").unwrap();
        assert!(start_file(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        for old in [
            &[&FRAME_MAGIC[..], b"rest"].concat()[..],
            b"= Start\n@ x",
            b"",
        ] {
            fs::write(&path, old).unwrap();
            let mut open = fs::File::open(&path).unwrap();
            start_file(&path).unwrap();
            assert!(fs::read(&path).unwrap().is_empty());
            let mut kept = Vec::new();
            open.read_to_end(&mut kept).unwrap();
            assert_eq!(kept, old, "who had it open still sees it");
        }
        fs::remove_file(&path).unwrap();
        assert!(start_file(&path.join("below")).is_err());
    }

    #[test]
    fn only_the_programs_own_traces_are_taken() {
        let trace = |name: &str, pid: u32, parent| {
            let declared = Declared {
                pid: pid.into(),
                parent,
                stream: 100 + pid,
                forked_from: None,
            };
            (PathBuf::from(name), declared)
        };
        let mut daemon = trace("daemon", 15, Some(1));
        daemon.1.forked_from = Some(111);
        let found = vec![
            daemon,
            trace("a-grandchild", 12, Some(11)),
            trace("child", 11, Some(10)),
            trace("program", 10, Some(1)),
            trace("stranger", 13, Some(1)),
            trace("unknown", 14, None),
        ];
        let expected = ["program", "a-grandchild", "child", "daemon"].map(PathBuf::from);
        assert_eq!(descendants(found, 10), expected);
    }
}
