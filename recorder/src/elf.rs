//! What the memory of a mapped module says of itself: load bias and build id.
//!
//! Read by copies that fail where memory is gone, since another thread may unload the module at this moment.

use crate::sys;
use crate::text::Text;

/// Bytes of a header, and of a segment's, in files for words of our size.
const HEADER: usize = either(64, 52);
const SEGMENT: usize = either(56, 32);
/// How a file for our machine begins: width and order of its words.
const MAGIC: [u8; 6] = [
    0x7F,
    b'E',
    b'L',
    b'F',
    if cfg!(target_pointer_width = "64") {
        2
    } else {
        1
    },
    if cfg!(target_endian = "little") { 1 } else { 2 },
];
const MOST_SEGMENTS: usize = 64;
const LOAD: u32 = 1;
#[cfg(heapwire_static)]
const DYNAMIC: u32 = 2;
const NOTE: u32 = 4;
const MOST_NOTES: usize = 256;

/// `wide` where words have 64 bits, else `narrow`.
const fn either(wide: usize, narrow: usize) -> usize {
    if cfg!(target_pointer_width = "64") {
        wide
    } else {
        narrow
    }
}

/// What matters of a module's ELF header.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Header {
    pub(crate) load_bias: usize,
    /// Address of the dynamic section, before the bias; 0 = it has none.
    #[cfg(heapwire_static)]
    pub(crate) dynamic: usize,
    notes: [Range; 4],
}

#[derive(Clone, Copy, Debug, Default)]
struct Range {
    start: usize,
    length: usize,
}

impl Header {
    /// The header of the module that is mapped from `base` on; `None` if no ELF file of our kind is.
    pub(crate) fn read(base: usize) -> Option<Self> {
        let mut bytes = [0; HEADER];
        sys::copy_own_memory(base, &mut bytes).ok()?;
        let is_ours = bytes.starts_with(&MAGIC);
        let at = base.wrapping_add(word(&bytes, either(32, 28))?);
        let size = half(&bytes, either(54, 42))?;
        let count = half(&bytes, either(56, 44))?.min(MOST_SEGMENTS);
        if !is_ours || size != SEGMENT {
            return None;
        }
        let mut header = Self::default();
        let (mut first_load, mut notes) = (None, header.notes.iter_mut());
        for index in 0..count {
            let mut segment = [0; SEGMENT];
            let place = at.wrapping_add(index.wrapping_mul(SEGMENT));
            sys::copy_own_memory(place, &mut segment).ok()?;
            let address = word(&segment, either(16, 8))?;
            match kind(&segment)? {
                LOAD if first_load.is_none() => first_load = Some(address & !0xFFF),
                #[cfg(heapwire_static)]
                DYNAMIC => header.dynamic = address,
                NOTE => {
                    if let Some(note) = notes.next() {
                        *note = Range {
                            start: address,
                            length: word(&segment, either(40, 20))?,
                        };
                    }
                }
                _ => {}
            }
        }
        header.load_bias = base.wrapping_sub(first_load?);
        Some(header)
    }

    /// Adds the entry `build-id`, if the module has one.
    pub(crate) fn push_build_id(&self, text: &mut Text<'_>) {
        for note in &self.notes {
            let mut bytes = [0; MOST_NOTES];
            let length = note.length.min(MOST_NOTES);
            let Some(bytes) = bytes.get_mut(..length).filter(|bytes| !bytes.is_empty()) else {
                continue;
            };
            let start = self.load_bias.wrapping_add(note.start);
            if sys::copy_own_memory(start, bytes) != Ok(length) {
                continue;
            }
            if let Some(id) = build_id(bytes) {
                let mut room = [0; 128];
                let mut digits = Text::new(&mut room);
                digits.push_hex(id);
                text.entry(b"build-id", digits.bytes());
                return;
            }
        }
    }
}

/// The content of the GNU build id note in a segment of notes.
fn build_id(mut notes: &[u8]) -> Option<&[u8]> {
    const GNU_BUILD_ID: u32 = 3;
    while let Some((header, rest)) = notes.split_first_chunk::<12>() {
        let field = |at: usize| {
            header
                .get(at..)?
                .first_chunk::<4>()
                .map(|bytes| u32::from_ne_bytes(*bytes))
        };
        let (name_length, length, kind) = (field(0)? as usize, field(4)? as usize, field(8)?);
        let name = rest.get(..name_length)?;
        let rest = rest.get(name_length.checked_next_multiple_of(4)?..)?;
        if kind == GNU_BUILD_ID && name == b"GNU\0" {
            return rest
                .get(..length)
                .filter(|id| !id.is_empty() && id.len() <= 64);
        }
        notes = rest.get(length.checked_next_multiple_of(4)?..)?;
    }
    None
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(usize::from_ne_bytes(*bytes))
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(usize::from(u16::from_ne_bytes(*bytes)))
}

/// The type of a segment.
fn kind(segment: &[u8; SEGMENT]) -> Option<u32> {
    segment
        .first_chunk()
        .map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::build_id;

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let mut notes = Vec::new();
        notes.extend_from_slice(&[4, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]);
        notes.extend_from_slice(b"GNU\0\xAA\xBB\0\0");
        notes.extend_from_slice(&[4, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0]);
        notes.extend_from_slice(b"GNU\0\x01\x02\x03\0");
        assert_eq!(build_id(&notes), Some(&[1, 2, 3][..]));
        for length in 0..notes.len() - 1 {
            assert_eq!(build_id(&notes[..length]), None, "{length}");
        }
    }

    #[test]
    fn lengths_that_lie_end_the_search() {
        let notes = [0xFF; 64];
        assert_eq!(build_id(&notes), None);
    }
}
