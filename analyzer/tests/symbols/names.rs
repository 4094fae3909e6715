//! Names of functions, compared with those that binutils show.

use crate::made::{look_up, run, scratch, skip};
use heapwire::address::FileAddress;
use heapwire::symbols::{Located, Module, Options, resolve};
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PROGRAM: &str = r#"
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>
static void keep(void *p) { *static_cast<volatile char *>(p) = 1; }
namespace {
struct Hidden { void operator()(int n) const { keep(std::malloc(n)); } };
}
namespace outer { inline namespace v2 {
template <typename T, int N> struct Box {
    template <typename U> static void fill(const U &) { keep(std::malloc(N)); }
    operator bool() const { keep(std::malloc(3)); return true; }
};
} }
struct Abi { __attribute__((abi_tag("tagged"), noinline)) void go() { keep(std::malloc(4)); } };
struct Base { virtual void v() = 0; virtual ~Base() {} };
struct Other { virtual void w() {} virtual ~Other() {} };
struct Both : Other, Base { void v() override { keep(std::malloc(5)); } };
extern "C" void plain_c_name(void) { keep(std::malloc(6)); }
static void u8name_größe() { keep(std::malloc(7)); }
template <typename A, typename B> struct Cat { A a; B b; };
template <int N> struct Deep { using type = Cat<typename Deep<N - 1>::type, std::string>; };
template <> struct Deep<0> { using type = std::string; };
template <typename T> __attribute__((noinline)) void deep_leak(const T *) { keep(std::malloc(9)); }
int main() {
    deep_leak(static_cast<const Deep<24>::type *>(nullptr));
    Hidden()(1);
    outer::Box<std::map<int, std::vector<std::string>>, 3>::fill(std::string());
    if (outer::Box<char, -1>()) { }
    Abi().go();
    Both b; static_cast<Base &>(b).v();
    plain_c_name();
    u8name_größe();
    std::function<int(int)> f = [](auto x) { keep(std::malloc(8)); return x; };
    f(3);
}
"#;

fn build(test: &str, flags: &str) -> PathBuf {
    let built = scratch(test);
    fs::write(built.join("main.cpp"), PROGRAM).unwrap();
    run(
        &built,
        &format!("g++ -std=c++17 -g {flags} -o prog main.cpp"),
    );
    built.join("prog")
}

/// Every third address of the program's functions. What is between them has no name here, while binutils show
/// the nearest.
fn addresses(program: &Path) -> Vec<FileAddress> {
    let bytes = fs::read(program).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let mut functions: Vec<_> = elf
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text)
        .map(|symbol| symbol.address()..symbol.address() + symbol.size())
        .collect();
    functions.sort_by_key(|range| range.start);
    functions.dedup();
    functions
        .into_iter()
        .flat_map(|range| range.step_by(3))
        .map(FileAddress)
        .collect()
}

/// What two demanglers may spell differently begins at the first bracket.
fn stem(name: &str) -> &str {
    let name = name.trim_start_matches("auto ").trim_start_matches("void ");
    name.split(['<', '[']).next().unwrap_or(name)
}

#[test]
fn as_binutils_show_them() {
    for flags in ["-O0", "-O2"] {
        let program = build("as_binutils_show_them", flags);
        let addresses = addresses(&program);
        let found = look_up(&program, None, &addresses, &Options::default());
        let list: Vec<String> = addresses
            .iter()
            .map(|address| format!("{:#x}", address.0))
            .collect();
        let command = format!("addr2line -f -i -C -a -e prog {}", list.join(" "));
        let shown = run(program.parent().unwrap(), &command);
        let mut compared = 0;
        for (block, frames) in shown.split("0x0").skip(1).zip(&found.addresses) {
            let lines: Vec<&str> = block.lines().skip(1).collect();
            let theirs: Vec<(&str, u32)> = lines
                .chunks(2)
                .map(|pair| (pair[0], line(pair[1])))
                .collect();
            if theirs[0].0 == "??" || theirs[0].1 == 0 {
                continue;
            }
            let ours: Vec<(&str, u32)> = frames.iter().map(ours).collect();
            assert_eq!(ours.len(), theirs.len(), "{block}{frames:?}");
            for ((our_name, our_line), (their_name, their_line)) in ours.iter().zip(&theirs) {
                assert_eq!(our_line, their_line, "{block}{frames:?}");
                // binutils show the symbol's name for an inlined function without a linkage name.
                if frames.len() == 1 {
                    assert_eq!(stem(our_name), stem(their_name), "{block}");
                }
            }
            compared += 1;
        }
        assert!(compared > 100, "only {compared} addresses were compared");
    }
}

fn line(place: &str) -> u32 {
    let line = place.rsplit(':').next().unwrap_or("");
    line.split(' ')
        .next()
        .and_then(|line| line.parse().ok())
        .unwrap_or(0)
}

fn ours(frame: &Located) -> (&str, u32) {
    (
        frame.function.as_deref().unwrap_or("??"),
        frame.line.unwrap_or(0),
    )
}

