//! Functions, inlined functions and lines from DWARF.

mod folded;
mod rows;
mod split;

pub(super) use rows::Row;

use super::file::MappedFile;
use super::functions::{self, Function};
use super::lines::{Lines, Location};
use super::origins::Origins;
use super::parts::{self, Group};
use super::reader::{LimitedReader, Limits};
use super::search::Search;
use super::sections::Sections;
use super::{Rule, TriedPlace, UsedFile};
use addr2line::{Context, LookupResult};
use gimli::{Dwarf, DwarfPackage, Reader as _, UnitRef};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, hash_map};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use typed_arena::Arena;

/// Bytes of DWARF that one more address may need beside what the whole file may need: names, mostly.
const BYTES_PER_ADDRESS: usize = 4096;

/// Functions inlined into each other at one address; honest ones are a few dozen.
const MAX_FRAMES: usize = 256;

type Reader<'data> = LimitedReader<'data>;

/// A frame as DWARF has it: names are raw, paths neither normalised nor mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) function: Option<Arc<str>>,
    pub(super) file: Option<Arc<str>>,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
}

/// The frames at addresses of one module, and what was found out on the way.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// For each address, innermost first; none where there is no information about it.
    pub(super) frames: Vec<Vec<Frame>>,
    /// Files of split units that were read, by the units' ids.
    split: BTreeMap<u64, PathBuf>,
    /// Split units that were named but not found, and where they were looked for.
    missing: BTreeMap<String, Vec<PathBuf>>,
    /// Sections that were needed and could not be read, a sentence each.
    unreadable: BTreeSet<String>,
    /// The first address whose information is damaged, and how.
    damage: Option<(usize, gimli::Error)>,
    is_exhausted: bool,
}

/// Looks up `addresses`, which must ascend; the lowest address of code is `first_code`, and those addresses are `shared` whose
/// function begins where another one does.
///
/// # Errors
///
/// The index of units is damaged.
pub(super) fn look_up(
    sections: &Sections<'_>,
    search: &Search,
    first_code: u64,
    addresses: &[u64],
    shared: &[bool],
) -> Result<Looked, gimli::Error> {
    let parts = {
        let limits = Limits::new(first_code);
        limits.allow_for(sections.bytes());
        parts::of(&sections.dwarf(&limits), addresses)
    };
    let looked: Vec<Part> = parts
        .par_iter()
        .map(|part| {
            let store = Store::new(first_code);
            let indices = part
                .iter()
                .flat_map(|group| group.own.iter().chain(&group.others));
            let mut wanted: Vec<u64> = indices.map(|&index| addresses[index]).collect();
            wanted.sort_unstable();
            let debug_info = DebugInfo::new(sections, search, &store, wanted);
            debug_info.look_up(part, addresses, shared)
        })
        .collect::<Result<_, gimli::Error>>()?;
    let mut all = Looked {
        frames: (0..addresses.len()).map(|_| Vec::new()).collect(),
        unreadable: sections.unreadable().clone(),
        ..Looked::default()
    };
    for looked in looked {
        all.add(looked);
    }
    Ok(all)
}

/// The rows of the line table that hold `addresses`, which must ascend; `None` where there is none that can be read.
pub(super) fn rows(
    sections: &Sections<'_>,
    search: &Search,
    first_code: u64,
    addresses: &[u64],
) -> Vec<Option<Row>> {
    let store = Store::new(first_code);
    let debug_info = DebugInfo::new(sections, search, &store, Vec::new());
    store.limits.enter_functions();
    debug_info.rows(addresses)
}

impl Looked {
    /// Takes over what was looked up for some of the addresses.
    fn add(&mut self, part: Part) {
        for (index, frames) in part.frames {
            self.frames[index] = frames;
        }
        let part = part.looked;
        self.split.extend(part.split);
        self.missing.extend(part.missing);
        self.unreadable.extend(part.unreadable);
        let damage = [self.damage, part.damage];
        self.damage = damage.into_iter().flatten().min_by_key(|(index, _)| *index);
        self.is_exhausted |= part.is_exhausted;
    }

