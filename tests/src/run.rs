//! Runs a command to its end and keeps everything that can be seen of it.

use crate::build::heapwire;
use crate::scratch::Scratch;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing that a test runs takes longer than this unless it hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Exit status as a shell has it: 128 + signal where a signal ended it.
    pub status: i32,
    /// Standard output; bytes that are no text are replaced.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
}

impl Run {
    /// Runs `command` without input.
    ///
    /// # Panics
    ///
    /// Where it cannot be started or does not end.
    #[must_use]
    pub fn of(command: &mut Command) -> Self {
        Self::with_input(command, Vec::new())
    }

    /// Runs `command` with `input` on its standard input.
    ///
    /// # Panics
    ///
    /// Where it cannot be started or does not end.
    #[must_use]
    pub fn with_input(command: &mut Command, input: Vec<u8>) -> Self {
        let shown = format!("{command:?}");
        let input_end = if input.is_empty() {
            Stdio::null()
        } else {
            Stdio::piped()
        };
        let mut child = command
            .stdin(input_end)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{shown}: {error}"));
        if let Some(mut end) = child.stdin.take() {
            thread::spawn(move || {
                let _ = end.write_all(&input); // the command may not want all of it
            });
        }
        let stdout = child.stdout.take().map(read_all);
        let stderr = child.stderr.take().map(read_all);
        let status = wait(&mut child, &shown);
        let text = |reader: Option<thread::JoinHandle<Vec<u8>>>| {
            let bytes = reader.and_then(|reader| reader.join().ok());
            String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
        };
        Self {
            status: shell_status(status),
            stdout: text(stdout),
            stderr: text(stderr),
        }
    }
}

/// `text` with one blank for each stretch of blanks and line ends: what its sentences say, wherever its lines are broken,
/// which depends on the length of the paths in them.
#[must_use]
pub fn prose(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An exit status as a shell has it.
#[must_use]
pub fn shell_status(status: ExitStatus) -> i32 {
    let by_signal = status.signal().map(|signal| 128 + signal);
    status.code().or(by_signal).unwrap_or(-1)
}

fn read_all(mut from: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes); // what came before an error is still shown
        bytes
    })
}

fn wait(child: &mut Child, shown: &str) -> ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            return status;
        }
        if begin.elapsed() > LIMIT {
            let _ = child.kill(); // gone already, or gone now
            panic!("{shown} does not end");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Runs `heapwire` with `arguments`.
pub fn run<I>(arguments: I) -> Run
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    Run::of(command().args(arguments))
}

/// Runs `heapwire` with `words` and then `path`.
#[must_use]
pub fn on(words: &[&str], path: &Path) -> Run {
    Run::of(command().args(words).arg(path))
}

/// Whether `program` can be run; a test without it says that it was skipped.
///
/// # Panics
///
/// As [`is_missing`].
#[must_use]
pub fn is_installed(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        is_missing(program);
    }
    is_there
}

/// Says that something is not tested, since `what` is not there.
///
/// # Panics
///
/// Where `HEAPWIRE_TEST_ALL` is set.
#[expect(clippy::print_stderr, reason = "whoever runs the tests is to know")]
pub fn is_missing(what: &str) {
    let may_skip = std::env::var_os("HEAPWIRE_TEST_ALL").is_none();
    assert!(may_skip, "{what} is needed");
    eprintln!("not tested: {what} is not there");
}

/// The command `heapwire` in an environment that says nothing of recording.
#[must_use]
pub fn command() -> Command {
    without_recorder(Command::new(heapwire()))
}

/// `command` without anything in its environment that could record it.
#[must_use]
pub fn without_recorder(mut command: Command) -> Command {
    for variable in [
        "LD_PRELOAD",
        "MALLOC_TRACE",
        "HEAPWIRE_OUT",
        "HEAPWIRE_STACK",
    ] {
        command.env_remove(variable);
    }
    command
}

/// A recorded program.
#[derive(Debug)]
pub struct Recording {
    /// The trace.
    pub trace: PathBuf,
    /// What the program did, as `heapwire record` passed it on.
    pub run: Run,
}

/// Records `program` with `arguments` into `scratch`.
#[must_use]
pub fn record(program: &Path, arguments: &[PathBuf], scratch: &Scratch) -> Recording {
    let trace = scratch.join("trace.hwt");
    let run = Run::of(
        command()
            .args(["record", "-o"])
            .arg(&trace)
            .arg("--")
            .arg(program)
            .args(arguments),
    );
    Recording { trace, run }
}

/// The JSON report on `trace`.
///
/// # Panics
///
/// Where there is none.
#[must_use]
pub fn report(trace: &Path) -> Value {
    json(&on(&["report", "--format", "json"], trace))
}

/// The live blocks of `trace` in JSON.
///
/// # Panics
///
/// Where they cannot be had.
#[must_use]
pub fn live_blocks(trace: &Path) -> Value {
    json(&on(&["blocks", "--live", "--format", "json"], trace))
}

/// The JSON that `run` printed.
///
/// # Panics
///
/// Where it failed or printed something else.
#[must_use]
pub fn json(run: &Run) -> Value {
    assert_eq!(run.status, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error} in {}", run.stdout))
}

/// The elements of a JSON array.
///
/// # Panics
///
/// Where `value` is none.
#[must_use]
pub fn list(value: &Value) -> &[Value] {
    value
        .as_array()
        .unwrap_or_else(|| panic!("no array: {value}"))
}

/// A JSON number.
///
/// # Panics
///
/// Where `value` is none.
#[must_use]
pub fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

/// How often the warnings of this kind in a report count.
#[must_use]
pub fn warned(report: &Value, kind: &str) -> u64 {
    let warnings = list(&report["warnings"]).iter();
    let found = warnings.filter(|warning| warning["kind"] == kind);
    found.map(|warning| number(&warning["count"])).sum()
}
