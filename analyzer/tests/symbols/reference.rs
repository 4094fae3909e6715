//! Thousands of addresses of large files, as two other tools answer them: binutils and LLVM.
//!
//! Depth and lines must be the same, frame by frame, as in both, and files as in LLVM. Names may differ for the reasons that [`Reason`]
//! lists; each difference is written to a file with its reason, and one without a reason fails the test.

use crate::made::{is_installed, look_up, scratch, skip};
use crate::templates;
use heapwire::address::FileAddress;
use heapwire::symbols::{Located, Options, Source};
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// Addresses looked up in each file, at least.
const COUNT: u64 = 6_000;

/// Why a tool may have another name for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// Both names are symbols of the same address.
    Alias,
    /// A function in parts: the tool adds the part's suffix, or leaves it out.
    Part,
    /// binutils, of a frame whose entry has no linkage name: the symbol around the address, whichever function it is of.
    SymbolOfAnother,
    /// binutils, of a function without a linkage name: what stands in its entry, without its namespace and arguments.
    Unqualified,
    /// binutils cannot read the name, and shows it as it is.
    Unread,
    /// binutils, where a template parameter was mentioned in a local function before: it shows what that one had.
    WrongParameter,
}

/// Function and line of a frame; 0 where no line is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    function: String,
    /// Name of the source file without its folder.
    file: String,
    line: u32,
}

#[test]
fn the_c_library() {
    let library = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    let Some(debug) = debug_file(library) else {
        return skip("the debug symbols of libc", "libc6-dbg");
    };
    compare("libc", library, &debug);
}

#[test]
fn the_cpp_library() {
    let library = Path::new("/usr/lib/x86_64-linux-gnu/debug/libstdc++.so.6");
    if !library.exists() {
        return skip("a libstdc++ with symbols", "libstdc++6-12-dbg");
    }
    compare("libstdc++", library, library);
}

#[test]
fn a_large_rust_program() {
    let program = std::env::current_exe().unwrap();
    compare("rust", &program, &program);
}

#[test]
fn a_large_cpp_program() {
    for flags in ["-O0", "-O2"] {
        let built = scratch("a_large_cpp_program");
        let program = templates::build(&built, 2, 24, flags);
        compare(&format!("templates{flags}"), &program, &program);
    }
}

/// The file with the debug information of a library of the system.
fn debug_file(library: &Path) -> Option<PathBuf> {
    let bytes = fs::read(library).ok()?;
    let elf = object::File::parse(&*bytes).ok()?;
    let id = elf.build_id().ok()??;
    let hex = id.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    });
    let path = format!("/usr/lib/debug/.build-id/{}/{}.debug", &hex[..2], &hex[2..]);
    Some(PathBuf::from(path)).filter(|path| path.exists())
}

/// Compares what is said of `module` with what the tools say of `debug`.
fn compare(name: &str, module: &Path, debug: &Path) {
    if !is_installed("llvm-symbolizer") {
        return skip("llvm-symbolizer", "llvm");
    }
    let symbols = Symbols::of(debug);
    let addresses = symbols.addresses();
    let shown = look_up(module, None, &addresses, &Options::default());
    assert_eq!((shown.found, &shown.notes), (Source::DebugInfo, &vec![]));
    let raw = Options {
        demangle: false,
        ..Options::default()
    };
    let raw = look_up(module, None, &addresses, &raw);
    let llvm = llvm(debug, &addresses);
    let plain = gnu(debug, &addresses, &[]);
    let demangled = gnu(debug, &addresses, &["-C"]);
    let mut differences = Differences::default();
    for (index, address) in addresses.iter().enumerate() {
        let ours = places(&raw.addresses[index]);
        differences.add("llvm", *address, &ours, &llvm[index], |ours, theirs| {
            symbols.reason(ours, theirs)
        });
        differences.files(*address, &ours, &llvm[index]);
        let around = symbols.around(address.0);
        differences.add("gnu", *address, &ours, &plain[index], |ours, theirs| {
            symbols.reason(ours, theirs).or_else(|| {
                if around.contains(theirs) {
                    return Some(Reason::SymbolOfAnother);
                }
                let name = word(theirs);
                (!name.is_empty() && ours.contains(name)).then_some(Reason::Unqualified)
            })
        });
        // Names that are the same must read the same as well.
        let shown = places(&shown.addresses[index]);
        let readable = ours
            .iter()
            .zip(&plain[index])
            .zip(shown.iter().zip(&demangled[index]));
        for ((ours, theirs), (shown, demangled)) in readable {
            if ours.function == theirs.function {
                let (shown, demangled) = (tight(&shown.function), tight(&demangled.function));
                differences.names("gnu -C", *address, &shown, &demangled, spelling);
            }
        }
    }
    differences.finish(name, addresses.len());
}

