//! What must hold for C, C++ and Rust alike.

use crate::made::{before, id, is_installed, look_up, run, scratch, skip};
use heapwire::address::FileAddress;
use heapwire::symbols::{Located, Options, Resolved, Rule, Source};
use object::Object;
use std::fs;
use std::path::{Path, PathBuf};

const ID: &str = "0123456789abcdef0123456789abcdef01234567";

/// A program in which `outer` calls `take` in a function that is merged into another one that is merged into it; the
/// label `call` is where `take` returns to.
struct Language {
    file: &'static str,
    source: &'static str,
    compiler: &'static str,
    /// What the compiler passes on to the linker after it.
    to_linker: &'static str,
    /// Names of the three functions, innermost first.
    functions: [&'static str; 3],
    /// Where in the source the compiler says that their calls are.
    calls: [&'static str; 3],
}

const LANGUAGES: [Language; 3] = [
    Language {
        file: "main.c",
        source: r#"__attribute__((noinline)) void take(unsigned n) {
    __asm__ volatile("" :: "r"(n));
}
static inline __attribute__((always_inline)) void deep(unsigned n) {
    ;  take(n + 1); __asm__ volatile(".globl call\ncall:");
}
static inline __attribute__((always_inline)) void middle(unsigned n) {
    take(n); deep(n + 2);
}
__attribute__((noinline)) void outer(unsigned n) {
    take(n);   middle(n + 3);
}
int main(int count, char **words) {
    outer(count);
    return 0;
}
"#,
        compiler: "gcc -w -O1 -o prog main.c",
        to_linker: "-Wl,",
        functions: ["deep", "middle", "outer"],
        calls: ["take(n + 1)", "deep(n + 2)", "middle(n + 3)"],
    },
    Language {
        file: "main.cpp",
        source: r#"__attribute__((noinline)) static void take(unsigned n) {
    __asm__ volatile("" :: "r"(n));
}
namespace shop {
template <typename T> struct Crate {
    static inline __attribute__((always_inline)) void deep(T n) {
        ; take(n + 1); __asm__ volatile(".globl call\ncall:");
    }
    static inline __attribute__((always_inline)) void middle(unsigned n) {
        take(n);
        ;  deep(n + 2);
    }
};
__attribute__((noinline)) void outer(unsigned n) {
    take(n);   Crate<long>::middle(n + 3);
}
}
int main(int count, char **words) {
    shop::outer(count);
    return 0;
}
"#,
        compiler: "g++ -w -O1 -o prog main.cpp",
        to_linker: "-Wl,",
        functions: [
            "shop::Crate<long>::deep(long)",
            "shop::Crate<long>::middle(unsigned int)",
            "shop::outer(unsigned int)",
        ],
        calls: ["(n + 1)", "(n + 2)", "(n + 3)"],
    },
    Language {
        file: "main.rs",
        source: r#"#![allow(named_asm_labels)]
#[inline(never)]
fn take(n: u32) {
    std::hint::black_box(n);
}
mod shop {
    pub struct Crate<T>(pub T);
    impl<T: Copy + Into<u32>> Crate<T> {
        #[inline(always)]
        fn deep(&self, n: u32) {
            crate::take(n + self.0.into());
            unsafe { std::arch::asm!(".globl call", "call:") }
        }
        #[inline(always)]
        pub fn middle(&self, n: u32) {
            crate::take(n); self.deep(n + 2);
        }
    }
}
#[no_mangle]
#[inline(never)]
pub extern "C" fn outer(n: u32) {
    take(n);   shop::Crate(3u16).middle(n + 3);
}
fn main() {
    outer(std::env::args().count() as u32);
}
"#,
        compiler: "rustc --edition 2021 -C symbol-mangling-version=v0 -C opt-level=1 -o prog main.rs",
        to_linker: "-Clink-arg=-Wl,",
        functions: [
            "<main::shop::Crate<u16>>::deep",
            "<main::shop::Crate<u16>>::middle",
            "outer",
        ],
        calls: ["crate::take(n + self", "deep(n + 2)", "middle(n + 3)"],
    },
];

