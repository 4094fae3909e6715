//! Builds what is tested: the command, the recorder inside it, and samples.

use crate::expect::Expectations;
use crate::run::Run;
use crate::scratch::Scratch;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

/// The root of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    root.expect("tests/ lies in the workspace").to_path_buf()
}

/// Path of the command `heapwire`: `$HEAPWIRE`, or built once in the profile of the tests.
///
/// # Panics
///
/// Where it cannot be built.
#[must_use]
pub fn heapwire() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("HEAPWIRE") {
        Some(path) => PathBuf::from(path),
        None => executable("heapwire", "heapwire"),
    })
}

/// Builds the executable `name` of `package` and gives its path.
///
/// # Panics
///
/// Where it cannot be built.
#[must_use]
pub fn executable(package: &str, name: &str) -> PathBuf {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(workspace())
        .args(["build", "--package", package, "--bin", name])
        .args(["--message-format", "json-render-diagnostics"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    // Building takes as long as it takes: no limit of tests is for it.
    let built = cargo.output().expect("cargo runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let failure = text(&built.stderr);
    assert!(built.status.success(), "cargo build failed:\n{failure}");
    let path = text(&built.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from));
    path.expect("cargo names the executable that it built")
}

/// The recorder library, as the command writes it out, in `scratch`.
///
/// # Panics
///
/// Where the command does not write it.
#[must_use]
pub fn recorder(scratch: &Scratch) -> PathBuf {
    let path = scratch.join("libheapwire.so");
    let run = Run::of(Command::new(heapwire()).args(["recorder", "-o"]).arg(&path));
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(fs::metadata(&path).is_ok_and(|file| file.len() > 0));
    path
}

/// Flags for a compiler that links a program statically with the recorder, which is written into `scratch`; `target` chooses which.
///
/// # Panics
///
/// Where the command does not write it.
#[must_use]
pub fn linked_with(target: &[&str], scratch: &Scratch) -> Vec<String> {
    let mut command = Command::new(heapwire());
    command.args(["recorder", "--static"]).args(target);
    let run = Run::of(command.arg("-o").arg(scratch.join("libheapwire.a")));
    assert_eq!(run.status, 0, "{}", run.stderr);
    let options = scratch.write("libheapwire.options", &run.stdout);
    vec!["-static".to_owned(), format!("@{}", options.display())]
}

/// A program with what it says about itself, ready to run.
#[derive(Debug)]
pub struct Sample {
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<PathBuf>,
    /// What a report on it must show.
    pub expect: Expectations,
}

impl Sample {
    /// Builds the sample at `path` below `samples/`, into `scratch`.
    ///
    /// # Panics
    ///
    /// Where it does not compile.
    #[must_use]
    pub fn build(path: &str, scratch: &Scratch) -> Self {
        Self::build_with(&Compiler::HOST, path, scratch)
    }

    /// The same by another compiler; only that of this machine builds samples in Rust.
    ///
    /// # Panics
    ///
    /// Where it does not compile.
    #[must_use]
    pub fn build_with(compiler: &Compiler, path: &str, scratch: &Scratch) -> Self {
        Self::build_by(compiler, path, scratch, &[])
    }

    /// The same as one piece with libc and recorder; `target` is the recorder's.
    ///
    /// # Panics
    ///
    /// Where it does not compile.
    #[must_use]
    pub fn build_linked(
        compiler: &Compiler,
        target: &[&str],
        path: &str,
        scratch: &Scratch,
    ) -> Self {
        Self::build_by(compiler, path, scratch, &linked_with(target, scratch))
    }

    fn build_by(compiler: &Compiler, path: &str, scratch: &Scratch, more: &[String]) -> Self {
        let source = workspace().join("samples").join(path);
        let expect = Expectations::read(&source);
        let folder = source.parent().expect("samples lie in folders");
        let arguments = expect.plugins.iter().map(|plugin| {
            let out = scratch.join(&format!("{}.so", stem(plugin)));
            compiler.compile(&folder.join(plugin), &out, &["-shared", "-fPIC"]);
            out
        });
        let arguments = arguments.collect();
        let name = stem(path);
        let program = if path.ends_with(".rs") {
            executable("heapwire-samples", &name)
        } else {
            let out = scratch.join(&name);
            let flags: Vec<&str> = expect
                .flags
                .iter()
                .chain(more)
                .map(String::as_str)
                .collect();
            compiler.compile(&source, &out, &flags);
            out
        };
        Self {
            program,
            arguments,
            expect,
        }
    }
}

/// Compiles a C or C++ file so that every call stands where the source has it.
///
/// # Panics
///
/// Where it does not compile.
pub fn compile(source: &Path, out: &Path, flags: &[&str]) {
    Compiler::HOST.compile(source, out, flags);
}

/// A machine's compiler of C and C++.
#[derive(Clone, Copy, Debug)]
pub struct Compiler {
    c: &'static str,
    cxx: &'static str,
    flags: &'static [&'static str],
}

impl Compiler {
    /// That of this machine.
    pub const HOST: Self = Self::new("cc", "c++", &[]);

    /// A compiler by the names of its commands, with the flags that choose the machine.
    #[must_use]
    pub const fn new(c: &'static str, cxx: &'static str, flags: &'static [&'static str]) -> Self {
        Self { c, cxx, flags }
    }

    /// Compiles a C or C++ file so that every call stands where the source has it.
    ///
    /// # Panics
    ///
    /// Where it does not compile.
    pub fn compile(&self, source: &Path, out: &Path, flags: &[&str]) {
        let mut compiler = if source.extension().is_some_and(|kind| kind == "cpp") {
            let mut compiler = Command::new(self.cxx);
            compiler.arg("-std=c++17");
            compiler
        } else {
            Command::new(self.c)
        };
        compiler
            .args(self.flags)
            .args(["-g", "-O0", "-w", "-fno-builtin", "-o"])
            .arg(out)
            .arg(source)
            .args(flags);
        let run = Run::of(&mut compiler);
        assert_eq!(
            run.status,
            0,
            "{} does not compile:\n{}",
            source.display(),
            run.stderr
        );
    }
}

fn stem(path: &str) -> String {
    let stem = Path::new(path).file_stem().expect("a sample is a file");
    stem.to_string_lossy().into_owned()
}
