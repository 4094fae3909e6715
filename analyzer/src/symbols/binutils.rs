//! Lines as addr2line of binutils prints them, for output that has to be the same.

use super::dwarf;
use super::file::{MappedFile, first_code};
use super::search::Search;
use super::{Module, Options, locate, sections};
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SymbolKind, elf};
use std::path::Path;

/// What `addr2line -e FILE` (binutils 2.40) prints for each of `addresses`, which must ascend; `None` where that is `??:0` or an error.
///
/// Where there is no line but a symbol, that is the symbol's file without a line, or `??:?`.
#[must_use]
pub fn binutils_lines(file: &Path, addresses: &[u64], options: &Options) -> Vec<Option<String>> {
    let search = Search::new(options);
    let named = Module {
        file: Some(file.to_owned()),
        path: Some(file.to_owned()),
        ..Module::default()
    };
    let files = locate::find(&named, &search);
    let Some(main) = &files.module else {
        return vec![None; addresses.len()];
    };
    let debug_info = files.with_debug_info().and_then(|file| {
        let supplementary = files.supplementary.as_ref();
        sections::Sections::load(file, supplementary, files.package.as_ref()).ok()
    });
    let rows = debug_info.map(|debug_info| {
        let first_code = first_code(&main.elf());
        dwarf::rows(&debug_info, &search, first_code, addresses)
    });
    let mut rows = rows.unwrap_or_default().into_iter();
    let sections = Sections::of(main);
    let mut line = |address: u64| {
        let row = rows.next().flatten();
        sections.holding(address)?;
        let Some(row) = row.filter(|row| row.line.is_some() || row.file.is_some()) else {
            return sections.file_of_symbol(address);
        };
        let file = row.file.as_deref().unwrap_or("??");
        Some(
            match (row.line.filter(|line| *line != 0), row.discriminator) {
                (None, _) => format!("{file}:?"),
                (Some(line), 0) => format!("{file}:{line}"),
                (Some(line), which) => format!("{file}:{line} (discriminator {which})"),
            },
        )
    };
    addresses.iter().map(|address| line(*address)).collect()
}

/// The sections of a file that take memory, and its symbols.
struct Sections<'f> {
    elf: object::File<'f>,
}

impl<'f> Sections<'f> {
    fn of(file: &'f MappedFile) -> Self {
        Self { elf: file.elf() }
    }

    /// The section in memory that holds `address`.
    fn holding(&self, address: u64) -> Option<object::Section<'f, '_>> {
        self.elf.sections().find(|section| {
            let is_loaded = match section.flags() {
                SectionFlags::Elf { sh_flags, .. } => sh_flags.contains(elf::SHF_ALLOC),
                _ => false,
            };
            is_loaded && address.wrapping_sub(section.address()) < section.size()
        })
    }

    /// The file of the last symbol in front of `address`, without a line; `None` where there is no symbol.
    ///
    /// A table names the file of local symbols before these. Of global ones it names none, unless it has one file only.
    fn file_of_symbol(&self, address: u64) -> Option<String> {
        let section = self.holding(address)?.index();
        let is_static = self.elf.symbols().next().is_some();
        let (of_file, of_linker);
        let symbols: &mut dyn Iterator<Item = object::Symbol<'_, '_>> = if is_static {
            of_file = self.elf.symbols();
            &mut { of_file }
        } else {
            of_linker = self.elf.dynamic_symbols();
            &mut { of_linker }
        };
        let mut file: Option<String> = None;
        let (mut has_symbols, mut is_second_file) = (false, false);
        let mut best: Option<(u64, u64, Option<String>)> = None;
        for symbol in symbols {
            if symbol.kind() == SymbolKind::File {
                file = symbol.name().ok().map(str::to_owned);
                is_second_file |= has_symbols;
                continue;
            }
            has_symbols = true;
            let is_code = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown);
            if !is_code || symbol.section_index() != Some(section) || symbol.address() > address {
                continue;
            }
            let (begin, size) = (symbol.address(), symbol.size().max(1));
            let is_better = best.as_ref().is_none_or(|(best, best_size, _)| {
                let reaches = |size: &u64| begin.saturating_add(*size) > address;
                begin > *best || begin == *best && !reaches(best_size) && size > *best_size
            });
            if is_better {
                let is_of_file = symbol.is_local() || !is_second_file;
                best = Some((begin, size, file.clone().filter(|_| is_of_file)));
            }
        }
        let (_, _, file) = best?;
        Some(format!("{}:?", file.as_deref().unwrap_or("??")))
    }
}