/// Why the same name may read differently.
fn spelling(_: &str, theirs: &str) -> Option<Reason> {
    if theirs.starts_with("_Z") {
        return Some(Reason::Unread);
    }
    let is_known = [
        "call_once<void (std::thread::*)()",
        "__exchange<int, std::ios_base",
    ];
    is_known
        .iter()
        .any(|part| theirs.contains(part))
        .then_some(Reason::WrongParameter)
}

/// What differs, by tool and reason, with examples.
#[derive(Default)]
struct Differences {
    judged: BTreeMap<(&'static str, Reason), Vec<String>>,
    unjudged: Vec<String>,
}

impl Differences {
    fn add(
        &mut self,
        tool: &'static str,
        address: FileAddress,
        ours: &[Place],
        theirs: &[Place],
        judge: impl Fn(&str, &str) -> Option<Reason>,
    ) {
        let lines = |places: &[Place]| places.iter().map(|place| place.line).collect::<Vec<_>>();
        if lines(ours) != lines(theirs) {
            self.unjudged.push(format!(
                "{:#x}\n  ours   {ours:?}\n  {tool:6} {theirs:?}",
                address.0
            ));
            return;
        }
        for (ours, theirs) in ours.iter().zip(theirs) {
            self.names(tool, address, &ours.function, &theirs.function, &judge);
        }
    }

    /// Compares files with those of LLVM; binutils 2.40 name others for DWARF 5.
    fn files(&mut self, address: FileAddress, ours: &[Place], theirs: &[Place]) {
        for (ours, theirs) in ours.iter().zip(theirs) {
            if ours.line != 0 && ours.file != theirs.file {
                self.unjudged
                    .push(format!("{:#x} {ours:?} | {theirs:?}", address.0));
            }
        }
    }

    fn names(
        &mut self,
        tool: &'static str,
        address: FileAddress,
        ours: &str,
        theirs: &str,
        judge: impl Fn(&str, &str) -> Option<Reason>,
    ) {
        if ours == theirs {
            return;
        }
        let both = format!("{:#x} {ours} | {theirs}", address.0);
        match judge(ours, theirs) {
            Some(reason) => self.judged.entry((tool, reason)).or_default().push(both),
            None => self.unjudged.push(format!("{tool} {both}")),
        }
    }

    fn finish(self, name: &str, count: usize) {
        assert!(count > 5_000, "{name}: only {count} addresses");
        let mut list = String::new();
        println!("{name}: {count} addresses, depth and lines as in both tools");
        for ((tool, reason), examples) in &self.judged {
            println!("  {tool}: {reason:?} {} times", examples.len());
            for example in examples {
                writeln!(list, "{tool} {reason:?} {example}").unwrap();
            }
        }
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("differences-{name}.txt"));
        fs::write(file, list).unwrap();
        let unjudged = &self.unjudged;
        assert!(
            unjudged.is_empty(),
            "{name}: {} differences without a reason, such as\n{}",
            unjudged.len(),
            unjudged[..unjudged.len().min(10)].join("\n")
        );
    }
}

/// The symbol table of a file, read apart from the code under test.
struct Symbols {
    /// Start, end and name, in order.
    functions: Vec<(u64, u64, String)>,
    starts: BTreeMap<String, BTreeSet<u64>>,
}

impl Symbols {
    fn of(file: &Path) -> Self {
        let bytes = fs::read(file).unwrap();
        let elf = object::File::parse(&*bytes).unwrap();
        let is_code = |symbol: &object::Symbol<'_, '_>| {
            symbol.kind() == SymbolKind::Text && symbol.section_index().is_some()
        };
        let mut functions: Vec<(u64, u64, String)> = elf
            .symbols()
            .filter(is_code)
            .map(|symbol| {
                let start = symbol.address();
                let name = unversioned(symbol.name().unwrap()).to_owned();
                (start, start + symbol.size(), name)
            })
            .collect();
        functions.sort_unstable();
        let mut starts: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        for (start, _, name) in &functions {
            starts.entry(name.clone()).or_default().insert(*start);
        }
        Self { functions, starts }
    }

