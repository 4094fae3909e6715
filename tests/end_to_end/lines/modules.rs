//! Code of other machines, of the kernel, and of a plug-in that is replaced.

use super::extent;
use crate::symbols::{place, report, tool};
use heapwire_tests::run::{Run, is_installed, json, list, live_blocks, on};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{Record, Writer};
use serde_json::{Value, json as value};
use std::path::{Path, PathBuf};

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

#[test]
fn a_module_is_the_one_declared_before_the_call() {
    let mut writer = Writer::new();
    let (base, call) = (0x7000_0000, 0x7000_0100);
    let leak = |ptr| Record {
        op: 1,
        ptr,
        size: 8,
        pc: call,
        base,
        ..Record::default()
    };
    writer
        .declare(0x72, [base, 0x1000, base], b"path=/first.so\0")
        .record(leak(0x1000));
    writer.record(Record {
        op: 0x73,
        ptr: base,
        size: 0x1000,
        ..Record::default()
    });
    writer
        .declare(0x72, [base, 0x1000, base - 0x2000], b"path=/second.so\0")
        .record(leak(0x2000));
    writer.record(Record {
        base: 0,
        ..leak(0x3000)
    }); // no base: found by its range
    writer
        .record(Record {
            base: 0,
            pc: 0x9000_0000,
            ..leak(0x4000)
        })
        .end();
    let scratch = Scratch::new("reused_range");
    let blocks = live_blocks(&scratch.write("t.hwt", writer.bytes()));
    let frames: Vec<_> = blocks["processes"][0]["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| {
            (
                block["stack"][0]["module"].clone(),
                block["stack"][0]["offset"].clone(),
            )
        })
        .collect();
    let second = (value!("/second.so"), value!("0x2100"));
    assert_eq!(
        frames,
        [
            (value!("/first.so"), value!("0x100")),
            second.clone(),
            second,
            (Value::Null, Value::Null)
        ]
    );
}
