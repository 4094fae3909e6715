//! What compilers and linkers do to functions: merge, split, move, fold and drop them.

use crate::made::{before, is_installed, look_up, run, scratch, skip};
use heapwire::address::FileAddress;
use heapwire::symbols::{Located, Options};
use object::{Object, ObjectSection};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Innermost function and line of the call before each of these labels.
fn places(program: &Path, labels: &[&str]) -> Vec<(String, u32)> {
    let addresses: Vec<FileAddress> = labels.iter().map(|label| before(program, label)).collect();
    let found = look_up(program, None, &addresses, &Options::default());
    assert_eq!(found.notes, [] as [String; 0]);
    found
        .addresses
        .iter()
        .map(|frames| place(&frames[0]))
        .collect()
}

fn place(frame: &Located) -> (String, u32) {
    (
        frame.function.as_deref().unwrap_or_default().to_owned(),
        frame.line.unwrap_or(0),
    )
}

fn expected(function: &str, line: u32) -> (String, u32) {
    (function.to_owned(), line)
}

const LABEL: &str =
    "#define LABEL(name) __asm__ volatile(\".globl \" #name \"\\n\" #name \":\");\n";

#[test]
fn optimized_across_files() {
    for flags in [
        "-flto -O2",
        "-flto -O2 -ffunction-sections -Wl,--gc-sections",
    ] {
        let built = scratch("optimized_across_files");
        fs::write(
            built.join("a.c"),
            format!(
                "#include <stdlib.h>\n{LABEL}void *volatile kept;\nvoid leak(void) {{\n    kept = malloc(1); LABEL(call)\n}}\n"
            ),
        )
        .unwrap();
        fs::write(
            built.join("main.c"),
            "void leak(void);\nint main(void) {\n    leak();\n    return 0;\n}\n",
        )
        .unwrap();
        run(&built, &format!("gcc -g {flags} -o prog a.c main.c"));
        let program = built.join("prog");
        let found = look_up(
            &program,
            None,
            &[before(&program, "call")],
            &Options::default(),
        );
        let frames: Vec<_> = found.addresses[0].iter().map(place).collect();
        assert_eq!(
            frames,
            [expected("leak", 5), expected("main", 3)],
            "{flags}"
        );
        assert!(found.addresses[0][0].inlined);
    }
}

/// A function's unlikely part lies far from the rest, and so do those of others around it.
#[test]
fn cold_parts() {
    let in_c = |name: &str| {
        format!(
            "__attribute__((noinline)) int {name}(int n) {{\n    if (n > 5) {{\n        unlikely(n);\n        n = 1;\n        kept = malloc(1); LABEL({name}_call)\n        unlikely(n);\n    }}\n    return n;\n}}\n"
        )
    };
    let in_cpp = |name: &str| {
        format!(
            "extern \"C\" __attribute__((noinline)) int {name}(int n) {{\n    try {{\n        may_throw(n);\n    }} catch (int) {{\n        kept = malloc(1); LABEL({name}_call)\n    }}\n    return n;\n}}\n"
        )
    };
    let begin = format!("#include <stdlib.h>\n{LABEL}void *volatile kept;\n");
    let c = format!(
        "{begin}__attribute__((noinline, cold)) void unlikely(int n) {{ kept = 0; }}\n{}{}int main(int c, char **v) {{ return first(c) + second(c); }}\n",
        in_c("first"),
        in_c("second")
    );
    let cpp = format!(
        "{begin}__attribute__((noinline)) void may_throw(int n) {{ if (n > 5) throw n; }}\n{}{}int main(int c, char **) {{ return first(c) + second(c); }}\n",
        in_cpp("first"),
        in_cpp("second")
    );
    for (compiler, file, source, lines) in [
        ("gcc", "main.c", c, [9, 18]),
        ("g++", "main.cpp", cpp, [9, 17]),
    ] {
        let built = scratch("cold_parts");
        fs::write(built.join(file), source).unwrap();
        for flags in ["-g", "-g -gdwarf-4", "-g0"] {
            run(&built, &format!("{compiler} {flags} -O2 -o prog {file}"));
            let program = built.join("prog");
            let symbols = run(&built, "nm prog");
            assert!(
                symbols.contains("first.cold"),
                "the compiler split nothing of {file}"
            );
            let found = places(&program, &["first_call", "second_call"]);
            let wanted = if flags == "-g0" {
                [expected("first.cold", 0), expected("second.cold", 0)]
            } else {
                [expected("first", lines[0]), expected("second", lines[1])]
            };
            assert_eq!(found, wanted, "{file} {flags}");
        }
    }
}

const FOLDED_IN_C: &str = "#include <stdlib.h>
void *volatile kept;
__attribute__((noinline)) EXTERN void one(void) {
    kept = malloc(7);
    kept = 0;
}
__attribute__((noinline)) EXTERN void two(void) {
    kept = malloc(7);
    kept = 0;
}
int main(void) {
    one();
    two();
    return 0;
}
";

