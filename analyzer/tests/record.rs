//! `heapwire record` as the program sees it: not at all. Each test runs the same thing with and without it.
#![expect(
    clippy::unwrap_used,
    reason = "a test may panic; clippy knows that of test functions only"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const HEAPWIRE: &str = env!("CARGO_BIN_EXE_heapwire");

/// A folder of its own for each test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("heapwire-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// A shell that runs `script`, in which `$TRACE` stands before the program.
    fn shell(&self, script: &str, trace: &str) -> Command {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", script])
            .current_dir(&self.0)
            .env("TRACE", trace)
            .env_remove("LD_PRELOAD")
            .env_remove("HEAPWIRE_OUT");
        shell
    }

    fn both(&self, script: &str) -> [Output; 2] {
        let traced = format!("{HEAPWIRE} record -o t.hwt --");
        ["", &traced].map(|trace| self.shell(script, trace).output().unwrap())
    }

    fn assert_same(&self, script: &str) -> String {
        let [plain, traced] = self.both(script);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&traced.stdout), text(&plain.stdout), "{script}");
        assert_eq!(traced.status, plain.status, "{script}");
        text(&plain.stdout)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn ignored_signals_stay_ignored_and_no_others() {
    let folder = Folder::new("ignored");
    // Of what is caught the kernel shows one signal more: SIGBUS, which the recorder hides from the program.
    let look = "exec $TRACE grep -E '^Sig(Blk|Ign)' /proc/self/status";
    let none = folder.assert_same(look);
    let some = folder.assert_same(&format!("trap '' HUP INT PIPE CHLD USR1; {look}"));
    assert_ne!(none, some, "the trap shows");
}

#[test]
fn closed_descriptors_stay_closed_and_no_others_are_open() {
    let folder = Folder::new("closed");
    // The recorder's own descriptor has a high number, where it is in nobody's way.
    let low =
        |closed: &str| format!("( exec $TRACE ls /proc/self/fd {closed} ) | grep -Ex '.{{1,2}}'");
    folder.assert_same(&low(""));
    let without_input = folder.assert_same(&low("<&-"));
    let without_both = folder.assert_same(&low("<&- 2>&-"));
    assert_ne!(without_input, without_both);
}

#[test]
fn folder_arguments_and_streams_are_the_same() {
    let folder = Folder::new("streams");
    folder.assert_same("echo in | $TRACE cat -A - /proc/self/cmdline");
    folder.assert_same("$TRACE pwd -P; $TRACE printf '%s|' '' 'a b' -x --");
    folder.assert_same("ulimit -n 64; ulimit -c 0; umask 027; $TRACE sh -c 'ulimit -a; umask'");
    folder.assert_same("$TRACE sh -c 'exit 41'");
    folder.assert_same("$TRACE sh -c 'kill -SEGV $$'");
}

#[test]
fn signals_that_a_process_sends_reach_the_program() {
    let folder = Folder::new("signals");
    let script = "trap 'exit 5' TERM; trap 'exit 6' HUP; trap 'exit 7' USR1; echo ready; \
                  i=0; while [ $i -lt 300 ]; do sleep 0.1; i=$((i+1)); done";
    for (signal, status) in [("TERM", 5), ("HUP", 6), ("USR1", 7)] {
        // What is ignored from the start, as under nohup, no shell can catch.
        let mut heapwire = Command::new("env")
            .args(["--default-signal", HEAPWIRE, "record", "-o", "t.hwt"])
            .args(["--", "sh", "-c", script])
            .current_dir(&folder.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = heapwire.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let pid = heapwire.id().to_string();
        let sent = Command::new("kill")
            .args(["-s", signal, &pid])
            .status()
            .unwrap();
        assert!(sent.success());
        let ended = heapwire.wait().unwrap();
        assert_eq!(
            (ended.code(), ended.signal()),
            (Some(status), None),
            "{signal}"
        );
    }
}

#[test]
fn an_interrupt_is_left_to_the_program() {
    let folder = Folder::new("interrupt");
    let script =
        "trap 'exit 5' TERM; echo ready; i=0; while [ $i -lt 300 ]; do sleep 0.1; i=$((i+1)); done";
    let mut heapwire = Command::new(HEAPWIRE)
        .args(["record", "-o", "t.hwt", "--", "sh", "-c", script])
        .current_dir(&folder.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(heapwire.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    for signal in ["INT", "QUIT", "TERM"] {
        let pid = heapwire.id().to_string();
        Command::new("kill")
            .args(["-s", signal, &pid])
            .status()
            .unwrap();
    }
    assert_eq!(
        heapwire.wait().unwrap().code(),
        Some(5),
        "only TERM had an effect"
    );
}

#[test]
fn a_summary_names_the_trace_and_the_end() {
    let folder = Folder::new("summary");
    let [_, traced] = folder.both("$TRACE sort /dev/null");
    let said = String::from_utf8_lossy(&traced.stderr);
    assert!(said.contains("heapwire: sort exited 0 after"), "{said}");
    assert!(said.contains("heapwire report t.hwt"), "{said}");
    let [_, killed] = folder.both("$TRACE sh -c 'kill -KILL $$'");
    let said = String::from_utf8_lossy(&killed.stderr);
    assert!(said.contains("was killed by SIGKILL"), "{said}");
    let report = Command::new(HEAPWIRE)
        .args(["report", "t.hwt", "--format", "json"])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(
        report["processes"][0]["end"], "signal",
        "the trace knows it too"
    );
    assert_eq!(report["processes"][0]["signal"], 9);
}
