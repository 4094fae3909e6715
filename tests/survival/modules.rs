//! Modules that come and go, and what depends on who it is that asks for one.

use super::{program, source, traced};
use heapwire_tests::build::{compile, recorder};
use heapwire_tests::run::{Run, list, live_blocks, number, report, without_recorder};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn plug_ins_that_eight_threads_open_and_close_keep_their_names() {
    let scratch = Scratch::new("plugins");
    let program = program(&scratch, "plugins_at_once");
    let names = ["leak_one", "leak_two", "leak_three"];
    let plugins = names.iter().enumerate().map(|(at, name)| {
        let out = scratch.join(&format!("{name}.so"));
        let (name, size) = (format!("-DNAME={name}"), format!("-DSIZE={}", 60001 + at));
        compile(
            &source("plugin_leak.c"),
            &out,
            &["-shared", "-fPIC", &name, &size],
        );
        out
    });
    let plugins: Vec<_> = plugins.collect();
    let library = recorder(&scratch);
    let trace = scratch.join("t.hwt");
    names_stay(
        traced(&program, &library, trace.to_str().unwrap()).args(&plugins),
        &trace,
        names,
    );
    // In lines modules are declared again while they come and go.
    let lines = scratch.join("t.log");
    let mut command = traced(&program, &library, lines.to_str().unwrap());
    names_stay(
        command.env("HEAPWIRE_ARMOUR", "252").args(&plugins),
        &lines,
        names,
    );
}

fn names_stay(command: &mut Command, trace: &Path, names: [&str; 3]) {
    let run = Run::of(command);
    assert_eq!(
        (run.status, run.stdout.as_str()),
        (0, "done\n"),
        "{}",
        run.stderr
    );
    let report = report(trace);
    assert_eq!(report["trace"]["complete"], true, "{}", report["warnings"]);
    let process = &report["processes"][0];
    assert_eq!(list(&process["errors"]).len(), 0, "{}", process["errors"]);
    let found = kept_by(process);
    let expected = [(60001, 536), (60002, 536), (60003, 536)];
    let named: Vec<_> = found
        .iter()
        .map(|((size, _), blocks)| (*size, *blocks))
        .collect();
    assert_eq!(named, expected, "{found:?}");
    let functions: Vec<_> = found
        .keys()
        .map(|(_, function)| function.as_str())
        .collect();
    assert_eq!(functions, names);
}

/// How many blocks of 60,001 bytes and a few more each function left, `?` where none is named, by size.
fn kept_by(process: &Value) -> BTreeMap<(u64, String), u64> {
    let mut found = BTreeMap::new();
    for leak in list(&process["leaks"]) {
        let (bytes, blocks) = (number(&leak["bytes"]), number(&leak["blocks"]));
        if (60_001..60_010).contains(&(bytes / blocks)) {
            let function = leak["stack"][0]["function"].as_str().unwrap_or("?");
            *found
                .entry((bytes / blocks, function.to_owned()))
                .or_insert(0) += blocks;
        }
    }
    found
}

/// Programs that map code themselves call neither `dlopen` nor `dlclose`.
#[test]
fn plug_ins_that_the_program_maps_itself_keep_their_names() {
    let scratch = Scratch::new("own-loader");
    let program = program(&scratch, "own_loader");
    let plugin = |name: &str| {
        let out = scratch.join(name);
        let (define, entry) = (format!("-DNAME={name}"), format!("-Wl,-e,{name}"));
        let flags = ["-shared", "-nostdlib", "-Wl,-z,noseparate-code"];
        let flags = [&flags[..], &[&define, &entry]].concat();
        compile(&source("own_plugin.c"), &out, &flags);
        out
    };
    let (one, two) = (plugin("leak_one"), plugin("leak_two"));
    let steps = [
        ("over", &one, "leak_one"),
        ("after", &two, "leak_two"),
        ("over", &one, "leak_one"),
        ("copy", &one, "?"),
        ("over", &two, "leak_two"),
        ("copy", &two, "?"),
        ("after", &one, "leak_one"),
    ];
    let trace = scratch.join("t.hwt");
    let mut command = traced(&program, &recorder(&scratch), trace.to_str().unwrap());
    for (how, plugin, _) in steps {
        command.arg(how).arg(plugin);
    }
    let run = Run::of(&mut command);
    assert_eq!((run.status, run.stdout.as_str()), (0, "done\n"));
    let expected = (60_001..).zip(steps);
    let expected = expected.map(|(size, (.., name))| ((size, name.to_owned()), 20));
    let mut found = BTreeMap::new();
    for block in list(&live_blocks(&trace)["processes"][0]["blocks"]) {
        let (size, function) = (number(&block["size"]), &block["stack"][0]["function"]);
        if size > 60_000 {
            let function = function.as_str().unwrap_or("?").to_owned();
            *found.entry((size, function)).or_insert(0) += 1;
        }
    }
    assert_eq!(found, expected.collect());
}

