//! Finds the files with a module's symbols, and proves that they belong to it.

use super::file::{MappedFile, Unusable, has_debug_info};
use super::search::{Candidate, Search};
use super::{Module, Rule, TriedPlace, UsedFile, supplementary};
use object::{Object, ObjectSection};
use std::path::{Path, PathBuf};

/// What was found for one module.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The module itself.
    pub(super) module: Option<MappedFile>,
    /// The file with its debug information, if that is another one.
    pub(super) debug: Option<MappedFile>,
    /// What several debug files share (dwz).
    pub(super) supplementary: Option<MappedFile>,
    /// The package of its split units.
    pub(super) package: Option<MappedFile>,
    /// A file is where the module was, but is another build.
    pub(super) is_rebuilt: bool,
    /// Which files these are, and why.
    pub(super) used: Vec<UsedFile>,
    /// Where what is missing was looked for.
    pub(super) tried: Vec<TriedPlace>,
    /// What the reader of a report must know.
    pub(super) notes: Vec<String>,
}

impl Files {
    /// The file that debug information is read from, if any has some.
    pub(super) fn with_debug_info(&self) -> Option<&MappedFile> {
        [&self.debug, &self.module]
            .into_iter()
            .flatten()
            .find(|file| has_debug_info(&file.elf()))
    }

    fn note_use(&mut self, file: &MappedFile, rule: Rule) {
        self.used.push(UsedFile {
            path: file.path().to_owned(),
            rule,
        });
    }

    fn note_try(&mut self, path: &Path, why: impl Into<String>) {
        self.tried.push(TriedPlace {
            path: path.to_owned(),
            why: why.into(),
        });
    }

    /// Opens the file at `path`, or notes why it cannot be used.
    fn open(&mut self, path: &Path) -> Result<MappedFile, Unusable> {
        let opened = MappedFile::open(path);
        if let Err(reason) = &opened {
            self.note_try(path, reason.to_string());
        }
        opened
    }
}

/// Finds the files of `module`.
pub(super) fn find(module: &Module, search: &Search) -> Files {
    let recorded = module.build_id.as_deref().filter(|id| !id.is_empty());
    let mut files = Files::default();
    let mut rebuilt = None;
    find_module(module, recorded, search, &mut files, &mut rebuilt);
    let own = files.module.as_ref().and_then(MappedFile::build_id);
    let id = recorded.map(<[u8]>::to_vec).or(own);
    if files.with_debug_info().is_none() {
        find_debug(module, id.as_deref(), search, &mut files);
    }
    if files.module.is_none() && files.debug.is_none() {
        files.is_rebuilt = rebuilt.is_some();
        files.notes.extend(rebuilt);
    }
    find_supplementary(search, &mut files);
    find_package(search, &mut files);
    files
}

/// Opens the module at its own path, unless it is another build; then `rebuilt` says so.
fn find_module(
    module: &Module,
    recorded: Option<&[u8]>,
    search: &Search,
    files: &mut Files,
    rebuilt: &mut Option<String>,
) {
    let on_target = || search.on_target(module.path.as_deref()?);
    let Some(path) = module.file.clone().or_else(on_target) else {
        return;
    };
    let file = match files.open(&path) {
        Ok(file) => file,
        Err(Unusable::Absent) => return,
        Err(Unusable::Unreadable(reason)) => {
            let path = path.display();
            files.notes.push(format!("{path} cannot be used: {reason}"));
            return;
        }
    };
    let found = file.build_id();
    // Logs of glibc's mtrace know no build ids: then the path has to do.
    if recorded.is_some() && recorded != found.as_deref() {
        files.note_try(&path, "another build");
        *rebuilt = Some(format!(
            "{} is not the file that was traced and was not used: its build id is {}, the recorded one {}",
            path.display(),
            found.map_or("missing".to_owned(), |id| super::hex(&id)),
            super::hex(recorded.unwrap_or_default()),
        ));
        return;
    }
    // But a trace tells that there was none.
    if recorded.is_none() && module.first.is_some() {
        if let Some(id) = found {
            files.note_try(file.path(), "another build");
            let (path, id) = (path.display(), super::hex(&id));
            *rebuilt = Some(format!(
                "{path} is not the file that was traced and was not used: its build id is {id}, and that file had none"
            ));
            return;
        }
        let path = module.path.as_deref().unwrap_or(&path).display();
        files.notes.push(format!(
            "{path} has no build id, so nobody can tell whether it is the file that was traced"
        ));
    }
    files.note_use(&file, Rule::Path);
    files.module = Some(file);
}

