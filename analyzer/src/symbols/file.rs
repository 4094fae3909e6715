//! Opens the files that symbols are read from: regular files, mapped, seen as ELF.

use memmap2::Mmap;
use object::{Object, ObjectSection, SectionFlags, elf};
use std::borrow::Cow;
use std::fmt;
use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use typed_arena::Arena;

/// Most bytes that a compressed section may become, beside [`MAX_RATIO`].
const MIN_UNCOMPRESSED: u64 = 64 << 20;

/// Most bytes that one compressed byte may become. Debug information shrinks to a third, strings to a tenth.
const MAX_RATIO: u64 = 64;

/// Most bytes that unpacking xz may keep; its strongest setting takes 64 MiB.
const MAX_XZ_DICTIONARY: usize = 64 << 20;

/// A regular file in memory, whose first bytes say ELF.
#[derive(Debug)]
pub(super) struct MappedFile {
    path: PathBuf,
    bytes: Mmap,
}

/// Why a file cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// There is none of that name.
    Absent,
    /// It is there, but cannot be opened, or is no ELF file; the reason.
    Unreadable(String),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "not there",
            Self::Unreadable(reason) => reason,
        })
    }
}

impl MappedFile {
    /// Maps the file at `path`.
    ///
    /// Anything but a regular file is refused unopened: opening a FIFO waits, opening a device acts.
    pub(super) fn open(path: &Path) -> Result<Self, Unusable> {
        let unreadable = |reason: &dyn ToString| Unusable::Unreadable(reason.to_string());
        let is_regular = fs::metadata(path).map_err(|_| Unusable::Absent)?.is_file();
        if !is_regular {
            return Err(Unusable::Unreadable("not a regular file".to_owned()));
        }
        let file = File::open(path).map_err(|error| unreadable(&error))?;
        let bytes = map(&file).map_err(|error| unreadable(&error))?;
        if !bytes.starts_with(&elf::ELFMAG) {
            return Err(Unusable::Unreadable("not an ELF file".to_owned()));
        }
        object::File::parse(&*bytes).map_err(|error| unreadable(&error))?;
        Ok(Self {
            path: path.to_owned(),
            bytes,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The file as ELF.
    pub(super) fn elf(&self) -> object::File<'_> {
        object::File::parse(self.bytes()).expect("`open` parsed the same bytes")
    }

    /// The GNU build id, if there is one that can be read.
    pub(super) fn build_id(&self) -> Option<Vec<u8>> {
        let elf = self.elf();
        let id = elf.build_id().ok().flatten()?;
        (!id.is_empty()).then(|| id.to_vec())
    }
}

/// Maps a file that was found to be regular.
#[expect(unsafe_code, reason = "a mapping is as valid as the file behind it")]
fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is private and read-only. What we ask of the user is that nobody cuts the file short
    // while it is read; one who overwrites it makes wrong symbols, which every reader here has to bear anyway.
    unsafe { Mmap::map(file) }
}

/// Whether the file has DWARF, be it compressed.
pub(super) fn has_debug_info(elf: &object::File<'_>) -> bool {
    elf.section_by_name(".debug_info")
        .is_some_and(|section| section.size() > 0 && !is_empty_here(&section))
}

/// Whether the section takes no bytes in the file (`SHT_NOBITS`).
fn is_empty_here(section: &object::Section<'_, '_>) -> bool {
    section.file_range().is_none_or(|(_, size)| size == 0)
}

/// The lowest address of executable code; 0 where the file does not say.
pub(super) fn first_code(elf: &object::File<'_>) -> u64 {
    elf.sections()
        .filter(is_code)
        .map(|section| section.address())
        .min()
        .unwrap_or(0)
}

/// Whether instructions of the program lie in this section.
pub(super) fn is_code(section: &object::Section<'_, '_>) -> bool {
    let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
        return false;
    };
    sh_flags.contains(elf::SHF_ALLOC) && sh_flags.contains(elf::SHF_EXECINSTR)
}

/// The bytes of a section, uncompressed; empty where there is no such section.
///
/// # Errors
///
/// A sentence's end: why the section cannot be read.
pub(super) fn section<'data>(
    elf: &object::File<'data>,
    name: &str,
) -> Result<Cow<'data, [u8]>, String> {
    let Some(section) = elf.section_by_name(name) else {
        return Ok(Cow::default());
    };
    if is_empty_here(&section) {
        return Ok(Cow::default());
    }
    let reason = |error: object::Error| format!("{name}: {error}");
    let compressed = section.compressed_data().map_err(reason)?;
    let most = MIN_UNCOMPRESSED.max(MAX_RATIO.saturating_mul(compressed.data.len() as u64));
    if compressed.format != object::CompressionFormat::None && compressed.uncompressed_size > most {
        let size = compressed.uncompressed_size;
        return Err(format!("{name} would have {size} bytes uncompressed"));
    }
    compressed.decompress().map_err(reason)
}

/// The symbol tables that distributions leave in a stripped file, packed with xz into `.gnu_debugdata`
/// (MiniDebugInfo); `None` where there are none.
///
/// # Errors
///
/// A sentence's end: why they cannot be read.
pub(super) fn packed_symbols<'data>(
    elf: &object::File<'data>,
    uncompressed: &'data Arena<Vec<u8>>,
) -> Option<Result<object::File<'data>, String>> {
    let packed = elf.section_by_name(".gnu_debugdata")?.data().ok()?;
    let decoder = xz4rust::XzDecoder::in_heap_with_alloc_dict_size(0, MAX_XZ_DICTIONARY);
    let reader = xz4rust::XzReader::new_with_buffer_size_and_decoder(
        Cursor::new(packed.to_vec()),
        NonZeroUsize::MIN.saturating_add(8 * 1024),
        decoder,
    );
    let most = MIN_UNCOMPRESSED.max(MAX_RATIO.saturating_mul(packed.len() as u64));
    let mut bytes = Vec::new();
    if let Err(error) = reader.take(most).read_to_end(&mut bytes) {
        return Some(Err(format!(".gnu_debugdata: {error}")));
    }
    let bytes = uncompressed.alloc(bytes);
    let file = object::File::parse(bytes.as_slice());
    Some(file.map_err(|error| format!(".gnu_debugdata: {error}")))
}
