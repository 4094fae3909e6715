//! `heapwire recv`: takes a trace as it comes over a line, and says how it goes.
//!
//! What is no frame goes to standard output, and standard input goes to the other end: so one can log in and start the program.

mod line;
mod source;
mod telnet;

use super::reading::{NOTHING, Stopped};
use crate::cli::Recv;
use crate::{record, signals};
use anyhow::{Context, anyhow};
use heapwire::report::format::{bytes, count, counted};
use heapwire::{Received, Receiver};
use line::Event;
pub(crate) use source::Source;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Time between two looks at whether to stop, and between two lines on how it goes.
const TICK: Duration = Duration::from_millis(200);

/// Gives the exit status.
pub(crate) fn recv(asked: &Recv, out: &mut dyn Write, say: &mut dyn Write) -> Result<u8, Stopped> {
    let should_stop = signals::stop_flag().context("cannot handle signals");
    let should_stop = should_stop.map_err(Stopped::Other)?;
    let name = asked.output.display();
    let file = output(asked).with_context(|| format!("cannot write the trace to {name}"));
    let mut session = Session {
        file: file.map_err(Stopped::Other)?,
        room: asked.max_size,
        receiver: Receiver::new(),
        shown: Shown::new(),
    };
    let end = session.run(asked, &should_stop, out, say);
    session.shown.clear(say)?;
    let end = end?;
    let received = session.receiver.received();
    writeln!(
        say,
        "heapwire: {end}; {}, {} in {name}",
        summary(&received),
        bytes(received.bytes)
    )?;
    Ok(if received.frames > 0 { 0 } else { NOTHING })
}

fn output(asked: &Recv) -> anyhow::Result<File> {
    if asked.append {
        return record::go_on_with(&asked.output);
    }
    record::make_afresh(&asked.output)?;
    Ok(OpenOptions::new().append(true).open(&asked.output)?)
}

struct Session {
    file: File,
    /// Bytes that may still be written, of the trace and of text.
    room: u64,
    receiver: Receiver,
    shown: Shown,
}

impl Session {
    /// Receives until there is a reason to end, and gives that.
    fn run(
        &mut self,
        asked: &Recv,
        should_stop: &AtomicBool,
        out: &mut dyn Write,
        say: &mut dyn Write,
    ) -> Result<&'static str, Stopped> {
        let events = line::open(asked.source.clone(), asked.reconnect);
        let mut told = 0;
        let end = loop {
            if should_stop.load(Relaxed) {
                break "stopped";
            }
            match events.recv_timeout(TICK) {
                Ok(Event::Bytes(bytes)) => {
                    if !self.take(&bytes, false, out)? {
                        break "as much has come as was allowed";
                    }
                }
                Ok(Event::Cut) => {
                    self.take(&[], true, out)?;
                }
                Ok(Event::Silent(silent)) if silent > told => {
                    told = silent;
                    self.shown.clear(say)?;
                    let silent = counted(silent as u64, "connection");
                    writeln!(
                        say,
                        "heapwire: nothing has come over {silent} so far; another is open now, and the first that sends is taken"
                    )?;
                }
                Ok(Event::Failed(error)) => {
                    let source = &asked.source;
                    let error = anyhow!(error).context(format!("cannot read from {source}"));
                    return Err(Stopped::Other(error));
                }
                Ok(Event::Silent(_)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok("the line has ended"),
            }
            self.shown.show(&self.receiver.received(), say)?;
        };
        self.take(&[], true, out)?;
        Ok(end)
    }

    /// Takes what came. `false`: there is no room for it.
    fn take(&mut self, bytes: &[u8], is_all: bool, out: &mut dyn Write) -> Result<bool, Stopped> {
        self.receiver.take(bytes, is_all);
        let frames = self.receiver.frames();
        let length = frames.len() + self.receiver.text().len();
        let Some(room) = self.room.checked_sub(length as u64) else {
            return Ok(false);
        };
        self.room = room;
        self.file.write_all(frames)?;
        out.write_all(self.receiver.text())?;
        out.flush()?;
        Ok(true)
    }
}

fn summary(received: &Received) -> String {
    let mut words = vec![counted(received.events, "event")];
    let counts = [
        (received.lost, "record", "lost on the device"),
        (received.missing, "frame", "lost on the way"),
        (received.damaged, "part", "damaged"),
    ];
    let counts = counts.into_iter().filter(|(number, ..)| *number > 0);
    words.extend(counts.map(|(number, one, how)| format!("{} {how}", counted(number, one))));
    words.extend(
        received
            .live_bytes
            .map(|live| format!("about {} live", bytes(live))),
    );
    words.join(", ")
}

/// The line on how it goes, where standard error is a terminal and what is received is not shown there as well.
struct Shown {
    is_wanted: bool,
    is_there: bool,
    last: Instant,
    events: u64,
}

impl Shown {
    fn new() -> Self {
        Self {
            is_wanted: io::stderr().is_terminal() && !io::stdout().is_terminal(),
            is_there: false,
            last: Instant::now(),
            events: 0,
        }
    }

    fn show(&mut self, received: &Received, say: &mut dyn Write) -> io::Result<()> {
        let passed = self.last.elapsed();
        if !self.is_wanted || passed < TICK {
            return Ok(());
        }
        let milliseconds = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        let rate = (received.events - self.events).saturating_mul(1000) / milliseconds.max(1);
        write!(
            say,
            "\r\x1b[K{}, {} a second",
            summary(received),
            count(rate)
        )?;
        say.flush()?;
        self.is_there = true;
        self.last = Instant::now();
        self.events = received.events;
        Ok(())
    }

    fn clear(&mut self, say: &mut dyn Write) -> io::Result<()> {
        if std::mem::take(&mut self.is_there) {
            write!(say, "\r\x1b[K")?;
        }
        Ok(())
    }
}
