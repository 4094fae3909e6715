//! Changes bytes at random, but always the same way for the same seed.

use heapwire_tests::trace::{HEADER, RECORD, TRAILER, crc32};

/// What frames begin with.
pub(crate) const MAGIC: &[u8] = b"\x89HWT\r\n\xFF\x1A";
/// Values at which arithmetic goes wrong.
const EDGES: [u64; 9] = [
    0,
    1,
    7,
    0x7F,
    0xFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    i64::MAX as u64,
    u64::MAX,
];

/// Xorshift: small, fast and good enough to choose places.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator whose numbers depend on `seed` only.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`; 0 where there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.draw() % (bound.max(1) as u64)).expect("below a usize")
    }
}

/// Changes `bytes` in a few places, and sometimes their length.
pub fn bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len());
        match random.below(7) {
            0 => flip(bytes, at, random),
            1 | 2 => edge(bytes, at, random),
            3 => bytes.truncate(at),
            4 => {
                let end = (at + random.below(200)).min(bytes.len());
                bytes.drain(at..end);
            }
            5 => {
                let end = (at + random.below(600)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            _ => bytes.resize(bytes.len() + random.below(64), 0xA5),
        }
        if bytes.is_empty() {
            return;
        }
    }
}

/// Changes values in a few places of these ranges, and nothing of how the file is laid out.
pub fn values(bytes: &mut [u8], ranges: &[std::ops::Range<usize>], random: &mut Random) {
    for _ in 0..=random.below(12) {
        let range = ranges[random.below(ranges.len())].clone();
        let at = range.start + random.below(range.len());
        if random.below(3) == 0 {
            flip(bytes, at, random);
        } else {
            edge(bytes, at, random);
        }
    }
}

/// Puts words into `bytes` in a few places, over or between what is there.
pub fn words(bytes: &mut Vec<u8>, words: &[&[u8]], random: &mut Random) {
    for _ in 0..random.below(6) {
        let word = words[random.below(words.len())];
        let at = random.below(bytes.len() + 1);
        let covered = random.below(2) * word.len();
        let end = (at + covered).min(bytes.len());
        bytes.splice(at..end, word.iter().copied());
    }
}

/// Changes fields of records and headers in place.
pub fn fields(bytes: &mut [u8], random: &mut Random) {
    let frames = frames(bytes);
    if frames.is_empty() {
        return;
    }
    for _ in 0..=random.below(8) {
        let frame = frames[random.below(frames.len())];
        let records = (length(bytes, frame) / RECORD).min(1000);
        let at = if random.below(4) == 0 || records == 0 {
            frame + 8 + random.below(HEADER - 8)
        } else {
            let record = frame + HEADER + random.below(records) * RECORD;
            record + [0, 1, 2, 4, 8, 16, 24, 32][random.below(8)]
        };
        if random.below(3) == 0 {
            flip(bytes, at, random);
        } else {
            edge(bytes, at, random);
        }
    }
}

/// Makes the sums and trailers of all frames right again, so that what is inside is looked at.
pub fn repair(bytes: &mut [u8]) {
    for frame in frames(bytes) {
        if bytes.len() < frame + HEADER {
            continue;
        }
        let start = frame + usize::from(u16::from_le_bytes([bytes[frame + 10], bytes[frame + 11]]));
        let end = start + length(bytes, frame);
        if end + TRAILER <= bytes.len() {
            if bytes[frame + 14] == 1 {
                let sum = crc32(&bytes[start..end]);
                bytes[frame + 36..frame + 40].copy_from_slice(&sum.to_le_bytes());
            }
            let number = bytes[frame + 24..frame + 28].to_vec();
            for (index, byte) in b"!HWT".iter().enumerate() {
                bytes[end + index] = byte ^ number[index];
            }
        }
        let sum = crc32(&bytes[frame..frame + 76]);
        bytes[frame + 76..frame + 80].copy_from_slice(&sum.to_le_bytes());
    }
}

fn frames(bytes: &[u8]) -> Vec<usize> {
    let starts = bytes.windows(MAGIC.len()).enumerate();
    starts
        .filter(|(_, window)| *window == MAGIC)
        .map(|(at, _)| at)
        .collect()
}

fn length(bytes: &[u8], frame: usize) -> usize {
    let field = bytes
        .get(frame + 16..frame + 20)
        .map_or([0; 4], |field| field.try_into().expect("four bytes"));
    u32::from_le_bytes(field) as usize
}

fn flip(bytes: &mut [u8], at: usize, random: &mut Random) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

/// Puts a value at which arithmetic goes wrong, 1 to 8 bytes wide.
fn edge(bytes: &mut [u8], at: usize, random: &mut Random) {
    let value = EDGES[random.below(EDGES.len())].to_le_bytes();
    let width = [1, 2, 4, 8][random.below(4)];
    for (byte, value) in bytes.iter_mut().skip(at).zip(value).take(width) {
        *byte = value;
    }
}
