//! The symbol tables: which function an address lies in where no debug information says it.

use super::descriptors::Descriptors;
use super::file::is_code;
use super::moved::Shift;
use object::{Object, ObjectSection, ObjectSymbol, SectionIndex, SymbolKind};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

/// A function by its symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol<'data> {
    start: u64,
    /// One past the last address.
    end: u64,
    /// The table gives its size; else `end` is only where something else begins.
    is_sized: bool,
    /// Which of several names for the same function to show; lower is better.
    rank: u8,
    /// Another one begins at the same address.
    is_shared: bool,
    section: SectionIndex,
    name: &'data [u8],
}

impl<'data> Symbol<'data> {
    /// The name as the table has it.
    pub(super) fn name(&self) -> Cow<'data, str> {
        String::from_utf8_lossy(self.name)
    }

    /// Whether a symbol of another name begins at the same address.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// What decides between symbols that hold the same address: a size, then the innermost, then the better name.
    fn preference(&self) -> impl Ord + use<'data> {
        (self.is_sized, self.start, Reverse((self.rank, self.name)))
    }
}

/// Functions of all the tables of one module, by address.
#[derive(Debug, Default)]
pub(super) struct SymbolTable<'data> {
    symbols: Vec<Symbol<'data>>,
}

impl<'data> SymbolTable<'data> {
    /// Adds what the symbol tables of a file say; `descriptors` are those of the module, `to_module` leads to its addresses.
    pub(super) fn add(
        &mut self,
        elf: &object::File<'data>,
        descriptors: Option<&Descriptors<'_>>,
        to_module: Shift,
    ) {
        let places = Places::of(elf, descriptors);
        let first = self.symbols.len();
        self.symbols.extend(
            elf.symbols()
                .chain(elf.dynamic_symbols())
                .filter_map(|symbol| function(&symbol, &places)),
        );
        let added = &mut self.symbols[first..];
        end_unsized(added, &places.code);
        for symbol in added {
            symbol.start = to_module.of(symbol.start);
            symbol.end = to_module.of(symbol.end);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The function around each of `addresses`, which must ascend.
    pub(super) fn look_up(&mut self, addresses: &[u64]) -> Vec<Option<Symbol<'data>>> {
        self.symbols
            .sort_unstable_by_key(|symbol| (symbol.start, symbol.name));
        for place in self.symbols.chunk_by_mut(|a, b| a.start == b.start) {
            let is_shared = place.windows(2).any(|two| two[0].name != two[1].name);
            for symbol in place {
                symbol.is_shared = is_shared;
            }
        }
        let mut symbols = self.symbols.iter().peekable();
        // Those that began. What ended is dropped once it is on top: addresses ascend, so it will not come back.
        let mut begun = BinaryHeap::new();
        addresses
            .iter()
            .map(|&address| {
                while let Some(symbol) = symbols.next_if(|symbol| symbol.start <= address) {
                    begun.push(ByPreference(*symbol));
                }
                while let Some(top) = begun.peek_mut().filter(|top| top.0.end <= address) {
                    PeekMut::pop(top);
                }
                begun.peek().map(|ByPreference(symbol)| *symbol)
            })
            .collect()
    }
}

/// Sections with code, and their addresses.
type Code = FxHashMap<SectionIndex, Range<u64>>;

/// Where the functions of a file can be.
struct Places<'a> {
    code: Code,
    descriptors: Option<&'a Descriptors<'a>>,
    /// Bit 0 of an address says that the function is Thumb or MIPS16.
    has_marked_addresses: bool,
}

impl<'a> Places<'a> {
    fn of(elf: &object::File<'_>, descriptors: Option<&'a Descriptors<'a>>) -> Self {
        let sections = elf.sections().filter(is_code);
        let place = |section: object::Section<'_, '_>| {
            let start = section.address();
            let range = start..start.saturating_add(section.size());
            (section.index(), range)
        };
        Self {
            code: sections.map(place).collect(),
            descriptors,
            has_marked_addresses: matches!(
                elf.architecture(),
                object::Architecture::Arm | object::Architecture::Mips
            ),
        }
    }

    /// Section and address of the code that a symbol stands for; `None` if it is none of code.
    fn code(&self, symbol: &object::Symbol<'_, '_>) -> Option<(SectionIndex, u64)> {
        let address = symbol.address() & !u64::from(self.has_marked_addresses);
        let section = symbol.section_index()?;
        if self.code.contains_key(&section) {
            return Some((section, address));
        }
        let start = self.descriptors?.code(address)?;
        let mut sections = self.code.iter();
        let (section, _) = sections.find(|(_, range)| range.contains(&start))?;
        Some((*section, start))
    }
}