/// The same, with the functions in the same lines.
const FOLDED_IN_RUST: &str = "extern \"C\" { fn malloc(size: usize) -> *mut u8; }
use std::hint::black_box;
#[inline(never)] #[no_mangle] extern \"C\" fn one() {
    black_box(unsafe { malloc(7) });
    black_box(0);
}
#[inline(never)] #[no_mangle] extern \"C\" fn two() {
    black_box(unsafe { malloc(7) });
    black_box(0);
}
fn main() {
    one();
    two();
}
";

/// Of functions that are folded into one, either may be named, and with its own line, though the table has the lines of
/// both under one address.
#[test]
fn folded_functions() {
    let c = |file: &'static str, word, compiler| {
        let build = move |version: u32, linker: &str| {
            format!(
                "{compiler} -gdwarf-{version} -O1 -ffunction-sections -fuse-ld={linker} -Wl,--icf=all -o prog {file}"
            )
        };
        (
            file,
            FOLDED_IN_C.replace("EXTERN", word),
            Box::new(build) as Box<dyn Fn(u32, &str) -> String>,
        )
    };
    let rust = |version: u32, linker: &str| {
        format!(
            "rustc -g -C dwarf-version={version} -C opt-level=1 -C link-self-contained=no -C link-arg=-fuse-ld={linker} -C link-arg=-Wl,--icf=all -o prog main.rs"
        )
    };
    let languages = [
        c("main.c", "", "gcc"),
        c("main.cpp", "extern \"C\"", "g++"),
        ("main.rs", FOLDED_IN_RUST.to_owned(), Box::new(rust)),
    ];
    for linker in ["gold", "lld", "mold"] {
        if !has_linker(linker) {
            continue;
        }
        for version in [4, 5] {
            for (file, source, build) in &languages {
                let built = scratch("folded_functions");
                fs::write(built.join(file), source).unwrap();
                run(&built, &build(version, linker));
                let program = built.join("prog");
                let symbols = run(&built, "nm prog");
                let ends = [" one", " two"];
                let folded = symbols
                    .lines()
                    .filter(|line| ends.iter().any(|end| line.ends_with(end)));
                let addresses: BTreeSet<&str> = folded.map(|line| &line[..16]).collect();
                assert_eq!(addresses.len(), 1, "{linker} folded nothing of {file}");
                let one = before(&program, "one");
                // The call begins some bytes into the function.
                let addresses: Vec<FileAddress> =
                    (5..16).map(|at| FileAddress(one.0 + at)).collect();
                let found = look_up(&program, None, &addresses, &Options::default());
                for frames in &found.addresses {
                    // In Rust, what is merged into it may be innermost.
                    let place = place(frames.last().unwrap());
                    let lines = match place.0.as_str() {
                        "one" => 3..=6,
                        "two" => 7..=10,
                        other => panic!("{linker} {file}: {other}"),
                    };
                    assert!(
                        lines.contains(&place.1),
                        "{linker} {file} DWARF {version}: {place:?}"
                    );
                }
            }
        }
    }
}

/// Whether this linker is installed; says so if not.
fn has_linker(linker: &str) -> bool {
    let is_there = linker == "bfd" || is_installed(&format!("ld.{linker}")) || is_installed(linker);
    if !is_there {
        skip(linker, linker);
    }
    is_there
}

/// Linkers mark what they dropped in their own ways: with 0, 1 or the highest address.
#[test]
fn dropped_functions() {
    let many = "    x = x * 3 + x / 7; x ^= x >> 3;\n".repeat(900);
    let in_c = format!(
        "#include <stdlib.h>\n{LABEL}volatile unsigned x;\nvoid *volatile kept;\n\
         EXTERN void dropped(void) {{\n{many}}}\nEXTERN void also_dropped(void) {{\n{many}}}\n\
         EXTERN void leak(void) {{\n    kept = malloc(1); LABEL(call)\n}}\nint main(void) {{ leak(); return 0; }}\n"
    );
    let many = "    x = b(b(x) * 3 + x / 7); x ^= b(x >> 3);\n".repeat(900);
    let in_rust = format!(
        "#![allow(named_asm_labels)]\nextern \"C\" {{ fn malloc(size: usize) -> *mut u8; }}\nuse std::hint::black_box as b;\n\
         #[no_mangle] extern \"C\" fn dropped(mut x: u32) -> u32 {{\n{many}x }}\n#[no_mangle] extern \"C\" fn also_dropped(mut x: u32) -> u32 {{\n{many}x }}\n\
         #[no_mangle] #[inline(never)] fn leak() {{ unsafe {{\n    b(malloc(1)); std::arch::asm!(\".globl call\", \"call:\");\n}} }}\nfn main() {{ leak(); }}\n"
    );

    let options = [
        "-gdwarf-4",
        "-gdwarf-5",
        "-gdwarf-5 -no-pie",
        "-gdwarf-5 -gsplit-dwarf",
    ];
    let c = options.map(|flags| {
        let source = in_c.replace("EXTERN ", "");
        let build = format!(
            "gcc {flags} -O0 -ffunction-sections -Wl,--gc-sections -o prog main.c -fuse-ld="
        );
        ("main.c", source, build, 2 * 901 + 8)
    });
    let cpp = [options[1], "-gdwarf-4 -no-pie"].map(|flags| {
        let source = in_c.replace("EXTERN", "extern \"C\"");
        let build = format!(
            "g++ {flags} -O0 -ffunction-sections -Wl,--gc-sections -o prog main.cpp -fuse-ld="
        );
        ("main.cpp", source, build, 2 * 901 + 8)
    });
    let rust = [
        "-C dwarf-version=4 -C relocation-model=static",
        "-C dwarf-version=5 -C split-debuginfo=unpacked",
    ]
    .map(|flags| {
        let build = format!(
            "rustc -g {flags} -o prog main.rs -C link-self-contained=no -C link-arg=-fuse-ld="
        );
        ("main.rs", in_rust.clone(), build, 2 * 902 + 5)
    });
    for linker in ["bfd", "gold", "lld", "mold"] {
        if !has_linker(linker) {
            continue;
        }
        for (file, source, build, line) in c.iter().chain(&cpp).chain(&rust) {
            let built = scratch("dropped_functions");
            fs::write(built.join(file), source).unwrap();
            let build = format!("{build}{linker}");
            run(&built, &build);
            let symbols = run(&built, "nm prog");
            assert!(!symbols.contains("dropped"), "{build}");
            let found = places(&built.join("prog"), &["call"]);
            assert_eq!(found, [expected("leak", *line)], "{build}");
        }
    }
}

