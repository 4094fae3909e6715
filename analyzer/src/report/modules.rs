//! What is known of the modules of a trace.

use super::Warning;
use serde::Serialize;

/// The modules of a trace, and what there is to look symbols up in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModuleList {
    /// Version of this layout.
    pub schema: u32,
    /// In order of path and build id.
    pub modules: Vec<ModuleSymbols>,
    /// What the reader must know.
    pub warnings: Vec<Warning>,
}

/// One module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModuleSymbols {
    /// Its path in the traced process.
    pub path: Option<String>,
    /// Its GNU build id in hex.
    pub build_id: Option<String>,
    /// `debug-info`, `symbols-only`, `no-symbols`, `rebuilt` (a file is there, but of another build) or `missing`.
    pub found: &'static str,
    /// The files that symbols come from.
    pub files: Vec<SymbolFile>,
    /// Distinct call sites in it.
    pub sites: u64,
    /// Of these, how many have a function.
    pub named: u64,
    /// Of these, how many have a line.
    pub with_lines: u64,
    /// What is missing and what would help, a sentence each.
    pub missing: Vec<String>,
    /// Where that was looked for, in that order.
    pub tried: Vec<Tried>,
}

/// A place where something was looked for in vain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tried {
    /// The file, or the folder that was searched.
    pub path: String,
    /// Why nothing there was used.
    pub why: String,
}

/// A file that symbols come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SymbolFile {
    /// Where it is.
    pub path: String,
    /// Why it was looked for there: `path`, `build-id`, `debug-link`, `debug-dir`, `beside`, `debuginfod`, `alt-link`,
    /// `split-package` or `split-unit`.
    pub rule: &'static str,
}