/// Looks for a file with the debug information that the module itself lacks.
fn find_debug(module: &Module, id: Option<&[u8]>, search: &Search, files: &mut Files) {
    let link = files.module.as_ref().and_then(debug_link);
    let link_name = link.as_ref().map(|(name, _)| name.as_str());
    let own = files.module.as_ref().map(|file| file.path().to_owned());
    let candidates = search.debug_files(module.path.as_deref(), id, link_name, own.as_deref());
    let mut refused = None;
    for candidate in candidates {
        let Ok(file) = files.open(&candidate.path) else {
            continue;
        };
        let sum = link.as_ref().map(|(_, sum)| *sum);
        if let Err(reason) = check(&file, &candidate, id, sum, files.module.as_ref()) {
            if candidate.rule == Rule::DebugLink {
                let path = candidate.path.display();
                refused.get_or_insert(format!("{path} was not used: {reason}"));
            }
            files.note_try(&candidate.path, reason);
            continue;
        }
        if has_debug_info(&file.elf()) {
            files.note_use(&file, candidate.rule);
            files.debug = Some(file);
            files.tried.clear();
            return;
        }
        files.note_try(&candidate.path, "without debug information");
        if files.module.is_none() {
            // Better than nothing: it may have symbols.
            files.note_use(&file, candidate.rule);
            files.module = Some(file);
        }
    }
    if id.is_some() {
        for folder in search.searched(own.is_none()) {
            files.note_try(folder, "nothing of this build id below it");
        }
    }
    let absent = link_name.map(|name| {
        let module = module.path.as_deref().unwrap_or(Path::new("a module"));
        format!("debug file {name} of {} was not found", module.display())
    });
    files.notes.extend(refused.or(absent));
}

/// Whether a candidate belongs to the module; else why not.
///
/// A build id decides where both sides have one. Where not, the check sum of a debug link does, and for a file
/// in a directory that the user named the layout of the code.
fn check(
    file: &MappedFile,
    candidate: &Candidate,
    id: Option<&[u8]>,
    sum: Option<u32>,
    module: Option<&MappedFile>,
) -> Result<(), String> {
    let found = file.build_id();
    if let (Some(id), Some(found)) = (id, &found) {
        return if id == found {
            Ok(())
        } else {
            Err(format!("its build id {} is another", super::hex(found)))
        };
    }
    match (candidate.rule, sum) {
        (Rule::DebugLink | Rule::DebugDir | Rule::Beside, Some(sum)) => {
            if crc32fast::hash(file.bytes()) == sum {
                Ok(())
            } else {
                Err("its check sum is not that of the debug link".to_owned())
            }
        }
        (Rule::DebugDir, None) if id.is_none() => match module {
            Some(module) if found.is_some() || code(file) != code(module) => {
                Err("it is another build".to_owned())
            }
            _ => Ok(()),
        },
        _ => Err("it has no build id".to_owned()),
    }
}

/// Address and size of the main code section.
fn code(file: &MappedFile) -> Option<(u64, u64)> {
    let elf = file.elf();
    let text = elf.section_by_name(".text")?;
    Some((text.address(), text.size()))
}

/// Name and check sum in `.gnu_debuglink`. The name must not lead elsewhere.
fn debug_link(module: &MappedFile) -> Option<(String, u32)> {
    let elf = module.elf();
    let (name, sum) = elf.gnu_debuglink().ok()??;
    let name = std::str::from_utf8(name).ok()?;
    let is_plain = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
    is_plain.then(|| (name.to_owned(), sum))
}

/// Opens what the debug file shares with others.
fn find_supplementary(search: &Search, files: &mut Files) {
    let Some(debug) = files.with_debug_info() else {
        return;
    };
    let Some(supplementary::Link { name, id }) = supplementary::link(&debug.elf()) else {
        return;
    };
    let note = format!(
        "{name}, which {} shares debug information with, was not found: names may be missing",
        debug.path().display()
    );
    let mut tried = Vec::new();
    for path in search.supplementary_files(&name, &id, debug.path()) {
        let why = match MappedFile::open(&path) {
            Ok(file) if supplementary::id(&file).as_ref() == Some(&id) => {
                files.note_use(&file, Rule::AltLink);
                files.supplementary = Some(file);
                return;
            }
            Ok(_) => "another build".to_owned(),
            Err(reason) => reason.to_string(),
        };
        tried.push(TriedPlace { path, why });
    }
    files.tried.extend(tried);
    files.notes.push(note);
}

/// Opens the package of split units, if there is one.
fn find_package(search: &Search, files: &mut Files) {
    let beside: Vec<PathBuf> = [&files.module, &files.debug]
        .into_iter()
        .flatten()
        .map(|file| file.path().to_owned())
        .collect();
    if files.with_debug_info().is_none() {
        return;
    }
    let found = beside
        .iter()
        .flat_map(|path| search.packages(path))
        .filter_map(|path| MappedFile::open(&path).ok())
        .find(|file| file.elf().section_by_name(".debug_cu_index").is_some());
    if let Some(file) = found {
        files.note_use(&file, Rule::SplitPackage);
        files.package = Some(file);
    }
}
