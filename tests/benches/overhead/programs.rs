//! Real programs: how many times their CPU time a tool makes it.

use crate::tools::{Tool, Tools};
use crate::{ROUNDS, median};
use heapwire_tests::run::Run;
use heapwire_tests::scratch::Scratch;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

struct Program {
    name: &'static str,
    path: PathBuf,
    arguments: Vec<String>,
    /// What its CPU time may be multiplied by; ours alone.
    aim: f64,
    /// Whether it exports so many symbols that mtrace, which looks through all of them at each call, takes minutes.
    exports_much: bool,
}

pub(crate) fn show(tools: &Tools, scratch: &Scratch) {
    for program in programs(scratch) {
        if !program.path.exists() {
            println!("\n{}: not installed", program.name);
            continue;
        }
        let mut candidates = tools.all();
        candidates.retain(|tool| *tool != Tool::Mtrace || !program.exports_much);
        let mut rounds = vec![Vec::new(); candidates.len()];
        for _ in 0..ROUNDS {
            for (tool, rounds) in candidates.iter().zip(&mut rounds) {
                rounds.extend(seconds(tools, *tool, &program));
            }
        }
        println!("\nCPU time of {}, median of {ROUNDS} rounds", program.name);
        println!("{:34} {:>8} {:>7} {:>8}", "", "seconds", "aim", "ratio");
        let alone = median(&rounds[0]);
        for (tool, rounds) in candidates.iter().zip(&rounds) {
            if rounds.len() < ROUNDS {
                println!("{:34} {:>8}", tool.name(), "fails");
                continue;
            }
            let all = median(rounds);
            let aim = match tool {
                Tool::File | Tool::Null => format!("{:.2}", program.aim),
                _ => "-".to_owned(),
            };
            println!("{:34} {all:8.3} {aim:>7} {:8.2}", tool.name(), all / alone);
        }
    }
}

fn programs(scratch: &Scratch) -> [Program; 3] {
    let sql = "create table t(a integer primary key, b text, c real); \
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) \
        insert into t select i, 'row ' || (i * 7919 % 100003), i * 0.5 from n; select count(*) from t;";
    let json = "import json; d = [{'id': i, 'name': 'n%d' % i, 'tags': ['a%d' % (i % 7), 'b'], 'v': i * 0.5} \
        for i in range(60000)]; s = json.dumps(d); e = json.loads(s); print(len(s), len(e))";
    let compiler = Run::of(Command::new("cc").arg("-print-prog-name=cc1")).stdout;
    let source = scratch.write("large.c", large_source());
    [
        Program {
            name: "sqlite3, 300,000 rows in memory",
            path: "/usr/bin/sqlite3".into(),
            arguments: vec![":memory:".into(), sql.into()],
            aim: 1.15,
            exports_much: false,
        },
        Program {
            name: "cc1 on 20,000 lines",
            path: compiler.trim().into(),
            arguments: vec![
                "-quiet".into(),
                "-O0".into(),
                source.to_string_lossy().into_owned(),
                "-o".into(),
                "/dev/null".into(),
            ],
            aim: 1.06,
            exports_much: true,
        },
        Program {
            name: "python3 building JSON, PYTHONMALLOC=malloc",
            path: "/usr/bin/python3".into(),
            arguments: vec!["-c".into(), json.into()],
            aim: 1.20,
            exports_much: false,
        },
    ]
}

/// Functions of ten lines each.
fn large_source() -> String {
    let mut source = String::new();
    for i in 0..2000 {
        let _ = writeln!(
            source,
            "static int f{i}(int n, const char *s) {{\n    int sum = {i};\n    struct {{ int a, b; }} pair = {{n, {i}}};\n    \
             for (int k = 0; k < n; k++)\n        sum += s[k] * pair.b;\n    if (sum % 2)\n        return sum - pair.a;\n    \
             return sum;\n}}\nint g{i}(int n) {{ return f{i}(n, \"text {i}\"); }}"
        );
    }
    source
}

/// CPU seconds of the program and all it waits for, by the shell's own account; `None` where it fails below another's tool.
fn seconds(tools: &Tools, tool: Tool, program: &Program) -> Option<f64> {
    let run = tools.command(tool, &program.path, false);
    let mut shell = Command::new("bash");
    // The tool's settings are given to what is timed alone: the shell allocates too.
    let mut line = String::from("TIMEFORMAT='%U %S'; time env");
    for (name, value) in run.get_envs() {
        if let Some(value) = value {
            let _ = write!(line, " {}={}", name.display(), value.display());
        }
    }
    line.push_str(" PYTHONMALLOC=malloc PYTHONHASHSEED=0 \"$@\" >/dev/null 2>/dev/null");
    shell.args(["-c", &line, "bash"]).arg(run.get_program());
    shell.args(run.get_args()).args(&program.arguments);
    let run = Run::of(&mut shell);
    if run.status != 0 && tool == Tool::LeakSanitizer {
        return None;
    }
    assert_eq!(run.status, 0, "{shell:?}: {}", run.stderr);
    let parts = run.stderr.split_whitespace();
    let seconds: Vec<f64> = parts.filter_map(|part| part.parse().ok()).collect();
    assert_eq!(seconds.len(), 2, "{}", run.stderr);
    Some(seconds.iter().sum())
}
