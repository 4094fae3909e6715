//! A folder with traces and the files that their symbols come from, so that any machine can report on them.
//!
//! ```text
//! heapwire-bundle   says that this is one
//! traces/           the traces, as they were
//! root/             modules, by their paths on the machine that was traced
//! debug/            debug files, by their build ids
//! ```
//!
//! Every reading verb takes the folder for the traces in it.

use crate::report::ModuleList;
use crate::symbols::pack::{self, DEBUG, ROOT};
use crate::{Options, TraceError, symbols};
use std::borrow::Cow;
use std::error::Error;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// The file that marks a bundle.
const MARK: &str = "heapwire-bundle";
/// What stands in it.
const VERSION: &str = "1\n";
/// The folder with the traces.
const TRACES: &str = "traces";

/// What a bundle came to hold.
#[derive(Debug)]
pub struct Bundled {
    /// Files with symbols.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// What is known of the modules, of which the bundle has all that was found.
    pub modules: ModuleList,
}

/// Why there is no bundle.
#[derive(Debug)]
pub enum BundleError {
    /// An input cannot be read or is no trace.
    Trace(TraceError),
    /// A file cannot be copied or the folder not be made.
    Write {
        /// What was to be written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder has something in it.
    NotEmpty {
        /// The folder as given.
        path: PathBuf,
    },
}

impl fmt::Display for BundleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::Write { path, .. } => write!(f, "cannot write {}", path.display()),
            Self::NotEmpty { path } => write!(f, "{} is not an empty folder", path.display()),
        }
    }
}

impl Error for BundleError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Trace(error) => error.source(),
            Self::Write { source, .. } => Some(source),
            Self::NotEmpty { .. } => None,
        }
    }
}

impl From<TraceError> for BundleError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

/// Copies `inputs` and all files with symbols of their modules into `out`, which is made or must be empty.
///
/// # Errors
///
/// An input is no trace, or something cannot be written.
pub fn bundle(inputs: &[PathBuf], options: &Options, out: &Path) -> Result<Bundled, BundleError> {
    // What cannot be read is refused before anything is written; standard input can be read once only.
    let from_stdin = inputs.iter().any(|input| input == Path::new("-"));
    if !from_stdin {
        crate::module_symbols(inputs, options)?;
    }
    make(out)?;
    let (inputs, options) = open(inputs, options);
    let mut traces = Vec::new();
    for input in inputs.iter() {
        traces.push(copy_trace(input, &out.join(TRACES))?);
    }
    let (modules, names) = crate::modules_of(&traces, &options)?;
    let mut bundled = Bundled {
        files: 0,
        bytes: 0,
        modules,
    };
    for file in names.files() {
        for placed in pack::places(&file.name, &file.resolved.files) {
            for to in placed.to {
                let to = out.join(to);
                if !to.exists() {
                    bundled.files += 1;
                    bundled.bytes += copy(&placed.from, &to)?;
                }
            }
        }
    }
    let mark = out.join(MARK);
    fs::write(&mark, VERSION).map_err(|source| write_error(&mark, source))?;
    Ok(bundled)
}

/// Traces in place of the bundles among the inputs, and the places for symbols that these bundles are.
pub(crate) fn open<'a>(
    inputs: &'a [PathBuf],
    options: &'a Options,
) -> (Cow<'a, [PathBuf]>, Cow<'a, Options>) {
    if !inputs.iter().any(|input| is_bundle(input)) {
        return (Cow::Borrowed(inputs), Cow::Borrowed(options));
    }
    let mut traces = Vec::new();
    let mut options = options.clone();
    for input in inputs {
        if !is_bundle(input) {
            traces.push(input.clone());
            continue;
        }
        let found = fs::read_dir(input.join(TRACES)).into_iter().flatten();
        let mut found: Vec<PathBuf> = found.flatten().map(|entry| entry.path()).collect();
        found.sort_unstable();
        traces.extend(found);
        let symbols::Options {
            sysroot,
            debug_dirs,
            ..
        } = &mut options.symbols;
        let root = input.join(ROOT);
        debug_dirs.push(input.join(DEBUG));
        match sysroot {
            None => *sysroot = Some(root),
            Some(_) => debug_dirs.push(root),
        }
    }
    (Cow::Owned(traces), Cow::Owned(options))
}

fn is_bundle(input: &Path) -> bool {
    input.join(MARK).is_file()
}

/// Makes an empty folder, unless there is one.
fn make(out: &Path) -> Result<(), BundleError> {
    let not_empty = || BundleError::NotEmpty {
        path: out.to_owned(),
    };
    match fs::read_dir(out) {
        Ok(entries) => match entries.count() {
            0 => Ok(()),
            _ => Err(not_empty()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(out).map_err(|source| write_error(out, source))
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(not_empty()),
        Err(source) => Err(write_error(out, source)),
    }
}

/// Copies a trace under its own name, or one like it if that is taken.
fn copy_trace(input: &Path, folder: &Path) -> Result<PathBuf, BundleError> {
    let is_stdin = input == Path::new("-");
    let own = input.file_name().filter(|_| !is_stdin);
    let own = own.unwrap_or(OsStr::new("stdin.hwt"));
    let names = (2..).map(|number: u64| {
        let mut name = std::ffi::OsString::from(format!("{number}-"));
        name.push(own);
        name
    });
    let mut names = std::iter::once(own.to_owned()).chain(names);
    let to = names.find_map(|name| Some(folder.join(name)).filter(|path| !path.exists()));
    let to = to.unwrap_or_else(|| folder.join(own)); // numbers do not end
    if is_stdin {
        fs::create_dir_all(folder).map_err(|source| write_error(folder, source))?;
        let mut file = File::create(&to).map_err(|source| write_error(&to, source))?;
        io::copy(&mut io::stdin().lock(), &mut file).map_err(|source| write_error(&to, source))?;
    } else {
        copy(input, &to)?;
    }
    Ok(to)
}

fn copy(from: &Path, to: &Path) -> Result<u64, BundleError> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(|source| write_error(folder, source))?;
    }
    fs::copy(from, to).map_err(|source| write_error(to, source))
}

fn write_error(path: &Path, source: io::Error) -> BundleError {
    BundleError::Write {
        path: path.to_owned(),
        source,
    }
}
