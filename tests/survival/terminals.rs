//! Traces that go over terminals, telnet and serial lines, together with what the program says: the findings are those of a file.

use super::{program, source, traced};
use heapwire_tests::build::{heapwire, recorder};
use heapwire_tests::run::{Run, command, is_installed, list, number, on, report, without_recorder};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of a block at each of two call sites; the latter's stand at every second round.
const KEPT: [(u64, u64); 2] = [(4000, 20), (2000, 20)];

struct Setup {
    scratch: Scratch,
    program: PathBuf,
    library: PathBuf,
    /// What a trace in a file shows, and what the program said.
    expected: Value,
    said: String,
}

impl Setup {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let (program, library) = (program(&scratch, "talkative"), recorder(&scratch));
        let trace = scratch.join("direct.hwt");
        let run = Run::of(&mut traced(&program, &library, trace.to_str().unwrap()));
        assert_eq!(run.status, 5, "{run:?}");
        let report = report(&trace);
        assert_eq!(report["trace"]["complete"], true);
        let expected = findings(&report);
        let kept: Vec<_> = list(&expected["leaks"])
            .iter()
            .map(|leak| (number(&leak["bytes"]), number(&leak["blocks"])))
            .collect();
        assert_eq!((kept, list(&expected["errors"]).len()), (KEPT.to_vec(), 1));
        Self {
            scratch,
            program,
            library,
            expected,
            said: run.stdout,
        }
    }

    /// The log of a line between two terminals.
    fn line(&self, device: &str, host: &str, line: &str, variables: &str) -> PathBuf {
        let log = self.scratch.join("line.log");
        let mut python = Command::new("python3");
        python.arg(source("terminal.py")).arg(&log);
        python
            .args([device, host, line, "env"])
            .args(variables.split_whitespace());
        python
            .arg(format!("LD_PRELOAD={}", self.library.display()))
            .args(["HEAPWIRE_OUT=/proc/self/fd/1"])
            .arg(&self.program);
        let run = Run::of(&mut python);
        assert_eq!(run.status, 5, "{run:?}");
        log
    }

    /// Checks that nothing is missing in what `log` shows.
    fn is_complete(&self, log: &Path, about: &str) {
        let report = report(log);
        assert_eq!(
            report["trace"]["complete"], true,
            "{about}: {}",
            report["warnings"]
        );
        assert_eq!(findings(&report), self.expected, "{about}");
    }

    /// The text that `log` gives back.
    fn text(&self, log: &Path) -> String {
        let text = self.scratch.join("text");
        let run = Run::of(command().arg("split").arg(log).arg("--text").arg(&text));
        assert_eq!(run.status, 0, "{run:?}");
        fs::read_to_string(text).unwrap()
    }
}

/// What a report says of the only process, without addresses and times, which differ from run to run.
fn findings(report: &Value) -> Value {
    let [process] = list(&report["processes"]) else {
        panic!("{report}");
    };
    let mut process = process.clone();
    let rows = |rows: &Value| -> Vec<Value> {
        let row = |row: &Value| {
            let frame = &row["stack"][0];
            serde_json::json!({
                "bytes": row["bytes"], "blocks": row["blocks"], "allocations": row["allocations"],
                "kind": row["kind"], "certain": row["certain"],
                "function": frame["function"], "line": frame["line"],
            })
        };
        list(rows).iter().map(row).collect()
    };
    serde_json::json!({
        "totals": process["totals"].take(),
        "end": process["end"].take(),
        "leaks": rows(&process["leaks"]),
        "errors": rows(&process["errors"]),
    })
}

#[test]
fn over_a_line_between_two_terminals() {
    let setup = Setup::new("line");
    let cases = [
        ("", "raw", "clean", ""),
        ("raw", "raw", "clean", ""),
        ("", "", "clean", ""),
        ("", "-icanon", "clean", "HEAPWIRE_ARMOUR=252"),
        ("tabs", "istrip", "parity", ""),
        ("onlcr", "raw -ixon", "text=700", ""),
        ("raw", "raw", "text=700", "HEAPWIRE_ARMOUR=120"),
        ("raw", "raw", "clean", "HEAPWIRE_PACK=0"),
        ("", "raw", "echo=1000000", ""),
        ("echo", "raw", "echo=20000", ""), // which goes round and round
        ("", "raw", "rate=60000", ""),     // slower than the program, which waits
    ];
    for (device, host, line, variables) in cases {
        let about = format!("{device} | {host} | {line} | {variables}");
        let log = setup.line(device, host, line, variables);
        setup.is_complete(&log, &about);
        if line == "clean" {
            assert_eq!(setup.text(&log), setup.said, "{about}");
        }
    }
}