#[test]
fn demangled_in_full() {
    let program = build("demangled_in_full", "-O0");
    let found = look_up(&program, None, &addresses(&program), &Options::default());
    let has = |name: &str| {
        let mut frames = found.addresses.iter().flat_map(|frames| &**frames);
        assert!(
            frames.any(|frame| frame.function.as_deref() == Some(name)),
            "{name}"
        );
    };
    has("(anonymous namespace)::Hidden::operator()(int) const");
    has("outer::v2::Box<char, -1>::operator bool() const");
    has("Abi::go[abi:tagged]()");
    has("Both::v()");
    has("non-virtual thunk to Both::v()");
    has("plain_c_name");
    has("u8name_größe()");
    has("auto main::{lambda(auto:1)#1}::operator()<int>(int) const");
    // Nobody reads a name to the end that fills a screen.
    let mut names = found.addresses.iter().flat_map(|frames| &**frames);
    let is_deep = |name: &&str| name.starts_with("void deep_leak<Cat<Cat<");
    let deep = names.find_map(|frame| frame.function.as_deref().filter(is_deep));
    let deep = deep.expect("it is there");
    assert!(deep.ends_with('…') && deep.len() < 4200, "{}", deep.len());
    let raw = Options {
        demangle: false,
        ..Options::default()
    };
    let found = look_up(&program, None, &addresses(&program), &raw);
    let mut frames = found.addresses.iter().flat_map(|frames| &**frames);
    assert!(frames.any(|frame| frame.function.as_deref() == Some("_ZN4Both1vEv")));
}

#[test]
fn requests_are_answered_in_order_and_alike() {
    let program = build("requests_are_answered_in_order", "-O2");
    let all = addresses(&program);
    let module = Module {
        path: Some(program.to_owned()),
        ..Module::default()
    };
    let missing = Module {
        path: Some("/nonexistent/lib.so".into()),
        ..Module::default()
    };
    let backwards: Vec<FileAddress> = all.iter().rev().copied().collect();
    let twice = vec![all[100], all[100]];
    let requests = [
        (module.clone(), backwards),
        (missing.clone(), vec![all[0]]),
        (module, twice),
        (missing, vec![]),
    ];
    let found = resolve(&requests, &Options::default());
    let forwards = look_up(&program, None, &all, &Options::default()).addresses;
    assert!(found[0].addresses.iter().eq(forwards.iter().rev()));
    assert_eq!(found[1].addresses, [Arc::default()]);
    assert_eq!(
        found[2].addresses,
        [forwards[100].clone(), forwards[100].clone()]
    );
    assert!(found[3].addresses.is_empty());
    // What is asked for again costs a pointer.
    let first = &found[0].addresses[all.len() - 1 - 100];
    for again in &found[2].addresses {
        assert!(!again.is_empty() && Arc::ptr_eq(first, again));
    }
}

/// All names of a large library, compared with `c++filt`, but for those that it gets wrong: where a parameter of a template
/// was mentioned in a local function before, it shows what that one had.
#[test]
fn names_as_cxxfilt_shows_them() {
    let library = Path::new("/usr/lib/x86_64-linux-gnu/debug/libstdc++.so.6");
    if !library.exists() {
        return skip("a libstdc++ with symbols", "libstdc++6-12-dbg");
    }
    let bytes = fs::read(library).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let names: BTreeSet<&str> = elf
        .symbols()
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| name.starts_with("_Z"))
        .collect();
    assert!(names.len() > 5_000, "only {} names", names.len());
    let list = scratch("names_as_cxxfilt_shows_them").join("names");
    let lines: Vec<&str> = names.iter().copied().collect();
    fs::write(&list, lines.join("\n") + "\n").unwrap();
    let output = std::process::Command::new("c++filt")
        .stdin(fs::File::open(&list).unwrap())
        .output()
        .unwrap();
    let theirs = String::from_utf8(output.stdout).unwrap();
    let ours = heapwire::symbols::readable(&lines, &Options::default());
    assert_eq!(theirs.lines().count(), lines.len());
    let mut wrong_there = 0;
    for ((name, ours), theirs) in lines.iter().zip(&ours).zip(theirs.lines()) {
        if short(ours) != short(theirs) {
            let is_known = theirs == *name // it cannot read it at all
                || name.contains("9call_onceIM")
                || name.contains("10__exchangeIiN");
            assert!(is_known, "{name}\n  ours   {ours}\n  theirs {theirs}");
            wrong_there += 1;
        }
    }
    println!(
        "{} names, {wrong_there} of which c++filt gets wrong",
        lines.len()
    );
}

/// The short names of the library's types for what `c++filt` writes in full, without a space before closing brackets.
fn short(name: &str) -> String {
    let long =
        |kind: &str, more: &str| format!("std::basic_{kind}<char, std::char_traits<char>{more}>");
    name.replace(" >", ">")
        .replace(&long("string", ", std::allocator<char>"), "std::string")
        .replace(&long("istream", ""), "std::istream")
        .replace(&long("ostream", ""), "std::ostream")
        .replace(&long("iostream", ""), "std::iostream")
}
