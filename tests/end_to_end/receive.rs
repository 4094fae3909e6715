//! `heapwire recv`: traces that come over connections, telnet, serial lines and standard input.

use heapwire_tests::armour::armoured;
use heapwire_tests::packed::twin;
use heapwire_tests::run::{Run, command, prose};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::Writer;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Ten blocks that stay among many that do not, in packed frames; the last frame says that three records were lost.
fn trace() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.flush();
    for frame in 1..11 {
        for block in 0..20 {
            let address = frame * 0x10_0000 + block * 0x40;
            writer.malloc(address, 24).free(address);
        }
        writer.malloc(frame * 0x10_0000, 100).flush();
    }
    writer.frame.lost = 3;
    twin(&writer.lose(3).end().bytes())
}

/// The trace as lines, between what a program says.
fn log() -> Vec<u8> {
    let lines = armoured(&trace(), 76);
    [b"begin\r\n", &lines.concat()[..], b"end\r\n"].concat()
}

/// `heapwire recv` that runs.
struct Receiving {
    child: Child,
}

impl Receiving {
    fn start(source: &str, to: &Path, options: &[&str]) -> Self {
        let mut command = command();
        command.args(["recv", source, "-o"]).arg(to).args(options);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        Self { child }
    }

    fn interrupt(&self) {
        let line = format!("kill -INT {}", self.child.id());
        let killed = Command::new("bash").args(["-c", &line]).status().unwrap();
        assert!(killed.success());
    }

    /// Status, standard output and standard error, when it has ended.
    fn end(mut self) -> (i32, String, String) {
        let begin = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if begin.elapsed() > LIMIT {
                self.child.kill().unwrap();
                panic!("it does not end");
            }
            thread::sleep(Duration::from_millis(5));
        }
        let (mut said, mut complaint) = (String::new(), String::new());
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut complaint)
            .unwrap();
        (
            self.child.wait().unwrap().code().unwrap(),
            said,
            prose(&complaint),
        )
    }
}

/// Waits until `file` has at least so many bytes.
fn until_there(file: &Path, length: usize) {
    let begin = Instant::now();
    while fs::metadata(file).map_or(0, |found| found.len()) < length as u64 {
        assert!(begin.elapsed() < LIMIT, "nothing comes");
        thread::sleep(Duration::from_millis(5));
    }
}

/// An address of this machine that nobody listens at.
fn free_address() -> SocketAddr {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap()
}

/// A connection to `address`, as soon as somebody listens.
fn connected(address: SocketAddr) -> TcpStream {
    let begin = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(connection) => return connection,
            Err(error) => assert!(begin.elapsed() < LIMIT, "{error}"),
        }
    }
}

#[test]
fn standard_input_is_parted_into_trace_and_text() {
    let scratch = Scratch::new("recv");
    let to = scratch.join("t.hwt");
    for (input, said) in [(log(), "begin\r\nend\r\n"), (trace(), "")] {
        let run = Run::with_input(command().args(["recv", "-", "-o"]).arg(&to), input);
        assert_eq!((run.status, run.stdout.as_str()), (0, said), "{run:?}");
        assert!(fs::read(&to).unwrap() == trace());
        let told =
            "the line has ended; 410 events, 3 records lost on the device, about 1000 B live";
        assert!(prose(&run.stderr).contains(told), "{run:?}");
    }
    let run = Run::with_input(
        command().args(["recv", "-", "-o"]).arg(&to),
        b"text".to_vec(),
    );
    assert_eq!((run.status, run.stdout.as_str()), (3, "text"), "{run:?}");
}

#[test]
fn a_connection_that_is_cut_is_opened_again_until_it_is_interrupted() {
    let scratch = Scratch::new("recv");
    let to = scratch.join("t.hwt");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let source = format!("tcp://{}", listener.local_addr().unwrap());
    let receiving = Receiving::start(&source, &to, &["--reconnect"]);
    let log = log();
    // The cut goes through a line, whose frame comes whole the second time.
    let cut = log.len() / 2;
    for part in [&log[..cut], &log[cut - 400..]] {
        let mut connection = listener.accept().unwrap().0;
        connection.write_all(part).unwrap();
    }
    until_there(&to, trace().len());
    receiving.interrupt();
    let (status, _, told) = receiving.end();
    assert_eq!(status, 0, "{told}");
    assert!(told.contains("heapwire: stopped; "), "{told}");
    let run = Run::of(command().args(["verify", "--format", "json"]).arg(&to));
    assert!(
        run.stdout.contains("\"lost-records\"") && !run.stdout.contains("on-the-way"),
        "{run:?}"
    );
}

