//! Looks at the program before it runs: whether it can be executed, and what would keep the recorder out of it.

use super::child::{group, has_capabilities, user};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use object::{Endianness, FileKind, ReadCache, ReadRef, elf};
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where `execvp` looks without a `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// How many interpreters of interpreters the kernel follows.
const MOST_INTERPRETERS: usize = 4;
/// Bytes of a first line that the kernel reads.
const FIRST_LINE: u64 = 256;

/// What was found out about a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Looked {
    /// Why nothing will be recorded, if that is certain.
    pub(crate) obstacle: Option<Obstacle>,
    /// The first of the allocator's functions that it defines itself, which keeps calls from the recorder.
    pub(crate) own: Option<&'static str>,
    /// Whether the recorder is linked into it.
    pub(crate) is_linked: bool,
    /// Whether a dynamic linker loads it.
    pub(crate) is_dynamic: bool,
    /// Whether it has debug information inside.
    pub(crate) has_lines: bool,
    /// Name of the file that will run: that of a script's interpreter.
    pub(crate) name: Option<OsString>,
}

/// Why the recorder cannot get into a program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// No dynamic linker loads it.
    Static,
    /// The dynamic linker ignores preloads in it.
    Privileged(&'static str),
    /// For another machine than the recorder.
    Machine,
    /// Its run-time library must be loaded before all others.
    Sanitizer(&'static str),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => f.write_str(
                "is statically linked (no PT_INTERP); what `heapwire recorder --static` gives could be linked into it",
            ),
            Self::Privileged(how) => write!(f, "{how}, so the dynamic linker ignores preloads"),
            Self::Machine => f.write_str("is not for the machine of the recorder"),
            Self::Sanitizer(name) => write!(
                f,
                "is built with {name}, whose run-time library does not start behind a preload"
            ),
        }
    }
}

/// The file that executing `name` would execute; the error is that of `execvp`.
pub(crate) fn find(name: &OsStr) -> io::Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return executable(Path::new(name));
    }
    let folders = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let mut error = io::Error::from_raw_os_error(libc::ENOENT);
    for folder in env::split_paths(&folders) {
        match executable(&folder.join(name)) {
            Err(other) if other.kind() == io::ErrorKind::PermissionDenied => error = other,
            Err(_) => {}
            found => return found,
        }
    }
    Err(error)
}

fn executable(path: &Path) -> io::Result<PathBuf> {
    let found = fs::metadata(path)?;
    if found.is_file() && found.mode() & 0o111 != 0 {
        Ok(path.to_owned())
    } else {
        Err(io::Error::from_raw_os_error(libc::EACCES))
    }
}

/// Looks at an executable. What cannot be read is no obstacle: the program is run all the same.
pub(crate) fn look_at(path: &Path) -> Looked {
    let mut path = path.to_owned();
    for _ in 0..MOST_INTERPRETERS {
        match interpreter(&path) {
            Some(next) => path = next,
            None => break,
        }
    }
    let mut looked = look_into(&path).unwrap_or_default();
    if let Some(how) = privilege(&path) {
        looked.obstacle = Some(Obstacle::Privileged(how));
    }
    let path = fs::canonicalize(&path).unwrap_or(path);
    looked.name = path.file_name().map(OsStr::to_owned);
    looked
}

/// The interpreter that the first line of a script names.
fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    let file = File::open(path).ok()?;
    file.take(FIRST_LINE).read_to_end(&mut start).ok()?;
    let line = start
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let name = line
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .find(|word| !word.is_empty())?;
    Some(OsString::from_vec(name.to_vec()).into())
}

fn privilege(path: &Path) -> Option<&'static str> {
    let found = fs::metadata(path).ok()?;
    let name = CString::new(path.as_os_str().as_bytes()).ok()?;
    if found.mode() & libc::S_ISUID != 0 && found.uid() != user() {
        Some("is set-user-ID")
    } else if found.mode() & libc::S_ISGID != 0 && found.gid() != group() {
        Some("is set-group-ID")
    } else if user() != 0 && has_capabilities(&name) {
        Some("has file capabilities")
    } else {
        None
    }
}

fn look_into(path: &Path) -> Option<Looked> {
    let data = ReadCache::new(File::open(path).ok()?);
    match FileKind::parse(&data).ok()? {
        FileKind::Elf32 => look_into_elf::<elf::FileHeader32<Endianness>, _>(&data),
        FileKind::Elf64 => look_into_elf::<elf::FileHeader64<Endianness>, _>(&data),
        _ => None,
    }
}

fn look_into_elf<'data, H, R>(data: R) -> Option<Looked>
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let is_linked = segments
        .iter()
        .any(|segment| has_our_note(segment, endian, data));
    let has_linker = segments
        .iter()
        .any(|segment| segment.p_type(endian) == elf::PT_INTERP);
    let obstacle = if is_linked {
        None
    } else if !has_linker {
        Some(Obstacle::Static)
    } else if !fits(header.e_machine(endian), header.is_type_64()) {
        Some(Obstacle::Machine)
    } else {
        first_symbol(
            &SANITIZERS.map(|(start, _)| (start, false)),
            header,
            endian,
            data,
        )
        .and_then(|at| SANITIZERS.get(at))
        .map(|(_, name)| Obstacle::Sanitizer(name))
    };
    // Where the recorder is linked in, calls come to it by other names.
    let own = (!is_linked)
        .then(|| first_symbol(&FUNCTIONS.map(|name| (name, true)), header, endian, data))
        .flatten();
    Some(Looked {
        obstacle,
        own: own.and_then(|at| FUNCTIONS.get(at).copied()),
        is_linked,
        is_dynamic: has_linker,
        has_lines: has_debug_information(header, endian, data),
        name: None,
    })
}

/// Whether it has the note of a recorder that is linked in: symbols may be stripped.
fn has_our_note<'data, P, R>(segment: &P, endian: Endianness, data: R) -> bool
where
    P: ProgramHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let Ok(Some(mut notes)) = segment.notes(endian, data) else {
        return false;
    };
    while let Ok(Some(note)) = notes.next() {
        if note.name() == b"heapwire" {
            return true;
        }
    }
    false
}

/// Whether the recorder that this command carries can be loaded there.
fn fits(machine: elf::Machine, is_64: bool) -> bool {
    cfg!(target_arch = "x86_64") && machine == elf::EM_X86_64 && is_64
}

/// What a program that has an allocator of its own may define of it.
const FUNCTIONS: [&str; 7] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
];

/// What a program that is built with a sanitizer calls at its start.
const SANITIZERS: [(&str, &str); 3] = [
    ("__asan_init", "AddressSanitizer"),
    ("__hwasan_init", "HWAddressSanitizer"),
    ("__tsan_init", "ThreadSanitizer"),
];

/// Index of the first of `wanted`, names and whether they must be defined, that is among the symbols.
fn first_symbol<'data, H, R>(
    wanted: &[(&str, bool)],
    header: &'data H,
    endian: Endianness,
    data: R,
) -> Option<usize>
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let sections = header.sections(endian, data).ok()?;
    let tables = [elf::SHT_DYNSYM, elf::SHT_SYMTAB]
        .into_iter()
        .filter_map(|kind| sections.symbols(endian, data, kind).ok());
    let found = tables.flat_map(|symbols| {
        symbols
            .iter()
            .filter_map(|symbol| {
                let name = symbol.name(endian, symbols.strings()).ok()?;
                let is_defined =
                    symbol.st_shndx(endian) != elf::SHN_UNDEF && symbol.st_bind() != elf::STB_LOCAL;
                wanted
                    .iter()
                    .position(|(it, must_be)| it.as_bytes() == name && (is_defined || !must_be))
            })
            .collect::<Vec<_>>()
    });
    found.min()
}

fn has_debug_information<'data, H, R>(header: &'data H, endian: Endianness, data: R) -> bool
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    header.sections(endian, data).is_ok_and(|sections| {
        [&b".debug_info"[..], b".zdebug_info"]
            .into_iter()
            .any(|name| sections.section_by_name(endian, name).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::{Obstacle, find, interpreter, look_at};
    use std::ffi::OsStr;
    use std::fs;
    use std::io::ErrorKind;
    use std::path::PathBuf;

    #[test]
    fn programs_are_found_as_the_shell_finds_them() {
        assert!(find(OsStr::new("sh")).unwrap().is_absolute());
        let error = |name: &str| find(OsStr::new(name)).unwrap_err().kind();
        assert_eq!(error("no-such-program-anywhere"), ErrorKind::NotFound);
        assert_eq!(error("/no/such/program"), ErrorKind::NotFound);
        assert_eq!(error("/etc/passwd"), ErrorKind::PermissionDenied);
        assert_eq!(error("/etc"), ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_dynamic_program_has_no_obstacle() {
        for path in [std::env::current_exe().unwrap(), "/etc/passwd".into()] {
            let looked = look_at(&path);
            assert_eq!(looked.obstacle, None);
            assert_eq!(looked.own, None);
            assert_eq!(looked.name.as_deref(), path.file_name());
        }
    }

    #[test]
    fn a_program_without_dynamic_linker_is_static() {
        #[rustfmt::skip]
        let mut elf = vec![
            0x7F, b'E', b'L', b'F', 2, 1, 1, 0,     // 64 bits, little-endian, version 1
            0, 0, 0, 0, 0, 0, 0, 0,
            2, 0, 62, 0, 1, 0, 0, 0,                // executable, x86-64, version 1
            0, 0, 0, 0, 0, 0, 0, 0,                 // entry
            64, 0, 0, 0, 0, 0, 0, 0,                // program headers
            0, 0, 0, 0, 0, 0, 0, 0,                 // section headers
            0, 0, 0, 0, 64, 0, 56, 0, 1, 0,         // flags, sizes, one program header
            64, 0, 0, 0, 0, 0,                      // no section header
        ];
        elf.extend([1, 0, 0, 0]); // PT_LOAD
        elf.resize(64 + 56, 0);
        let path = std::env::temp_dir().join(format!("heapwire-static-{}", std::process::id()));
        let obstacle = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            look_at(&path).obstacle
        };
        assert_eq!(obstacle(&elf), Some(Obstacle::Static));
        elf[64] = 3; // PT_INTERP
        assert_eq!(obstacle(&elf), None);
        elf[18] = 183; // AArch64
        assert_eq!(obstacle(&elf), Some(Obstacle::Machine));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn scripts_name_their_interpreter() {
        let path = std::env::temp_dir().join(format!("heapwire-script-{}", std::process::id()));
        fs::write(&path, "#! /usr/bin/env python3\n").unwrap();
        assert_eq!(interpreter(&path), Some(PathBuf::from("/usr/bin/env")));
        fs::write(&path, "echo\n").unwrap();
        assert_eq!(interpreter(&path), None);
        fs::remove_file(&path).unwrap();
    }
}
