//! The line of a call, whatever the language, the layout and the machine: on real programs, and on traces of programs for
//! machines that are not at hand.

use crate::symbols::{place, report, tool};
use heapwire_tests::run::{Run, is_installed, json, list, on, record};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{Record, Writer};
use object::{Object, ObjectSymbol};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn recorded(scratch: &Scratch, status: i32) -> Value {
    let recording = record(&scratch.join("prog"), &[], scratch);
    assert_eq!(recording.run.status, status, "{}", recording.run.stderr);
    report(&recording.trace, &[])
}

/// Address and size of a function.
fn extent(program: &Path, name: &str) -> (u64, u64) {
    let bytes = fs::read(program).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let symbol = elf.symbol_by_name(name);
    let symbol = symbol.unwrap_or_else(|| panic!("no symbol {name}"));
    (symbol.address(), symbol.size())
}

const LEAK_IN_CPP: &str = "#include <new>
namespace { template <int N> struct Leaker {
    static void leak(int n) {
        while (n--) { void *volatile p = ::operator new(N); (void)p; }
    }
}; }
int main(int count, char **) { Leaker<4321>::leak(3 * count); }
";

const LEAK_IN_RUST: &str = "extern \"C\" { fn malloc(size: usize) -> *mut u8; }
mod inner {
    pub fn leak(n: u32) {
        for _ in 0..n { std::hint::black_box(unsafe { super::malloc(4321) }); }
    }
}
fn main() { inner::leak(3 * std::env::args().count() as u32); }
";

#[test]
fn every_layout_of_cpp_has_its_lines() {
    let whole = "(anonymous namespace)::Leaker<4321>::leak(int)";
    for linker in ["bfd", "gold", "lld", "mold"] {
        if !is_installed(&format!("ld.{linker}")) {
            continue;
        }
        for (kind, name) in [
            ("-pie -fPIE", whole),
            ("-no-pie", whole),
            // Nothing but its entry names a local function that was merged into another one.
            ("-O2 -pie -fPIE -flto", "leak"),
        ] {
            if kind.contains("-flto") && linker == "lld" {
                continue; // which does not read what gcc leaves for the linker
            }
            let scratch = Scratch::new("lines");
            scratch.write("main.cpp", LEAK_IN_CPP);
            let line = format!("c++ -g -w {kind} -fuse-ld={linker} -o prog main.cpp");
            tool(scratch.path(), &line);
            let report = recorded(&scratch, 0);
            assert_eq!(place(&report), (Some(name), Some(4)), "{kind} {linker}");
        }
    }
    for kind in ODD_LAYOUTS {
        let scratch = Scratch::new("lines");
        scratch.write("main.cpp", LEAK_IN_CPP);
        tool(
            scratch.path(),
            &format!("c++ -g -w {kind} -o prog main.cpp"),
        );
        let report = recorded(&scratch, 0);
        assert_eq!(place(&report), (Some(whole), Some(4)), "{kind}");
    }
}

/// Executables whose first segment is not where it usually is: as prelink leaves files, far up, or with the code in it.
const ODD_LAYOUTS: [&str; 5] = [
    "-pie -fPIE -Wl,-Ttext-segment=0x41000000",
    "-no-pie -Wl,-Ttext-segment=0x70000000",
    "-no-pie -Wl,-z,max-page-size=0x200000",
    "-pie -fPIE -Wl,-z,noseparate-code",
    "-pie -fPIE -Wl,-z,separate-code",
];

