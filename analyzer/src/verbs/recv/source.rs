//! Where a trace can come from, and how the line is opened.

use super::telnet::Telnet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Most who may be connected and have sent nothing.
const MOST_SILENT: usize = 16;

/// Bits a second of a serial line where none are given.
const BAUD: u32 = 115_200;

/// Where a trace comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Standard input.
    Input,
    /// A connection to an address.
    Tcp(String),
    /// The same, with telnet's options.
    Telnet(String),
    /// Connections of others.
    Listen(String),
    /// A serial line, and its rate.
    Serial(PathBuf, u32),
}

/// A line that is open: what comes, and what can be said, if anything can.
pub(super) struct Line {
    pub(super) from: Box<dyn Read + Send>,
    pub(super) to: Option<Box<dyn Write + Send>>,
}

impl Source {
    /// Reads a source as it is given on a command line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "-" {
            return Ok(Self::Input);
        }
        let Some((kind, rest)) = text.split_once("://") else {
            return Err("expected tcp://, listen://, telnet://, serial:// or -".to_owned());
        };
        let has_port = rest
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = || {
            let wrong = || format!("expected {kind}://HOST:PORT");
            has_port.then(|| rest.to_owned()).ok_or_else(wrong)
        };
        match kind {
            "tcp" => address().map(Self::Tcp),
            "telnet" if !has_port => Ok(Self::Telnet(format!("{rest}:23"))),
            "telnet" => address().map(Self::Telnet),
            "listen" => address().map(Self::Listen),
            "serial" => {
                let (path, baud) = match rest.split_once("?baud=") {
                    None => (rest, Some(BAUD)),
                    Some((path, baud)) => (path, baud.parse().ok().filter(|baud| *baud > 0)),
                };
                let baud = baud.ok_or("expected a rate such as ?baud=115200")?;
                Ok(Self::Serial(path.into(), baud))
            }
            _ => Err(format!("{kind}:// is no kind of source")),
        }
    }
}

/// Opens the line of a source, again and again.
pub(super) struct Opener {
    source: Source,
    /// Stays, so that others find it also while one of them is heard.
    listener: Option<TcpListener>,
    /// Those who are connected to it and have sent nothing, as they came.
    silent: Vec<TcpStream>,
}

impl Opener {
    pub(super) fn new(source: Source) -> Self {
        Self {
            source,
            listener: None,
            silent: Vec::new(),
        }
    }

    /// Whether others connect to it.
    pub(super) fn listens(&self) -> bool {
        self.listener.is_some()
    }

    /// Opens the line. Where it listens it waits for somebody who sends, and calls `connected` with each who connects and the number of
    /// those who are there and have sent nothing.
    pub(super) fn open(
        &mut self,
        connected: &mut dyn FnMut(&TcpStream, usize),
    ) -> io::Result<Line> {
        match &self.source {
            Source::Input => Ok(Line {
                from: Box::new(io::stdin()),
                to: None,
            }),
            Source::Tcp(address) => of_stream(TcpStream::connect(address)?),
            Source::Listen(address) => {
                let listener = match &mut self.listener {
                    Some(listener) => listener,
                    none => none.insert(TcpListener::bind(address)?),
                };
                of_stream(first_to_send(listener, &mut self.silent, connected)?)
            }
            Source::Telnet(address) => {
                let stream = TcpStream::connect(address)?;
                let to = stream.try_clone()?;
                Ok(Line {
                    from: Box::new(OverTelnet {
                        answers: stream.try_clone()?,
                        stream,
                        telnet: Telnet::default(),
                        data: Vec::new(),
                    }),
                    to: Some(Box::new(to)),
                })
            }
            Source::Serial(path, baud) => {
                let line = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .custom_flags(libc::O_NOCTTY)
                    .open(path)?;
                let mut settings = tcgetattr(&line)?;
                settings.make_raw();
                settings.set_speed(*baud)?;
                tcsetattr(&line, OptionalActions::Now, &settings)?;
                let to: File = line.try_clone()?;
                Ok(Line {
                    from: Box::new(line),
                    to: Some(Box::new(to)),
                })
            }
        }
    }
}

/// The first who sends of those who are connected or connect. Who hangs up before that is forgotten.
fn first_to_send(
    listener: &TcpListener,
    silent: &mut Vec<TcpStream>,
    connected: &mut dyn FnMut(&TcpStream, usize),
) -> io::Result<TcpStream> {
    loop {
        let mut waited: Vec<_> = (silent.iter())
            .map(|stream| PollFd::new(stream, PollFlags::IN))
            .chain([PollFd::new(listener, PollFlags::IN)])
            .collect();
        match poll(&mut waited, None) {
            Err(rustix::io::Errno::INTR) => continue,
            result => result?,
        };
        let happens: Vec<_> = waited.iter().map(|it| !it.revents().is_empty()).collect();
        // From the end on, so that the places of those before stay.
        for at in (0..silent.len()).rev().filter(|at| happens[*at]) {
            let stream = silent.remove(at);
            if stream.peek(&mut [0]).is_ok_and(|length| length > 0) {
                return Ok(stream);
            }
        }
        if happens.last() == Some(&true) {
            let (stream, _) = listener.accept()?;
            connected(&stream, silent.len());
            silent.push(stream);
            if silent.len() > MOST_SILENT {
                let _ = silent.remove(0).shutdown(Shutdown::Both); // it may have hung up by itself
            }
        }
    }
}

fn of_stream(stream: TcpStream) -> io::Result<Line> {
    let to = stream.try_clone()?;
    Ok(Line {
        from: Box::new(stream),
        to: Some(Box::new(to)),
    })
}

/// A connection whose options are answered as they come.
struct OverTelnet {
    stream: TcpStream,
    answers: TcpStream,
    telnet: Telnet,
    /// Data that nobody has read yet.
    data: Vec<u8>,
}

impl Read for OverTelnet {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.data.is_empty() {
            let mut bytes = [0; 4096];
            let length = self.stream.read(&mut bytes)?;
            if length == 0 {
                return Ok(0);
            }
            let (data, answer) = self.telnet.take(&bytes[..length]);
            self.data = data;
            self.answers.write_all(&answer)?;
        }
        let length = self.data.as_slice().read(to)?;
        self.data.drain(..length);
        Ok(length)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input => f.write_str("standard input"),
            Self::Tcp(address) | Self::Telnet(address) => f.write_str(address),
            Self::Listen(address) => write!(f, "whoever connects to {address}"),
            Self::Serial(path, baud) => write!(f, "{} at {baud} baud", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn sources_are_named_by_their_kind() {
        let tcp = Source::Tcp("device:4000".to_owned());
        assert_eq!(Source::parse("tcp://device:4000"), Ok(tcp));
        let telnet = Source::Telnet("device:23".to_owned());
        assert_eq!(Source::parse("telnet://device"), Ok(telnet));
        let listen = Source::Listen("[::]:4000".to_owned());
        assert_eq!(Source::parse("listen://[::]:4000"), Ok(listen));
        let serial = |baud| Ok(Source::Serial("/dev/ttyUSB0".into(), baud));
        assert_eq!(Source::parse("serial:///dev/ttyUSB0"), serial(115_200));
        assert_eq!(
            Source::parse("serial:///dev/ttyUSB0?baud=9600"),
            serial(9600)
        );
        for wrong in [
            "",
            "tcp://device",
            "tcp://device:x",
            "http://device:80",
            "serial://x?baud=0",
        ] {
            assert!(Source::parse(wrong).is_err(), "{wrong}");
        }
    }
}