    /// The files of split units that were read.
    pub(super) fn split_files(&self) -> impl Iterator<Item = UsedFile> + '_ {
        self.split.iter().map(|(id, path)| UsedFile {
            path: path.clone(),
            rule: Rule::SplitUnit(*id),
        })
    }

    /// Where the split unit was looked for that is named as missing.
    pub(super) fn tried(&self) -> impl Iterator<Item = TriedPlace> + '_ {
        let places = self.missing.first_key_value().map(|(_, places)| places);
        places.into_iter().flatten().map(|path| TriedPlace {
            path: path.clone(),
            why: "not there, or another build".to_owned(),
        })
    }

    /// What the reader of a report must know.
    pub(super) fn notes(&self, file: &MappedFile) -> Vec<String> {
        let mut notes: Vec<String> = self.unreadable.iter().cloned().collect();
        let path = file.path().display();
        if let Some((first, _)) = self.missing.first_key_value() {
            notes.push(match self.missing.len() {
                1 => format!("the file with split debug information {first} was not found"),
                count => format!(
                    "{count} files with split debug information were not found, such as {first}"
                ),
            });
        }
        if self.is_exhausted {
            notes.push(format!(
                "debug information in {path} takes too long to read and was used in part"
            ));
        } else if let Some((_, error)) = self.damage {
            notes.push(format!(
                "debug information in {path} is damaged and was used in part: {error}"
            ));
        }
        notes
    }
}

/// What everything borrowed from split units lives in while one part is looked up.
struct Store {
    files: Arena<MappedFile>,
    /// Sections that are compressed in their file.
    uncompressed: Arena<Vec<u8>>,
    limits: Limits,
}

impl Store {
    fn new(first_code: u64) -> Self {
        Self {
            files: Arena::new(),
            uncompressed: Arena::new(),
            limits: Limits::new(first_code),
        }
    }
}

/// What was looked up for some addresses.
struct Part {
    /// With the indices of the addresses.
    frames: Vec<(usize, Vec<Frame>)>,
    looked: Looked,
}

/// The debug information of one module, as one thread reads it.
struct DebugInfo<'data> {
    dwarf: Arc<Dwarf<Reader<'data>>>,
    /// Which unit an address is in, and all about it; made where units and functions do not tell.
    context: OnceCell<Context<Reader<'data>>>,
    /// Why it could not be made.
    no_context: Cell<Option<gimli::Error>>,
    package: Option<DwarfPackage<Reader<'data>>>,
    sections: &'data Sections<'data>,
    search: &'data Search,
    store: &'data Store,
    looked: RefCell<Looked>,
    /// The addresses asked for; they ascend.
    wanted: Vec<u64>,
    /// The line table of each unit that was looked at.
    lines: RefCell<BTreeMap<UnitKey, Option<Rc<Lines<'data>>>>>,
    /// Names of functions, by where they stand.
    names: RefCell<FxHashMap<(u64, usize), Arc<str>>>,
}

/// A unit's offset, and the id of its split part.
type UnitKey = (gimli::UnitSectionOffset, Option<u64>);

fn unit_key(unit: UnitRef<'_, Reader<'_>>) -> UnitKey {
    (unit.header.offset(), unit.dwo_id.map(|id| id.0))
}

impl<'data> DebugInfo<'data> {
    fn new(
        sections: &'data Sections<'data>,
        search: &'data Search,
        store: &'data Store,
        wanted: Vec<u64>,
    ) -> Self {
        store.limits.allow_for(sections.bytes());
        let mut dwarf = sections.dwarf(&store.limits);
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        Self {
            dwarf: Arc::new(dwarf),
            context: OnceCell::new(),
            no_context: Cell::new(None),
            package: sections.package(&store.limits),
            sections,
            search,
            store,
            looked: RefCell::default(),
            wanted,
            lines: RefCell::default(),
            names: RefCell::default(),
        }
    }

