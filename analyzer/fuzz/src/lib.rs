//! What is fuzzed: any bytes as a trace or a log, and any bytes as a module's file. Neither may panic, or take memory or time that
//! its input does not justify.

pub mod memory;
pub mod mutate;
pub mod programs;
pub mod seeds;

use heapwire::address::FileAddress;
use heapwire::mtrace::{self, Exporter, Program};
use heapwire::report::Process;
use heapwire::{Options, Repair, symbols};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{HEADER, TRAILER};
use programs::BUILD_ID;
use std::fs;
use std::path::{Path, PathBuf};

/// A file that inputs are written to.
#[derive(Debug)]
pub struct Place {
    /// Removed at the end.
    pub folder: Scratch,
    file: PathBuf,
}

impl Place {
    /// A new one.
    #[must_use]
    pub fn new() -> Self {
        // In memory, where that can be: a file for each round is most of what a disk would have to do.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            Scratch::below(memory, "heapwire-fuzz")
        } else {
            Scratch::new("fuzz")
        };
        let file = folder.join("input");
        Self { folder, file }
    }

    fn with(&self, bytes: &[u8]) -> &PathBuf {
        // A new file each time: the analyzer maps files, and what is mapped may not change.
        let _ = fs::remove_file(&self.file);
        fs::write(&self.file, bytes).expect("the folder can be written to");
        &self.file
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

/// Finds frames, and what is wrong with them. What is saved of them is sound, and all of it is saved by another repair.
pub fn read_frames(bytes: &[u8], place: &Place) {
    let path = place.with(bytes);
    let whole = heapwire::wholeness(path);
    let contents = heapwire::contents(path);
    assert_eq!(
        whole.is_ok(),
        contents.is_ok(),
        "one verb reads what another refuses"
    );
    let Some(once) = repaired(path) else {
        return;
    };
    let path = place.with(&once);
    let after = heapwire::wholeness(path).expect("what was written is a trace");
    assert!(after.damage.is_empty(), "repaired, and {:?}", after.damage);
    let again = repaired(path).expect("as above");
    assert!(again == once, "another repair changes what was repaired");
}

/// What is saved of a trace that has a whole frame.
fn repaired(path: &Path) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let repair = Repair::open(path).ok()?;
    repair.write(&mut out).expect("a Vec takes everything");
    (!out.is_empty()).then_some(out)
}

/// Puts records in order, and reads each.
pub fn read_records(bytes: &[u8], place: &Place) {
    let mut lines = Vec::new();
    let Ok(dumped) = heapwire::dump(place.with(bytes), &mut lines) else {
        return;
    };
    let lines = lines.iter().filter(|byte| **byte == b'\n').count();
    let calls = dumped.calls;
    assert!(calls <= lines as u64, "{calls} calls in {lines} lines");
}

/// Replays a sound trace of any calls: it is read to its end, and its sums add up.
pub fn replay(bytes: &[u8], place: &Place) {
    let report = heapwire::analyze(std::slice::from_ref(place.with(bytes)), &Options::default());
    let report = report.expect("every frame is whole");
    assert_eq!(report.trace.damaged_bytes, 0);
    for process in &report.processes {
        let totals = &process.totals;
        assert!(totals.live_bytes <= totals.peak_bytes);
        let begun = totals.allocations + totals.reallocations;
        assert!(totals.live_blocks <= begun, "{totals:?}");
        assert!(totals.peak_blocks <= begun, "{totals:?}");
        assert_eq!(totals.live_blocks, leaked(process), "{totals:?}");
    }
}

/// Live blocks of all rows.
fn leaked(process: &Process) -> u64 {
    process.leaks.iter().map(|leak| leak.blocks).sum()
}

/// All that the analyzer does with a trace.
pub fn open_trace(bytes: &[u8], place: &Place) {
    let path = place.with(bytes);
    let options = Options::default();
    let inputs = std::slice::from_ref(path);
    let report = heapwire::analyze(inputs, &options);
    let blocks = heapwire::live_blocks(inputs, &heapwire::Selection::default(), &options);
    assert_eq!(
        report.is_ok(),
        blocks.is_ok(),
        "one verb reads what another refuses"
    );
    let mut lines = Vec::new();
    let _ = heapwire::dump(path, &mut lines); // an error is a fine answer
    let Some((report, blocks)) = report.ok().zip(blocks.ok()) else {
        return;
    };
    let shown = heapwire::report::json::render(&report);
    assert!(!shown.is_empty());
    for (process, listed) in report.processes.iter().zip(&blocks.processes) {
        let held = process.totals.live_blocks + process.totals.inherited_blocks;
        assert_eq!(
            held,
            listed.blocks.len() as u64,
            "two verbs count differently"
        );
        let live = process.totals.live_blocks;
        assert_eq!(live, leaked(process), "rows do not add up");
    }
}

