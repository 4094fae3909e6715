//! The direction rules of the workspace, read out of its sources and manifests.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use heapwire_tests::build::workspace;
use heapwire_tests::run::Run;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Outside crates of the analyzer, and the files or folders below `analyzer/src` that may name them.
const DOORS: &[(&str, &[&str])] = &[
    ("addr2line", &["symbols/"]),
    ("clap", &["cli.rs", "cli/", "main.rs"]),
    ("flate2", &["trace/unpack.rs"]),
    ("gimli", &["symbols/"]),
    ("indicatif", &["verbs/waiting.rs"]),
    (
        "memmap2",
        &["replay/memory.rs", "symbols/", "trace/text.rs"],
    ),
    ("nom", &["log/", "trace/parse.rs"]),
    ("object", &["symbols/", "record/"]),
    ("rustix", &["stdout.rs", "verbs/recv/source.rs"]),
    ("ruzstd", &["trace/unpack.rs"]),
    ("signal_hook", &["signals.rs"]),
];

/// Files of the recorder that may hold `unsafe`: all that touch memory, registers or the kernel.
const UNSAFE: &[&str] = &[
    "arch/aarch64.rs",
    "arch/arm.rs",
    "arch/memory.rs",
    "arch/mips.rs",
    "arch/mod.rs",
    "arch/powerpc.rs",
    "arch/riscv64.rs",
    "arch/s390x.rs",
    "arch/shared.rs",
    "arch/x86.rs",
    "arch/x86_64/entry.rs",
    "arch/x86_64/forward.rs",
    "arch/x86_64/mod.rs",
    "auxiliary.rs",
    "cell.rs",
    "clock.rs",
    "early.rs",
    "fatal.rs",
    "forward.rs",
    "hooks.rs",
    "image.rs",
    "lane.rs",
    "linked.rs",
    "loader.rs",
    "log.rs",
    "modules.rs",
    "next.rs",
    "pack.rs",
    "paths.rs",
    "process.rs",
    "registry.rs",
    "relocate.rs",
    "repeat.rs",
    "sequence.rs",
    "start.rs",
    "stream.rs",
    "sys/files.rs",
    "sys/memory.rs",
    "sys/mod.rs",
    "sys/time.rs",
    "turn.rs",
];

/// Files of the analyzer that may: they map files, tell the processor what is needed next, or start a program in ways that
/// have no safe call.
const UNSAFE_ANALYZER: &[&str] = &[
    "allocator.rs",
    "record/child.rs",
    "replay/memory.rs",
    "stdout.rs",
    "symbols/file.rs",
    "trace/text.rs",
];

/// Path below the folder and text of every Rust file below `folder`.
fn sources(folder: &str) -> BTreeMap<String, String> {
    let root = workspace().join(folder);
    let mut found = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let name = path
                    .strip_prefix(&root)
                    .unwrap()
                    .to_string_lossy()
                    .into_owned();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {folder}");
    found
}

/// The lines of `text` that are code, with their numbers.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim_start()));
    lines.filter(|(_, line)| !line.starts_with("//"))
}

/// Whether `line` has `word` as a word of its own.
fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    line.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).map(|at| line.as_bytes()[at]);
        let after = line.as_bytes().get(at + word.len()).copied();
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

fn names_crate(line: &str, name: &str) -> bool {
    has_word(line, name)
        && (line.contains(&format!("{name}::")) || line.starts_with(&format!("use {name}")))
}

