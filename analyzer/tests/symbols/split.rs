//! Split DWARF: `.dwo` files and packages of them.

use crate::made::{build, calls, expect_lines, is_installed, look_up, run, scratch, skip};
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
    assert!(found.addresses.iter().flatten().all(|frame| !frame.inlined));
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
