//! Looks up the addresses of one module.

use super::dwarf::{DebugInfo, Frame, Store};
use super::file::{self, MappedFile};
use super::locate::{self, Files};
use super::names::{self, Names};
use super::search::Search;
use super::table::{Symbol, SymbolTable};
use super::{Located, Module, Options, Resolved, Source, path};

/// The frames at each of `addresses`, which must ascend.
pub(super) fn resolve(
    module: &Module,
    addresses: &[u64],
    search: &Search,
    options: &Options,
) -> Resolved {
    let mut files = locate::find(module, search);
    let Some(main) = files.module.as_ref().or(files.debug.as_ref()) else {
        return Resolved {
            addresses: vec![Vec::new(); addresses.len()],
            found: if files.is_rebuilt {
                Source::BuildIdMismatch
            } else {
                Source::Missing
            },
            files: files.used,
            notes: files.notes,
        };
    };
    let store = Store::new(&main.elf());
    let mut notes = std::mem::take(&mut files.notes);
    let mut used = std::mem::take(&mut files.used);
    let debug_info = debug_info(&files, search, &store, &mut notes);
    let mut table = symbol_table(&files, &store, &mut notes);
    let symbols = table.look_up(addresses);
    let mut damage = None;
    let frames: Vec<Vec<Frame>> = addresses
        .iter()
        .zip(symbols)
        .map(|(&address, symbol)| {
            let frames = match &debug_info {
                Some(debug_info) => debug_info.frames(address).unwrap_or_else(|error| {
                    damage.get_or_insert(error);
                    Vec::new()
                }),
                None => Vec::new(),
            };
            with_symbol(frames, symbol.as_ref())
        })
        .collect();
    let raw = frames.iter().flatten();
    let names = Names::of(
        raw.filter_map(|frame| frame.function.as_deref()),
        options.demangle,
    );
    if let Some(debug_info) = &debug_info {
        notes.extend(debug_info.notes(damage));
        used.extend(debug_info.split_files());
    }
    Resolved {
        addresses: frames
            .into_iter()
            .map(|frames| located(frames, &names, options))
            .collect(),
        found: match (&debug_info, table.is_empty()) {
            (Some(_), _) => Source::DebugInfo,
            (None, false) => Source::SymbolsOnly,
            (None, true) => Source::NoSymbols,
        },
        files: used,
        notes,
    }
}

/// The debug information of a module, if it has some that can be read.
pub(super) fn debug_info<'data>(
    files: &'data Files,
    search: &'data Search,
    store: &'data Store,
    notes: &mut Vec<String>,
) -> Option<DebugInfo<'data>> {
    let file: &MappedFile = files.with_debug_info()?;
    let supplementary = files.supplementary.as_ref();
    match DebugInfo::new(file, supplementary, files.package.as_ref(), search, store) {
        Ok(debug_info) => Some(debug_info),
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
    store: &'data Store,
    notes: &mut Vec<String>,
) -> SymbolTable<'data> {
    let mut table = SymbolTable::default();
    for file in [&files.debug, &files.module].into_iter().flatten() {
        let elf = file.elf();
        table.add(&elf);
        match file::packed_symbols(&elf, &store.uncompressed) {
            Some(Ok(packed)) => table.add(&packed),
            Some(Err(reason)) => {
                let path = file.path().display();
                notes.push(format!("a section of {path} cannot be read: {reason}"));
            }
            None => {}
        }
    }
    table
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
        let is_better = |name: &String| !names::is_mangled(name) && names::is_mangled(&symbol);
        if function.as_ref().is_none_or(is_better) {
            *function = Some(symbol.into_owned());
        }
    }
    frames
}

/// The frames at one address as they are shown.
fn located(frames: Vec<Frame>, names: &Names, options: &Options) -> Vec<Located> {
    let outermost = frames.len().saturating_sub(1);
    frames
        .into_iter()
        .enumerate()
        .map(|(level, frame)| Located {
            function: frame.function.map(|name| names.readable(&name)),
            file: frame
                .file
                .map(|file| path::mapped(path::normalised(&names::bounded(&file)), &options.map)),
            line: frame.line,
            column: frame.column.filter(|column| *column > 0),
            inlined: level < outermost,
        })
        .collect()
}
