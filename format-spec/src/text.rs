//! Text in records, and the keys and values in it (SPEC.md 5).

use crate::{Op, Record};

/// Bytes of text that one record holds.
pub const TEXT_CHUNK: usize = 32;

/// The records that hold `text`, the first with `number`. Their time is 0.
pub fn text_records(text: &[u8], number: u32) -> impl Iterator<Item = Record> + '_ {
    (0u32..)
        .zip(text.chunks(TEXT_CHUNK))
        .map(move |(index, chunk)| {
            let mut bytes = [0; TEXT_CHUNK];
            for (to, from) in bytes.iter_mut().zip(chunk) {
                *to = *from;
            }
            text_record(&bytes, chunk.len(), number.wrapping_add(index))
        })
}

fn text_record(bytes: &[u8; TEXT_CHUNK], used: usize, number: u32) -> Record {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let [ptr, size, pc, base] = words;
    #[expect(clippy::cast_possible_truncation, reason = "at most TEXT_CHUNK")]
    let flags = used as u8;
    Record {
        op: Op::TEXT,
        flags,
        time: 0,
        number,
        ptr,
        size,
        pc,
        base,
    }
}

impl Record {
    /// The bytes of text in a text record, and how many of them are used.
    #[must_use]
    pub fn text(&self) -> ([u8; TEXT_CHUNK], usize) {
        let mut bytes = [0; TEXT_CHUNK];
        for (to, word) in bytes
            .chunks_exact_mut(8)
            .zip([self.ptr, self.size, self.pc, self.base])
        {
            to.copy_from_slice(&word.to_le_bytes());
        }
        (bytes, usize::from(self.flags).min(TEXT_CHUNK))
    }
}

/// The `key=value` entries of a declaration's text, in order. An entry without `=` has an empty value.
///
/// ```
/// let text = b"path=/bin/ls\0build-id=00ff\0";
/// let entries: Vec<_> = heapwire_format::entries(text).collect();
/// assert_eq!(entries, [(&b"path"[..], &b"/bin/ls"[..]), (b"build-id", b"00ff")]);
/// ```
pub fn entries(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|byte| *byte == 0)
        .filter(|entry| !entry.is_empty())
        .map(|entry| match entry.iter().position(|byte| *byte == b'=') {
            Some(at) => (&entry[..at], &entry[at + 1..]),
            None => (entry, &[][..]),
        })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::text_records;
    use std::vec::Vec;

    #[test]
    fn text_comes_back_as_it_was() {
        for length in [0, 1, 31, 32, 33, 100] {
            let text: Vec<u8> = (0..length).collect();
            let records: Vec<_> = text_records(&text, 5).collect();
            assert_eq!(records.len(), text.len().div_ceil(32));
            let mut back = Vec::new();
            for (number, record) in (5u32..).zip(&records) {
                assert_eq!(record.number, number);
                let (bytes, used) = record.text();
                back.extend_from_slice(&bytes[..used]);
            }
            assert_eq!(back, text);
        }
    }
}