#[test]
fn over_a_line_with_noise() {
    // What is declared again depends on when there is room in a lane: from run to run that is a declaration more or less.
    const DECLARATION: u64 = 16;
    let setup = Setup::new("noise");
    let allocations = |totals: &Value| number(&totals["totals"]["allocations"]);
    let records = |report: &Value| {
        number(&report["trace"]["records"]) + number(&report["trace"]["lost_records"])
    };
    for (noise, columns) in [("noise=2000", 76), ("noise=500", 76), ("noise=2000", 252)] {
        let variable = format!("HEAPWIRE_ARMOUR={columns}");
        let all = records(&report(&setup.line("", "raw", "clean", &variable)));
        let log = setup.line("", "raw", noise, &variable);
        let run = on(&["report", "--format", "json"], &log);
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        let found = findings(&report);
        assert!(
            allocations(&found) < allocations(&setup.expected),
            "{noise}"
        );
        assert!(
            records(&report) <= all + DECLARATION,
            "{noise}: no record is made up"
        );
        assert_eq!(number(&report["trace"]["lost_by_recorder"]), 0);
        let errors = list(&found["errors"]).iter();
        assert!(
            errors
                .filter(|error| error["certain"] == true)
                .all(|error| error["kind"] == "double-free")
        );
        let kinds = list(&report["warnings"])
            .iter()
            .map(|warning| &warning["kind"]);
        assert!(
            kinds.clone().any(|kind| kind == "changed-lines"),
            "{report}"
        );
        assert!(
            kinds.clone().any(|kind| kind == "missing-frames"),
            "{report}"
        );
    }
}

impl Setup {
    /// Logs in by this client, runs the program, and gives what the client shows.
    fn telnet(&self, client: &[&str], variables: &str) -> PathBuf {
        let log = self.scratch.join("telnet.log");
        let line = format!(
            "{variables} LD_PRELOAD={} HEAPWIRE_OUT=/proc/self/fd/1 {}",
            self.library.display(),
            self.program.display()
        );
        let mut session = Command::new("python3");
        session.arg(source("telnet.py")).arg(&log).arg(line);
        let run = Run::of(session.args(client));
        assert_eq!(run.status, 0, "{run:?}");
        log
    }
}

#[test]
fn over_telnet() {
    let needed = ["inetutils-telnet", "/usr/sbin/telnetd"];
    if !needed.into_iter().all(is_installed) {
        return;
    }
    let setup = Setup::new("telnet");
    for variables in ["", "HEAPWIRE_ARMOUR=252"] {
        let log = setup.telnet(&["inetutils-telnet", "127.0.0.1", "PORT"], variables);
        setup.is_complete(&log, variables);
        let text = setup.text(&log);
        assert!(
            text.contains(&setup.said) && text.contains("status 5, over\n"),
            "{text}"
        );
    }
    let trace = setup.scratch.join("received.hwt");
    let heapwire = heapwire().to_str().unwrap();
    let client = [
        heapwire,
        "recv",
        "telnet://127.0.0.1:PORT",
        "-o",
        trace.to_str().unwrap(),
    ];
    let log = setup.telnet(&client, "");
    setup.is_complete(&trace, "received");
    let text = fs::read_to_string(log).unwrap().replace("\r\n", "\n");
    assert!(text.contains(&setup.said), "{text}");
}

impl Setup {
    /// The traced program's words, for who starts it on a terminal.
    fn words(&self) -> [String; 4] {
        [
            "env".to_owned(),
            format!("LD_PRELOAD={}", self.library.display()),
            "HEAPWIRE_OUT=/proc/self/fd/1".to_owned(),
            self.program.display().to_string(),
        ]
    }
}

/// Terminal programs, with the keys that end each and its words; LOG is the log that it keeps of LINE.
const TERMINAL_PROGRAMS: [(&str, &[&str]); 4] = [
    (
        "\\x01\\x18",
        &[
            "picocom",
            "--noinit",
            "--noreset",
            "--logfile",
            "LOG",
            "LINE",
        ],
    ),
    ("\\x14q", &["tio", "--log", "--log-file", "LOG", "LINE"]),
    ("\\x01x\\r", &["minicom", "-o", "-D", "LINE", "-C", "LOG"]),
    (
        "\\x01\\\\y",
        &["screen", "-L", "-Logfile", "LOG", "LINE", "115200"],
    ),
];

#[test]
fn over_a_line_into_the_logs_of_terminal_programs() {
    let setup = Setup::new("programs");
    for (keys, words) in TERMINAL_PROGRAMS {
        if !is_installed(words[0]) {
            continue;
        }
        let log = setup.scratch.join(&format!("{}.log", words[0]));
        let mut python = without_recorder(Command::new("python3"));
        python
            .arg(source("terminal_program.py"))
            .arg(&log)
            .arg(keys);
        let path = log.to_str().unwrap();
        python.args(
            words
                .iter()
                .map(|word| if *word == "LOG" { path } else { word }),
        );
        let run = Run::of(python.arg("--").args(setup.words()));
        assert_eq!(run.status, 5, "{}: {run:?}", words[0]);
        setup.is_complete(&log, words[0]);
        assert_eq!(setup.text(&log), setup.said, "{}", words[0]);
    }
}

