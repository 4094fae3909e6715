//! Logs of programs that use `mcheck` as well.
//!
//! It puts a header before each block, and from glibc 2.34 on a release is logged with the address of that header, while
//! the allocation is logged with the block's. No release of such a log names a block then, and all look leaked.

use super::line::{Kind, Line, Read};
use rustc_hash::FxHashSet;

/// Bytes of a header, with pointers of eight bytes and of four.
const HEADERS: [u64; 2] = [48, 24];
/// Records that are looked at.
const MOST: usize = 1 << 12;

/// How far before its block a release in `log` points; 0 unless that is so for nearly all, and a block is found for each.
pub(super) fn header(log: &[u8]) -> u64 {
    let mut handed_out = FxHashSet::default();
    let mut at_block = 0u32;
    let mut at_header = [0u32; HEADERS.len()];
    let lines = log.split(|byte| *byte == b'\n');
    let entries = lines.filter_map(|line| match Read::of(line).line {
        Line::Record(entry) => Some(entry),
        _ => None,
    });
    for entry in entries.take(MOST) {
        match entry.kind {
            Kind::Allocated | Kind::New => {
                handed_out.insert(entry.address);
            }
            Kind::Released | Kind::Old => {
                let is_at = |header| handed_out.contains(&entry.address.wrapping_add(header));
                match HEADERS.iter().position(|header| is_at(*header)) {
                    _ if is_at(0) => at_block += 1,
                    Some(which) => at_header[which] += 1,
                    None => return 0,
                }
            }
            Kind::Failed => {}
        }
    }
    let most = HEADERS
        .iter()
        .zip(at_header)
        .max_by_key(|(_, releases)| *releases);
    most.filter(|(_, releases)| *releases > at_block)
        .map_or(0, |(header, _)| *header)
}

#[cfg(test)]
mod tests {
    use super::header;

    #[test]
    fn releases_before_their_blocks_are_recognised() {
        assert_eq!(
            header(b"+ 0x1030 0x1\n< 0x1000\n> 0x1030 0x2\n- 0x1000\n"),
            48
        );
        assert_eq!(header(b"+ 0x1018 0x1\n- 0x1000\n"), 24);
        assert_eq!(header(b"+ 0x1030 0x1\n- 0x1000\n- 0x1030\n"), 0);
        assert_eq!(header(b"- 0x1000\n+ 0x1030 0x1\n"), 0);
    }
}
