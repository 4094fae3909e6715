//! How fast 10,000 call sites of a C++ program with 200 MB of debug information get their frames, beside other tools.
//!
//! `cargo bench -p heapwire --bench symbols [PROGRAM]`. Without a program of your own, one is built, which takes some
//! minutes the first time. Machines are noisy: all candidates take turns, the least is shown, and what counts are the
//! ratios. Nothing is asserted about time.
#![expect(clippy::print_stdout, reason = "the table is the result")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot go on fails")]

#[path = "../tests/symbols/templates.rs"]
mod templates;

use heapwire::address::FileAddress;
use heapwire::symbols::{Module, Options, Resolved, resolve};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const ROUNDS: usize = 5;
const SITES: usize = 10_000;
/// Modules among which these are shared out.
const MODULES: usize = 4;
/// Files and classes of each that make 200 MB of debug information.
const SIZE: (usize, usize) = (15, 200);

fn main() {
    let given = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let program = given.map_or_else(built, PathBuf::from);
    let addresses = addresses(&program);
    let list = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sites");
    let lines: String = addresses
        .iter()
        .map(|address| format!("{:#x}\n", address.0))
        .collect();
    fs::write(&list, lines).unwrap();

    remember(&program, &addresses);
    compare(&program, &addresses, &list);
    repeat(&program, &addresses);
    share(&program, &addresses);
}

/// Shows how much memory one look-up takes.
fn remember(program: &Path, addresses: &[FileAddress]) {
    // What was read before does not count.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = peak_kib();
    let found = look_up(program, addresses);
    let peak = (peak_kib() - before) << 10;
    let named = found
        .addresses
        .iter()
        .filter(|frames| !frames.is_empty())
        .count();
    let is_debug = |name: &str| name.starts_with(".debug_");
    println!(
        "{} sites of {}, {} MB of debug information, {named} with frames",
        addresses.len(),
        program.display(),
        section_bytes(program, is_debug) / 1_000_000
    );
    // Where variables are is of no use here, and not read.
    let read = section_bytes(program, |name| {
        is_debug(name) && !name.starts_with(".debug_loc")
    });
    println!(
        "peak memory {} MB, {:.2} times the sections that are read",
        peak / 1_000_000,
        peak as f64 / read as f64
    );
}

/// Shows how long it takes, beside the other tools; time on a processor is what others on the machine disturb least.
fn compare(program: &Path, addresses: &[FileAddress], list: &Path) {
    let mut ours = Vec::new();
    let mut gnu = Vec::new();
    let mut llvm = Vec::new();
    for _ in 0..ROUNDS {
        ours.push(timed(|| drop(look_up(program, addresses))));
        gnu.push(timed(|| {
            ask(
                Command::new("addr2line")
                    .args(["-f", "-i", "-C", "-e"])
                    .arg(program),
                list,
            );
        }));
        llvm.push(timed(|| {
            ask(
                Command::new("llvm-symbolizer").arg("--obj").arg(program),
                list,
            );
        }));
    }
    let one = least(&ours);
    println!(
        "heapwire        {:8.1} ms, {:8.1} ms on a processor",
        one.wall * 1e3,
        one.cpu * 1e3
    );
    for (name, rounds) in [("addr2line", gnu), ("llvm-symbolizer", llvm)] {
        let its = least(&rounds);
        println!(
            "{name:16}{:8.1} ms, {:8.1} ms on a processor: {:.1} and {:.1} times as long",
            its.wall * 1e3,
            its.cpu * 1e3,
            its.wall / one.wall,
            its.cpu / one.cpu
        );
    }
}

/// Shows what it costs to ask again.
fn repeat(program: &Path, addresses: &[FileAddress]) {
    let again = [addresses, addresses].concat();
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        rounds[0].push(timed(|| drop(look_up(program, addresses))));
        rounds[1].push(timed(|| drop(look_up(program, &again))));
    }
    let [once, twice] = rounds.map(|rounds| least(&rounds));
    println!(
        "each site asked about twice: {:.2} times as long, {:.2} on a processor",
        twice.wall / once.wall,
        twice.cpu / once.cpu
    );
}