/// A program that was built.
struct Built<'l> {
    language: &'l Language,
    folder: PathBuf,
    call: FileAddress,
}

impl Language {
    fn is_rust(&self) -> bool {
        self.file.ends_with("rs")
    }

    /// Builds the program as `prog`.
    fn build(&self, test: &str, flags: &str) -> Built<'_> {
        let folder = scratch(test).join(self.file);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(self.file), self.source).unwrap();
        run(&folder, &format!("{} {flags}", self.compiler));
        let call = before(&folder.join("prog"), "call");
        Built {
            language: self,
            folder,
            call,
        }
    }

    /// The compiler's option for this version of DWARF.
    fn version(&self, version: u8) -> String {
        if self.is_rust() {
            format!("-g -C dwarf-version={version}")
        } else {
            format!("-gdwarf-{version}")
        }
    }

    /// Line and column of each call, innermost first.
    fn places(&self) -> [(u32, u32); 3] {
        self.calls.map(|call| {
            let at = self.source.find(call).unwrap();
            let before = &self.source[..at];
            let line = before.matches('\n').count() + 1;
            let column = at - before.rfind('\n').unwrap();
            (line.try_into().unwrap(), column.try_into().unwrap())
        })
    }
}

impl Built<'_> {
    fn run(&self, command: &str) {
        run(&self.folder, command);
    }

    fn look_up(&self, options: &Options) -> Resolved {
        self.look_up_in("prog", options)
    }

    fn look_up_in(&self, name: &str, options: &Options) -> Resolved {
        let program = self.folder.join(name);
        let bytes = fs::read(&program).unwrap();
        let elf = object::File::parse(&*bytes).unwrap();
        let build_id = elf.build_id().unwrap().map(<[u8]>::to_vec);
        look_up(&program, build_id, &[self.call], options)
    }

    /// Asserts that all frames are there, with all that there is to say of each.
    fn expect_frames(&self, found: &Resolved) {
        let file = self.folder.join(self.language.file);
        let frame = |(level, (function, (line, column))): (usize, (&str, (u32, u32)))| Located {
            function: Some(function.into()),
            file: Some(file.to_str().unwrap().into()),
            line: Some(line),
            column: Some(column),
            inlined: level < 2,
        };
        let functions = self.language.functions.into_iter();
        let expected = functions.zip(self.language.places()).enumerate();
        let expected: Vec<Located> = expected.map(frame).collect();
        assert_eq!(*found.addresses[0], expected, "{found:#?}");
        assert_eq!(found.notes, [] as [String; 0]);
        assert_eq!(found.found, Source::DebugInfo);
    }

    /// Asserts that the function is there, and nothing else.
    fn expect_name(&self, found: &Resolved) {
        let function = self.language.functions[2];
        let expected = [Located {
            function: Some(function.into()),
            ..Located::default()
        }];
        assert_eq!(*found.addresses[0], expected, "{found:#?}");
        assert_eq!(found.found, Source::SymbolsOnly);
    }
}

#[test]
fn all_frames_with_lines_and_columns() {
    for language in &LANGUAGES {
        let mut flags: Vec<String> = (2..=5).map(|version| language.version(version)).collect();
        let more: &[&str] = if language.is_rust() {
            &["-C debuginfo=1"]
        } else {
            &["-g1", "-gdwarf-4 -gdwarf64", "-gdwarf-5 -gdwarf64"]
        };
        flags.extend(more.iter().map(|flags| (*flags).to_owned()));
        for flags in flags {
            let built = language.build("all_frames_with_lines_and_columns", &flags);
            built.expect_frames(&built.look_up(&Options::default()));
        }
    }
}

/// Functions that were merged have short names only.
#[test]
fn all_frames_of_rust_with_line_tables_only() {
    let [_, _, rust] = LANGUAGES;
    let rust = Language {
        functions: ["deep<u16>", "middle<u16>", "outer"],
        ..rust
    };
    let built = rust.build(
        "all_frames_of_rust_with_line_tables_only",
        "-C debuginfo=line-tables-only",
    );
    built.expect_frames(&built.look_up(&Options::default()));
}

