//! The modules of a trace, and where their symbols come from.

use super::warnings;
use crate::images::Images;
use crate::naming::{File, Names, hex};
use crate::report::{ModuleList, ModuleSymbols, SymbolFile, Tried};
use crate::symbols::{Located, Rule, Source};
use crate::trace::Trace;
use std::path::Path;

/// Lists the modules that `names` has.
pub(crate) fn list(trace: &Trace, images: &Images, names: &Names) -> ModuleList {
    ModuleList {
        schema: 1,
        modules: names.files().iter().map(module).collect(),
        warnings: warnings::of(trace, images),
    }
}

fn module(file: &File) -> ModuleSymbols {
    let resolved = &file.resolved;
    let count = |has: fn(&Located) -> bool| {
        let sites = resolved.addresses.iter();
        sites.filter(|frames| frames.iter().any(has)).count() as u64
    };
    ModuleSymbols {
        path: file.name.path.as_deref().map(shown),
        build_id: file.name.build_id.as_deref().map(hex),
        found: match resolved.found {
            Source::DebugInfo => "debug-info",
            Source::SymbolsOnly => "symbols-only",
            Source::NoSymbols => "no-symbols",
            Source::BuildIdMismatch => "rebuilt",
            Source::Missing => "missing",
        },
        files: resolved
            .files
            .iter()
            .map(|used| SymbolFile {
                path: shown(&used.path),
                rule: rule(used.rule),
            })
            .collect(),
        sites: (file.addresses.len() + file.unplaced) as u64,
        named: count(|frame| frame.function.is_some()),
        with_lines: count(|frame| frame.line.is_some()),
        missing: file.missing(),
        tried: resolved
            .tried
            .iter()
            .map(|place| Tried {
                path: shown(&place.path),
                why: place.why.clone(),
            })
            .collect(),
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn rule(rule: Rule) -> &'static str {
    match rule {
        Rule::Path => "path",
        Rule::BuildId => "build-id",
        Rule::DebugLink => "debug-link",
        Rule::DebugDir => "debug-dir",
        Rule::Beside => "beside",
        Rule::Debuginfod => "debuginfod",
        Rule::AltLink => "alt-link",
        Rule::SplitPackage => "split-package",
        Rule::SplitUnit(_) => "split-unit",
    }
}