#[test]
fn every_layout_of_rust_has_its_lines() {
    for linker in ["bfd", "gold", "lld", "mold"] {
        if !is_installed(&format!("ld.{linker}")) {
            continue;
        }
        for kind in [
            "-C relocation-model=pic",
            "-C relocation-model=static",
            "-C opt-level=2 -C lto=fat -C codegen-units=1",
        ] {
            let scratch = Scratch::new("lines");
            scratch.write("prog.rs", LEAK_IN_RUST);
            let linked = format!("-C link-self-contained=no -C link-arg=-fuse-ld={linker}");
            let line = format!("rustc --edition 2021 -g {kind} {linked} prog.rs");
            tool(scratch.path(), &line);
            let report = recorded(&scratch, 0);
            assert_eq!(
                place(&report),
                (Some("prog::inner::leak"), Some(4)),
                "{kind} {linker}"
            );
        }
    }
    for kind in ODD_LAYOUTS {
        let scratch = Scratch::new("lines");
        scratch.write("prog.rs", LEAK_IN_RUST);
        let model = if kind.starts_with("-no-pie") {
            "static"
        } else {
            "pic"
        };
        let options = kind.split(' ').filter(|option| option.starts_with("-Wl"));
        let options: String = options.map(|it| format!(" -C link-arg={it}")).collect();
        let own = "-C link-self-contained=no -C link-arg=-fuse-ld=bfd";
        let line =
            format!("rustc --edition 2021 -g -C relocation-model={model} {own}{options} prog.rs");
        tool(scratch.path(), &line);
        let report = recorded(&scratch, 0);
        assert_eq!(
            place(&report),
            (Some("prog::inner::leak"), Some(4)),
            "{kind}"
        );
    }
}

/// A call that never returns can be a function's last instruction: the address it would return to is another function's.
#[test]
fn a_call_that_ends_its_function_is_that_functions() {
    let c = "#include <stdlib.h>
EXTERN __attribute__((noinline, noreturn)) void last(void *block) {
    free(block);
    __builtin_unreachable();
}
EXTERN __attribute__((noinline)) int behind(int n) { return n * 3; }
int main(int count, char **words) {
    void *volatile block = malloc(24);
    free(block);
    if (behind(count)) last(block);
}
";
    let rust = "extern \"C\" { fn malloc(size: usize) -> *mut u8; fn free(block: *mut u8); }
#[no_mangle] #[inline(never)] extern \"C\" fn last(block: *mut u8, free: extern \"C\" fn(*mut u8) -> !) -> ! {
    free(block)
}
fn main() {
    let block = std::hint::black_box(unsafe { malloc(24) });
    unsafe { free(block) };
    last(block, unsafe { std::mem::transmute(std::hint::black_box(free as usize)) })
}
";
    let flags = "-g -O2 -w -falign-functions=1 -fno-reorder-functions -fno-toplevel-reorder";
    for (file, text, compiler) in [
        ("main.c", c.replace("EXTERN", ""), format!("cc {flags}")),
        (
            "main.cpp",
            c.replace("EXTERN", "extern \"C\""),
            format!("c++ {flags}"),
        ),
        (
            "main.rs",
            rust.to_owned(),
            "rustc -g -A warnings -C opt-level=2".to_owned(),
        ),
    ] {
        let scratch = Scratch::new("lines");
        scratch.write(file, text);
        tool(scratch.path(), &format!("{compiler} -o prog {file}"));
        let report = recorded(&scratch, 134); // glibc notices the second release
        let errors = list(&report["processes"][0]["errors"]);
        assert_eq!(errors.len(), 1, "{file}: {errors:#?}");
        let frame = &errors[0]["stack"][0];
        let (start, size) = extent(&scratch.join("prog"), "last");
        let end = format!("{:#x}", start + size);
        assert_eq!(frame["offset"], end, "{file}: the call is not the last");
        let place = (frame["function"].as_str(), frame["line"].as_u64());
        assert_eq!(place, (Some("last"), Some(3)), "{file}");
    }
}

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

/// `call` is the return address of the call in line 4, of a function that is merged into `leak`; what follows is of line 8.
const OF_OTHERS: &str = r#"void *take(unsigned);
void *volatile kept;
static inline __attribute__((always_inline)) void merged(void) {
    take(3); __asm__ volatile(".globl call\ncall:");
}
__attribute__((noinline)) void leak(void) {
    merged();
    kept = 0;
}
__attribute__((noinline)) void *take(unsigned n) { return kept = (void *)(unsigned long)n; }
void _start(void) {
    leak();
    for (;;) ;
}
"#;