/// Nobody is told when libc unloads them.
#[test]
fn a_plug_in_in_the_place_of_a_converter_of_libc_has_its_name() {
    let scratch = Scratch::new("converter");
    let program = program(&scratch, "converter");
    let large = format!("const char large[{}] = {{1}};\n", 0x28000); // fits into no smaller gap
    let plugin = fs::read_to_string(source("plugin_leak.c")).unwrap() + &large;
    let plugin = scratch.write("plugin.c", plugin);
    let plugins = ["leak_one", "leak_two"].map(|name| {
        let out = scratch.join(name);
        let name = format!("-DNAME={name}");
        compile(&plugin, &out, &["-shared", "-fPIC", &name, "-DSIZE=60001"]);
        out
    });
    let trace = scratch.join("t.hwt");
    let mut command = traced(&program, &recorder(&scratch), trace.to_str().unwrap());
    let run = Run::of(command.arg("BIG5HKSCS").args(&plugins));
    assert_eq!(
        (run.status, run.stdout.as_str()),
        (0, "1 1 1\n"),
        "it was there, went, and left its place"
    );
    let found = kept_by(&report(&trace)["processes"][0]);
    let expected = ["leak_one", "leak_two"].map(|name| ((60_001, name.to_owned()), 1));
    assert_eq!(found, BTreeMap::from(expected));
}

#[test]
fn who_opens_a_library_decides_where_it_is_looked_for() {
    let scratch = Scratch::new("origin");
    let program = program(&scratch, "origin");
    let folder = scratch.join("apart");
    fs::create_dir(&folder).unwrap();
    let shared = ["-shared", "-fPIC"];
    compile(&source("beside.c"), &folder.join("libbeside.so"), &shared);
    let plugin = folder.join("plugin.so");
    let path = ["-shared", "-fPIC", "-Wl,--enable-new-dtags,-rpath,$ORIGIN"];
    compile(&source("origin_plugin.c"), &plugin, &path);
    let trace = scratch.join("t.hwt");
    let run = Run::of(traced(&program, &recorder(&scratch), trace.to_str().unwrap()).arg(&plugin));
    assert_eq!(
        (run.status, run.stdout.as_str()),
        (0, "beside\n"),
        "{}",
        run.stderr
    );
}

/// Plug-ins in C++ for a program in C, by name.
///
/// `own` ones have operators of their own and a C++ library inside, `shared` ones use the system's, `inside` has the library's operators in
/// itself, and what `helped` releases is allocated by a library that it asks for.
fn plug_ins(scratch: &Scratch) {
    let plain = ["-shared", "-fPIC"];
    let inside = ["-shared", "-fPIC", "-static-libstdc++", "-static-libgcc"];
    let build = |name: &str, flags: &[&[&str]]| {
        let out = scratch.join(name);
        compile(&source("operators_plugin.cpp"), &out, &flags.concat());
    };
    build("shared", &[&plain]);
    build("inside", &[&inside]);
    build("own-1", &[&inside, &["-DOWN=0x111"]]);
    build("own-2", &[&inside, &["-DOWN=0x222"]]);
    build("own-shared", &[&plain, &["-DOWN=0x333"]]);
    let helper = scratch.join("libhelper.so");
    compile(&source("operators_helper.cpp"), &helper, &plain);
    let folder = format!("-L{}", scratch.path().display());
    let beside = [
        "-DOWN=0x444",
        "-DHELPER",
        &folder,
        "-lhelper",
        "-Wl,-rpath,$ORIGIN",
    ];
    build("helped", &[&inside, &beside]);
}

/// Runs the steps of `operators_host.c`, words of a mark and the name of a plug-in.
fn with_plug_ins(command: &mut Command, scratch: &Scratch, steps: &str) -> Run {
    let arguments = steps.split(' ').map(|step| {
        let at = step.find(|it: char| it.is_alphabetic()).unwrap();
        format!("{}{}", &step[..at], scratch.join(&step[at..]).display())
    });
    Run::of(command.args(arguments))
}