#[test]
fn into_the_log_of_script() {
    if !is_installed("script") {
        return;
    }
    let setup = Setup::new("script");
    let log = setup.scratch.join("typescript");
    let mut script = without_recorder(Command::new("script"));
    script.args(["-e", "-c", &setup.words().join(" ")]);
    script.arg("-T").arg(setup.scratch.join("timing")).arg(&log);
    let run = Run::of(&mut script);
    assert_eq!(run.status, 5, "{run:?}");
    setup.is_complete(&log, "script");
    let text = setup.text(&log);
    assert!(text.starts_with("Script started on "), "{text}");
    assert!(text.contains(&format!("\n{}", setup.said)), "{text}");
    assert!(text.contains("\nScript done on "), "{text}");
}

#[test]
fn in_the_log_of_putty() {
    let setup = Setup::new("putty");
    let session = fs::read(setup.line("", "raw", "clean", "")).unwrap();
    let rule = "=~".repeat(11);
    let header = format!("{rule}= PuTTY log 2026.01.05 10:00:00 {rule}=\r\n");
    let prompt = "\x1b]0;root@board: ~\x07\x1b[01;32mroot@board\x1b[00m:\x1b[01;34m~\x1b[00m# ";
    let log = [
        header.as_bytes(),
        prompt.as_bytes(),
        b"./talkative\r\n",
        &session,
        prompt.as_bytes(),
    ]
    .concat();
    let log = setup.scratch.write("putty.log", log);
    setup.is_complete(&log, "PuTTY");
    let expected = format!("{header}{prompt}./talkative\n{}{prompt}", setup.said);
    assert_eq!(setup.text(&log), expected.replace("\r\n", "\n"));
}

#[test]
fn a_stopped_terminal_stops_nobody_who_drops_and_each_record_is_counted() {
    const PAIRS: u64 = 50_000;
    const RECORDS_IN_FRAME: u64 = 96;
    let scratch = Scratch::new("stopped");
    let (program, library) = (program(&scratch, "two_phases"), recorder(&scratch));
    for columns in ["76", "252"] {
        let log = scratch.join("stopped.log");
        let mut python = without_recorder(Command::new("python3"));
        python.arg(source("stopped.py")).arg(&log).arg("env");
        python.arg(format!("HEAPWIRE_ARMOUR={columns}"));
        python.arg("HEAPWIRE_ON_FULL=drop");
        python.arg(format!("LD_PRELOAD={}", library.display()));
        let run = Run::of(python.arg(&program).arg(PAIRS.to_string()));
        assert_eq!(run.status, 0, "{run:?}");
        let report = report(&log);
        let trace = &report["trace"];
        let lost = number(&trace["lost_records"]);
        assert!(lost > PAIRS, "{columns}: only {lost} records were dropped");
        assert_eq!(
            number(&trace["lost_by_recorder"]),
            lost,
            "{}",
            report["warnings"]
        );
        let [process] = list(&report["processes"]) else {
            panic!("{report}");
        };
        assert_eq!(process["end"], "normal");
        let totals = &process["totals"];
        let calls = number(&totals["allocations"]) + number(&totals["releases"]);
        // A lost record of a declaration is none of a call.
        assert!(calls + lost > 4 * PAIRS, "{columns}: {totals}");
        let kinds = list(&report["warnings"])
            .iter()
            .map(|warning| &warning["kind"]);
        assert!(
            kinds
                .clone()
                .all(|kind| kind != "missing-frames" && kind != "changed-lines")
        );
        // What is lost on the way is told apart from it.
        let text = fs::read_to_string(&log).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let (before, after) = lines.split_at(lines.len() / 2);
        let cut = scratch.write("cut.log", [before, &after[1..]].concat().join("\n") + "\n");
        let trace = &heapwire_tests::run::report(&cut)["trace"];
        assert_eq!(number(&trace["lost_by_recorder"]), lost);
        let on_the_way = number(&trace["lost_records"]) - lost;
        assert!((1..=RECORDS_IN_FRAME).contains(&on_the_way), "{on_the_way}");
    }
}