/// All that is done with a log of glibc's mtrace besides: what mtrace(1) prints, and the log written anew.
pub fn open_log(bytes: &[u8], place: &Place) {
    open_trace(bytes, place);
    let path = place.with(bytes);
    let strict = Program {
        file: path,
        options: None,
    };
    let symbols = symbols::Options::default();
    let better = Program {
        options: Some(&symbols),
        ..strict
    };
    for program in [None, Some(strict), Some(better)] {
        let mut printed = Vec::new();
        let done = mtrace::print(path, program, &mut printed);
        assert!(done.is_err() || !printed.is_empty(), "nothing was printed");
    }
    let Ok(mut exporter) = Exporter::open(std::slice::from_ref(path)) else {
        return;
    };
    for part in exporter.parts() {
        let mut log = Vec::new();
        let exported = exporter.write(part, &mut log);
        let lines = exported.expect("a Vec takes everything").lines;
        let text = String::from_utf8(log).expect("what is written is text");
        let marks = text.lines().filter(|line| line.starts_with("= ")).count();
        assert_eq!(
            text.lines().count() - marks,
            usize::try_from(lines).expect("few")
        );
    }
}

/// Parts the damaged lines of `trace` from what is no line: no frame comes out that the trace does not have.
pub fn split(lines: &[u8], trace: &[u8], place: &Place) {
    let (mut text, mut frames) = (Vec::new(), Vec::new());
    let path = place.with(lines);
    if heapwire::split(path, &mut text, &mut frames).is_ok() {
        assert!(text.len() <= lines.len());
        for frame in whole_frames(&frames) {
            assert!(memmem(trace, frame), "a frame that nobody wrote");
        }
    }
    read_frames(lines, place);
}

/// The whole frames in `bytes`, each to its trailer.
fn whole_frames(bytes: &[u8]) -> Vec<&[u8]> {
    let starts = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(mutate::MAGIC));
    let frames = starts.filter_map(|at| {
        let length: [u8; 4] = bytes.get(at + 16..at + 20)?.try_into().ok()?;
        let end = at + HEADER + u32::from_le_bytes(length) as usize;
        let number: [u8; 4] = bytes.get(at + 24..at + 28)?.try_into().ok()?;
        let trailer = (0x5457_4821 ^ u32::from_le_bytes(number)).to_le_bytes();
        let frame = bytes.get(at..end + TRAILER)?;
        frame.ends_with(&trailer).then_some(frame)
    });
    frames.collect()
}

fn memmem(all: &[u8], part: &[u8]) -> bool {
    all.windows(part.len()).any(|window| window == part)
}

/// All that symbols do with a module's file: `addresses` are looked up in it.
pub fn resolve(bytes: &[u8], addresses: &[u64], place: &Place) {
    look_up(place.with(bytes), addresses);
}

/// The same with a program of which one file has these bytes.
///
/// Gives how many of its addresses have a function.
///
/// # Panics
///
/// Where the file cannot be written.
#[must_use]
pub fn resolve_with(program: &programs::Program, bytes: &[u8]) -> usize {
    let _ = fs::remove_file(&program.file); // as above: it may be mapped
    fs::write(&program.file, bytes).expect("the folder can be written to");
    look_up(&program.module, &program.addresses)
}

/// Gives how many of `addresses` have a function.
fn look_up(path: &Path, addresses: &[u64]) -> usize {
    let module = symbols::Module {
        path: Some(path.to_owned()),
        build_id: Some(BUILD_ID.to_vec()),
        ..symbols::Module::default()
    };
    let addresses = addresses.iter().copied().map(FileAddress).collect();
    let resolved = symbols::resolve(&[(module, addresses)], &symbols::Options::default());
    let frames = resolved.iter().flat_map(|module| &module.addresses);
    frames.filter(|frames| !frames.is_empty()).count()
}

/// A name as a reader sees it, whatever the bytes are.
pub fn read_name(bytes: &[u8]) {
    const MOST: usize = 4096 + '…'.len_utf8();
    let name = String::from_utf8_lossy(bytes);
    let shown = symbols::readable(&[&name], &symbols::Options::default());
    assert!(shown.len() == 1 && shown[0].len() <= MOST, "{shown:?}");
}
