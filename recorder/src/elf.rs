//! What the memory of a mapped module says of itself: load bias and build id.
//!
//! Read by copies that fail where memory is gone, since another thread may unload the module at this moment.

use crate::sys;
use crate::text::Text;

const HEADER: usize = 64;
const SEGMENT: usize = 56;
const MOST_SEGMENTS: usize = 64;
const LOAD: u32 = 1;
const NOTE: u32 = 4;
const MOST_NOTES: usize = 256;

/// What matters of a module's ELF header.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Header {
    pub(crate) load_bias: usize,
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
        let is_ours = bytes.starts_with(b"\x7FELF\x02\x01");
        let at = base.wrapping_add(word(&bytes, 32)?);
        let size = usize::from(u16::from_le_bytes([bytes[54], bytes[55]]));
        let count = usize::from(u16::from_le_bytes([bytes[56], bytes[57]])).min(MOST_SEGMENTS);
        if !is_ours || size != SEGMENT {
            return None;
        }
        let mut header = Self::default();
        let (mut first_load, mut notes) = (None, header.notes.iter_mut());
        for index in 0..count {
            let mut segment = [0; SEGMENT];
            let place = at.wrapping_add(index.wrapping_mul(SEGMENT));
            sys::copy_own_memory(place, &mut segment).ok()?;
            let address = word(&segment, 16)?;
            match u32::from_le_bytes([segment[0], segment[1], segment[2], segment[3]]) {
                LOAD if first_load.is_none() => first_load = Some(address & !0xFFF),
                NOTE => {
                    if let Some(note) = notes.next() {
                        *note = Range {
                            start: address,
                            length: word(&segment, 40)?,
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
                .map(|bytes| u32::from_le_bytes(*bytes))
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
    bytes
        .get(at..)?
        .first_chunk::<8>()
        .map(|bytes| usize::from_le_bytes(*bytes))
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
