//! Modules that come and go, and what depends on who it is that asks for one.

use super::{program, source, traced};
use heapwire_tests::build::{compile, recorder};
use heapwire_tests::run::{Run, list, number, report};
use heapwire_tests::scratch::Scratch;
use std::collections::BTreeMap;
use std::fs;

#[test]
fn plug_ins_that_four_threads_open_and_close_keep_their_names() {
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
    let trace = scratch.join("t.hwt");
    let run =
        Run::of(traced(&program, &recorder(&scratch), trace.to_str().unwrap()).args(&plugins));
    assert_eq!(
        (run.status, run.stdout.as_str()),
        (0, "done\n"),
        "{}",
        run.stderr
    );
    let report = report(&trace);
    assert_eq!(report["trace"]["complete"], true, "{}", report["warnings"]);
    let process = &report["processes"][0];
    assert_eq!(list(&process["errors"]).len(), 0, "{}", process["errors"]);
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
    let expected = [(60001, 67), (60002, 67), (60003, 66)];
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
