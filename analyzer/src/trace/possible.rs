//! Which slots a writer of this version can have written (SPEC.md 12). Not every payload has a sum.

use super::source::Head;
use heapwire_format::{Op, Record};

/// Numbers that a record of one frame or lane stays within of the frame's reference: those that threads take
/// while a lane waits to be written, with room to spare.
const REACH: u64 = (1 << 30) + (1 << 20);
/// Where the bytes of a text record begin.
const TEXT_AT: usize = 8;
/// Families that are reserved.
const RESERVED_FAMILIES: std::ops::RangeInclusive<u8> = 6..=14;

/// Whether a writer of this version can have left the slot so.
pub(super) fn is_possible(slot: &[u8; Record::SIZE], reference: u64) -> bool {
    let head = Head::of(slot);
    if !head.is_record() {
        return true;
    }
    let flags = slot[1];
    let is_sound = match head.op {
        op if op.is_heap() => is_heap_record(slot),
        Op::TEXT => is_text(&slot[TEXT_AT..], usize::from(flags)),
        op => flags == 0 && op.name().is_some(),
    };
    is_sound && is_near(head.distance(reference), reference)
}

/// Whether it is a heap record of a family that there is.
#[inline]
pub(super) fn is_heap_record(slot: &[u8; Record::SIZE]) -> bool {
    Op(slot[0]).is_heap() && !RESERVED_FAMILIES.contains(&(slot[1] & 0x0F))
}

fn is_text(bytes: &[u8], used: usize) -> bool {
    let rest = bytes.get(used..);
    used != 0 && rest.is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
}

fn is_near(distance: i64, reference: u64) -> bool {
    distance.unsigned_abs() < REACH
        && reference
            .checked_add_signed(distance)
            .is_some_and(|number| number != 0)
}

#[cfg(test)]
mod tests {
    use super::is_possible;
    use crate::tests::made::{put, record};

    #[test]
    fn only_what_a_writer_can_have_written_is_possible() {
        let possible = |op, flags, number| is_possible(&record(op, flags, number, [9; 4]), 100);
        assert!(possible(0x01, 0xF5, 100) && possible(0x07, 0xFF, 1) && possible(0x78, 0, 100));
        assert!(possible(0x00, 0xFF, 0) && possible(0xFF, 0xFF, 0)); // no records
        for family in 6..=14 {
            assert!(!possible(0x02, family, 100), "{family}");
        }
        for op in [0x08, 0x11, 0x7E, 0x7F, 0x8A, 0xFE] {
            assert!(!possible(op, 0, 100), "{op:#x}");
        }
        assert!(!possible(0x77, 1, 100) && !possible(0xF8, 0x20, 100));
    }

    #[test]
    fn text_has_bytes_and_ends_in_zeros() {
        let mut slot = record(0x70, 3, 100, [0; 4]);
        put(&mut slot, 8, b"abc");
        let with_flags = |flags| {
            let mut slot = slot;
            slot[1] = flags;
            is_possible(&slot, 100)
        };
        assert!(with_flags(3) && with_flags(32));
        assert!(!with_flags(0) && !with_flags(2) && !with_flags(33) && !with_flags(255));
    }

    #[test]
    fn numbers_stay_near_and_above_zero() {
        let reach = (1 << 30) + (1 << 20);
        let at = |number: u64, reference| is_possible(&record(1, 0, number, [9; 4]), reference);
        let far = 1 << 40;
        assert!(at(far + reach - 1, far) && !at(far + reach, far));
        assert!(at(far - reach + 1, far) && !at(far - reach, far));
        assert!(at(1, 5) && !at(0, 5) && !at(u64::MAX, 5));
        assert!(!at(0, u64::MAX));
    }
}
