//! Wrong releases, and what is released after `main`.

use super::recorded;
use crate::symbols::tool;
use heapwire_tests::run::{list, on};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;

/// Lets seven blocks fill the thread's cache of glibc, which then does not notice that another one is released twice.
const TWICE_IN_C: &str = "#include <stdlib.h>
#include <unistd.h>
static void *take(void) {
    return malloc(24);
}
static void drop(void *block) {
    free(block);
}
static void drop_again(void *block) {
    free(block);
}
static void *seven[7];
int main(void) {
    for (int i = 0; i < 7; i++) seven[i] = malloc(24);
    void *block = take(), *between = malloc(24);
    for (int i = 0; i < 7; i++) free(seven[i]);
    drop(block);
    free(between);
    drop_again(block);
    _exit(0);
}
";

/// The same, with the calls in the same lines.
const TWICE_IN_RUST: &str = "extern \"C\" { fn malloc(size: usize) -> *mut u8; fn free(block: *mut u8); fn _exit(status: i32) -> !; }

fn take() -> *mut u8 {
    unsafe { malloc(24) }
}
fn drop(block: *mut u8) {
    unsafe { free(block) };
}
fn drop_again(block: *mut u8) {
    unsafe { free(block) };
}
fn main() { unsafe {
    let seven = [(); 7].map(|()| malloc(24));
    let (block, between) = (take(), malloc(24));
    seven.map(|block| free(block));
    drop(block);
    free(between);
    drop_again(block);
    _exit(0)
} }
";

/// Allocation, first and second release of a block each have a line, in every language, and nothing else is wrong.
#[test]
fn a_double_free_names_three_lines() {
    for (file, text, compiler, names) in [
        (
            "main.c",
            TWICE_IN_C,
            "cc -g -w",
            ["take", "drop", "drop_again"],
        ),
        (
            "main.cpp",
            TWICE_IN_C,
            "c++ -g -w",
            ["take()", "drop(void*)", "drop_again(void*)"],
        ),
        (
            "main.rs",
            TWICE_IN_RUST,
            "rustc -g",
            ["main::take", "main::drop", "main::drop_again"],
        ),
    ] {
        let scratch = Scratch::new("lines");
        scratch.write(file, text);
        tool(scratch.path(), &format!("{compiler} -o prog {file}"));
        let report = recorded(&scratch, 0);
        let process = &report["processes"][0];
        let errors = list(&process["errors"]);
        assert_eq!(errors.len(), 1, "{file}: {errors:#?}");
        let error = &errors[0];
        assert_eq!(error["kind"], "double-free");
        assert_eq!(
            (&error["size"], &error["certain"]),
            (&24.into(), &true.into())
        );
        let places = [
            &error["allocation"]["stack"][0],
            &error["first_release"]["stack"][0],
            &error["stack"][0],
        ]
        .map(|frame| (frame["function"].as_str().unwrap(), frame["line"].as_u64()));
        let [take, drop, drop_again] = names;
        let expected = [(take, Some(4)), (drop, Some(7)), (drop_again, Some(10))];
        assert_eq!(places, expected, "{file}");
        let leaks = list(&process["leaks"]);
        assert!(leaks.iter().all(|leak| leak["bytes"] != 24), "{leaks:#?}");
    }
}

const INSIDE_IN_C: &str = "#include <stdlib.h>
static void inside(void *block) {
    free(block);
}
int main(void) {
    char *volatile block = (char *)calloc(1, 200);
    inside(block + 32);
}
";

/// The same, with the calls in the same lines.
const INSIDE_IN_RUST: &str =
    "extern \"C\" { fn calloc(n: usize, size: usize) -> *mut u8; fn free(block: *mut u8); }
fn inside(block: *mut u8) {
    unsafe { free(block) };
}
fn main() {
    let block = unsafe { calloc(1, 200) };
    inside(std::hint::black_box(block).wrapping_add(32));
}
";

/// A release of an address inside a block names its line, the block, and where that comes from, in every language.
#[test]
fn an_invalid_free_names_two_lines() {
    for (file, text, compiler, names) in [
        ("main.c", INSIDE_IN_C, "cc -g -w", ["main", "inside"]),
        (
            "main.cpp",
            INSIDE_IN_C,
            "c++ -g -w",
            ["main", "inside(void*)"],
        ),
        (
            "main.rs",
            INSIDE_IN_RUST,
            "rustc -g",
            ["main::main", "main::inside"],
        ),
    ] {
        let scratch = Scratch::new("lines");
        scratch.write(file, text);
        tool(scratch.path(), &format!("{compiler} -o prog {file}"));
        let report = recorded(&scratch, 134); // glibc notices it
        let process = &report["processes"][0];
        let errors = list(&process["errors"]);
        assert_eq!(errors.len(), 1, "{file}: {errors:#?}");
        let error = &errors[0];
        assert_eq!(
            (&error["kind"], &error["certain"]),
            (&"invalid-free".into(), &true.into())
        );
        assert_eq!(
            error["inside"],
            serde_json::json!({"offset": 32, "size": 200})
        );
        let places = [&error["allocation"]["stack"][0], &error["stack"][0]]
            .map(|frame| (frame["function"].as_str().unwrap(), frame["line"].as_u64()));
        let [main, inside] = names;
        assert_eq!(places, [(main, Some(6)), (inside, Some(3))], "{file}");
        let leaks = list(&process["leaks"]);
        let is_it = |leak: &&Value| leak["bytes"] == 200 && leak["blocks"] == 1;
        assert_eq!(leaks.iter().filter(is_it).count(), 1, "{leaks:#?}");
    }
}

/// Destructors of static objects run after `main`: what they release was no leak. What stays is listed with the program's
/// own blocks first, whatever the libraries of the system hold.
#[test]
fn what_static_destructors_release_is_no_leak() {
    let scratch = Scratch::new("lines");
    scratch.write(
        "main.cpp",
        "#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
static std::string text(11437, 'x');
static std::vector<char> bytes(11443, 'y');
struct Closer { void *block = std::malloc(11447); ~Closer() { std::free(block); } };
static Closer closer;
static void *reachable;
static void lost() { static_cast<volatile char *>(std::malloc(101))[0] = 1; }
int main() {
    reachable = std::malloc(102);
    lost();
    lost();
    std::printf(\"%zu %zu\\n\", text.size(), bytes.size());
}
",
    );
    tool(scratch.path(), "c++ -g -w -o prog main.cpp");
    let report = recorded(&scratch, 0);
    let leaks = list(&report["processes"][0]["leaks"]);
    let is_own = |leak: &&Value| {
        let file = leak["stack"][0]["file"].as_str();
        file.is_some_and(|file| file.ends_with("main.cpp"))
    };
    let own = leaks.iter().filter(is_own).map(|leak| {
        let frame = &leak["stack"][0];
        (
            leak["bytes"].as_u64().unwrap(),
            frame["function"].as_str().unwrap(),
            frame["line"].as_u64().unwrap(),
        )
    });
    let own: Vec<_> = own.collect();
    assert_eq!(own, [(202, "lost()", 10), (102, "main", 12)]);
    for late in [11437, 11438, 11443, 11447] {
        assert!(leaks.iter().all(|leak| leak["bytes"] != late), "{late}");
    }
    let text = on(&["report"], &scratch.join("trace.hwt")).stdout;
    let place = |part: &str| {
        text.find(part)
            .unwrap_or_else(|| panic!("{part} in {text}"))
    };
    assert!(place("lost()") < place("in libraries of the system:"));
}
