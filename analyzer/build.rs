//! Builds the recorder for the target and hands it to the command, so that one file records and reports.
//!
//! Writes `recorders.rs` into `OUT_DIR`: a list of `Recorder`s, this machine's first. Those for other machines are the files `NAME.so` and
//! `NAME.o`, for programs that are linked statically, in the folder that `HEAPWIRE_RECORDERS` names; `tests/devices/build` makes them. The
//! list is empty where there is no recorder at all; the command says so when it is asked to record.

use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the recorder is made of, seen from this crate.
const SOURCES: [&str; 5] = [
    "../recorder",
    "../format-spec/src",
    "../format-spec/Cargo.toml",
    "../Cargo.toml",
    "../Cargo.lock",
];

/// Variables that the tools around a build set for it (clippy, coverage, Miri, fuzzing) and that would make another
/// recorder than the one that ships.
const LEAKS: [&str; 13] = [
    "CARGO_BUILD_",
    "CARGO_CFG_",
    "CARGO_FEATURE_",
    "CARGO_INCREMENTAL",
    "CARGO_LLVM_COV",
    "CARGO_PROFILE_",
    "CARGO_TARGET_DIR",
    "CLIPPY_",
    "LLVM_PROFILE_FILE",
    "MIRI",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
];

/// What makes the library small and no slower: inlining is chosen by hand where it counts, no loop is worth being copied, functions
/// that are the same are one. That functions start at multiples of 2 is enough for speed. Real functions are called from machine
/// code that describes its frames to unwinders; for the rest of the library a frame pointer has to do.
const SMALL: [&str; 9] = [
    "-Cllvm-args=-inline-threshold=30",
    "-Cllvm-args=-align-all-functions=1",
    "-Clink-arg=-Wl,--icf=all",
    "-Cllvm-args=-unroll-threshold=0",
    "-Cllvm-args=-align-loops=1",
    "-Cno-vectorize-loops",
    "-Cno-vectorize-slp",
    "-Cforce-unwind-tables=no",
    "-Cforce-frame-pointers=yes",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    let out = PathBuf::from(variable("OUT_DIR")?);
    let target = variable("TARGET")?;
    let mut list = Vec::new();
    if has_recorder() {
        let library = out.join("libheapwire.so");
        fs::copy(build(&out, &target)?, &library)?;
        build_object(&out, &target, &library.with_extension("o"))?;
        list.push((target, library));
    }
    println!("cargo::rerun-if-env-changed={FOLDER}");
    if let Some(folder) = env::var_os(FOLDER).filter(|folder| !folder.is_empty()) {
        list.extend(built(Path::new(&folder))?);
    }
    let entries: String = list
        .iter()
        .map(|(name, library)| {
            let object = library.with_extension("o");
            format!("Recorder {{ name: {name:?}, library: include_bytes!({library:?}), object: include_bytes!({object:?}) }}, ")
        })
        .collect();
    fs::write(out.join("recorders.rs"), format!("&[{entries}]"))?;
    Ok(())
}

/// Names a folder with recorders for other machines.
const FOLDER: &str = "HEAPWIRE_RECORDERS";

/// The recorders in `folder`, by name.
fn built(folder: &Path) -> Result<Vec<(String, PathBuf)>, Box<dyn Error>> {
    let folder = folder
        .canonicalize()
        .map_err(|error| format!("{FOLDER}: {}: {error}", folder.display()))?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("so"))
            && let Some(name) = path.file_stem()
        {
            let object = path.with_extension("o");
            if !object.is_file() {
                return Err(format!(
                    "{}: missing; tests/devices/build makes it",
                    object.display()
                )
                .into());
            }
            println!("cargo::rerun-if-changed={}", path.display());
            println!("cargo::rerun-if-changed={}", object.display());
            found.push((name.to_string_lossy().into_owned(), path));
        }
    }
    found.sort();
    Ok(found)
}

/// Whether the recorder knows the target's machine. Miri runs no foreign library, so it needs none.
fn has_recorder() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_POINTER_WIDTH", "64")
        && env::var_os("CARGO_CFG_MIRI").is_none()
}

/// Builds the library and gives its path.
fn build(out: &Path, target: &str) -> Result<PathBuf, Box<dyn Error>> {
    run(&mut cargo(out, target, "build")?)?;
    Ok(folder(out).join(target).join("release/libheapwire.so"))
}

/// Builds the recorder as one object, for programs that it is linked into.
fn build_object(out: &Path, target: &str, object: &Path) -> Result<(), Box<dyn Error>> {
    let mut cargo = cargo(out, target, "rustc")?;
    cargo.args(["--crate-type", "staticlib", "--"]);
    cargo.args(["--cfg", "heapwire_static"]);
    run(cargo.arg(format!("--emit=obj={}", object.display())))
}

fn run(cargo: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = cargo.status()?;
    if !status.success() {
        return Err(format!("the recorder does not build ({status})").into());
    }
    Ok(())
}

/// A target folder of the recorder's own: Cargo holds the lock of the usual one while this script runs.
fn folder(out: &Path) -> PathBuf {
    out.join("recorder")
}

/// Cargo's `verb` for the recorder as it ships.
fn cargo(out: &Path, target: &str, verb: &str) -> Result<Command, Box<dyn Error>> {
    let mut cargo = Command::new(variable("CARGO")?);
    for (name, _) in env::vars_os() {
        if leaks(&name) {
            cargo.env_remove(name);
        }
    }
    let mut flags = SMALL.join("\x1f");
    // A recorder for musl is a shared library all the same, which that target has to be told.
    if target.contains("musl") {
        flags.push_str("\x1f-Ctarget-feature=-crt-static");
    }
    cargo
        .args([verb, "--quiet", "--release"])
        .args(["--package", "heapwire-recorder"])
        .args(["--manifest-path", "../recorder/Cargo.toml"])
        .args(["--target", target])
        .arg("--target-dir")
        .arg(folder(out))
        .env("CARGO_ENCODED_RUSTFLAGS", flags)
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "z")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    Ok(cargo)
}

fn leaks(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    LEAKS.iter().any(|leak| name.starts_with(leak))
        || (name.starts_with("CARGO_TARGET_") && name.ends_with("_RUSTFLAGS"))
}

fn variable(name: &str) -> Result<String, Box<dyn Error>> {
    env::var(name).map_err(|error| format!("{name}: {error}").into())
}
