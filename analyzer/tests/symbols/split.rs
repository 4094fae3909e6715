//! Split DWARF: `.dwo` files and packages of them.

use crate::made::{
    before, build, calls, every_function, expect_lines, is_installed, look_up, run, scratch, skip,
};
use crate::templates;
use heapwire::symbols::{Options, Rule};
use std::fs;
use std::path::PathBuf;

fn split_unit(built: &std::path::Path) -> PathBuf {
    fs::read_dir(built)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "dwo"))
        .unwrap()
}

#[test]
fn where_the_compiler_left_it_or_in_a_debug_directory() {
    for version in [4, 5] {
        let built = scratch("where_the_compiler_left_it");
        let program = build(&built, &format!("-g -gdwarf-{version} -gsplit-dwarf"));
        let calls = calls(&program);
        expect_lines(
            &look_up(&program, None, &calls, &Options::default()),
            &built,
        );
        let moved = built.join("moved");
        fs::create_dir(&moved).unwrap();
        let unit = split_unit(&built);
        fs::rename(&unit, moved.join(unit.file_name().unwrap())).unwrap();
        let found = look_up(&program, None, &calls, &Options::default());
        assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
        assert!(found.notes[0].contains(".dwo"), "{:?}", found.notes);
        // The lines stay in the program, the names in its symbol table.
        let first = &found.addresses[0][0];
        assert_eq!(
            (first.function.as_deref(), first.line),
            (Some("in_file"), Some(5))
        );
        let options = Options {
            debug_dirs: vec![moved],
            ..Options::default()
        };
        expect_lines(&look_up(&program, None, &calls, &options), &built);
    }
}

#[test]
fn a_unit_of_another_build_is_not_used() {
    let built = scratch("a_unit_of_another_build");
    let program = build(&built, "-g -gsplit-dwarf");
    let calls = calls(&program);
    fs::rename(&program, built.join("first")).unwrap();
    let source = fs::read_to_string(built.join("main.c")).unwrap();
    fs::write(built.join("main.c"), source + "int another_build;\n").unwrap();
    run(&built, "gcc -g -O1 -I. -gsplit-dwarf -o prog main.c");
    let found = look_up(&built.join("first"), None, &calls, &Options::default());
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    let mut frames = found.addresses.iter().flat_map(|frames| &**frames);
    assert!(frames.all(|frame| !frame.inlined));
}

#[test]
fn a_package() {
    if !is_installed("llvm-dwp") {
        return skip("llvm-dwp", "llvm");
    }
    for (version, package) in [(4, "prog.dwp"), (5, "prog.dwp"), (5, "dbg/prog.dwp")] {
        let built = scratch("a_package");
        let program = build(&built, &format!("-g -gdwarf-{version} -gsplit-dwarf"));
        let calls = calls(&program);
        fs::create_dir(built.join("dbg")).unwrap();
        let unit = split_unit(&built);
        run(&built, &format!("llvm-dwp {} -o {package}", unit.display()));
        fs::remove_file(unit).unwrap();
        let options = Options {
            debug_dirs: vec![built.join("dbg")],
            ..Options::default()
        };
        let found = look_up(&program, None, &calls, &options);
        expect_lines(&found, &built);
        assert_eq!(found.files.last().unwrap().rule, Rule::SplitPackage);
    }
}

/// Rust programs leave one unit a code generation unit, beside each other or in a package that the compiler makes.
#[test]
fn units_of_rust() {
    let source = "#![allow(named_asm_labels)]
mod inner {
    #[inline(never)]
    pub fn leak<T: Default>() -> Box<T> {
        let made = std::hint::black_box(Box::new(T::default()));
        unsafe { std::arch::asm!(\".globl call\", \"call:\") }
        made
    }
}
fn main() {
    std::hint::black_box(inner::leak::<[u64; 4]>());
}
";
    for version in [4, 5] {
        for kind in ["unpacked", "packed"] {
            let built = scratch("units_of_rust");
            fs::write(built.join("prog.rs"), source).unwrap();
            run(
                &built,
                &format!(
                    "rustc -g -C symbol-mangling-version=v0 -C split-debuginfo={kind} -C dwarf-version={version} -C opt-level=1 -C codegen-units=4 prog.rs"
                ),
            );
            let program = built.join("prog");
            let call = before(&program, "call");
            let found = look_up(&program, None, &[call], &Options::default());
            let frame = found.addresses[0].last().unwrap();
            let place = (frame.function.as_deref(), frame.line);
            let case = format!("DWARF {version} {kind}: {found:#?}");
            assert_eq!(
                place,
                (Some("prog::inner::leak::<[u64; 4]>"), Some(5)),
                "{case}"
            );
            let by_package = found
                .files
                .iter()
                .any(|file| file.rule == Rule::SplitPackage);
            assert_eq!(by_package, kind == "packed", "{case}");
        }
    }
}

/// Templates and inlined functions of several units, in files of their own and in a package.
#[test]
fn units_of_cpp() {
    for version in [4, 5] {
        let built = scratch("units_of_cpp");
        let whole = templates::build(&built, 2, 3, &format!("-O2 -gdwarf-{version}"));
        let addresses = every_function(&whole);
        let plain = look_up(&whole, None, &addresses, &Options::default());
        let split = templates::build(
            &built,
            2,
            3,
            &format!("-O2 -gdwarf-{version} -gsplit-dwarf"),
        );
        assert_eq!(addresses, every_function(&split), "the code is another");
        let expect = |rule: fn(&Rule) -> bool| {
            let found = look_up(&split, None, &addresses, &Options::default());
            assert_eq!(found.notes, [] as [String; 0]);
            assert!(found.addresses == plain.addresses, "DWARF {version}");
            assert!(found.files.iter().any(|file| rule(&file.rule)));
        };
        expect(|rule| matches!(rule, Rule::SplitUnit(_)));
        if !is_installed("llvm-dwp") {
            skip("llvm-dwp", "llvm");
            continue;
        }
        run(&built, "llvm-dwp -e program -o program.dwp");
        for unit in ["main", "part0", "part1"] {
            fs::remove_file(built.join(format!("{unit}.dwo"))).unwrap();
        }
        expect(|rule| *rule == Rule::SplitPackage);
    }
}
