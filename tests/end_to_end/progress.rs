//! What a terminal shows while a trace is read.

use heapwire_tests::build::heapwire;
use heapwire_tests::run::Run;
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::Writer;
use std::fs;
use std::process::Command;

/// Runs heapwire on a trace whose end does not come before `until` is done, with its standard error on a terminal.
const WATCH: &str = r#"
import os, pty, select, signal, sys, termios, time
heapwire, trace, how = sys.argv[1:]
reader, writer = os.pipe()
out, result = os.pipe()
pid, terminal = pty.fork()
if pid == 0:
    os.dup2(reader, 0)
    os.dup2(result, 1)
    for fd in (reader, writer, out, result):
        os.close(fd)
    # Who runs the tests in the background may have it ignored.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execv(heapwire, [heapwire, "report", "-"])
os.close(reader)
os.close(result)
before = termios.tcgetattr(terminal)
os.write(writer, open(trace, "rb").read())
seen = b""
limit = time.monotonic() + 60
while b"read" not in seen and time.monotonic() < limit:
    if select.select([terminal], [], [], 1)[0]:
        seen += os.read(terminal, 4096)
if how == "interrupt":
    os.write(terminal, b"\x03")
else:
    if how == "broken":
        os.close(out)
        out = os.open("/dev/null", os.O_RDONLY)
    os.close(writer)
text = b""
while True:
    part = os.read(out, 65536)
    if not part:
        break
    text += part
_, status = os.waitpid(pid, 0)
same = termios.tcgetattr(terminal) == before
while select.select([terminal], [], [], 0)[0]:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    seen += part
print(os.waitstatus_to_exitcode(status))
print("same" if same else "changed")
print(repr(seen.decode("utf-8", "replace")))
print(text.decode("utf-8", "replace"))
"#;

/// Exit status, what became of the terminal's settings, what it showed, and standard output.
fn watched(how: &str) -> [String; 4] {
    let scratch = Scratch::new(&format!("progress-{how}"));
    let trace = scratch.join("t.hwt");
    let mut writer = Writer::new();
    writer.malloc(0x1000, 48);
    fs::write(&trace, writer.end().take()).expect("the folder is ours");
    let mut command = Command::new("python3");
    command
        .args(["-c", WATCH])
        .arg(heapwire())
        .arg(&trace)
        .arg(how);
    let run = Run::of(&mut command);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let mut parts = run.stdout.splitn(4, '\n').map(str::to_owned);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

#[test]
fn a_terminal_shows_how_far_it_is_and_then_the_result_alone() {
    let [status, settings, seen, out] = watched("end");
    assert_eq!(
        (status.as_str(), settings.as_str()),
        ("0", "same"),
        "{seen}"
    );
    assert!(seen.contains("B read") && seen.contains("/s"), "{seen}");
    assert_line_is_gone(&seen);
    assert!(out.contains("48 B"), "{out}");
    assert!(!out.contains('\x1b') && !out.contains("read  "), "{out}");
}

#[test]
fn an_interrupt_leaves_a_terminal_as_it_was() {
    let [status, settings, seen, out] = watched("interrupt");
    assert_eq!(
        (status.as_str(), settings.as_str()),
        ("-2", "same"),
        "{seen}"
    );
    assert_eq!(out.trim(), "");
    // The cursor was not hidden, and there is no other screen to come back from.
    assert!(!seen.contains("\\x1b[?"), "{seen}");
    assert_line_is_gone(&seen);
}

/// The cursor is where the line began, and nothing of it is left.
fn assert_line_is_gone(seen: &str) {
    let (_, left) = seen
        .rsplit_once("\\r\\x1b[2K")
        .expect("the line is erased at the end");
    assert_eq!(left.trim_end_matches(['\'', '"']), "", "{seen}");
}

#[test]
fn a_reader_that_is_gone_leaves_a_terminal_as_it_was() {
    let [status, settings, seen, _] = watched("broken");
    assert_eq!(
        (status.as_str(), settings.as_str()),
        ("0", "same"),
        "{seen}"
    );
    assert_line_is_gone(&seen);
}

#[test]
fn what_is_no_terminal_is_shown_nothing_however_long_it_takes() {
    let scratch = Scratch::new("progress-piped");
    let mut writer = Writer::new();
    writer.malloc(0x1000, 48);
    let trace = scratch.write("t.hwt", writer.end().take());
    let mut command = Command::new("sh");
    command.args(["-c", "{ cat \"$1\"; sleep 1; } | \"$0\" report -"]);
    let run = Run::of(command.arg(heapwire()).arg(trace));
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    assert!(run.stdout.contains("48 B"), "{}", run.stdout);
}
