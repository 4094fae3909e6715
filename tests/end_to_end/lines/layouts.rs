//! Calls wherever a linker puts them, and whatever the compiler makes of them.

use super::{extent, recorded};
use crate::symbols::{place, tool};
use heapwire_tests::run::{is_installed, list};
use heapwire_tests::scratch::Scratch;

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
