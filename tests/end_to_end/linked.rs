//! Programs that the recorder is linked into: by which linkers, under which libc, in which form, and what is known of them before.

use crate::symbols::{PROGRAM, place, report};
use heapwire_tests::build::linked_with;
use heapwire_tests::run::{Run, command, is_installed, list, number, on, without_recorder};
use heapwire_tests::scratch::Scratch;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, linked by `compiler` with the `options` that belong to the recorder's archive, or with some of them.
fn built(scratch: &Scratch, compiler: &str, more: &[&str], options: &[String]) -> PathBuf {
    let says = PROGRAM.replace("return 0;", "puts(\"said\"); return 7;");
    let source = scratch.write("main.c", says);
    let program = scratch.join("prog");
    let mut compiler = Command::new(compiler);
    compiler.args(["-g", "-O0", "-w", "-fno-builtin", "-include", "stdio.h"]);
    compiler
        .arg("-o")
        .arg(&program)
        .arg(source)
        .args(more)
        .args(options);
    let run = Run::of(&mut compiler);
    assert_eq!(run.status, 0, "{}", run.stderr);
    program
}

/// Runs it with and without a place for the trace, and gives the trace.
fn traced(scratch: &Scratch, program: &Path) -> PathBuf {
    let quiet = Run::of(without_recorder(Command::new(program)).current_dir(scratch.path()));
    assert_eq!((quiet.status, &*quiet.stdout), (7, "said\n"));
    let trace = scratch.join("t.hwt");
    assert!(!trace.exists());
    let mut command = without_recorder(Command::new(program));
    let loud = Run::of(command.env("HEAPWIRE_OUT", &trace));
    assert_eq!(loud, quiet);
    trace
}

fn finds_the_leak(scratch: &Scratch, program: &Path) {
    let found = report(&traced(scratch, program), &[]);
    assert_eq!(place(&found), (Some("leak"), Some(4)));
    assert_eq!(found["trace"]["complete"], true, "{found:#}");
}

#[test]
fn under_another_libc() {
    if is_installed("musl-gcc") {
        let scratch = Scratch::new("linked musl"); // a blank in the path of the archive
        let options = linked_with(&[], &scratch);
        let program = built(&scratch, "musl-gcc", &[], &options);
        finds_the_leak(&scratch, &program);
    }
}

/// It needs no more than to be told whose calls are the hooks'.
#[test]
fn by_another_linker() {
    if is_installed("ld.lld") {
        let scratch = Scratch::new("linked");
        let options = linked_with(&[], &scratch);
        let file = scratch.join("libheapwire.options");
        let all = fs::read_to_string(&file).unwrap();
        let wraps = all.lines().filter(|line| !line.contains("-u,"));
        fs::write(&file, wraps.collect::<Vec<_>>().join("\n")).unwrap();
        let program = built(&scratch, "cc", &["-fuse-ld=lld"], &options);
        finds_the_leak(&scratch, &program);
    }
}

/// All that is allocated is by libraries, which are searched after the recorder.
#[test]
fn a_program_that_allocates_by_libraries_alone() {
    let scratch = Scratch::new("linked");
    let options = linked_with(&[], &scratch);
    let source = scratch.write(
        "files.c",
        "#include <stdio.h>\nint main(void) {\n    fopen(\"/dev/null\", \"r\");\n    puts(\"said\");\n    return 7;\n}\n",
    );
    let program = scratch.join("files");
    let mut compiler = Command::new("cc");
    compiler.arg("-o").arg(&program).arg(source);
    let run = Run::of(compiler.args(&options));
    assert_eq!(run.status, 0, "{}", run.stderr);
    let trace = traced(&scratch, &program);
    let totals = &report(&trace, &[])["processes"][0]["totals"];
    assert!(number(&totals["live_blocks"]) > 0, "{totals}");
}

/// Neither symbols nor an interpreter say what is in it; its build id leads to a file with lines.
#[test]
fn stripped_and_at_any_address() {
    let scratch = Scratch::new("linked");
    let options = linked_with(&[], &scratch);
    let [_, options] = <[String; 2]>::try_from(options).unwrap();
    let more = ["-static-pie", "-Wl,--gc-sections"];
    let program = built(&scratch, "cc", &more, &[options]);
    let whole = scratch.join("whole");
    fs::copy(&program, &whole).unwrap();
    let strip = Run::of(Command::new("strip").arg("-s").arg(&program));
    assert_eq!(strip.status, 0, "{}", strip.stderr);

    let doctor = on(&["doctor"], &program);
    assert_eq!(doctor.status, 0, "{}", doctor.stdout);
    assert!(
        doctor.stdout.contains("has the recorder linked in"),
        "{}",
        doctor.stdout
    );
    let trace = traced(&scratch, &program);
    fs::rename(&whole, scratch.join("prog.debug")).unwrap();
    let found = report(&trace, &[]);
    assert_eq!(place(&found), (Some("leak"), Some(4)));
    assert_eq!(list(&found["processes"]).len(), 1);

    fs::remove_file(&trace).unwrap();
    let mut record = command();
    record.args(["record", "-o"]).arg(&trace).arg("--");
    let run = Run::of(record.arg(&program));
    assert_eq!(run.status, 7, "{}", run.stderr);
    assert!(!run.stderr.contains("nothing"), "{}", run.stderr);
    assert_eq!(place(&report(&trace, &[])), (Some("leak"), Some(4)));
}

/// Two recorders in one process would record each other.
#[test]
fn a_program_with_a_dynamic_linker_as_well_is_recorded_once() {
    let scratch = Scratch::new("linked");
    let options = linked_with(&[], &scratch);
    let program = built(&scratch, "cc", &[], &options);
    let trace = scratch.join("both.hwt");
    let mut record = command();
    record
        .args(["record", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(&program);
    assert_eq!(Run::of(&mut record).status, 7);
    let found = report(&trace, &[]);
    assert_eq!(list(&found["processes"]).len(), 1);
    assert_eq!(place(&found), (Some("leak"), Some(4)));
}
