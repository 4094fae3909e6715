//! Inputs that were packed with gzip or zstd, recognised by their first bytes, and unpacked as they are read.
//!
//! Where the packed bytes are damaged or cut short, what could be unpacked up to there counts.

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder, StreamingDecoder};
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// What gzip files begin with.
const GZIP: &[u8] = &[0x1F, 0x8B, 8];
/// What zstd frames begin with.
const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
/// Bytes that tell what an input is packed with.
pub(super) const MARK: usize = 4;

/// Most bytes that an input may become, beside [`MAX_RATIO`].
const MIN_UNPACKED: u64 = 64 << 20;
/// Most bytes that one packed byte may become. Traces shrink to a tenth, pages of zeros to a thousandth.
const MAX_RATIO: u64 = 1024;

/// Bytes in order.
pub(super) type Bytes = Box<dyn Read + Send>;

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

/// Whether an input that begins so is packed.
pub(super) fn is_packed(head: &[u8]) -> bool {
    head.starts_with(GZIP) || head.starts_with(ZSTD)
}

/// What is packed in `from`, which begins with `head`; `broken` is set if that has an end before its time.
pub(super) fn unpack(from: Bytes, head: &[u8], broken: Arc<OnceLock<Broken>>) -> Bytes {
    let read = Arc::new(AtomicU64::new(0));
    let from = Counting {
        from,
        read: Arc::clone(&read),
    };
    let unpacked: Bytes = if head.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(from))
    } else {
        Box::new(Zstd {
            rest: Some(BufReader::new(from)),
            frame: None,
            broken: None,
        })
    };
    Box::new(Bounded {
        unpacked,
        given: 0,
        read,
        broken,
    })
}

/// Counts the packed bytes.
struct Counting {
    from: Bytes,
    read: Arc<AtomicU64>,
}

impl Read for Counting {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(to)?;
        self.read.fetch_add(length as u64, Relaxed); // the same thread reads it
        Ok(length)
    }
}

/// Ends where the unpacked bytes do, for whatever reason.
struct Bounded {
    unpacked: Bytes,
    given: u64,
    read: Arc<AtomicU64>,
    broken: Arc<OnceLock<Broken>>,
}

impl Read for Bounded {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.broken.get().is_some() {
            return Ok(0);
        }
        let why = match self.unpacked.read(to) {
            Ok(length) => {
                self.given += length as u64;
                let most = MAX_RATIO.saturating_mul(self.read.load(Relaxed));
                if self.given <= most.max(MIN_UNPACKED) {
                    return Ok(length);
                }
                Broken::TooLarge
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(_) => Broken::Damaged,
        };
        let _ = self.broken.set(why); // it was not set before
        Ok(0)
    }
}

type Frame = StreamingDecoder<BufReader<Counting>, FrameDecoder>;

/// The frames of a zstd file, one after the other: one of all is there.
struct Zstd {
    rest: Option<BufReader<Counting>>,
    frame: Option<Box<Frame>>,
    /// A frame that cannot be unpacked further.
    broken: Option<Box<FrameDecoder>>,
}

/// A last block of a zstd frame, in which nothing is, and a sum of the frame that nobody asks for.
const LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// What is unpacked of a frame that cannot be unpacked further. The decoder keeps back what later blocks may refer to, until it is told
/// that the frame ends.
fn ended(frame: Frame) -> io::Result<FrameDecoder> {
    let mut decoder = frame.into_frame_decoder();
    let ended = decoder.decode_blocks(&LAST_BLOCK[..], BlockDecodingStrategy::UptoBlocks(1));
    ended.map_err(io::Error::other)?;
    Ok(decoder)
}

impl Read for Zstd {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(broken) = &mut self.broken {
                return match broken.read(to)? {
                    0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    length => Ok(length),
                };
            }
            if let Some(mut frame) = self.frame.take() {
                let Ok(length) = frame.read(to) else {
                    self.broken = Some(Box::new(ended(*frame)?));
                    continue;
                };
                if length > 0 {
                    self.frame = Some(frame);
                    return Ok(length);
                }
                self.rest = Some(frame.into_inner());
            }
            let Some(mut rest) = self.rest.take() else {
                return Ok(0);
            };
            if rest.fill_buf()?.is_empty() {
                return Ok(0);
            }
            if let Some(skipped) = skippable(rest.buffer()) {
                let passed = io::copy(&mut rest.by_ref().take(skipped), &mut io::sink())?;
                if passed < skipped {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.rest = Some(rest);
                continue;
            }
            match StreamingDecoder::new(rest) {
                Ok(frame) => self.frame = Some(Box::new(frame)),
                Err(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }
}

/// The length of the frame that `bytes` begin with, if it holds nothing for the reader.
fn skippable(bytes: &[u8]) -> Option<u64> {
    let header = bytes.first_chunk::<8>()?;
    let [a, b, c, d, lengths @ ..] = *header;
    let magic = u32::from_le_bytes([a, b, c, d]);
    let length = u32::from_le_bytes(lengths);
    (0x184D_2A50..=0x184D_2A5F)
        .contains(&magic)
        .then_some(8 + u64::from(length))
}