/// Each call comes to the recorder first, and is to reach the operator that it would have reached without it.
#[test]
fn each_plug_in_reaches_the_operators_that_the_loader_has_for_it() {
    let scratch = Scratch::new("operators");
    let program = program(&scratch, "operators_host");
    let library = recorder(&scratch);
    plug_ins(&scratch);
    for steps in [
        // One after the other, in both orders, together and at the places of others.
        "+shared shared +own-1 own-1 shared +own-2 own-2 own-1 shared",
        "+own-1 own-1 +own-2 own-2 own-1 -own-1 own-2 -own-2 +own-1 own-1",
        "+inside inside -inside +own-1 own-1 -own-1 +inside inside",
        "+own-1 -own-1 +own-2 -own-2 +inside -inside +shared shared",
        "+shared shared -shared +own-shared own-shared +shared shared",
        // A library that a plug-in asks for allocates by the operators of that.
        "+helped helped +own-1 own-1 helped",
        "+shared shared +own-1 +helped helped own-1 shared",
        // Opened for all others: theirs do not count.
        "*shared shared +own-2 own-2 shared",
        "*own-1 own-1 +own-2 own-2 own-1",
    ] {
        let alone = with_plug_ins(
            &mut without_recorder(Command::new(&program)),
            &scratch,
            steps,
        );
        assert_eq!(alone.status, 0, "{steps}: {}", alone.stdout);
        let trace = scratch.join("t.hwt");
        let _ = fs::remove_file(&trace); // of the steps before
        for out in [trace.to_str().unwrap(), ""] {
            let run = with_plug_ins(&mut traced(&program, &library, out), &scratch, steps);
            assert_eq!(run, alone, "{steps}, to {out:?}");
        }
        let report = report(&trace);
        assert_eq!(report["trace"]["complete"], true, "{}", report["warnings"]);
        let process = &report["processes"][0];
        assert_eq!(list(&process["errors"]).len(), 0, "{}", process["errors"]);
    }
}

#[test]
fn operators_are_found_while_other_plug_ins_come_and_go() {
    let scratch = Scratch::new("operators-storm");
    let program = program(&scratch, "operators_host");
    let library = recorder(&scratch);
    plug_ins(&scratch);
    let steps = "+shared +own-1 @own-2 own-1 @inside @helped shared own-1";
    let alone = with_plug_ins(
        &mut without_recorder(Command::new(&program)),
        &scratch,
        steps,
    );
    assert_eq!(alone.status, 0, "{}", alone.stdout);
    for out in ["/dev/null", ""] {
        let run = with_plug_ins(&mut traced(&program, &library, out), &scratch, steps);
        assert_eq!(run, alone, "to {out:?}");
    }
}

/// Lines of the plug-in, not of the operators that are called for it.
#[test]
fn what_a_plug_in_makes_has_its_line() {
    let scratch = Scratch::new("operators-line");
    let program = program(&scratch, "operators_host");
    plug_ins(&scratch);
    for plugin in ["shared", "own-1"] {
        let trace = scratch.join(&format!("{plugin}.hwt"));
        let steps = format!("+{plugin} {plugin}");
        let mut command = traced(&program, &recorder(&scratch), trace.to_str().unwrap());
        assert_eq!(with_plug_ins(&mut command, &scratch, &steps).status, 0);
        let report = report(&trace);
        let leaks = list(&report["processes"][0]["leaks"]);
        // With a header in front the operator's own block is one of its own.
        let of_size = |leak: &&Value| number(&leak["bytes"]) == 4321 * number(&leak["blocks"]);
        let kept: Vec<_> = leaks.iter().filter(of_size).collect();
        let [leak] = kept[..] else {
            panic!("{plugin}: {leaks:#?}");
        };
        let file = leak["stack"][0]["file"].as_str().unwrap();
        let text = fs::read_to_string(source("operators_plugin.cpp")).unwrap();
        let marked = text
            .lines()
            .position(|line| line.contains("// kept"))
            .unwrap();
        assert_eq!(
            Path::new(file).file_name(),
            PathBuf::from("operators_plugin.cpp").file_name()
        );
        assert_eq!(leak["stack"][0]["line"], marked as u64 + 1, "{plugin}");
    }
}

/// The kernel shows the end of a line in a path by its number.
#[test]
fn a_program_in_a_folder_with_an_odd_name_has_its_lines() {
    let scratch = Scratch::new("odd-name");
    let folder = scratch.join("a\nb c\\d");
    fs::create_dir(&folder).unwrap();
    let program = folder.join("plain");
    compile(&source("plain.c"), &program, &[]);
    let trace = scratch.join("t.hwt");
    let run = Run::of(&mut traced(
        &program,
        &recorder(&scratch),
        trace.to_str().unwrap(),
    ));
    assert_eq!((run.status, run.stdout.as_str()), (0, "plain\n"));
    let report = report(&trace);
    let leaks = list(&report["processes"][0]["leaks"]).iter();
    let own = leaks.filter(|leak| leak["stack"][0]["module"] == program.to_str().unwrap());
    let functions: Vec<_> = own.map(|leak| &leak["stack"][0]["function"]).collect();
    assert_eq!(functions, ["main"], "{:#}", report["processes"][0]["leaks"]);
}