/// Without debug information: what the symbol table says, then the table for the dynamic linker, then a packed one.
#[test]
fn names_of_symbol_tables() {
    for language in &LANGUAGES {
        let exported = format!("{}--export-dynamic", language.to_linker);
        let built = language.build("names_of_symbol_tables", &format!("-g {exported}"));
        built.run("strip -g prog");
        built.expect_name(&built.look_up(&Options::default()));
        built.run("strip -s prog");
        built.expect_name(&built.look_up(&Options::default()));

        let built = language.build("names_of_symbol_tables", "-g");
        built.run("objcopy --only-keep-debug --strip-debug prog packed");
        built.run("strip -s prog");
        let found = built.look_up(&Options::default());
        assert_eq!(*found.addresses[0], []);
        built.run("xz packed");
        built.run("objcopy --add-section .gnu_debugdata=packed.xz prog");
        built.expect_name(&built.look_up(&Options::default()));
    }
}

/// Each place where debug information can be is looked at before the next; whatever is found has all frames.
#[test]
fn places_are_looked_at_in_order() {
    let (first, rest) = ID.split_at(2);
    for language in &LANGUAGES {
        let flags = format!("-g {}--build-id=0x{ID}", language.to_linker);
        let built = language.build("places_are_looked_at_in_order", &flags);
        let root = built.folder.join("root");
        let program = root.join("opt/prog");
        fs::create_dir_all(root.join("opt/.debug")).unwrap();
        built.run("objcopy --only-keep-debug prog prog.debug");
        built.run("strip -s prog");
        built.run("objcopy --add-gnu-debuglink=prog.debug prog");
        fs::rename(built.folder.join("prog"), &program).unwrap();
        let tree = format!(".build-id/{first}/{rest}.debug");
        let places = [
            format!("one/{tree}"),
            "one/opt/prog.debug".to_owned(),
            "one/prog.debug".to_owned(),
            "one/prog".to_owned(),
            format!("two/{tree}"),
            format!("root/usr/lib/debug/{tree}"),
            "root/opt/prog.debug".to_owned(),
            "root/opt/.debug/prog.debug".to_owned(),
            "root/usr/lib/debug/opt/prog.debug".to_owned(),
            "one/by/its/id".to_owned(),
            "two/by/its/id".to_owned(),
        ]
        .map(|place| built.folder.join(place));
        for place in &places {
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::copy(built.folder.join("prog.debug"), place).unwrap();
        }
        let options = Options {
            debug_dirs: ["one", "two"].map(|it| built.folder.join(it)).to_vec(),
            sysroot: Some(root),
            ..Options::default()
        };
        let path = Path::new("/opt/prog");
        let look_up = || look_up(path, Some(id(ID)), &[built.call], &options);
        for place in &places {
            let found = look_up();
            built.expect_frames(&found);
            let used: Vec<&Path> = found.files.iter().map(|file| &*file.path).collect();
            assert_eq!(used, [&*program, place]);
            fs::remove_file(place).unwrap();
        }
        assert_eq!(*look_up().addresses[0], []);
    }
}

/// Programs of each language share what they have in common in another file, or in their own.
#[test]
fn shared_debug_information() {
    if !is_installed("dwz") {
        return skip("dwz", "dwz");
    }
    for language in &LANGUAGES {
        for version in [4, 5] {
            if language.is_rust() && version == 5 {
                continue; // dwz does not read what LLVM makes of it
            }
            let mut ways = vec!["", "-m shared -M shared"];
            if version == 5 {
                ways.push("--dwarf-5 -m shared -M shared"); // in the way of the standard
            }
            for with in ways {
                let flags = language.version(version);
                let built = language.build("shared_debug_information_of_each", &flags);
                built.run("cp prog twin");
                built.run(&format!("dwz {with} prog twin"));
                let found = built.look_up(&Options::default());
                built.expect_frames(&found);
                let is_shared = found.files.iter().any(|file| file.rule == Rule::AltLink);
                assert_eq!(is_shared, !with.is_empty());
            }
        }
    }
}
