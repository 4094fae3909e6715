//! What is shown of names, paths and modules.

use super::{ID, Made, leaking, report};
use heapwire_tests::run::{json, list, number, prose, run};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Names and paths are shown as the user wants them.
#[test]
fn names_and_paths_as_asked_for() {
    let made = Made::new("");
    made.run("cp main.c main.cpp");
    made.run("c++ -g -O0 -w -o prog main.cpp");
    let trace = made.record();
    let built = made.scratch.path().to_str().unwrap();
    let shown = |options: &[&str]| {
        let report = report(&trace, options);
        let frame = leaking(&report).clone();
        ["function", "file"].map(|key| frame[key].as_str().unwrap().to_owned())
    };
    assert_eq!(shown(&[]), ["leak(int)", &format!("{built}/main.cpp")]);
    let maps = ["/elsewhere=/x".to_owned(), format!("{built}=/home/me/src")];
    let options = ["--no-demangle", "--map", &maps[0], "--map", &maps[1]];
    assert_eq!(shown(&options), ["_ZL4leaki", "/home/me/src/main.cpp"]);
}

/// Rows are calls, whatever these are named: two calls in one line are two, and so are those of functions of one name.
#[test]
fn calls_of_one_name_are_rows_of_their_own() {
    for (file, compiler) in [("main.c", "cc"), ("main.cpp", "c++")] {
        let made = Made::new("");
        made.scratch.write(
            "same.h",
            "#include <stdlib.h>\nstatic void *volatile kept;\n\
             static void same(void) { kept = malloc(4321); kept = malloc(4321); }\n",
        );
        let source = "#include \"same.h\"\nENTRY { same(); return 0; }\n";
        made.scratch.write(
            &format!("other_{file}"),
            source.replace("ENTRY", "int other(void)"),
        );
        made.scratch.write(
            file,
            source
                .replace("ENTRY", "int other(void);\nint main(void)")
                .replace("return 0", "return other()"),
        );
        made.run(&format!("{compiler} -g -O0 -w -o prog {file} other_{file}"));
        let report = report(&made.record(), &[]);
        let leaks = list(&report["processes"][0]["leaks"]);
        let same = leaks.iter().filter(|leak| leak["bytes"] == 4321);
        let shown = same.map(|leak| {
            let frame = &leak["stack"][0];
            let name = frame["function"].as_str().unwrap();
            (
                name.trim_end_matches("()").to_owned(),
                frame["line"].as_u64(),
                number(&leak["blocks"]),
            )
        });
        let shown: Vec<_> = shown.collect();
        assert_eq!(shown, vec![("same".to_owned(), Some(3), 1); 4], "{file}");
    }
}

/// The verb `symbols` says of each module what was found, by which rule, and what would help.
#[test]
fn modules_are_listed() {
    let made = Made::new(&format!("-Wl,--build-id=0x{ID}"));
    made.run("objcopy --only-keep-debug prog prog.debug");
    made.run("strip -s prog");
    let trace = made.record();
    let listed = |trace: &Path| {
        let listed = run([
            Path::new("symbols"),
            Path::new("--format"),
            Path::new("json"),
            trace,
        ]);
        let listed = json(&listed);
        let modules = list(&listed["modules"]).to_vec();
        let found = modules.into_iter().find(|module| module["build_id"] == ID);
        found.unwrap_or_else(|| panic!("{listed:#}"))
    };
    let module = listed(&trace);
    assert_eq!(module["found"], "debug-info");
    assert_eq!(module["files"][0]["rule"], "path");
    assert_eq!(module["files"][1]["rule"], "beside");
    assert_eq!(
        module["files"][1]["path"],
        made.path("prog.debug").to_str().unwrap()
    );
    assert_eq!(number(&module["sites"]), 1);
    assert_eq!(
        (&module["named"], &module["with_lines"]),
        (&1.into(), &1.into())
    );
    assert_eq!(list(&module["missing"]), &[] as &[Value]);
    let text = run([Path::new("symbols"), &trace]).stdout;
    assert!(
        prose(&text).contains("the module itself") && prose(&text).contains("beside the module"),
        "{text}"
    );

    fs::remove_file(made.path("prog.debug")).unwrap();
    let module = listed(&trace);
    assert_eq!(module["found"], "no-symbols");
    assert_eq!(
        (&module["named"], &module["with_lines"]),
        (&0.into(), &0.into())
    );
    let missing = list(&module["missing"]);
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(
        missing[0].as_str().unwrap().contains("--debug-dir"),
        "{missing:?}"
    );
    let text = run([Path::new("symbols"), &trace]).stdout;
    assert!(text.contains("--debug-dir") && text.contains(ID), "{text}");
    fs::remove_file(made.path("prog")).unwrap();
    assert_eq!(listed(&trace)["found"], "missing");
}

/// One place a line, where a split unit is missing as well.
#[test]
fn a_missing_split_unit_is_named_with_the_places() {
    let made = Made::new("-gsplit-dwarf");
    let trace = made.record();
    fs::remove_file(made.path("prog-main.dwo")).unwrap();
    let listed = run([
        Path::new("symbols"),
        Path::new("--format"),
        Path::new("json"),
        &trace,
    ]);
    let listed = json(&listed);
    let mut modules = list(&listed["modules"]).iter();
    let module = modules.find(|it| it["path"] == made.path("prog").to_str().unwrap());
    let module = module.unwrap_or_else(|| panic!("{listed:#}"));
    let missing = list(&module["missing"]).iter();
    let missing: Vec<_> = missing.filter_map(Value::as_str).collect();
    assert!(
        missing
            .iter()
            .any(|it| it.starts_with("The file with split")),
        "{missing:?}"
    );
    let tried = list(&module["tried"]).iter();
    let mut places: Vec<_> = tried.filter_map(|place| place["path"].as_str()).collect();
    let built = made.path("prog-main.dwo");
    assert_eq!(places.first().copied(), built.to_str());
    let all = places.len();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), all, "{places:?}");
}
