//! Reads heap traces and says what leaked and what was freed wrongly.
//!
//! Bytes go one way: `trace` finds the records, `order` makes events of them, `replay` pairs these into lifetimes and
//! faults, for each of the `images` of a trace; `findings` makes a [`report::Report`] of that, with names from
//! [`symbols`], and the renderers below `report` show it.
#![deny(unsafe_code)]

pub mod address;
mod bundle;
mod declare;
mod dump;
mod event;
mod findings;
mod images;
mod log;
pub mod mtrace;
mod nameless;
mod naming;
mod order;
mod progress;
mod receive;
mod repair;
mod replay;
pub mod report;
mod sites;
mod split;
pub mod symbols;
#[cfg(test)]
mod tests;
mod time;
mod trace;

pub use bundle::{BundleError, Bundled, bundle};
pub use dump::{DumpError, Dumped};
pub use findings::{By, Per, Selection, Until, difference};
pub use progress::{Progress, progress};
pub use receive::{Received, Receiver};
pub use repair::{Repair, RepairError, Repaired};
pub use split::{Split, SplitError, split};
pub use trace::{TraceError, Translation};

use images::{Images, Stops};
use naming::Names;
use replay::{Chart, Only, Wanted};
use report::{Contents, History, LiveBlocks, ModuleList, Report, Wholeness};
use sites::SiteTable;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace::Trace;

/// How to analyze.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Threads to use; as many as there are processors where none is given. The result does not depend on it.
    pub threads: Option<usize>,
    /// Where to look for symbols.
    pub symbols: symbols::Options,
    /// The moment to which the trace is followed; to its end where none is given.
    pub until: Option<Until>,
    /// Nanoseconds of a step of timelines; a length that makes a few hundred where none is given.
    pub step: Option<u64>,
    /// The blocks that timelines show; all where nothing is given. Modules, functions, threads and sizes count.
    pub charted: Option<Selection>,
    /// Name the steps of timelines that calls of other steps may belong to.
    pub unsure_steps: bool,
    /// List every site.
    pub all_sites: bool,
    /// The blocks and wrong releases that a report lists.
    pub selection: Selection,
    /// What a report sums live blocks by, besides sites.
    pub by: Option<By>,
    /// Pids of the processes that are shown; all where none is given.
    pub pids: Vec<u64>,
}

/// Reports what the inputs hold, taken together.
///
/// # Errors
///
/// The first input that cannot be read or is no trace.
pub fn analyze(inputs: &[PathBuf], options: &Options) -> Result<Report, TraceError> {
    let (inputs, options) = bundle::open(inputs, options);
    let work = || analyze_trace(Trace::open(&inputs)?, &options);
    with_threads(options.threads, work)
}

fn analyze_trace(mut trace: Trace, options: &Options) -> Result<Report, TraceError> {
    let wanted = match findings::Focus::is_asked(options) {
        true => Wanted::Own,
        false => Wanted::None,
    };
    let (images, sites) = replayed(&mut trace, wanted, options)?;
    findings::report(&trace, &images, &sites, options).map_err(TraceError::LaidAside)
}

/// The process images of a trace, with the single live blocks that are wanted, and the sites in them.
fn replayed(
    trace: &mut Trace,
    wanted: Wanted,
    options: &Options,
) -> Result<(Images, SiteTable), TraceError> {
    let mut sites = SiteTable::default();
    let stops = match options.until {
        None => Stops::default(),
        Some(Until::Time(time)) => {
            // A child's frames may come later than what comes after that time of its parent.
            if trace.can_be_read_again() {
                trace.index_all()?;
                progress::expect(trace.length());
            }
            Stops::At(time)
        }
        Some(Until::Peak) => {
            // What is counted on the way is counted when the trace is read for the second time.
            trace.index_all()?;
            progress::expect(trace.length());
            let condition = trace.condition.clone();
            let images = Images::of(
                trace,
                Wanted::None,
                &Stops::default(),
                &mut SiteTable::default(),
            )?;
            trace.condition = condition;
            images.peaks()
        }
    };
    let chart = Chart {
        step: options.step,
        only: charted(trace, &stops, options)?,
        shows_pauses: options.unsure_steps,
    };
    let mut images = Images::charted(trace, wanted, &stops, &chart, &mut sites)?;
    if images.images.iter().any(|image| image.late_copies > 0) && trace.begin_again()? {
        sites = SiteTable::default();
        images = Images::charted(trace, wanted, &stops, &chart, &mut sites)?;
    }
    let pids: Vec<_> = images.images.iter().map(|image| image.pid).collect();
    are_there(&options.pids, &pids)?;
    mtrace::place_modules(&images.logs, &mut sites, &options.symbols);
    Ok((images, sites))
}