/// Shows what a second thread does for several modules.
fn share(program: &Path, addresses: &[FileAddress]) {
    let modules: Vec<(Module, Vec<FileAddress>)> = (0..MODULES)
        .map(|index| {
            let link = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("module{index}"));
            let _ = fs::remove_file(&link); // of the run before
            std::os::unix::fs::symlink(program, &link).unwrap();
            let part = addresses.iter().skip(index).step_by(MODULES);
            (module(&link), part.copied().collect())
        })
        .collect();
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().unwrap();
        timed(|| drop(pool.install(|| resolve(&modules, &Options::default()))))
    };
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        rounds[0].push(on(1));
        rounds[1].push(on(2));
    }
    let [one, two] = rounds.map(|rounds| least(&rounds));
    println!(
        "{MODULES} modules: {:.1} ms on one thread, {:.1} ms on two: {:.2} times as fast",
        one.wall * 1e3,
        two.wall * 1e3,
        one.wall / two.wall
    );
}

/// The program, built unless it is there.
fn built() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("symbols-bench");
    let program = folder.join("program");
    if !program.exists() {
        fs::create_dir_all(&folder).unwrap();
        templates::build(&folder, SIZE.0, SIZE.1, "-O1");
    }
    program
}

fn look_up(program: &Path, addresses: &[FileAddress]) -> Resolved {
    let request = (module(program), addresses.to_vec());
    resolve(&[request], &Options::default()).remove(0)
}

fn module(path: &Path) -> Module {
    Module {
        path: Some(path.to_owned()),
        ..Module::default()
    }
}

/// Distinct addresses in functions, evenly spread.
fn addresses(program: &Path) -> Vec<FileAddress> {
    let bytes = fs::read(program).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let mut all: Vec<u64> = elf
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text)
        .flat_map(|symbol| (symbol.address()..symbol.address() + symbol.size()).step_by(5))
        .collect();
    all.sort_unstable();
    all.dedup();
    let step = (all.len() / SITES).max(1);
    all.into_iter()
        .step_by(step)
        .take(SITES)
        .map(FileAddress)
        .collect()
}

/// Bytes of the sections whose names `counts` is true of.
fn section_bytes(program: &Path, counts: impl Fn(&str) -> bool) -> u64 {
    let bytes = fs::read(program).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    elf.sections()
        .filter(|section| section.name().is_ok_and(&counts))
        .map(|section| section.size())
        .sum()
}

fn ask(tool: &mut Command, list: &Path) {
    let status = tool
        .stdin(File::open(list).unwrap())
        .stdout(Stdio::null())
        .status();
    assert!(status.is_ok_and(|status| status.success()), "{tool:?}");
}

/// Seconds that something takes.
#[derive(Clone, Copy)]
struct Took {
    wall: f64,
    /// On all processors, by this process and those it waited for.
    cpu: f64,
}

fn timed(work: impl FnOnce()) -> Took {
    let (begin, before) = (Instant::now(), cpu_seconds());
    work();
    Took {
        wall: begin.elapsed().as_secs_f64(),
        cpu: cpu_seconds() - before,
    }
}

/// What this process and its children that ended have used.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let status = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = status.rsplit_once(')').unwrap();
    // In user mode and in the kernel, of this process and of its children.
    let ticks = fields.split_whitespace().skip(11).take(4);
    ticks
        .map(|field| field.parse::<f64>().unwrap())
        .sum::<f64>()
        / TICKS_PER_SECOND
}

/// The least of each: whatever disturbs makes it more.
fn least(rounds: &[Took]) -> Took {
    let of = |part: fn(&Took) -> f64| rounds.iter().map(part).fold(f64::INFINITY, f64::min);
    Took {
        wall: of(|took| took.wall),
        cpu: of(|took| took.cpu),
    }
}

/// Most memory that this process ever had, mapped files included.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}