/// Reads one entry of a table; `None` for what is not a function.
fn function<'data>(
    symbol: &object::Symbol<'data, '_>,
    places: &Places<'_>,
) -> Option<Symbol<'data>> {
    let (section, start) = places.code(symbol)?;
    let name = symbol.name_bytes().ok().filter(|name| !name.is_empty())?;
    let is_function = match symbol.kind() {
        SymbolKind::Text => true,
        // Assembler code often lacks a type. `$x`, `$d` and the like mark instruction sets and data.
        SymbolKind::Unknown if !name.starts_with(b"$") => false,
        _ => return None,
    };
    Some(Symbol {
        start,
        end: start.saturating_add(symbol.size()),
        is_sized: symbol.size() > 0,
        rank: u8::from(!is_function) * 4
            + match (symbol.is_global(), symbol.is_weak()) {
                (true, false) => 0,
                (_, true) => 1,
                (false, false) => 2,
            },
        is_shared: false,
        section,
        name,
    })
}

/// Lets symbols without a size reach to the next symbol of their section, or to the section's end.
fn end_unsized(symbols: &mut [Symbol<'_>], code: &Code) {
    symbols.sort_unstable_by_key(|symbol| (symbol.section.0, symbol.start));
    // The symbol after the current one that starts elsewhere.
    let mut next: Option<(SectionIndex, u64)> = None;
    let mut current: Option<(SectionIndex, u64)> = None;
    for symbol in symbols.iter_mut().rev() {
        let place = (symbol.section, symbol.start);
        if current != Some(place) {
            next = current;
            current = Some(place);
        }
        if !symbol.is_sized {
            let section_end = code.get(&symbol.section);
            let section_end = section_end.map_or(symbol.start, |range| range.end);
            symbol.end = match next {
                Some((section, start)) if section == symbol.section => start.min(section_end),
                _ => section_end,
            };
        }
    }
}

/// Orders symbols by preference, which may call two equal that differ in their end only.
#[derive(Debug)]
struct ByPreference<'data>(Symbol<'data>);

impl Ord for ByPreference<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.preference().cmp(&other.0.preference())
    }
}

impl PartialOrd for ByPreference<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByPreference<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ByPreference<'_> {}

#[cfg(test)]
mod tests {
    use super::{Symbol, SymbolTable, end_unsized};
    use object::SectionIndex;
    use rustc_hash::FxHashMap;

    fn symbol(name: &'static str, section: usize, start: u64, size: u64) -> Symbol<'static> {
        Symbol {
            start,
            end: start + size,
            is_sized: size > 0,
            rank: 0,
            is_shared: false,
            section: SectionIndex(section),
            name: name.as_bytes(),
        }
    }

    fn names(mut symbols: Vec<Symbol<'static>>, addresses: &[u64]) -> Vec<String> {
        let code = FxHashMap::from_iter([(SectionIndex(1), 0..0x200), (SectionIndex(2), 0..0x400)]);
        end_unsized(&mut symbols, &code);
        let mut table = SymbolTable { symbols };
        table
            .look_up(addresses)
            .iter()
            .map(|found| found.map_or("-".to_owned(), |symbol| symbol.name().into_owned()))
            .collect()
    }

    #[test]
    fn a_symbol_ends_where_its_size_says() {
        let symbols = vec![symbol("a", 1, 0x100, 0x10), symbol("b", 1, 0x120, 0x10)];
        assert_eq!(
            names(symbols, &[0xFF, 0x100, 0x10F, 0x110, 0x120, 0x130]),
            ["-", "a", "a", "-", "b", "-"]
        );
    }

    #[test]
    fn a_symbol_without_size_ends_at_the_next_or_with_its_section() {
        let symbols = vec![
            symbol("a", 1, 0x100, 0),
            symbol("alias", 1, 0x100, 0),
            symbol("b", 1, 0x120, 0x10),
            symbol("last", 1, 0x180, 0),
            symbol("far", 2, 0x300, 0),
        ];
        assert_eq!(
            names(
                symbols,
                &[0x11F, 0x12F, 0x130, 0x1FF, 0x200, 0x2FF, 0x3FF, 0x400]
            ),
            ["a", "b", "-", "last", "-", "-", "far", "-"]
        );
    }

    #[test]
    fn the_inner_of_two_wins_and_the_outer_comes_back() {
        let symbols = vec![
            symbol("outer", 1, 0x100, 0x80),
            symbol("inner", 1, 0x110, 0x10),
            symbol("label", 1, 0x118, 0),
        ];
        assert_eq!(
            names(symbols, &[0x10F, 0x110, 0x11F, 0x120, 0x17F, 0x180]),
            ["outer", "inner", "inner", "outer", "outer", "label"]
        );
    }
}
