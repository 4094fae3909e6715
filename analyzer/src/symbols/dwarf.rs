//! Functions, inlined functions and lines from DWARF.

use super::file::{MappedFile, first_code, section};
use super::reader::{Addresses, LimitedReader, Limits};
use super::search::Search;
use super::{Rule, UsedFile};
use addr2line::{Context, LookupResult, SplitDwarfLoad};
use gimli::{Dwarf, DwarfPackage, Reader as _, RunTimeEndian};
use object::Object;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use typed_arena::Arena;

/// Bytes of DWARF that one more address may need beside what the whole file may need: names, mostly.
const BYTES_PER_ADDRESS: usize = 4096;

/// Functions inlined into each other at one address; honest ones are a few dozen.
const MAX_FRAMES: usize = 256;

type Reader<'data> = LimitedReader<'data>;

/// What everything borrowed from files lives in while one module is looked up.
pub(super) struct Store {
    files: Arena<MappedFile>,
    /// Sections that are compressed in their file.
    pub(super) uncompressed: Arena<Vec<u8>>,
    limits: Limits,
    /// Sections that were needed and could not be read, a sentence each.
    unreadable: RefCell<BTreeSet<String>>,
}

impl Store {
    /// A store for a module whose code is that of `elf`.
    pub(super) fn new(elf: &object::File<'_>) -> Self {
        Self {
            files: Arena::new(),
            uncompressed: Arena::new(),
            limits: Limits::new(first_code(elf)),
            unreadable: RefCell::default(),
        }
    }

    /// A section of `file`, empty if there is none of this name.
    ///
    /// One that cannot be read is noted and counts as empty: what the others say can still be used. Never fails;
    /// `gimli` wants a `Result`.
    fn section<'data>(
        &'data self,
        file: &'data MappedFile,
        name: Option<&str>,
        id: gimli::SectionId,
    ) -> Result<Reader<'data>, gimli::Error> {
        let elf = file.elf();
        let bytes = name.map_or(Ok(&[][..]), |name| section(&elf, name, &self.uncompressed));
        let bytes = bytes.unwrap_or_else(|reason| {
            let path = file.path().display();
            self.unreadable
                .borrow_mut()
                .insert(format!("a section of {path} cannot be read: {reason}"));
            &[]
        });
        self.limits.allow_for(bytes.len());
        let endian = if elf.is_little_endian() {
            RunTimeEndian::Little
        } else {
            RunTimeEndian::Big
        };
        Ok(LimitedReader::new(
            bytes,
            endian,
            Addresses::of(id),
            &self.limits,
        ))
    }
}

/// A frame as DWARF has it: names are raw, paths neither normalised nor mapped.
#[derive(Debug, Default)]
pub(super) struct Frame {
    pub(super) function: Option<String>,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
}

/// A row of the line table, as it stands there.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    /// Tells blocks of one line apart; 0 where there is only one.
    pub(super) discriminator: u64,
}

/// The debug information of one module.
pub(super) struct DebugInfo<'data> {
    context: Context<Reader<'data>>,
    package: Option<DwarfPackage<Reader<'data>>>,
    store: &'data Store,
    search: &'data Search,
    /// The file that the sections are from, for finding those it names.
    file: &'data MappedFile,
    /// Files of split units that were read, by the units' ids.
    split: RefCell<BTreeMap<u64, PathBuf>>,
    /// Split units that were named but not found.
    missing: RefCell<BTreeSet<String>>,
}