/// A program for another machine, and the address that a call in it returns to.
fn foreign(scratch: &Scratch, target: &str, flags: &str, linker: &str) -> (PathBuf, u64) {
    scratch.write("main.c", OF_OTHERS);
    tool(
        scratch.path(),
        &format!("clang --target={target} {flags} -g -O0 -ffreestanding -c main.c"),
    );
    tool(
        scratch.path(),
        &format!("{linker} -pie --build-id=none -o prog main.o"),
    );
    let program = scratch.join("prog");
    let (call, _) = extent(&program, "call");
    (program, call & !1)
}

/// The trace of a process on that machine, in which the call at `pc` leaves a block of 4321 bytes three times.
fn trace_of(program: &Path, machine: u32, bias: u64, pc: u64) -> Vec<u8> {
    let mut writer = Writer::bare(7);
    let machine = format!("machine={machine}");
    writer.process(4711, &["exe=/bin/p", "arg=p", "began=exec", &machine]);
    let path = format!("path={}\0", program.to_str().unwrap());
    writer.declare(0x72, [bias, 0x100_0000, bias], path.as_bytes());
    for block in 1..=3 {
        writer.record(Record {
            op: 1,
            ptr: block * 0x1_0000,
            size: 4321,
            pc: bias + pc,
            base: bias,
            ..Record::default()
        });
    }
    writer.end().bytes()
}

/// Thumb bits, delay slots and descriptors of functions, from the trace to the report.
#[test]
fn traces_of_other_machines_have_their_lines() {
    if !is_installed("clang") || !is_installed("ld.lld") {
        return;
    }
    let powerpc = "powerpc64-linux-gnu-ld";
    for (target, flags, machine, mark, linker) in [
        ("armv7-linux-gnueabihf", "-mthumb -fPIC", 40, 1, "ld.lld"),
        ("armv7-linux-gnueabihf", "-marm -fPIC", 40, 0, "ld.lld"),
        ("mips-linux-gnu", "-fPIC", 8, 0, "ld.lld"),
        ("mipsel-linux-gnu", "-fPIC", 8, 0, "ld.lld"),
        ("aarch64-linux-gnu", "-fPIC", 183, 0, "ld.lld"),
        ("riscv64-linux-gnu", "-mno-relax -fPIC", 243, 0, "ld.lld"),
        ("powerpc-linux-gnu", "-fPIC", 20, 0, "ld.lld"),
        ("powerpc64-linux-gnu", "-mabi=elfv1 -fPIC", 21, 0, powerpc),
    ] {
        if !is_installed(linker) {
            continue;
        }
        let scratch = Scratch::new("lines");
        let (program, call) = foreign(&scratch, target, flags, linker);
        let case = format!("{target} {flags}");
        for bias in [0, 0x55_0000] {
            let trace = scratch.write("t.hwt", trace_of(&program, machine, bias, call | mark));
            let report = report(&trace, &[]);
            let stack = list(&report["processes"][0]["leaks"][0]["stack"]);
            let places: Vec<_> = stack
                .iter()
                .map(|frame| (frame["function"].as_str(), frame["line"].as_u64()))
                .collect();
            let expected = [(Some("merged"), Some(4)), (Some("leak"), Some(7))];
            assert_eq!(places, expected, "{case}");
            // The address is as it was recorded.
            let raw = format!("{:#x}", bias + (call | mark));
            assert_eq!(stack[0]["address"], raw, "{case}");
        }
        tool(scratch.path(), "llvm-strip -g prog");
        let trace = scratch.write("t.hwt", trace_of(&program, machine, 0, call | mark));
        let report = report(&trace, &[]);
        assert_eq!(place(&report), (Some("leak"), None), "{case}");
    }
}

