//! The line as events: opened, read and opened again by a thread of its own, so that nobody waits for it in vain.

use super::source::{Line, Opener, Source};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes that are read at once, and parts that wait for being taken.
const PART: usize = 1 << 16;
const AHEAD: usize = 8;
/// Time before a line that was cut is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// What comes of a line.
pub(super) enum Event {
    Bytes(Vec<u8>),
    /// It was cut behind what came before.
    Cut,
    /// One more is connected, and so many have sent nothing.
    Silent(usize),
    /// It cannot be opened.
    Failed(io::Error),
}

/// What standard input goes to.
type To = Arc<Mutex<Option<Box<dyn Write + Send>>>>;

/// The events of a line, until it ends, or for ever where it is opened again.
pub(super) fn open(source: Source, reopens: bool) -> Receiver<Event> {
    let (send, events) = mpsc::sync_channel(AHEAD);
    let to = To::default();
    if source != Source::Input {
        let to = Arc::clone(&to);
        thread::spawn(move || pass_on(&to));
    }
    thread::spawn(move || {
        let mut opener = Opener::new(source);
        while follow(&mut opener, &to, &send, reopens) && reopens {}
    });
    events
}

/// Opens the line and reads it to its end. `false`: nobody listens, or there is no line.
fn follow(opener: &mut Opener, to: &To, send: &SyncSender<Event>, reopens: bool) -> bool {
    let set_to = |end| *to.lock().unwrap_or_else(PoisonError::into_inner) = end;
    let mut connected = |stream: &TcpStream, silent| {
        if silent > 0 {
            let _ = send.send(Event::Silent(silent)); // who reads finds out that nobody listens
        } else if let Ok(end) = stream.try_clone() {
            set_to(Some(Box::new(end) as Box<_>)); // it may wait to be told something
        }
    };
    let Line { mut from, to: end } = match opener.open(&mut connected) {
        Ok(line) => line,
        Err(_) if reopens => {
            thread::sleep(PAUSE);
            return true;
        }
        Err(error) => return send.send(Event::Failed(error)).is_ok(),
    };
    set_to(end);
    loop {
        let mut bytes = vec![0; PART];
        match from.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A line that breaks is one that ends.
            Ok(0) | Err(_) => {
                let goes_on = send.send(Event::Cut).is_ok();
                // Who connects to us again is not kept waiting.
                if goes_on && reopens && !opener.listens() {
                    thread::sleep(PAUSE);
                }
                return goes_on;
            }
            Ok(length) => {
                bytes.truncate(length);
                if send.send(Event::Bytes(bytes)).is_err() {
                    return false;
                }
            }
        }
    }
}

/// Hands standard input on.
fn pass_on(to: &To) {
    let mut bytes = [0; 4096];
    while let Ok(length) = io::stdin().read(&mut bytes) {
        if length == 0 {
            return;
        }
        let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = to.as_mut() {
            let _ = line.write_all(&bytes[..length]); // who reads finds out that it is cut
        }
    }
}