impl<'data> DebugInfo<'data> {
    /// Indexes the units of `file`, whose shared part is in `supplementary` if there is one.
    ///
    /// # Errors
    ///
    /// The index of units is damaged.
    pub(super) fn new(
        file: &'data MappedFile,
        supplementary: Option<&'data MappedFile>,
        package: Option<&'data MappedFile>,
        search: &'data Search,
        store: &'data Store,
    ) -> Result<Self, gimli::Error> {
        let mut dwarf = Dwarf::load(|id| store.section(file, Some(id.name()), id))?;
        if let Some(supplementary) = supplementary {
            dwarf.load_sup(|id| store.section(supplementary, Some(id.name()), id))?;
        }
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        let context = Context::from_dwarf(dwarf)?;
        store.limits.enter_functions();
        let package = package.and_then(|package| {
            let section = |id: gimli::SectionId| store.section(package, id.dwo_name(), id);
            let empty = store
                .section(package, None, gimli::SectionId::DebugInfo)
                .ok()?;
            DwarfPackage::load(section, empty).ok()
        });
        Ok(Self {
            context,
            package,
            store,
            search,
            file,
            split: RefCell::default(),
            missing: RefCell::default(),
        })
    }

    /// The frames at `address`, innermost first; none where there is no information about it.
    ///
    /// # Errors
    ///
    /// The information about this address is damaged.
    pub(super) fn frames(&self, address: u64) -> Result<Vec<Frame>, gimli::Error> {
        if address == u64::MAX {
            return Ok(Vec::new()); // no range can end behind it
        }
        self.store.limits.allow_for(BYTES_PER_ADDRESS);
        let mut lookup = self.context.find_frames(address);
        let mut found = loop {
            lookup = match lookup {
                LookupResult::Output(found) => break found?,
                LookupResult::Load { load, continuation } => {
                    addr2line::LookupContinuation::resume(continuation, self.split_unit(&load))
                }
            };
        };
        let mut frames = Vec::new();
        while let Some(frame) = found.next()?
            && frames.len() < MAX_FRAMES
        {
            let function = match &frame.function {
                Some(function) => Some(function.raw_name()?.into_owned()),
                None => None,
            };
            let location = frame.location.as_ref();
            frames.push(Frame {
                function,
                file: location
                    .and_then(|location| location.file)
                    .map(str::to_owned),
                line: location.and_then(|location| location.line),
                column: location.and_then(|location| location.column),
            });
        }
        Ok(frames)
    }

    /// The row that holds `address`; `None` where there is none.
    ///
    /// # Errors
    ///
    /// The information about this address is damaged.
    pub(super) fn row(&self, address: u64) -> Result<Option<Row>, gimli::Error> {
        self.store.limits.allow_for(BYTES_PER_ADDRESS);
        let mut lookup = self.context.find_dwarf_and_unit(address);
        let unit = loop {
            lookup = match lookup {
                LookupResult::Output(unit) => break unit,
                LookupResult::Load { load, continuation } => {
                    addr2line::LookupContinuation::resume(continuation, self.split_unit(&load))
                }
            };
        };
        let program = unit.and_then(|unit| Some((unit, unit.line_program.clone()?)));
        let Some((unit, mut program)) = program else {
            return Ok(None);
        };
        let mut instructions = program.header().instructions();
        let mut row = gimli::LineRow::new(program.header());
        let mut names_file = false;
        let mut before: Option<(gimli::LineRow, bool)> = None;
        while let Some(instruction) = instructions.next_instruction(program.header())? {
            names_file |= matches!(instruction, gimli::LineInstruction::SetFile(_));
            if !row.execute(instruction, &mut program)? {
                continue;
            }
            if let Some((found, names_file)) = before
                && (found.address()..row.address()).contains(&address)
            {
                return Ok(Some(Row {
                    file: source_file(&unit, program.header(), &found, names_file)?,
                    line: found.line().and_then(|line| u32::try_from(line.get()).ok()),
                    discriminator: found.discriminator(),
                }));
            }
            before = (!row.end_sequence()).then_some((row, names_file));
            names_file &= !row.end_sequence();
            row.reset(program.header());
        }
        Ok(None)
    }

    /// The files of split units that were read so far.
    pub(super) fn split_files(&self) -> Vec<UsedFile> {
        let split = self.split.borrow();
        let used = split.iter().map(|(id, path)| UsedFile {
            path: path.clone(),
            rule: Rule::SplitUnit(*id),
        });
        used.collect()
    }