/// Refuses a pid that no process has.
fn are_there(asked: &[u64], pids: &[Option<u64>]) -> Result<(), TraceError> {
    match asked.iter().find(|pid| !pids.contains(&Some(**pid))) {
        Some(pid) => Err(TraceError::NoProcess { pid: *pid }),
        None => Ok(()),
    }
}

/// Which blocks timelines are asked to show, if not all: sites are known by their names once the trace was read.
fn charted(
    trace: &mut Trace,
    stops: &Stops,
    options: &Options,
) -> Result<Option<Arc<Only>>, TraceError> {
    let Some(selection) = options.charted.as_ref() else {
        return Ok(None);
    };
    trace.index_all()?;
    progress::expect(trace.length());
    let condition = trace.condition.clone();
    let mut sites = SiteTable::default();
    let images = Images::of(trace, Wanted::None, stops, &mut sites)?;
    trace.condition = condition;
    mtrace::place_modules(&images.logs, &mut sites, &options.symbols);
    let names = Names::of_all(&sites, &options.symbols);
    let takes = |site| selection.takes_site(names.stack(site));
    Ok(Some(Arc::new(Only {
        sites: sites.ids().map(takes).collect(),
        threads: selection.threads.clone(),
        sizes: selection.sizes,
    })))
}

/// Lists the blocks that are live at the end, or at the moment that the options name, as far as they are selected.
///
/// # Errors
///
/// As [`analyze`].
pub fn live_blocks(
    inputs: &[PathBuf],
    selection: &Selection,
    options: &Options,
) -> Result<LiveBlocks, TraceError> {
    let (inputs, options) = bundle::open(inputs, options);
    let work = || {
        let mut trace = Trace::open(&inputs)?;
        let (images, sites) = replayed(&mut trace, Wanted::All, &options)?;
        findings::live(&trace, &images, &sites, selection, &options).map_err(TraceError::LaidAside)
    };
    with_threads(options.threads, work)
}

/// All that happened to one address, and to blocks around it, as far as it is selected.
///
/// # Errors
///
/// As [`analyze`].
pub fn history(
    inputs: &[PathBuf],
    address: u64,
    selection: &Selection,
    options: &Options,
) -> Result<History, TraceError> {
    let (inputs, options) = bundle::open(inputs, options);
    let work = || findings::history(&mut Trace::open(&inputs)?, address, selection, &options);
    with_threads(options.threads, work)
}

/// Lists the modules, and where their symbols come from.
///
/// # Errors
///
/// As [`analyze`].
pub fn module_symbols(inputs: &[PathBuf], options: &Options) -> Result<ModuleList, TraceError> {
    let (list, _) = modules_of(inputs, options)?;
    Ok(list)
}

/// The modules, and the files with their symbols.
fn modules_of(inputs: &[PathBuf], options: &Options) -> Result<(ModuleList, Names), TraceError> {
    let (inputs, options) = bundle::open(inputs, options);
    let work = || {
        let mut trace = Trace::open(&inputs)?;
        let (images, sites) = replayed(&mut trace, Wanted::None, &options)?;
        let names = Names::of_all(&sites, &options.symbols);
        Ok((findings::modules(&trace, &images, &names), names))
    };
    with_threads(options.threads, work)
}

/// Says what is in `input`.
///
/// # Errors
///
/// As [`analyze`].
pub fn contents(input: &Path) -> Result<Contents, TraceError> {
    findings::contents(input)
}

/// Says whether all of `input` is there.
///
/// # Errors
///
/// As [`analyze`].
pub fn wholeness(input: &Path) -> Result<Wholeness, TraceError> {
    findings::wholeness(input)
}

/// Prints every record of `input`, one a line.
///
/// # Errors
///
/// The input cannot be read or is no trace, or `out` cannot be written.
pub fn dump(input: &Path, out: &mut dyn Write) -> Result<Dumped, DumpError> {
    let inputs = [input.to_owned()];
    let options = Options::default();
    let (inputs, _) = bundle::open(&inputs, &options);
    dump::dump(&mut Trace::open(&inputs)?, out)
}

/// Runs `work` with so many threads; where the system gives none, with those there are.
fn with_threads<T: Send>(threads: Option<usize>, work: impl FnOnce() -> T + Send) -> T {
    let pool = threads.and_then(|threads| {
        let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
        builder.build().ok()
    });
    match pool {
        Some(pool) => pool.install(work),
        None => work(),
    }
}