#[test]
fn others_can_connect_and_an_old_trace_goes_on() {
    let scratch = Scratch::new("recv");
    let to = scratch.join("t.hwt");
    let trace = trace();
    let address = free_address();
    let (first, rest) = trace.split_at(trace.len() / 2);
    let mut frames = first.to_vec();
    let last = frames
        .windows(4)
        .rposition(|mark| mark == b"\x89HWT")
        .unwrap();
    let (begun, again) = trace.split_at(last);
    frames.truncate(last);
    assert!(!rest.is_empty());
    for (part, options) in [(begun, &[][..]), (again, &["--append"])] {
        let receiving = Receiving::start(&format!("listen://{address}"), &to, options);
        let mut connection = connected(address);
        connection.write_all(part).unwrap();
        drop(connection);
        assert_eq!(receiving.end().0, 0);
    }
    assert!(fs::read(&to).unwrap() == trace);
}

#[test]
fn who_hangs_up_at_once_keeps_nobody_away() {
    let scratch = Scratch::new("recv");
    let to = scratch.join("t.hwt");
    let address = free_address();
    let receiving = Receiving::start(&format!("listen://{address}"), &to, &["--reconnect"]);
    drop(connected(address));
    for _ in 0..300 {
        drop(TcpStream::connect(address).unwrap());
    }
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(&log()).unwrap();
    until_there(&to, trace().len());
    receiving.interrupt();
    assert_eq!(receiving.end().0, 0);
    assert!(fs::read(&to).unwrap() == trace());
}

#[test]
fn who_sends_nothing_keeps_nobody_out() {
    let scratch = Scratch::new("recv");
    let to = scratch.join("t.hwt");
    let address = free_address();
    let receiving = Receiving::start(&format!("listen://{address}"), &to, &[]);
    let mut silent: Vec<_> = (0..40).map(|_| connected(address)).collect();
    let mut connection = connected(address);
    connection.write_all(&trace()).unwrap();
    drop(connection);
    // The oldest is let go, and the latest are not.
    silent[0].set_read_timeout(Some(LIMIT)).unwrap();
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
    let (status, _, complaint) = receiving.end();
    assert_eq!(status, 0, "{complaint}");
    assert!(fs::read(&to).unwrap() == trace());
    let told = "nothing has come over 1 connection so far; another is open now";
    assert!(complaint.contains(told), "{complaint}");
    assert!(complaint.contains("over 16 connections"), "{complaint}");
    assert!(!complaint.contains("over 17 connections"), "{complaint}");
}

#[test]
fn who_waits_to_be_told_something_is_told() {
    let scratch = Scratch::new("recv");
    let to = scratch.join("t.hwt");
    let address = free_address();
    let mut receiving = Receiving::start(&format!("listen://{address}"), &to, &[]);
    let mut connection = connected(address);
    let mut heard = [0; 3];
    let input = receiving.child.stdin.as_mut().unwrap();
    let begin = Instant::now();
    connection.set_nonblocking(true).unwrap();
    // What is said before the other end is known reaches nobody.
    while connection.peek(&mut heard).is_err() {
        assert!(begin.elapsed() < LIMIT, "nothing is heard");
        input.write_all(b"go\n").unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    connection.set_nonblocking(false).unwrap();
    connection.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"go\n");
    connection.write_all(&trace()).unwrap();
    connection.shutdown(Shutdown::Write).unwrap();
    assert_eq!(receiving.end().0, 0);
    assert!(fs::read(&to).unwrap() == trace());
}

