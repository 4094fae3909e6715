//! Programs with debug information of every kind, of which one file is damaged: the program's own, or one that it names.

use crate::Place;
use heapwire_tests::build::compile;
use heapwire_tests::run::Run;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;

/// The build id that all of them have.
pub const BUILD_ID: [u8; 20] = [0x5E; 20];

const SOURCE: &str = "#include <string>
static inline __attribute__((always_inline)) int twice(int n) { return n * 2; }
namespace { template <class T> struct Third {
    static inline __attribute__((always_inline)) T of(T n) { return twice(n) * 3 + twice(n + 1); }
    __attribute__((noinline)) T most(T n) { struct Local { T one(T n) { return of(n); } } local; return local.one(n); }
}; }
template <class T> T thrice(T n) { return Third<T>().most(n * 3); }
int main(int n, char **) { return twice(n) + thrice(n) + (int)std::to_string(n).size(); }
";

/// A program, and the file that is damaged.
#[derive(Debug)]
pub struct Program {
    /// What it is made with.
    pub kind: &'static str,
    /// The program's file.
    pub module: PathBuf,
    /// The file to be damaged.
    pub file: PathBuf,
    /// What is in that.
    pub bytes: Vec<u8>,
    /// Addresses in the first page of code.
    pub addresses: Vec<u64>,
    /// Where the sections are in the file that only tools read: debug information, symbols and names.
    pub unloaded: Vec<Range<usize>>,
}

/// All kinds, compiled here.
///
/// # Panics
///
/// Where a tool is missing.
#[must_use]
pub fn all(place: &Place) -> Vec<Program> {
    let mut programs: Vec<Program> = [
        "-gdwarf-5",
        "-O2 -gdwarf-5",
        "-O2 -gdwarf-4",
        "-O2 -gdwarf-2",
        "-O2 -gdwarf-3 -gdwarf64",
        "-O2 -gdwarf-5 -gdwarf64",
        "-O2 -gdwarf-4 -fdebug-types-section -ffunction-sections",
        "-O2 -flto",
        "-O2 -gz=zlib",
    ]
    .into_iter()
    .map(|flags| made(place, flags, &[], "prog"))
    .collect();
    for flags in ["-O2 -gsplit-dwarf -gdwarf-4", "-O2 -gsplit-dwarf -gdwarf-5"] {
        programs.push(made(place, flags, &[], "prog-main.dwo"));
    }
    // That tool of LLVM 14 does not end on some optimized programs.
    for flags in ["-gsplit-dwarf -gdwarf-4", "-gsplit-dwarf -gdwarf-5"] {
        let package = ["llvm-dwp -e prog -o prog.dwp"];
        programs.push(made(place, flags, &package, "prog.dwp"));
    }
    let shared = ["cp prog twin", "dwz -m shared -M shared prog twin"];
    let standard = [
        "cp prog twin",
        "dwz --dwarf-5 -m shared -M shared prog twin",
    ];
    for file in ["prog", "shared"] {
        programs.push(made(place, "-O2 -gdwarf-4", &shared, file));
        programs.push(made(place, "-O2 -gdwarf-5", &standard, file));
    }
    let packed = [
        "objcopy --only-keep-debug prog mini",
        "strip -s prog",
        "objcopy -R .debug_info -R .debug_abbrev -R .debug_line -R .debug_str mini",
        "xz mini",
        "objcopy --add-section .gnu_debugdata=mini.xz prog",
    ];
    programs.push(made(place, "-gdwarf-5", &packed, "prog"));
    programs
}

/// Compiles the program into a folder of its own and runs `steps` there; `file` is the one to be damaged.
fn made(place: &Place, flags: &'static str, steps: &[&str], file: &str) -> Program {
    let name = format!("{flags} {} {file}", steps.len());
    let folder = place.folder.join(&name.replace(' ', "_"));
    fs::create_dir_all(&folder).expect("the folder can be written to");
    let source = folder.join("main.cpp");
    fs::write(&source, SOURCE).expect("the folder can be written to");
    let id: String = BUILD_ID.iter().map(|byte| format!("{byte:02x}")).collect();
    let id = format!("-Wl,--build-id=0x{id}");
    let mut words: Vec<&str> = flags.split(' ').collect();
    words.extend(["-static-libgcc", "-no-pie", &id]);
    compile(&source, &folder.join("prog"), &words);
    for step in steps {
        let words: Vec<&str> = step.split(' ').collect();
        let run = Run::of(
            Command::new(words[0])
                .args(&words[1..])
                .current_dir(&folder),
        );
        assert_eq!(run.status, 0, "{step}: {}", run.stderr);
    }
    let path = folder.join(file);
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Program {
        kind: flags,
        module: folder.join("prog"),
        file: path,
        unloaded: unloaded(&bytes),
        bytes,
        addresses: (0x40_1000..0x40_1800).step_by(13).collect(),
    }
}

/// The sections of a little-endian ELF file of 64 bits that take no memory when it runs.
fn unloaded(bytes: &[u8]) -> Vec<Range<usize>> {
    let number = |at: usize, length: usize| {
        let digits = bytes[at..at + length].iter().rev();
        digits.fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    let (table, size, count) = (number(0x28, 8), number(0x3A, 2), number(0x3C, 2));
    let headers = (0..count).map(|index| table + index * size);
    let ranges = headers.filter_map(|header| {
        let is_loaded = number(header + 8, 8) & 2 != 0;
        let begin = number(header + 0x18, 8);
        let end = begin + number(header + 0x20, 8);
        (!is_loaded && begin < end && end <= bytes.len()).then_some(begin..end)
    });
    ranges.collect()
}