/// The kernel's own code is in no file, whatever is called like it here.
#[test]
fn code_of_the_kernel_is_no_file() {
    let scratch = Scratch::new("lines");
    scratch.write("main.c", "int main(void) { return 0; }\n");
    tool(scratch.path(), "cc -g -o [vdso] main.c");
    let mut writer = Writer::new();
    let base = 0x7FFF_0000_1000;
    writer.declare(0x72, [base, 0x2000, base], b"path=[vdso]\0");
    writer.record(Record {
        op: 1,
        ptr: 0x1_0000,
        size: 4321,
        pc: base + 0x1130,
        base,
        ..Record::default()
    });
    let trace = scratch.write("t.hwt", writer.end().bytes());
    let at_home = |words: &[&str]| {
        let mut command = heapwire_tests::run::command();
        Run::of(command.args(words).arg(&trace).current_dir(scratch.path()))
    };
    let report = json(&at_home(&["report", "--format", "json"]));
    let frame = &report["processes"][0]["leaks"][0]["stack"][0];
    assert_eq!(
        (&frame["module"], &frame["offset"]),
        (&"[vdso]".into(), &"0x1130".into())
    );
    assert_eq!(frame["function"], Value::Null);
    assert!(
        !report["warnings"].to_string().contains("vdso"),
        "{report:#}"
    );
    assert!(at_home(&["report"]).stdout.contains("[vdso]+0x1130"));
    let listed = json(&at_home(&["symbols", "--format", "json"]));
    let modules = list(&listed["modules"]).iter();
    let vdso: Vec<&Value> = modules.filter(|it| it["path"] == "[vdso]").collect();
    assert_eq!(vdso.len(), 1);
    for nothing in ["files", "missing", "tried"] {
        assert_eq!(list(&vdso[0][nothing]), [] as [Value; 0], "{nothing}");
    }
}

/// A plug-in that is built anew between two of its loads is two modules with one path: each call is named by the build
/// that made it, or not at all.
#[test]
fn a_plug_in_that_is_replaced_is_two_modules() {
    let scratch = Scratch::new("lines");
    let plug = |line: &str| {
        format!(
            "#include <stdlib.h>\n{line}void entry(void) {{ void *volatile p = malloc(4321); (void)p; }}\n"
        )
    };
    scratch.write("one.c", plug(""));
    scratch.write(
        "two.cpp",
        format!("\n\nextern \"C\" void entry();\n{}", plug("\n")),
    );
    scratch.write(
        "main.c",
        "#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    for (int i = 0; i < 2; i++) {
        void *plug = dlopen(\"./plug.so\", RTLD_NOW);
        if (!plug) return 1;
        ((void (*)(void))dlsym(plug, \"entry\"))();
        dlclose(plug);
        rename(\"two.so\", \"plug.so\");
    }
    return 0;
}
",
    );
    for line in [
        "cc -g -O0 -shared -fPIC -Wl,--build-id -o plug.so one.c",
        "c++ -g -O0 -shared -fPIC -Wl,--build-id -o two.so two.cpp",
        "cc -g -O0 -o prog main.c -ldl",
        "mkdir dbg",
        "cp plug.so dbg/first",
    ] {
        tool(scratch.path(), line);
    }
    let trace = scratch.join("t.hwt");
    let run = Run::of(
        heapwire_tests::run::command()
            .args(["record", "-o"])
            .arg(&trace)
            .args(["--", "./prog"])
            .current_dir(scratch.path()),
    );
    assert_eq!(run.status, 0, "{}", run.stderr);
    let lines = |options: &[&str]| {
        let words = [&["report", "--format", "json"], options].concat();
        let report = json(&on(&words, &trace));
        let mut lines: Vec<Option<u64>> = list(&report["processes"][0]["leaks"])
            .iter()
            .filter(|leak| leak["bytes"] == 4321)
            .map(|leak| leak["stack"][0]["line"].as_u64())
            .collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(lines(&[]), [None, Some(6)]);
    let first = scratch.join("dbg");
    let both = lines(&["--debug-dir", first.to_str().unwrap()]);
    assert_eq!(both, [Some(2), Some(6)]);
}