#[test]
fn each_outside_crate_has_one_door() {
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for (file, text) in sources("analyzer/src") {
        for (name, doors) in DOORS {
            let may = doors
                .iter()
                .any(|door| file == *door || (door.ends_with('/') && file.starts_with(door)));
            for (line, _) in code(&text).filter(|(_, line)| names_crate(line, name)) {
                used.insert(*name);
                if !may {
                    wrong.push(format!(
                        "{file}:{line} names {name}, whose door is {}",
                        doors.join(" and ")
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let doors: BTreeSet<_> = DOORS.iter().map(|(name, _)| *name).collect();
    assert_eq!(used, doors, "a door that nothing goes through");
}

#[test]
fn unsafe_code_keeps_to_its_files() {
    let holds = |text: &str| {
        code(text).any(|(_, line)| has_word(line, "unsafe") && !line.contains("unsafe_code"))
    };
    let of = |folder: &str| -> Vec<String> {
        let sources = sources(folder).into_iter();
        let with_unsafe = sources.filter(|(_, text)| holds(text));
        with_unsafe.map(|(file, _)| file).collect()
    };
    assert_eq!(of("recorder/src"), UNSAFE);
    assert_eq!(of("analyzer/src"), UNSAFE_ANALYZER);
    assert_eq!(of("format-spec/src"), [""; 0]);
}

#[test]
fn symbols_know_nothing_of_traces_and_renderers_nothing_of_either() {
    let above: &[(&str, &[&str])] = &[
        (
            "symbols/",
            &["crate::trace", "crate::report", "crate::replay"],
        ),
        (
            "report/",
            &[
                "crate::trace",
                "crate::symbols",
                "crate::replay",
                "heapwire_format",
            ],
        ),
        (
            "trace/",
            &["crate::report", "crate::symbols", "crate::replay"],
        ),
    ];
    let mut wrong = Vec::new();
    for (file, text) in sources("analyzer/src") {
        for (folder, forbidden) in above {
            if !file.starts_with(folder) || file.ends_with("tests.rs") {
                continue;
            }
            for (line, text) in code(&text) {
                for name in forbidden.iter().filter(|name| text.contains(*name)) {
                    wrong.push(format!("{file}:{line} names {name}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn metadata() -> Value {
    let run = Run::of(
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .current_dir(workspace())
            .args(["metadata", "--no-deps", "--format-version", "1"]),
    );
    assert_eq!(run.status, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

/// Names of the packages that each package of the workspace asks for itself.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    packages
        .map(|package| {
            let wanted = package["dependencies"].as_array().unwrap();
            (name(package), wanted.iter().map(name).collect())
        })
        .collect()
}

#[test]
fn crates_depend_in_one_direction() {
    let dependencies = dependencies();
    let inside: BTreeSet<&String> = dependencies.keys().collect();
    for (package, wanted) in &dependencies {
        let own: Vec<_> = wanted.iter().filter(|name| inside.contains(name)).collect();
        let allowed: &[&str] = match package.as_str() {
            "heapwire" | "heapwire-recorder" => &["heapwire-format"],
            _ => &[],
        };
        assert_eq!(own, allowed, "{package}");
    }
    assert!(dependencies["heapwire-format"].is_empty());
    let recorder: Vec<_> = dependencies["heapwire-recorder"]
        .iter()
        .map(String::as_str)
        .collect();
    assert_eq!(
        recorder,
        ["heapwire-format", "libc", "loom"],
        "loom is for its models only"
    );
}

#[test]
fn every_outside_crate_has_its_reason() {
    let dependencies = dependencies();
    let wanted: BTreeSet<&str> = dependencies
        .values()
        .flatten()
        .map(String::as_str)
        .filter(|name| !dependencies.contains_key(*name))
        .collect();
    let text = fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let (_, list) = text
        .split_once("\n## Outside crates\n")
        .expect("the list has a heading");
    let list = list.split("\n## ").next().unwrap();
    let mut named = BTreeSet::new();
    for row in list.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (name, reason) = row.split_once('`').unwrap();
        assert!(reason.len() > 40, "{name} has no reason");
        assert!(named.insert(name), "{name} stands twice");
    }
    assert_eq!(named, wanted);
}

#[test]
fn top_level_has_the_five_folders() {
    let metadata = metadata();
    let root = Path::new(metadata["workspace_root"].as_str().unwrap());
    let mut folders: Vec<String> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            manifest
                .parent()
                .unwrap()
                .strip_prefix(root)
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    folders.sort();
    assert_eq!(
        folders,
        ["analyzer", "format-spec", "recorder", "samples", "tests"]
    );
}