    /// Indexes the units, at the first call.
    ///
    /// # Errors
    ///
    /// The index of units is damaged.
    fn context(&self) -> Result<&Context<Reader<'data>>, gimli::Error> {
        if let Some(context) = self.context.get() {
            return Ok(context);
        }
        if let Some(error) = self.no_context.get() {
            return Err(error);
        }
        let dwarf = Arc::clone(&self.dwarf);
        let context = self
            .store
            .limits
            .outside_functions(|| Context::from_arc_dwarf(dwarf));
        let context = context.inspect_err(|error| self.no_context.set(Some(*error)))?;
        Ok(self.context.get_or_init(|| context))
    }

    /// Looks up the addresses of `groups`.
    ///
    /// # Errors
    ///
    /// The index of units is damaged, and was needed.
    fn look_up(
        self,
        groups: &[Group],
        addresses: &[u64],
        shared: &[bool],
    ) -> Result<Part, gimli::Error> {
        let units: Vec<_> = groups
            .iter()
            .map(|group| own_unit(&self.dwarf, group.unit?).ok()?)
            .collect();
        self.store.limits.enter_functions();
        let origins = Origins::new(Arc::clone(&self.dwarf));
        let mut damage: Option<(usize, gimli::Error)> = None;
        let mut all = Vec::new();
        for (group, unit) in groups.iter().zip(&units) {
            let unit = unit.as_ref().map(|unit| unit.unit_ref(&self.dwarf));
            let own: Vec<u64> = group.own.iter().map(|&index| addresses[index]).collect();
            self.store
                .limits
                .allow_for(BYTES_PER_ADDRESS.saturating_mul(own.len()));
            // What cannot be found this way is left to the context, which reads all, and says what is damaged.
            let functions = unit.and_then(|unit| functions::find(unit, &own, &origins).ok());
            let functions = functions.into_iter().flatten();
            let functions = functions.chain(std::iter::repeat(None));
            let indices = group.own.iter().chain(&group.others);
            for (&index, function) in indices.zip(functions) {
                let address = addresses[index];
                let is_shared = shared.get(index).is_some_and(|it| *it);
                let frames = match unit.zip(function.as_ref()) {
                    Some((unit, function)) => self.frames_in(unit, function, address, is_shared),
                    None => self.frames(address, is_shared),
                };
                all.push((
                    index,
                    frames.unwrap_or_else(|error| {
                        let first = damage.filter(|(first, _)| *first < index);
                        damage = first.or(Some((index, error)));
                        Vec::new()
                    }),
                ));
            }
        }
        match self.no_context.get() {
            Some(error) => Err(error),
            None => Ok(Part {
                frames: all,
                looked: Looked {
                    damage,
                    is_exhausted: self.store.limits.are_exhausted(),
                    ..self.looked.into_inner()
                },
            }),
        }
    }

    /// The frames at `address` in `function`, innermost first.
    ///
    /// # Errors
    ///
    /// The information about this address is damaged.
    fn frames_in(
        &self,
        unit: UnitRef<'_, Reader<'data>>,
        function: &Function<'data>,
        address: u64,
        is_shared: bool,
    ) -> Result<Vec<Frame>, gimli::Error> {
        let lines = self.lines(unit)?;
        let mut location = match &lines {
            Some(lines) => lines.location(unit, address)?,
            None => Location::default(),
        };
        let innermost = function.inlined.last();
        let entry = innermost.map_or(function.entry, |inlined| inlined.entry);
        if is_shared && let Some(line) = self.own_line(unit, address, entry)? {
            location.line = Some(line);
            location.column = None;
        }
        let mut frames = Vec::new();
        for inlined in function.inlined.iter().rev() {
            let call = Location {
                file: match (&lines, inlined.file) {
                    (Some(lines), Some(file)) => lines.file(unit, file)?,
                    _ => None,
                },
                line: inlined.line,
                column: inlined.column,
            };
            let location = std::mem::replace(&mut location, call);
            frames.push(self.frame(inlined.name, location)?);
        }
        frames.push(self.frame(function.name, location)?);
        frames.truncate(MAX_FRAMES);
        Ok(frames)
    }

    /// The frames at `address`, innermost first, whichever unit it is in; none where there is no information about it.
    ///
    /// # Errors
    ///
    /// The information about this address is damaged.
    fn frames(&self, address: u64, is_shared: bool) -> Result<Vec<Frame>, gimli::Error> {
        if address == u64::MAX {
            return Ok(Vec::new()); // no range can end behind it
        }
        self.store.limits.allow_for(BYTES_PER_ADDRESS);
        let mut lookup = self.context()?.find_frames(address);
        let mut found = loop {
            lookup = match lookup {
                LookupResult::Output(found) => break found?,
                LookupResult::Load { load, continuation } => {
                    addr2line::LookupContinuation::resume(continuation, self.split_unit(&load))
                }
            };
        };
        let mut frames = Vec::new();
        let mut innermost = None;
        while let Some(frame) = found.next()?
            && frames.len() < MAX_FRAMES
        {
            let location = frame.location.as_ref();
            frames.push(self.frame(
                frame.function.as_ref().map(|function| function.name),
                Location {
                    file: location.and_then(|location| location.file).map(Arc::from),
                    line: location.and_then(|location| location.line),
                    column: location.and_then(|location| location.column),
                },
            )?);
            innermost = innermost.or(frame.dw_die_offset);
        }
        if is_shared
            && let (Some(entry), Some(unit)) = (innermost, self.unit(address))
            && let Some(line) = self.own_line(unit, address, entry)?
            && let Some(innermost) = frames.first_mut()
        {
            innermost.line = Some(line);
            innermost.column = None;
        }
        Ok(frames)
    }

    /// A frame; those of the same function share its name.
    fn frame(
        &self,
        function: Option<Reader<'data>>,
        location: Location,
    ) -> Result<Frame, gimli::Error> {
        let mut names = self.names.borrow_mut();
        let function = match function {
            Some(name) => Some(match names.entry((name.offset_id().0, name.len())) {
                hash_map::Entry::Occupied(known) => Arc::clone(known.get()),
                hash_map::Entry::Vacant(place) => {
                    Arc::clone(place.insert(Arc::from(name.to_string_lossy()?)))
                }
            }),
            None => None,
        };
        Ok(Frame {
            function,
            file: location.file,
            line: location.line,
            column: location.column,
        })
    }

    /// What the line table of a unit says of the addresses asked for; `None` where there is none.
    fn lines(
        &self,
        unit: UnitRef<'_, Reader<'data>>,
    ) -> Result<Option<Rc<Lines<'data>>>, gimli::Error> {
        let mut cache = self.lines.borrow_mut();
        Ok(match cache.entry(unit_key(unit)) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(place) => {
                let lines = Lines::read(unit, &self.wanted, &self.store.limits)?;
                place.insert(lines.map(Rc::new)).clone()
            }
        })
    }

    /// The unit that `address` lies in.
    fn unit(&self, address: u64) -> Option<UnitRef<'_, Reader<'data>>> {
        let mut lookup = self.context().ok()?.find_dwarf_and_unit(address);
        loop {
            lookup = match lookup {
                LookupResult::Output(unit) => return unit,
                LookupResult::Load { load, continuation } => {
                    addr2line::LookupContinuation::resume(continuation, self.split_unit(&load))
                }
            };
        }
    }
}