/// What a line of 115,200 baud carries, 11,520 bytes a second, is enough for 700 records a second in lines of 76 columns and for 1,000 in
/// lines of 252.
#[test]
fn records_take_few_bytes_of_a_line() {
    const A_SECOND: u64 = 11_520;
    let scratch = Scratch::new("bytes");
    let library = recorder(&scratch);
    let script =
        "my %seen; $seen{$_ % 977} = [$_, \"x$_\"] for 1 .. 20000; print scalar keys %seen";
    let query = "create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 5000) insert into t select x, hex(x * 7919) from c; select count(*) from t where b like '%33%'";
    let programs = [
        ["perl", "-e", script],
        ["sqlite3", ":memory:", query],
        ["python3", "-c", "x = [str(i) * 3 for i in range(20000)]"],
    ];
    for [program, first, second] in programs {
        if !is_installed(program) {
            continue;
        }
        for (columns, least) in [("76", 700), ("252", 1000)] {
            let log = scratch.join(&format!("{program}.{columns}.log"));
            let mut command = traced(Path::new(program), &library, log.to_str().unwrap());
            command
                .env("HEAPWIRE_ARMOUR", columns)
                .env("PYTHONMALLOC", "malloc");
            let run = Run::of(command.args([first, second]));
            assert_eq!(run.status, 0, "{run:?}");
            let lines = fs::read(&log).unwrap();
            let feeds = lines.iter().filter(|byte| **byte == b'\n').count();
            let bytes = (lines.len() + feeds) as u64; // a terminal makes two of each line feed
            let report = report(&log);
            assert_eq!(report["trace"]["complete"], true, "{program}");
            let rate = number(&report["trace"]["records"]) * A_SECOND / bytes;
            assert!(
                rate >= least,
                "{program}: {rate} a second at {columns} columns"
            );
        }
    }
}

/// The log of `two_phases` with so many pairs in each phase, in lines of so many columns.
fn log_of_pairs(scratch: &Scratch, pairs: u32, columns: &str) -> PathBuf {
    let (program, library) = (program(scratch, "two_phases"), recorder(scratch));
    let log = scratch.join(&format!("pairs.{columns}.log"));
    let mut command = traced(&program, &library, log.to_str().unwrap());
    command.env("HEAPWIRE_ARMOUR", columns);
    let run = Run::with_input(command.arg(pairs.to_string()), b"\n".to_vec());
    assert_eq!(run.status, 0, "{run:?}");
    log
}

#[test]
fn a_capture_may_begin_anywhere() {
    let scratch = Scratch::new("middle");
    for columns in ["76", "252"] {
        let log = log_of_pairs(&scratch, 40_000, columns);
        let whole = report(&log);
        assert_eq!(whole["trace"]["complete"], true, "{}", whole["warnings"]);
        let bytes = fs::read(&log).unwrap();
        for part in 1..8 {
            let middle = scratch.write("middle.log", &bytes[bytes.len() / 8 * part..]);
            let report = report(&middle);
            let about = format!("{columns} {part}: {}", report["warnings"]);
            let [process] = list(&report["processes"]) else {
                panic!("{report}");
            };
            for field in ["pid", "exe", "command", "end", "leaks"] {
                assert_eq!(process[field], whole["processes"][0][field], "{about}");
            }
            assert_eq!(list(&process["errors"]).len(), 0, "{about}");
            let trace = &report["trace"];
            assert_eq!(trace["complete"], false, "{about}");
            assert_eq!(trace["lost_is_lower_bound"], false, "{about}");
            let records = number(&trace["records"]) + number(&trace["lost_records"]);
            assert_eq!(records, number(&whole["trace"]["records"]), "{about}");
            assert_eq!(
                trace["start_unix_ns"], whole["trace"]["start_unix_ns"],
                "{about}"
            );
            let kinds = list(&report["warnings"]).iter().map(|it| &it["kind"]);
            assert!(kinds.clone().any(|kind| kind == "start-missing"), "{about}");
        }
    }
}

/// What is declared again is a small part of the line.
#[test]
fn repeated_declarations_cost_little() {
    let scratch = Scratch::new("repeated");
    let log = log_of_pairs(&scratch, 40_000, "76");
    let dump = on(&["dump"], &log).stdout;
    let is_repeated = |line: &&str| line.contains("\\x00since=") && !line.contains(" op=text ");
    let repeated: Vec<_> = dump.lines().filter(is_repeated).collect();
    let text: u64 = repeated.iter().map(|line| text_length(line)).sum();
    let frames = fs::metadata(&log).unwrap().len() / 2; // a line of 77 bytes carries 47
    assert!(repeated.len() > 10, "{} repetitions", repeated.len());
    assert!(text * 30 < frames, "{text} bytes of {frames}");
}

/// Bytes of the text that a line of a dump shows.
fn text_length(line: &str) -> u64 {
    let field = line.split(" base=0x").nth(1).unwrap();
    u64::from_str_radix(field.split(' ').next().unwrap(), 16).unwrap()
}
