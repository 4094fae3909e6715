//! Real programs: traced, they do what they do untraced, and their calls add up to what valgrind counts.
//!
//! valgrind's "A allocs, F frees" are A = allocations + reallocations + failed reallocations and F = releases +
//! reallocations + failed reallocations. Programs allocate for each variable of their environment, so every run has the
//! same ones: what valgrind's start script sets, or the recorder needs, the others are given as well.

use heapwire_tests::build::{Sample, compile};
use heapwire_tests::run::{Run, command, number, record, report};
use heapwire_tests::scratch::Scratch;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How far a program's counts may be from valgrind's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Exact,
    /// Within a thousandth; the reason stands at the program.
    Near,
}

/// What a program is run with. The last three are what valgrind's start script sets; its shell adds PWD.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("HOME", "/nonexistent"),
    ("LC_ALL", "C.UTF-8"),
    ("TZ", "UTC"),
    ("PERL_HASH_SEED", "0"),
    ("PERL_PERTURB_KEYS", "0"),
    ("PYTHONHASHSEED", "0"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("LD_LIBRARY_PATH", "/usr/lib/debug"),
    ("GLIBCPP_FORCE_NEW", "1"),
    ("GLIBCXX_FORCE_NEW", "1"),
];

fn in_environment(mut command: Command, folder: &Path) -> Command {
    command
        .env_clear()
        .envs(ENVIRONMENT.iter().copied())
        .env("PWD", folder)
        .current_dir(folder);
    command
}

#[track_caller]
fn agrees(scratch: &Scratch, fit: Fit, words: &[&str]) {
    let (ours, theirs) = counts(scratch, words);
    let far = |ours: u64, theirs: u64| ours.abs_diff(theirs) > theirs / 1000;
    match fit {
        Fit::Exact => assert_eq!(ours, theirs, "allocs and frees by valgrind"),
        Fit::Near => assert!(
            !far(ours.0, theirs.0) && !far(ours.1, theirs.1),
            "{ours:?} instead of {theirs:?}"
        ),
    }
    assert!(theirs.0 > 10, "the program does something");
}

/// Allocs and frees of `words` by our count and by valgrind's.
#[track_caller]
fn counts(scratch: &Scratch, words: &[&str]) -> ((u64, u64), (u64, u64)) {
    let trace = scratch.join("trace.hwt");
    let plain = {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        Run::of(&mut in_environment(command, scratch.path()))
    };
    let traced = {
        let mut command = command();
        command
            .args(["record", "-o"])
            .arg(&trace)
            .arg("--")
            .args(words);
        Run::of(&mut in_environment(command, scratch.path()))
    };
    let seen = |run: &Run| (run.status, run.stdout.clone());
    assert_eq!(seen(&traced), seen(&plain), "{}", traced.stderr);
    assert_eq!(plain.status, 0, "{}", plain.stderr);

    let report = report(&trace);
    assert_eq!(
        report["trace"]["complete"], true,
        "{:#}",
        report["warnings"]
    );
    let totals = &report["processes"][0]["totals"];
    let total = |name: &str| number(&totals[name]);
    let both = total("reallocations") + total("failed_reallocations");
    let ours = (total("allocations") + both, total("releases") + both);
    (ours, valgrind(scratch, &trace, words))
}

/// What valgrind says of `words`: allocs and frees.
fn valgrind(scratch: &Scratch, trace: &Path, words: &[&str]) -> (u64, u64) {
    let log = scratch.join("valgrind.log");
    let mut command = Command::new("valgrind");
    command
        .args([
            "--run-libc-freeres=no",
            "--run-cxx-freeres=no",
            "--log-file=valgrind.log",
            "--",
        ])
        .args(words);
    let mut command = in_environment(command, scratch.path());
    command.env("HEAPWIRE_OUT", trace); // no recorder is there to read it
    let run = Run::of(&mut command);
    let log = fs::read_to_string(log).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    let (_, usage) = log
        .split_once("total heap usage: ")
        .unwrap_or_else(|| panic!("no summary in {log}"));
    let counts: Vec<u64> = usage
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .filter_map(|word| word.replace(',', "").parse().ok())
        .collect();
    (counts[0], counts[1])
}

/// Lines of text in no order.
fn text(scratch: &Scratch) -> PathBuf {
    let mut state = 7_u32;
    let lines = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        format!("{state:08x} line of text\n")
    });
    scratch.write("text", lines.take(20_000).collect::<String>())
}

