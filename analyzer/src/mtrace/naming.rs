//! Names of callers for the script's report, where the program is at hand.
//!
//! The script asks addr2line, for each address once, in the file that the log names. That is right for position-independent
//! programs called by a path; what it gets wrong is named by the module that the address lies in, as in every other report.

use super::placing::{is_old, placed};
use super::script::{Names, Place, hex};
use crate::address::{FileAddress, ReturnAddress, RuntimeAddress};
use crate::log::callers::{Callers, Seen};
use crate::log::line::{Line, Read};
use crate::sites::Module;
use crate::symbols;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lines that addr2line would print, by file and address.
struct Lines(FxHashMap<(PathBuf, u64), String>);

impl Lines {
    fn of(callers: &[&[u8]], program: &Path) -> Self {
        let mut by_file: BTreeMap<PathBuf, Vec<u64>> = BTreeMap::new();
        for (file, address) in callers
            .iter()
            .filter_map(|text| asked(Place::of(text), program))
        {
            by_file.entry(file).or_default().push(address);
        }
        let options = symbols::Options::default();
        let lines = by_file
            .into_par_iter()
            .flat_map_iter(|(file, mut addresses)| {
                addresses.sort_unstable();
                addresses.dedup();
                let lines = symbols::binutils_lines(&file, &addresses, &options);
                let known = addresses.into_iter().zip(lines);
                let known = known.filter_map(|(address, line)| Some((address, line?)));
                let known: Vec<_> = known
                    .map(|(address, line)| ((file.clone(), address), line))
                    .collect();
                known
            });
        Self(lines.collect())
    }

    fn names<'l>(&self, callers: &[&'l [u8]], program: &Path) -> Names<'l> {
        Names::as_the_script(callers.iter().copied(), |place| {
            let line = self.get(place, program)?;
            Some(line.as_bytes().to_vec())
        })
    }

    fn get(&self, place: Place<'_>, program: &Path) -> Option<&str> {
        let line = self.0.get(&asked(place, program)?)?;
        Some(line.as_str())
    }
}

/// The file and address that the script asks for.
fn asked(place: Place<'_>, program: &Path) -> Option<(PathBuf, u64)> {
    match place {
        Place::Text(_) => None,
        Place::Function { pc, .. } | Place::Address { pc } => Some((program.to_owned(), hex(pc))),
        Place::File { file, pc } => Some((PathBuf::from(OsStr::from_bytes(file)), hex(pc))),
    }
}

/// The names that the script gives `callers`.
pub(super) fn of_script<'l>(callers: &[&'l [u8]], program: &Path) -> Names<'l> {
    Lines::of(callers, program).names(callers, program)
}

/// The names of `callers` in `log`, and how many differ from the script's.
pub(super) fn better<'l>(
    callers: &[&'l [u8]],
    log: &'l [u8],
    program: &Path,
    options: &symbols::Options,
) -> (Names<'l>, u64) {
    let lines = Lines::of(callers, program);
    let script = lines.names(callers, program);
    let options = symbols::Options {
        exe: Some(program.to_owned()),
        ..options.clone()
    };
    let own = own_lines(callers, log, &options);
    let names = Names::each(callers.iter().copied(), |caller| {
        let place = Place::of(caller);
        let of_script = lines.get(place, program);
        let name = match (own.get(caller), of_script) {
            (Some(own), Some(line)) if has_line(line, own.1) => line.to_owned(),
            (Some((file, line)), _) => format!("{file}:{line}"),
            (None, Some(line)) if !line.starts_with("??:") => line.to_owned(),
            (None, _) => return None,
        };
        Some(name.into_bytes())
    });
    let differing = names.differing(&script);
    (names, differing)
}

/// Whether addr2line names this line.
fn has_line(text: &str, line: u32) -> bool {
    let text = text.split(" (").next().unwrap_or(text);
    text.rsplit_once(':')
        .is_some_and(|(_, number)| number.parse() == Ok(line))
}

/// The file and line of the call itself, for each caller of which they are known.
fn own_lines<'l>(
    callers: &[&'l [u8]],
    log: &'l [u8],
    options: &symbols::Options,
) -> FxHashMap<&'l [u8], (Arc<str>, u32)> {
    let mut known = all_callers(log);
    let places: Vec<_> = callers
        .iter()
        .filter_map(|text| Some((*text, known.place(text)?)))
        .collect();
    let is_old = is_old(known.modules());
    let program = Seen::nameless(
        &places
            .iter()
            .filter(|(_, place)| place.base == 0)
            .map(|(_, place)| place.pc)
            .collect::<Vec<_>>(),
    );
    let modules: Vec<Module> = known
        .modules()
        .par_iter()
        .chain(program.par_iter())
        .map(|seen| placed(seen, is_old, options))
        .collect();
    let mut requests: Vec<(symbols::Module, Vec<FileAddress>)> = Vec::new();
    let mut wanted = Vec::new();
    for module in modules {
        let Some(bias) = module.bias else {
            continue;
        };
        let of_module: Vec<_> = places
            .iter()
            .filter(|(_, place)| place.base == module.base)
            .collect();
        let addresses = of_module.iter().map(|(_, place)| {
            let call = ReturnAddress(RuntimeAddress(place.pc)).call(module.machine);
            bias.to_file(call)
        });
        requests.push((module.symbols(), addresses.collect()));
        wanted.push(of_module);
    }
    let resolved = symbols::resolve(&requests, options);
    let mut lines = FxHashMap::default();
    for (callers, resolved) in wanted.into_iter().zip(resolved) {
        for ((text, _), frames) in callers.into_iter().zip(resolved.addresses) {
            if let Some(innermost) = frames.first()
                && let (Some(file), Some(line)) = (&innermost.file, innermost.line)
            {
                lines.insert(*text, (Arc::clone(file), line));
            }
        }
    }
    lines
}

/// All callers of a log: more symbols than those of the callers shown tell where modules lay.
fn all_callers(log: &[u8]) -> Callers<'_> {
    let mut callers = Callers::new(1);
    for line in log.split(|byte| *byte == b'\n') {
        if let Line::Record(entry) = Read::of(line).line
            && let Some(caller) = entry.caller
        {
            callers.place(caller);
        }
    }
    callers
}