    /// Addresses inside functions, [`COUNT`] and more, evenly spread, and the first of each function.
    fn addresses(&self) -> Vec<FileAddress> {
        let bytes: u64 = self
            .functions
            .iter()
            .map(|(start, end, _)| end - start)
            .sum();
        let step = usize::try_from(bytes / COUNT).unwrap().max(1);
        let mut addresses: Vec<u64> = self
            .functions
            .iter()
            .flat_map(|(start, end, _)| (*start..*end).step_by(step))
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses.into_iter().map(FileAddress).collect()
    }

    /// Names of the symbols that hold the address.
    fn around(&self, address: u64) -> BTreeSet<&str> {
        let begun = self
            .functions
            .partition_point(|(start, _, _)| *start <= address);
        self.functions[..begun]
            .iter()
            .filter(|(_, end, _)| address < *end)
            .map(|(_, _, name)| name.as_str())
            .collect()
    }

    fn reason(&self, ours: &str, theirs: &str) -> Option<Reason> {
        let starts = |name| self.starts.get(name).cloned().unwrap_or_default();
        if !starts(ours).is_disjoint(&starts(theirs)) {
            return Some(Reason::Alias);
        }
        let (ours, theirs) = (whole(ours), whole(theirs));
        let is_same = ours == theirs || !starts(ours).is_disjoint(&starts(theirs));
        is_same.then_some(Reason::Part)
    }
}

/// The name without what compilers append for parts and copies of a function.
fn whole(name: &str) -> &str {
    let mut name = name;
    while let Some((rest, suffix)) = name.rsplit_once('.')
        && (suffix.bytes().all(|byte| byte.is_ascii_digit())
            || ["cold", "part", "constprop", "isra", "llvm"].contains(&suffix))
    {
        name = rest;
    }
    name
}

/// The first word of a name, as in `closure` of `{closure#0}<A>`.
fn word(name: &str) -> &str {
    name.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .find(|word| !word.is_empty())
        .unwrap_or(name)
}

/// The name without the space that some put in front of a closing bracket.
fn tight(name: &str) -> String {
    name.replace(" >", ">")
}

/// The name without the version that some tools append.
fn unversioned(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

fn places(frames: &[Located]) -> Vec<Place> {
    let place = |frame: &Located| Place {
        function: frame.function.as_deref().unwrap_or("??").to_owned(),
        file: file_name(frame.file.as_deref().unwrap_or("??")),
        line: frame.line.unwrap_or(0),
    };
    frames.iter().map(place).collect()
}

/// What `tool` prints when it reads the addresses from its standard input.
fn ask(tool: &mut Command, addresses: &[FileAddress]) -> String {
    let mut child = tool
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let list: String = addresses
        .iter()
        .map(|address| format!("{:#x}\n", address.0))
        .collect();
    let writer = thread::spawn(move || input.write_all(list.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn llvm(file: &Path, addresses: &[FileAddress]) -> Vec<Vec<Place>> {
    let object = format!("--obj={}", file.display());
    let options = ["--functions=linkage", "--inlines", "--no-demangle"];
    let shown = ask(
        Command::new("llvm-symbolizer").arg(object).args(options),
        addresses,
    );
    let place = |pair: &[&str]| Place {
        function: unversioned(pair[0]).to_owned(),
        file: file_name(pair[1].rsplitn(3, ':').last().unwrap_or(pair[1])),
        // Line and column come last.
        line: number(pair[1].rsplit(':').nth(1)),
    };
    let answers: Vec<Vec<Place>> = shown
        .split("\n\n")
        .filter(|answer| !answer.is_empty())
        .map(|answer| {
            let lines: Vec<&str> = answer.lines().collect();
            lines.chunks(2).map(place).collect()
        })
        .collect();
    assert_eq!(answers.len(), addresses.len());
    answers
}

fn gnu(file: &Path, addresses: &[FileAddress], options: &[&str]) -> Vec<Vec<Place>> {
    let shown = ask(
        Command::new("addr2line")
            .args(["-a", "-f", "-i"])
            .args(options)
            .arg("-e")
            .arg(file),
        addresses,
    );
    let mut answers: Vec<Vec<Place>> = Vec::new();
    let mut function = None;
    for line in shown.lines() {
        if line.starts_with("0x") {
            answers.push(Vec::new());
            function = None;
        } else if let Some(function) = function.take() {
            let place = line.split(" (discriminator").next().unwrap_or(line);
            answers.last_mut().unwrap().push(Place {
                function,
                file: file_name(place.rsplit_once(':').map_or(place, |(file, _)| file)),
                line: number(place.rsplit(':').next()),
            });
        } else {
            function = Some(line.to_owned());
        }
    }
    assert_eq!(answers.len(), addresses.len());
    answers
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

fn number(text: Option<&str>) -> u32 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