#[test]
fn a_terminal_shows_how_it_goes() {
    const WATCH: &str = r#"
import os, pty, subprocess, sys
command, to, log = sys.argv[1:]
shown, terminal = pty.openpty()
receiving = subprocess.Popen([command, "recv", "-", "-o", to], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=terminal)
os.close(terminal)
receiving.stdin.write(open(log, "rb").read())
receiving.stdin.flush()
seen = b""
while b" a second" not in seen.partition(b"lost on the way")[2]:
    seen += os.read(shown, 4096)
receiving.stdin.close()
receiving.wait()
sys.stdout.buffer.write(seen)
"#;
    let scratch = Scratch::new("recv");
    let lines = armoured(&trace(), 76);
    let half = lines.len() / 2;
    let rest = [&lines[..half], &lines[half + 1..]].concat();
    let log = scratch.write("log", rest.concat());
    let mut python = Command::new("python3");
    python
        .args(["-c", WATCH])
        .arg(heapwire_tests::build::heapwire());
    let run = Run::of(python.arg(scratch.join("t.hwt")).arg(log));
    assert_eq!(run.status, 0, "{run:?}");
    let words = [
        "369 events, ",
        "1 frame lost on the way",
        "B live",
        " a second",
    ];
    let mut lines = run.stdout.split('\r');
    let is_told = lines.any(|line| words.iter().all(|word| line.contains(word)));
    assert!(is_told, "{}", run.stdout);
}

#[test]
fn no_more_is_written_than_was_allowed_and_nothing_over_what_is_no_trace() {
    let scratch = Scratch::new("recv");
    let to = scratch.join("t.hwt");
    let endless = trace().repeat(100);
    let mut command_line = command();
    command_line
        .args(["recv", "-", "--max-size", "20K", "-o"])
        .arg(&to);
    let run = Run::with_input(&mut command_line, endless);
    assert_eq!(run.status, 0);
    assert!(
        prose(&run.stderr).contains("as much has come as was allowed"),
        "{run:?}"
    );
    assert!(fs::metadata(&to).unwrap().len() <= 20 << 10);
    let junk = vec![b'~'; 1 << 20];
    let run = Run::with_input(&mut command_line, junk);
    assert!(run.stdout.len() <= 20 << 10, "{}", run.stdout.len());
    assert!(prose(&run.stderr).contains("as much has come as was allowed"));
    let notes = scratch.write("notes", "mine\n");
    for options in [&[][..], &["--append"]] {
        let mut command_line = command();
        command_line
            .args(["recv", "-", "-o"])
            .arg(&notes)
            .args(options);
        let run = Run::with_input(&mut command_line, trace());
        assert_eq!(run.status, 3, "{run:?}");
        assert_eq!(fs::read(&notes).unwrap(), b"mine\n");
    }
}

#[test]
fn a_serial_line_is_set_up_and_read() {
    const SEND: &str = r#"
import os, pty, subprocess, sys, termios
command, log = sys.argv[1:3]
terminal, line = pty.openpty()
before = termios.tcgetattr(line)
child = subprocess.Popen([command, "recv", f"serial://{os.ttyname(line)}?baud=9600", *sys.argv[3:]])
while termios.tcgetattr(line)[3] & termios.ICANON:
    pass
settings = termios.tcgetattr(line)
assert settings[4] == settings[5] == termios.B9600, settings
data = open(log, "rb").read()
while data:
    data = data[os.write(terminal, data[:1024]):]
os.write(terminal, b"over\n")
sys.stdin.read()
child.send_signal(2)
sys.exit(child.wait())
"#;
    let scratch = Scratch::new("recv");
    let to = scratch.join("t.hwt");
    let log = scratch.write("log", log());
    let mut python = Command::new("python3");
    python
        .args(["-c", SEND])
        .arg(heapwire_tests::build::heapwire());
    python.arg(&log).arg("-o").arg(&to);
    python
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Receiving {
        child: python.spawn().unwrap(),
    };
    until_there(&to, trace().len());
    drop(child.child.stdin.take());
    let (status, said, told) = child.end();
    assert_eq!(status, 0, "{told}");
    assert!(said.starts_with("begin\r\nend\r\n"), "{said}");
    assert!(fs::read(&to).unwrap() == trace());
}