    /// What the reader of a report must know about the look-ups so far.
    ///
    /// `damage` is the first error among them.
    pub(super) fn notes(&self, damage: Option<gimli::Error>) -> Vec<String> {
        let mut notes: Vec<String> = self.store.unreadable.borrow().iter().cloned().collect();
        let path = self.file.path().display();
        let missing = self.missing.borrow();
        if let Some(first) = missing.first() {
            let count = missing.len();
            notes.push(format!(
                "{count} files with split debug information were not found, such as {first}"
            ));
        }
        if self.store.limits.are_exhausted() {
            notes.push(format!(
                "debug information in {path} takes too long to read and was used in part"
            ));
        } else if let Some(error) = damage {
            notes.push(format!(
                "debug information in {path} is damaged and was used in part: {error}"
            ));
        }
        notes
    }

    /// The rest of a unit that was split off into a `.dwo` file or a package of them.
    fn split_unit(
        &self,
        load: &SplitDwarfLoad<Reader<'data>>,
    ) -> Option<Arc<Dwarf<Reader<'data>>>> {
        if let Some(package) = &self.package
            && let Ok(Some(unit)) = package.find_cu(load.dwo_id, &load.parent)
        {
            return Some(Arc::new(unit));
        }
        let text = |part: &Option<Reader<'data>>| {
            let part = part.as_ref()?.to_string_lossy().ok()?;
            Some(part.into_owned())
        };
        let name = text(&load.path)?;
        let directory = text(&load.comp_dir).unwrap_or_default();
        let unit = self
            .search
            .split_files(load.dwo_id.0, &directory, &name, self.file.path())
            .into_iter()
            .find_map(|path| self.open_split(&path, load));
        if unit.is_none() {
            self.missing.borrow_mut().insert(name);
        }
        unit
    }

    fn open_split(
        &self,
        path: &Path,
        load: &SplitDwarfLoad<Reader<'data>>,
    ) -> Option<Arc<Dwarf<Reader<'data>>>> {
        let file = self.store.files.alloc(MappedFile::open(path).ok()?);
        let section = |id: gimli::SectionId| self.store.section(file, id.dwo_name(), id);
        let mut dwarf = Dwarf::load(section).ok()?;
        let header = dwarf.units().next().ok()??;
        let unit = dwarf.unit(header).ok()?;
        if unit.dwo_id != Some(load.dwo_id) {
            return None;
        }
        dwarf.make_dwo(&load.parent);
        self.split
            .borrow_mut()
            .insert(load.dwo_id.0, path.to_owned());
        Some(Arc::new(dwarf))
    }
}

/// The path of a row's source file as binutils puts it together: parts as they stand, and in version 5 the first file where
/// no instruction before has named one.
fn source_file<'data>(
    unit: &gimli::UnitRef<'_, Reader<'data>>,
    header: &gimli::LineProgramHeader<Reader<'data>>,
    row: &gimli::LineRow,
    names_file: bool,
) -> Result<Option<String>, gimli::Error> {
    let file = if header.version() >= 5 && !names_file {
        header.file(0)
    } else {
        row.file(header)
    };
    let Some(file) = file else {
        return Ok(None);
    };
    let text = |value| -> Result<String, gimli::Error> {
        Ok(unit.attr_string(value)?.to_string_lossy()?.into_owned())
    };
    let name = text(file.path_name())?;
    // Up to version 4, folder 0 is that of the unit.
    let is_folder = file.directory_index() != 0 || header.version() >= 5;
    let folder = match file.directory(header).filter(|_| is_folder) {
        Some(folder) => Some(text(folder)?),
        None => None,
    };
    let of_unit = match &unit.comp_dir {
        Some(folder) => Some(folder.to_string_lossy()?.into_owned()),
        None => None,
    };
    let mut path = name;
    for part in [folder, of_unit].into_iter().flatten() {
        if path.starts_with('/') {
            break;
        }
        path = format!("{part}/{path}");
    }
    Ok(Some(path))
}
