//! The DWARF sections of a module's files, loaded once for all threads that read them.

use super::file::{MappedFile, section};
use super::reader::{Addresses, LimitedReader, Limits};
use gimli::{Dwarf, DwarfPackage, DwarfPackageSections, DwarfSections, RunTimeEndian, SectionId};
use object::Object;
use std::borrow::Cow;
use std::collections::BTreeSet;
use typed_arena::Arena;

/// A section, uncompressed.
#[derive(Debug)]
pub(super) struct Section<'file> {
    bytes: Cow<'file, [u8]>,
    endian: RunTimeEndian,
    addresses: Addresses,
}

impl Section<'_> {
    fn reader<'a>(&'a self, limits: &'a Limits) -> LimitedReader<'a> {
        LimitedReader::new(&self.bytes, self.endian, self.addresses, limits)
    }
}

impl<'file> Section<'file> {
    /// A reader of a section that nothing else keeps.
    pub(super) fn kept_in(
        self,
        uncompressed: &'file Arena<Vec<u8>>,
        limits: &'file Limits,
    ) -> LimitedReader<'file> {
        let bytes = match self.bytes {
            Cow::Borrowed(bytes) => bytes,
            Cow::Owned(bytes) => uncompressed.alloc(bytes),
        };
        limits.allow_for(bytes.len());
        LimitedReader::new(bytes, self.endian, self.addresses, limits)
    }
}

/// Loads sections of files, and notes those that are there and cannot be read.
#[derive(Debug, Default)]
pub(super) struct Loader {
    /// Bytes of all sections so far.
    bytes: usize,
    /// Sections that could not be read, a sentence each.
    pub(super) unreadable: BTreeSet<String>,
}

impl Loader {
    /// A section of `file`, empty if there is none of this name, or if it cannot be read: what the others say can
    /// still be used. Never fails; `gimli` wants a `Result`.
    pub(super) fn load<'file>(
        &mut self,
        file: &'file MappedFile,
        name: Option<&str>,
        id: SectionId,
    ) -> Result<Section<'file>, gimli::Error> {
        let elf = file.elf();
        let bytes = name.map_or(Ok(Cow::default()), |name| section(&elf, name));
        let bytes = bytes.unwrap_or_else(|reason| {
            let path = file.path().display();
            self.unreadable
                .insert(format!("a section of {path} cannot be read: {reason}"));
            Cow::default()
        });
        self.bytes = self.bytes.saturating_add(bytes.len());
        let endian = if elf.is_little_endian() {
            RunTimeEndian::Little
        } else {
            RunTimeEndian::Big
        };
        Ok(Section {
            bytes,
            endian,
            addresses: Addresses::of(id),
        })
    }
}

/// All sections with debug information of one module.
#[derive(Debug)]
pub(super) struct Sections<'file> {
    /// The file that the sections are from, for finding those it names.
    pub(super) file: &'file MappedFile,
    main: DwarfSections<Section<'file>>,
    supplementary: Option<DwarfSections<Section<'file>>>,
    package: Option<DwarfPackageSections<Section<'file>>>,
    loader: Loader,
}

impl<'file> Sections<'file> {
    /// Those of `file`, of what it shares with others, and of the package with its split units.
    pub(super) fn load(
        file: &'file MappedFile,
        supplementary: Option<&'file MappedFile>,
        package: Option<&'file MappedFile>,
    ) -> Result<Self, gimli::Error> {
        let mut loader = Loader::default();
        let mut of_file = |file| DwarfSections::load(|id| loader.load(file, Some(id.name()), id));
        let main = of_file(file)?;
        let supplementary = supplementary.map(of_file).transpose()?;
        let package = package.and_then(|file| {
            DwarfPackageSections::load(|id: SectionId| loader.load(file, id.dwo_name(), id)).ok()
        });
        Ok(Self {
            file,
            main,
            supplementary,
            package,
            loader,
        })
    }

    /// Bytes of all sections.
    pub(super) fn bytes(&self) -> usize {
        self.loader.bytes
    }

    /// Those that could not be read, a sentence each.
    pub(super) fn unreadable(&self) -> &BTreeSet<String> {
        &self.loader.unreadable
    }

    pub(super) fn dwarf<'a>(&'a self, limits: &'a Limits) -> Dwarf<LimitedReader<'a>> {
        let supplementary = self.supplementary.as_ref();
        self.main
            .borrow_with_sup(supplementary, |section| section.reader(limits))
    }

    pub(super) fn package<'a>(
        &'a self,
        limits: &'a Limits,
    ) -> Option<DwarfPackage<LimitedReader<'a>>> {
        let empty = LimitedReader::new(&[], RunTimeEndian::Little, Addresses::Other, limits);
        let package = self.package.as_ref()?;
        package.borrow(|section| section.reader(limits), empty).ok()
    }
}