#[test]
fn ls() {
    agrees(
        &Scratch::new("ls"),
        Fit::Exact,
        &["ls", "-lR", "/usr/include/linux"],
    );
}

#[test]
fn sort() {
    let scratch = Scratch::new("sort");
    text(&scratch);
    agrees(&scratch, Fit::Exact, &["sort", "--parallel=1", "text"]);
}

#[test]
fn grep() {
    let scratch = Scratch::new("grep");
    text(&scratch);
    agrees(
        &scratch,
        Fit::Exact,
        &["grep", "-E", "(a|b)[0-9]+.*(text|line)", "text"],
    );
}

#[test]
fn sed() {
    let scratch = Scratch::new("sed");
    text(&scratch);
    agrees(
        &scratch,
        Fit::Exact,
        &[
            "sed",
            "-E",
            "s/([0-9a-f]+) line/\\1 row/;y/abc/xyz/",
            "text",
        ],
    );
}

#[test]
fn bash() {
    let script = "declare -A table; for ((i = 0; i < 3000; i++)); do table[key$((i % 700))]+=x$i; done; \
        for key in \"${!table[@]}\"; do printf '%s %s\\n' \"$key\" \"${table[$key]:0:40}\"; done";
    agrees(
        &Scratch::new("bash"),
        Fit::Exact,
        &["bash", "--norc", "-c", script],
    );
}

#[test]
fn perl() {
    let script = "my %h; for my $i (1..20000) { push @{$h{'key' . $i % 900}}, \"v$i\" } \
        print join(' ', map { \"$_=\" . scalar @{$h{$_}} } sort keys %h), \"\\n\"; \
        my $t = join ',', 1..5000; my $n = () = $t =~ /(\\d7)/g; print \"$n\\n\"";
    agrees(&Scratch::new("perl"), Fit::Exact, &["perl", "-e", script]);
}

#[test]
fn python() {
    let script = "import json, re\n\
        table = {}\n\
        for i in range(20000): table.setdefault('key%d' % (i % 900), []).append('v%d' % i)\n\
        text = json.dumps(table, sort_keys=True)\n\
        print(len(text), len(re.findall('v[0-9]+7', text)), sum(len(v) for v in json.loads(text).values()))\n";
    agrees(
        &Scratch::new("python"),
        Fit::Exact,
        &["/usr/bin/python3", "-I", "-c", script],
    );
}

#[test]
fn git_log() {
    let scratch = Scratch::new("git");
    let commits = "git init -q . && for i in $(seq 40); do echo $i >> file; git add file; \
        git -c user.name=n -c user.email=e@example.org commit -q -m \"commit $i\" --date=2020-01-01T00:00:00Z; done";
    let made = Run::of(&mut in_environment(
        {
            let mut command = Command::new("sh");
            command.args(["-c", commits]);
            command
        },
        scratch.path(),
    ));
    assert_eq!(made.status, 0, "{}", made.stderr);
    agrees(&scratch, Fit::Exact, &["git", "log", "-p", "--stat"]);
}

#[test]
fn sqlite3() {
    let sql = "create table t(a integer primary key, b text); \
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) \
        insert into t select i, 'row ' || (i * 7919 % 1000) from n; \
        create index i on t(b); select b, count(*), sum(a) from t group by b order by b limit 50;";
    agrees(
        &Scratch::new("sqlite3"),
        Fit::Exact,
        &["sqlite3", ":memory:", sql],
    );
}

#[test]
fn c_compiler() {
    // cc1 keeps tables of pointers, whose sizes depend on where things happen to lie: `counts_can_depend_on_addresses`.
    let scratch = Scratch::new("cc1");
    let function = |i: u32| {
        format!(
            "static int f{i}(int n, const char *s) {{\n    int sum = {i};\n    struct {{ int a, b; }} pair = {{n, {i}}};\n    \
             for (int k = 0; k < n; k++)\n        sum += s[k] * pair.b;\n    if (sum % 2)\n        return sum - pair.a;\n    \
             return sum;\n}}\nint g{i}(int n) {{ return f{i}(n, \"text {i}\"); }}\n"
        )
    };
    scratch.write("large.c", (0..2000).map(function).collect::<String>());
    let cc1 = Run::of(Command::new("cc").arg("-print-prog-name=cc1")).stdout;
    agrees(
        &scratch,
        Fit::Near,
        &[cc1.trim(), "-quiet", "-O0", "large.c", "-o", "-"],
    );
}

