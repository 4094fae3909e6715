//! Looks up the addresses of one module.

use super::descriptors::Descriptors;
use super::dwarf::{self, Frame, Looked};
use super::file::{self, MappedFile, first_code};
use super::locate::{self, Files};
use super::moved::Shift;
use super::names::{self, Names};
use super::search::Search;
use super::sections::Sections;
use super::table::{Symbol, SymbolTable};
use super::{Located, Module, Options, Resolved, Source, path};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use typed_arena::Arena;

/// The frames at each of `addresses`, which must ascend.
pub(super) fn resolve(
    module: &Module,
    addresses: &[u64],
    search: &Search,
    options: &Options,
) -> Resolved {
    let mut files = locate::find(module, search);
    let Some(main) = files.module.as_ref().or(files.debug.as_ref()) else {
        return nothing(files, addresses.len());
    };
    let mut notes = std::mem::take(&mut files.notes);
    let mut used = std::mem::take(&mut files.used);
    let mut tried = std::mem::take(&mut files.tried);
    // Without a build id, a file with other addresses is another one.
    let first = module.first.filter(|_| module.build_id.is_some());
    let addresses = &Shift::to_file(first, addresses, &main.elf()).of_all(addresses);
    let uncompressed = Arena::new();
    let mut table = symbol_table(&files, &uncompressed, &mut notes);
    let symbols = table.look_up(addresses);
    let shared: Vec<bool> = symbols
        .iter()
        .map(|symbol| symbol.as_ref().is_some_and(Symbol::is_shared))
        .collect();
    let mut looked = look_up(&files, search, addresses, &shared, &mut notes);
    let in_debug_info = looked.as_mut();
    let mut in_debug_info =
        in_debug_info.map_or_else(Vec::new, |looked| std::mem::take(&mut looked.frames));
    let frames: Vec<Vec<Frame>> = symbols
        .iter()
        .enumerate()
        .map(|(index, symbol)| {
            let known = in_debug_info.get_mut(index);
            with_symbol(
                known.map(std::mem::take).unwrap_or_default(),
                symbol.as_ref(),
            )
        })
        .collect();
    let raw = frames.iter().flatten();
    let names = Names::of(
        raw.filter_map(|frame| frame.function.as_deref()),
        options.demangle,
    );
    let paths = paths(&frames, options);
    if let (Some(looked), Some(file)) = (&looked, files.with_debug_info()) {
        notes.extend(looked.notes(file));
        used.extend(looked.split_files());
        tried.extend(looked.tried());
    }
    Resolved {
        addresses: frames
            .iter()
            .map(|frames| located(frames, &names, &paths))
            .collect(),
        found: match (&looked, table.is_empty()) {
            (Some(_), _) => Source::DebugInfo,
            (None, false) => Source::SymbolsOnly,
            (None, true) => Source::NoSymbols,
        },
        files: used,
        tried,
        notes,
    }
}

/// The result where no file can be used.
fn nothing(files: Files, addresses: usize) -> Resolved {
    Resolved {
        addresses: vec![Arc::default(); addresses],
        found: if files.is_rebuilt {
            Source::BuildIdMismatch
        } else {
            Source::Missing
        },
        files: files.used,
        tried: files.tried,
        notes: files.notes,
    }
}

/// What debug information says of the addresses, if there is some that can be read.
fn look_up(
    files: &Files,
    search: &Search,
    addresses: &[u64],
    shared: &[bool],
    notes: &mut Vec<String>,
) -> Option<Looked> {
    let file = files.with_debug_info()?;
    let elf = file.elf();
    let addresses = &from_module(files, &elf).of_all(addresses);
    let first_code = first_code(&elf);
    let sections = Sections::load(file, files.supplementary.as_ref(), files.package.as_ref());
    let looked = sections
        .and_then(|sections| dwarf::look_up(&sections, search, first_code, addresses, shared));
    match looked {
        Ok(looked) => Some(looked),
        Err(error) => {
            let path = file.path().display();
            notes.push(format!(
                "debug information in {path} is damaged and was not used: {error}"
            ));
            None
        }
    }
}

/// The symbol tables of a module.
fn symbol_table<'data>(
    files: &'data Files,
    uncompressed: &'data Arena<Vec<u8>>,
    notes: &mut Vec<String>,
) -> SymbolTable<'data> {
    let mut table = SymbolTable::default();
    let module = files.module.as_ref().map(MappedFile::elf);
    let descriptors = module.as_ref().and_then(Descriptors::of);
    for file in [&files.debug, &files.module].into_iter().flatten() {
        let elf = file.elf();
        let shift = from_module(files, &elf).back();
        table.add(&elf, descriptors.as_ref(), shift);
        match file::packed_symbols(&elf, uncompressed) {
            Some(Ok(packed)) => table.add(&packed, descriptors.as_ref(), shift),
            Some(Err(reason)) => {
                let path = file.path().display();
                notes.push(format!("a section of {path} cannot be read: {reason}"));
            }
            None => {}
        }
    }
    table
}

/// From the addresses of the module's file, if there is one, to those of `elf`.
fn from_module(files: &Files, elf: &object::File<'_>) -> Shift {
    let module = files.module.as_ref().map(MappedFile::elf);
    module.map_or_else(Shift::default, |module| Shift::to_debug_file(&module, elf))
}

/// What debug information and symbol table say together about one address.
fn with_symbol(mut frames: Vec<Frame>, symbol: Option<&Symbol<'_>>) -> Vec<Frame> {
    let Some(symbol) = symbol.map(Symbol::name) else {
        return frames;
    };
    if frames.is_empty() {
        frames.push(Frame::default());
    }
    if let Some(Frame { function, .. }) = frames.last_mut() {
        // Compilers give functions of one file no linkage name: only the table has the qualified name.
        let is_better = |name: &Arc<str>| !names::is_mangled(name) && names::is_mangled(&symbol);
        if function.as_ref().is_none_or(is_better) {
            *function = Some(Arc::from(symbol));
        }
    }
    frames
}

/// Paths of source files as they are shown, by what the debug information has.
fn paths<'a>(frames: &'a [Vec<Frame>], options: &Options) -> FxHashMap<&'a str, Arc<str>> {
    let mut paths = FxHashMap::default();
    for file in frames
        .iter()
        .flatten()
        .filter_map(|frame| frame.file.as_deref())
    {
        paths.entry(file).or_insert_with(|| {
            let path = path::normalised(&names::bounded(file));
            Arc::from(path::mapped(path, &options.map))
        });
    }
    paths
}

/// The frames at one address as they are shown.
fn located(
    frames: &[Frame],
    names: &Names<'_>,
    paths: &FxHashMap<&str, Arc<str>>,
) -> Arc<[Located]> {
    let outermost = frames.len().saturating_sub(1);
    frames
        .iter()
        .enumerate()
        .map(|(level, frame)| Located {
            function: frame.function.as_deref().map(|name| names.readable(name)),
            file: frame
                .file
                .as_deref()
                .and_then(|file| paths.get(file).cloned()),
            line: frame.line,
            column: frame.column.filter(|column| *column > 0),
            inlined: level < outermost,
        })
        .collect()
}