/// Assembler code has symbols at best; where it has none, its neighbours do not stand in for it.
#[test]
fn assembler_code() {
    let built = scratch("assembler_code");
    fs::write(
        built.join("a.s"),
        ".text\n.globl whole\n.type whole, @function\nwhole:\n    call malloc@PLT\n    ret\n.size whole, . - whole\n\
         .zero 64\n.Lnameless:\n    call malloc@PLT\n    nop\n.section .rodata.where, \"a\"\n.globl where\nwhere: .quad .Lnameless + 5 - where\n\
         .section .note.GNU-stack\n",
    )
    .unwrap();
    fs::write(
        built.join("main.c"),
        "void whole(void);\nint main(void) { whole(); return 0; }\n",
    )
    .unwrap();
    run(&built, "gcc -g -c main.c");
    for (flags, line) in [("", 0), ("-g", 5)] {
        run(&built, &format!("gcc {flags} -c a.s"));
        run(&built, "gcc -o prog main.o a.o");
        let program = built.join("prog");
        let call = FileAddress(before(&program, "whole").0 + 5);
        let found = look_up(
            &program,
            None,
            &[call, FileAddress(call.0 + 70)],
            &Options::default(),
        );
        assert_eq!(
            place(&found.addresses[0][0]),
            expected("whole", line),
            "{flags}"
        );
        if line == 0 {
            assert!(
                found.addresses[1].is_empty(),
                "nothing says what lies behind it"
            );
        } else {
            // Its line is known, but no function.
            assert_eq!(found.addresses[1][0].function, None);
        }
    }
}

/// Nothing is said of stubs, least of all the name of a function beside them.
#[test]
fn stubs_of_the_linker() {
    let built = scratch("stubs_of_the_linker");
    fs::write(
        built.join("main.c"),
        "#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n",
    )
    .unwrap();
    for flags in ["-g", "-g0"] {
        run(
            &built,
            &format!("gcc {flags} -O0 -fno-builtin -o prog main.c"),
        );
        let program = built.join("prog");
        let bytes = fs::read(&program).unwrap();
        let elf = object::File::parse(&*bytes).unwrap();
        let plt = elf.section_by_name(".plt").unwrap();
        assert!(plt.size() >= 32);
        let addresses: Vec<FileAddress> = (0..plt.size())
            .map(|at| FileAddress(plt.address() + at))
            .collect();
        let found = look_up(&program, None, &addresses, &Options::default());
        assert!(
            found.addresses.iter().all(|frames| frames.is_empty()),
            "{found:?}"
        );
    }
}

/// Columns, and the whole way of the file's name.
#[test]
fn columns_and_full_paths() {
    let built = scratch("columns_and_full_paths");
    fs::create_dir_all(built.join("deep/er")).unwrap();
    fs::write(
        built.join("deep/er/main.c"),
        format!("#include <stdlib.h>\n{LABEL}int main(void) {{\n    void *volatile p; p = malloc(1); LABEL(call)\n    return 0;\n}}\n"),
    )
    .unwrap();
    for version in 2..=5 {
        run(
            &built,
            &format!("gcc -gdwarf-{version} -gcolumn-info -O0 -o prog deep/../deep/er/main.c"),
        );
        let program = built.join("prog");
        let found = look_up(
            &program,
            None,
            &[before(&program, "call")],
            &Options::default(),
        );
        let frame = &found.addresses[0][0];
        let file = built.join("deep/er/main.c");
        assert_eq!(frame.file.as_deref(), file.to_str(), "DWARF {version}");
        // Of the call, or of the assignment whose value it gives.
        assert!(
            matches!(frame.column, Some(25 | 27)),
            "DWARF {version}: {frame:?}"
        );
    }
}