/// The unit at `offset`, unless it is split.
fn own_unit<'data>(
    dwarf: &Dwarf<Reader<'data>>,
    offset: gimli::DebugInfoOffset,
) -> Result<Option<gimli::Unit<Reader<'data>>>, gimli::Error> {
    let unit = dwarf.unit(dwarf.debug_info.header_from_offset(offset)?)?;
    Ok(Some(unit).filter(|unit| unit.dwo_id.is_none()))
}

#[cfg(test)]
mod tests {
    use super::super::file::{MappedFile, first_code};
    use super::super::search::Search;
    use super::super::sections::Sections;
    use super::super::{Options, with_large_stack};
    use super::{DebugInfo, Store, own_unit, parts};
    use crate::symbols::functions;
    use crate::symbols::origins::Origins;
    use crate::symbols::reader::Limits;
    use object::{Object, ObjectSection};
    use std::sync::Arc;

    /// Addresses of this program that are compared; the naive look-up reads every unit that holds one.
    const ADDRESSES: usize = 300;

    /// Whoever looks for some addresses finds what `addr2line` does, which reads all entries.
    #[test]
    fn finds_what_addr2line_finds() {
        with_large_stack(compare).unwrap();
    }

    fn compare() {
        let file = MappedFile::open(&std::env::current_exe().unwrap()).unwrap();
        let elf = file.elf();
        let code = elf.section_by_name(".text").unwrap();
        let step = usize::try_from(code.size()).unwrap() / ADDRESSES;
        let wanted: Vec<u64> = (code.address()..code.address() + code.size())
            .step_by(step)
            .collect();
        let sections = Sections::load(&file, None, None).unwrap();
        let first_code = first_code(&elf);
        let limits = Limits::new(first_code);
        let parts = parts::of(&sections.dwarf(&limits), &wanted);
        let search = Search::new(&Options::default());
        let store = Store::new(first_code);
        let info = DebugInfo::new(&sections, &search, &store, wanted.clone());
        let units: Vec<_> = parts
            .iter()
            .flatten()
            .filter_map(|group| Some((own_unit(&info.dwarf, group.unit?).unwrap()?, &group.own)))
            .collect();
        store.limits.enter_functions();
        let origins = Origins::new(Arc::clone(&info.dwarf));
        let mut found = 0;
        for (unit, own) in &units {
            let unit = unit.unit_ref(&info.dwarf);
            let own: Vec<u64> = own.iter().map(|&index| wanted[index]).collect();
            let functions = functions::find(unit, &own, &origins).unwrap();
            for (&address, function) in own.iter().zip(&functions) {
                let naive = info.frames(address, false).unwrap();
                let Some(function) = function else {
                    assert!(naive.iter().all(|frame| frame.function.is_none()));
                    continue;
                };
                let frames = info.frames_in(unit, function, address, false).unwrap();
                assert_eq!(frames, naive, "{address:#x}");
                found += 1;
            }
        }
        assert!(found > ADDRESSES / 2, "{found}");
    }
}
