//! Inputs that were packed with gzip or zstd, recognised by their first bytes.
//!
//! What comes out goes to a file without a name, so that memory does not grow with it. Where the packed bytes are damaged or
//! cut short, what could be unpacked up to there counts.

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::{env, fmt};

/// What gzip files begin with.
const GZIP: &[u8] = &[0x1F, 0x8B, 8];
/// What zstd frames begin with.
const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];

/// Most bytes that an input may become, beside [`MAX_RATIO`].
const MIN_UNPACKED: u64 = 64 << 20;
/// Most bytes that one packed byte may become. Traces shrink to a tenth, pages of zeros to a thousandth.
const MAX_RATIO: u64 = 1024;

/// Bytes unpacked at a time.
const STEP: usize = 1 << 16;

/// Where unpacked bytes are.
pub(super) enum Unpacked {
    InFile(File),
    InMemory(Vec<u8>),
}

/// Why not all of an input could be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The packed bytes are damaged or cut short.
    Damaged,
    /// There would be more than any trace.
    TooLarge,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Damaged => "its packed bytes are damaged or cut short",
            Self::TooLarge => "it would become far larger than a trace does",
        })
    }
}

/// Unpacks `bytes`, if they are packed. An error is one of the place for the result.
pub(super) fn unpack(bytes: &[u8]) -> Option<io::Result<(Unpacked, Option<Broken>)>> {
    if bytes.starts_with(GZIP) {
        return Some(store(MultiGzDecoder::new(bytes), bytes.len()));
    }
    let frames = Zstd {
        rest: bytes,
        frame: None,
    };
    bytes.starts_with(ZSTD).then(|| store(frames, bytes.len()))
}

fn store(mut from: impl Read, packed: usize) -> io::Result<(Unpacked, Option<Broken>)> {
    let most = MIN_UNPACKED.max(MAX_RATIO.saturating_mul(packed as u64));
    let mut store =
        nameless_file().map_or_else(|_| Unpacked::InMemory(Vec::new()), Unpacked::InFile);
    let mut step = vec![0; STEP];
    let mut stored = 0u64;
    loop {
        match from.read(&mut step) {
            Ok(0) => return Ok((store, None)),
            Ok(length) => {
                stored += length as u64;
                if stored > most {
                    return Ok((store, Some(Broken::TooLarge)));
                }
                match &mut store {
                    Unpacked::InFile(file) => file.write_all(&step[..length])?,
                    Unpacked::InMemory(bytes) => bytes.extend_from_slice(&step[..length]),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Ok((store, Some(Broken::Damaged))),
        }
    }
}

fn nameless_file() -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .mode(0o600)
        .open(env::temp_dir())
}

/// The frames of a zstd file, one after the other.
struct Zstd<'b> {
    rest: &'b [u8],
    frame: Option<Box<StreamingDecoder<&'b [u8], ruzstd::decoding::FrameDecoder>>>,
}

impl Read for Zstd<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let length = frame.read(to)?;
                if length > 0 {
                    return Ok(length);
                }
                self.rest = frame.get_ref();
                self.frame = None;
            }
            if self.rest.is_empty() {
                return Ok(0);
            }
            match StreamingDecoder::new(self.rest) {
                Ok(frame) => self.frame = Some(Box::new(frame)),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let header = 8;
                    let skipped = usize::try_from(length).unwrap_or(usize::MAX);
                    let next = self.rest.get(skipped.saturating_add(header)..);
                    self.rest = next.ok_or(io::ErrorKind::UnexpectedEof)?;
                }
                Err(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }
}
