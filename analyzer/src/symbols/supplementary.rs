//! What debug files share with others, in a file that they name: as dwz does it, or as DWARF 5 has it.

use super::file::{self, MappedFile};
use gimli::{EndianSlice, Reader, RunTimeEndian};
use object::Object;

/// How a debug file names the file that it shares with others.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) name: String,
    /// The id of that file.
    pub(super) id: Vec<u8>,
}

/// The link in a file, if it has one that can be read.
pub(super) fn link(elf: &object::File<'_>) -> Option<Link> {
    let (name, id) = match elf.gnu_debugaltlink() {
        Ok(Some((name, id))) => (name.to_vec(), id.to_vec()),
        _ => {
            let section = Section::of(elf).filter(|section| !section.is_shared)?;
            (section.name, section.id)
        }
    };
    let name = String::from_utf8_lossy(&name).into_owned();
    (!id.is_empty()).then_some(Link { name, id })
}

/// The id by which others name a file that they share.
pub(super) fn id(file: &MappedFile) -> Option<Vec<u8>> {
    let section = Section::of(&file.elf()).filter(|section| section.is_shared);
    section.map_or_else(|| file.build_id(), |section| Some(section.id))
}

/// The section `.debug_sup`.
struct Section {
    /// This is the file that others share, else one of those.
    is_shared: bool,
    name: Vec<u8>,
    id: Vec<u8>,
}

impl Section {
    fn of(elf: &object::File<'_>) -> Option<Self> {
        let bytes = file::section(elf, ".debug_sup").ok()?;
        let endian = if elf.is_little_endian() {
            RunTimeEndian::Little
        } else {
            RunTimeEndian::Big
        };
        Self::read(EndianSlice::new(&bytes, endian)).ok()
    }

    fn read(mut bytes: EndianSlice<'_, RunTimeEndian>) -> gimli::Result<Self> {
        let version = bytes.read_u16()?;
        if version != 5 {
            return Err(gimli::Error::UnknownVersion(u64::from(version)));
        }
        let is_shared = bytes.read_u8()? != 0;
        let name = bytes.read_null_terminated_slice()?.slice().to_vec();
        let length = bytes.read_uleb128().and_then(usize_of)?;
        let id = bytes.split(length)?.slice().to_vec();
        Ok(Self {
            is_shared,
            name,
            id,
        })
    }
}

fn usize_of(length: u64) -> gimli::Result<usize> {
    usize::try_from(length).map_err(|_| gimli::Error::UnsupportedOffset)
}

#[cfg(test)]
mod tests {
    use super::Section;
    use gimli::{EndianSlice, RunTimeEndian};

    #[test]
    fn every_cut_short_section_is_refused() {
        let bytes = b"\x05\0\0shared\0\x03abc";
        let read = |bytes| Section::read(EndianSlice::new(bytes, RunTimeEndian::Little));
        let whole = read(bytes).unwrap();
        assert_eq!(
            (whole.is_shared, &*whole.name, &*whole.id),
            (false, &b"shared"[..], &b"abc"[..])
        );
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(read(b"\x04\0\0shared\0\x03abc").is_err());
    }
}
