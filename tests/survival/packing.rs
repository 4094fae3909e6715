//! Frames that are packed as they are written: few bytes, the same records, and whole on every output.

use super::{program, traced};
use heapwire_tests::build::recorder;
use heapwire_tests::raw::Raw;
use heapwire_tests::run::{Run, list, number, report};
use heapwire_tests::scratch::Scratch;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Records but for what differs from run to run.
fn told(raw: &Raw) -> BTreeMap<(u8, u64), usize> {
    let mut told = BTreeMap::new();
    let heap = raw.records().filter(|record| (1..=7).contains(&record.op));
    for record in heap {
        *told.entry((record.op, record.size)).or_default() += 1;
    }
    told
}

#[test]
fn packed_and_plain_traces_hold_the_same_calls() {
    let scratch = Scratch::new("packing");
    let (program, library) = (program(&scratch, "pairs"), recorder(&scratch));
    let record = |pack: &str, out: &str| {
        let mut command = traced(&program, &library, out);
        let run = Run::of(command.arg("3000").env("HEAPWIRE_PACK", pack));
        assert_eq!((run.status, run.stderr.as_str()), (5, ""), "{}", run.stdout);
    };
    let of = |pack: &str, name: &str| {
        let path = scratch.join(name);
        record(pack, path.to_str().unwrap());
        (Raw::read(&path), report(&path))
    };
    let (plain, plain_report) = of("0", "plain.hwt");
    let (packed, packed_report) = of("1", "packed.hwt");
    assert_eq!((plain.packed_records, packed.slot_bytes), (0, 0));
    assert!(packed.packed_records >= 6000);
    assert_eq!(told(&plain), told(&packed));
    let totals = |report: &serde_json::Value| report["processes"][0]["totals"].clone();
    for name in [
        "allocations",
        "releases",
        "live_blocks",
        "live_bytes",
        "peak_bytes",
    ] {
        let (plain, packed) = (totals(&plain_report), totals(&packed_report));
        assert_eq!(plain[name], packed[name], "{name}");
    }
    assert_eq!(packed_report["trace"]["complete"], true);
}

#[test]
fn a_pipe_takes_each_packed_frame_whole() {
    let scratch = Scratch::new("packing-pipe");
    let (program, library) = (program(&scratch, "pairs"), recorder(&scratch));
    let out = scratch.join("t.hwt");
    let line = format!(
        "{{ LD_PRELOAD={} HEAPWIRE_OUT=fd:3 HEAPWIRE_PACK=1 {} 2000 3>&1 >&2; }} | cat >{}",
        library.display(),
        program.display(),
        out.display()
    );
    let run = Run::of(Command::new("bash").args(["-c", &line]));
    assert_eq!(run.status, 0, "{}", run.stderr);
    let raw = Raw::read(&out);
    assert_eq!((raw.torn, raw.slot_bytes), (0, 0));
    assert!(raw.packed_records >= 4000);
    let bytes = fs::read(&out).unwrap();
    let magic = b"\x89HWT\r\n\xFF\x1A";
    let mut frames: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at..].starts_with(magic))
        .collect();
    frames.push(bytes.len());
    assert!(frames.windows(2).all(|pair| pair[1] - pair[0] <= 4096));
    let report = report(&out);
    assert_eq!(report["trace"]["complete"], true, "{}", report["warnings"]);
    assert_eq!(number(&report["trace"]["foreign_bytes"]), 0);
}

/// Programs that are there, with what they do.
fn programs(scratch: &Scratch) -> Vec<(PathBuf, Vec<String>)> {
    let source: String = (0..300)
        .map(|i| {
            format!("int f{i}(int n) {{ struct {{ int a; }} s = {{n}}; return s.a * {i}; }}\n")
        })
        .collect();
    let source = scratch.write("large.c", source);
    let source = source.to_str().unwrap();
    let compiler = Run::of(Command::new("cc").arg("-print-prog-name=cc1")).stdout;
    let json =
        "import json; print(len(json.dumps([{'id': i, 't': ['a%d' % i]} for i in range(9000)])))";
    let rows = "create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i < 9000) \
        insert into t select i, 'row ' || i from n; select count(*) from t;";
    let hash = "my %h; $h{\"k$_\"} = [$_, \"v$_\"] for 1 .. 9000; print scalar keys %h";
    let root = env!("CARGO_MANIFEST_DIR");
    let all: [(&str, &[&str]); 6] = [
        ("/usr/bin/python3", &["-c", json]),
        ("/usr/bin/sqlite3", &[":memory:", rows]),
        ("/usr/bin/git", &["-C", root, "log", "-n", "20", "--stat"]),
        ("/usr/bin/perl", &["-e", hash]),
        (
            "/usr/bin/gdb",
            &["-batch", "-nx", "-ex", "info line main", "/usr/bin/perl"],
        ),
        (compiler.trim(), &["-quiet", source, "-o", "/dev/null"]),
    ];
    let there = all.into_iter().filter(|(path, _)| Path::new(path).exists());
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    there
        .map(|(path, words)| (path.into(), owned(words)))
        .collect()
}

#[test]
fn a_record_of_a_real_program_takes_few_bytes() {
    let scratch = Scratch::new("packing-programs");
    let library = recorder(&scratch);
    let mut all = Vec::new();
    for (path, arguments) in programs(&scratch) {
        let trace = scratch.join("t.hwt");
        let mut command = traced(&path, &library, trace.to_str().unwrap());
        command.args(arguments).env("PYTHONMALLOC", "malloc");
        let run = Run::of(&mut command);
        assert_eq!(run.status, 0, "{}: {}", path.display(), run.stderr);
        let raw = Raw::read(&trace);
        assert!(raw.packed_records > 1000, "{}", path.display());
        all.push((path, raw.packed_bytes_a_record()));
        fs::remove_file(trace).unwrap();
    }
    let mean = all.iter().map(|(_, bytes)| bytes).sum::<f64>() / all.len() as f64;
    assert!(!all.is_empty() && mean <= 6.5, "{mean} of {all:?}");
}

#[test]
fn threads_that_pack_at_the_same_time_lose_nothing() {
    let scratch = Scratch::new("packing-threads");
    let (program, library) = (program(&scratch, "many_threads"), recorder(&scratch));
    let trace = scratch.join("t.hwt");
    let mut command = traced(&program, &library, trace.to_str().unwrap());
    let run = Run::of(command.args(["640", "32"]).env("HEAPWIRE_PACK", "1"));
    assert_eq!(run.status, 0, "{}", run.stderr);
    let report = report(&trace);
    assert_eq!(report["trace"]["complete"], true, "{}", report["warnings"]);
    assert_eq!(list(&report["processes"][0]["errors"]).len(), 0);
    assert!(Raw::read(&trace).contradictions.is_empty());
}
