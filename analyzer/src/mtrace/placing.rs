//! How the addresses in a log relate to those in the files of its modules.
//!
//! Up to glibc 2.34 they are run-time addresses, and a log does not say where a module lay; from 2.35 on they count from
//! where the module begins. Symbols give that place away: an address, less the offset behind a symbol, less the symbol's
//! value in the file, is the module's bias, whatever the version.

use crate::address::LoadBias;
use crate::images::Log;
use crate::log::{Seen, is_library};
use crate::sites::{Module, SiteTable};
use crate::symbols::{self, Layout};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Symbols that are looked up in one module.
const MOST_SYMBOLS: usize = 256;

/// Finds out where the modules of `logs` lay, and says so in `sites`.
pub(crate) fn place_modules(logs: &[Log], sites: &mut SiteTable, options: &symbols::Options) {
    for log in logs {
        let is_old = is_old(&log.modules);
        let placed: Vec<Module> = log
            .modules
            .par_iter()
            .map(|seen| placed(seen, is_old, options))
            .collect();
        for (seen, module) in log.modules.iter().zip(placed) {
            let raw: Vec<&str> = seen.symbols.iter().map(|it| it.name.as_str()).collect();
            let names = symbols::readable(&raw, options);
            for (symbol, name) in seen.symbols.iter().zip(names) {
                sites.note_name(seen.base, symbol.pc, name);
            }
            sites.place_module(module);
        }
    }
}

/// Whether the log is of glibc 2.33 or older, as the spelling of offsets shows; `None` where no caller has a symbol.
pub(super) fn is_old(modules: &[Seen]) -> Option<bool> {
    let mut symbols = modules.iter().flat_map(|seen| &seen.symbols);
    symbols.next().map(|symbol| symbol.is_prefixed)
}

/// What the file of a module tells of where it lay.
pub(super) fn placed(seen: &Seen, is_old: Option<bool>, options: &symbols::Options) -> Module {
    let mut module = seen.module();
    let exe = options.exe.as_ref();
    let names: BTreeSet<&str> = seen
        .symbols
        .iter()
        .map(|symbol| symbol.name.as_str())
        .take(MOST_SYMBOLS)
        .collect();
    let layout = |file: Option<PathBuf>| {
        let wanted = symbols::Module {
            path: Some(seen.path.clone()),
            file,
            ..symbols::Module::default()
        };
        symbols::layout(&wanted, &names, options)
    };
    let file = exe.filter(|exe| is_program(&seen.path, exe)).cloned();
    let mut found = layout(file.clone());
    module.file = file;
    if let (None, Some(exe), false) = (&found, exe, is_library(&seen.path)) {
        // A program may call itself anything. Where the file is of no use, looking for symbols in it says why.
        found = layout(Some(exe.clone()));
        module.file = Some(exe.clone());
    }
    if let Some(layout) = found {
        module.bias = bias(seen, is_old, &layout);
        module.machine = layout.machine;
    }
    module
}

/// Whether a module of this path is the program whose file the user named.
fn is_program(path: &Path, exe: &Path) -> bool {
    !is_library(path) && path.file_name() == exe.file_name()
}

/// The bias that makes file addresses of those in the log; `None` where nothing tells.
fn bias(seen: &Seen, is_old: Option<bool>, layout: &Layout) -> Option<LoadBias> {
    let fits = |bias: u64| {
        let (lowest, highest) = seen.addresses;
        let begin = bias.wrapping_add(layout.first);
        let size = layout.end - layout.first;
        lowest.wrapping_sub(begin) <= size && highest.wrapping_sub(begin) <= size
    };
    let as_mapped = 0;
    let from_begin = layout.first.wrapping_neg();
    let known = match (by_symbols(seen, layout), is_old) {
        (Some(bias), _) => Some(bias),
        (None, Some(true)) => Some(as_mapped),
        // Where both could be, a call of the program is rather where the linker put it than far inside.
        (None, _) if layout.first != 0 && fits(as_mapped) => Some(as_mapped),
        (None, _) => Some(from_begin),
    };
    known.filter(|bias| fits(*bias)).map(LoadBias)
}

/// The bias that most symbols agree on.
fn by_symbols(seen: &Seen, layout: &Layout) -> Option<u64> {
    let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
    for symbol in &seen.symbols {
        let behind = symbol.pc.wrapping_sub(symbol.offset);
        for value in layout.symbols.get(&symbol.name).into_iter().flatten() {
            // Bit 0 of a symbol's value says Thumb; the address has it as well, or the offset does.
            let bias = behind.wrapping_sub(*value) & !1;
            if bias.is_multiple_of(4096) {
                *votes.entry(bias).or_default() += 1;
            }
        }
    }
    let most = votes.iter().max_by_key(|(_, votes)| **votes)?;
    Some(*most.0)
}