#[test]
fn cxx_program() {
    let scratch = Scratch::new("cxx");
    let sample = Sample::build("cxx/containers.cpp", &scratch);
    agrees(&scratch, Fit::Exact, &[&sample.program.to_string_lossy()]);
}

#[test]
fn rust_program() {
    let scratch = Scratch::new("rust");
    let sample = Sample::build("src/bin/collections.rs", &scratch);
    agrees(&scratch, Fit::Exact, &[&sample.program.to_string_lossy()]);
}

/// Each kind of call by itself, and how many allocs and frees valgrind counts less than we do.
///
/// It stands in front of fewer functions: libc's `pvalloc` does not go through one of them, and its `reallocarray` goes
/// through `realloc` only where the product is no larger than a size can be.
#[test]
fn each_kind_of_call() {
    let calls = [
        ("free(malloc(1)); free(NULL)", (0, 0)),
        ("malloc(much)", (0, 0)),
        ("calloc(3, 5); calloc(much, 3)", (0, 0)),
        ("realloc(malloc(1), 2000)", (0, 0)),
        ("realloc(realloc(NULL, 1), 0)", (0, 0)),
        ("realloc(malloc(1), much)", (0, 0)),
        ("reallocarray(malloc(1), 3, 5)", (0, 0)),
        ("reallocarray(malloc(1), much, 5)", (1, 1)),
        ("free(memalign(64, 5))", (0, 0)),
        ("free(aligned_alloc(64, 64))", (0, 0)),
        ("posix_memalign(&block, 64, 5)", (0, 0)),
        ("posix_memalign(&block, 3, 5)", (0, 0)),
        ("valloc(5)", (0, 0)),
        ("pvalloc(5)", (1, 0)),
        ("free(pvalloc(5))", (1, 1)),
        ("free(strdup(\"text\")); strndup(\"text\", 2)", (0, 0)),
        ("asprintf((char **)&block, \"%d\", 1)", (0, 0)),
        ("free(realpath(\"/\", NULL))", (0, 0)),
        ("free(getcwd(NULL, 0))", (0, 0)),
    ];
    let scratch = Scratch::new("calls");
    let program = scratch.join("call");
    let differences = calls.map(|(call, _)| {
        compile(&scratch.write("call.c", program_of(call)), &program, &[]);
        let (ours, theirs) = counts(&scratch, &[&program.to_string_lossy()]);
        (call, (ours.0 - theirs.0, ours.1 - theirs.1))
    });
    assert_eq!(differences, calls);
}

fn program_of(call: &str) -> String {
    let headers = [
        "malloc.h", "stdint.h", "stdio.h", "stdlib.h", "string.h", "unistd.h",
    ];
    let includes = headers
        .map(|header| format!("#include <{header}>\n"))
        .concat();
    format!(
        "#define _GNU_SOURCE\n{includes}int main(void) {{ void *block = NULL; volatile size_t much = SIZE_MAX / 2; {call}; return 0; }}\n"
    )
}

/// Why one program here may differ: its counts differ from run to run, and those of its traces with them.
#[test]
fn counts_can_depend_on_addresses() {
    let scratch = Scratch::new("addresses");
    let program = scratch.join("addresses");
    compile(&scratch.write("addresses.c", ADDRESSES), &program, &[]);
    let counts: BTreeSet<u64> = (0..12)
        .map(|_| {
            let recording = record(&program, &[], &scratch);
            let says: u64 = recording.run.stdout.trim().parse().unwrap();
            let report = report(&recording.trace);
            assert_eq!(
                number(&report["processes"][0]["totals"]["allocations"]),
                says
            );
            says
        })
        .collect();
    let randomized = fs::read_to_string("/proc/sys/kernel/randomize_va_space").unwrap();
    assert_eq!(counts.len() > 1, randomized.trim() != "0", "{counts:?}");
}

const ADDRESSES: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    char text[16];
    int count = 1;
    uintptr_t address = (uintptr_t)malloc(1);
    for (int bit = 12; bit < 32; bit++)
        if (address >> bit & 1)
            count += malloc(1) != NULL;
    return write(1, text, (size_t)snprintf(text, sizeof text, "%d\n", count)) < 0;
}
"#;
