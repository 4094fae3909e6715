//! Culling, where the user wants it: blocks that are released while the record of their allocation is still in the lane are left out
//! of the frame, and one record says how many they were. For lines that are too slow for every record.

use crate::ring::{Slot, Span, slot};
use heapwire_format::{Op, Record, flag};

/// Records that lie between the two of a pair, at most.
const NEAR: u32 = 64;

type Words = [u64; Record::WORDS];

/// What is left out of a frame.
pub(crate) struct Culling<'s> {
    slots: &'s [Slot],
    span: Span,
    /// The first step that is left out, and the record that stands there for all that are.
    instead: (u32, Words),
    /// Records that are left out, and not replaced.
    pub(crate) records: u32,
}

impl<'s> Culling<'s> {
    /// What can be left out of these records; `None`: nothing, or others may have had the same blocks meanwhile.
    pub(crate) fn of(slots: &'s [Slot], span: Span) -> Option<Self> {
        let mut culling = Self {
            slots,
            span,
            instead: (0, [0; Record::WORDS]),
            records: 0,
        };
        let first = number(culling.words(0)?);
        let (mut pairs, mut bytes, mut live, mut peak) = (0, 0u64, 0u64, 0);
        let mut begin = None;
        for step in 0..span.count {
            let words = culling.words(step)?;
            // Numbers without a gap are all of this thread: nobody else did anything in between.
            if number(words) != first.wrapping_add(step) {
                return None;
            }
            let Some(partner) = culling.partner(step, words) else {
                continue;
            };
            begin = begin.or(Some((step, words)));
            if partner > step {
                pairs = u64::wrapping_add(pairs, 1);
                bytes = bytes.wrapping_add(size(words));
                live = live.wrapping_add(size(words));
                peak = live.max(peak);
            } else {
                live = live.wrapping_sub(size(culling.words(partner)?));
            }
        }
        let (step, [head, ..]) = begin?;
        let head = head & !0xFFFF | u64::from(Op::CULLED.0);
        let reach = u64::from(span.count.wrapping_sub(step));
        culling.instead = (step, [head, pairs, bytes, peak, reach]);
        culling.records = u32::try_from(pairs)
            .unwrap_or(0)
            .wrapping_mul(2)
            .wrapping_sub(1);
        Some(culling)
    }

    /// What is to be said in the place of this record, if anything is.
    pub(crate) fn replaced(&self, step: u32, words: Words) -> Option<Words> {
        let (first, instead) = self.instead;
        if step == first {
            return Some(instead);
        }
        self.partner(step, words).is_none().then_some(words)
    }

    fn words(&self, step: u32) -> Option<Words> {
        if step >= self.span.count {
            return None;
        }
        Some(slot(self.slots, self.span.from.wrapping_add(step))?.words())
    }

    /// The other record of the pair that the record at `step` is of: with the same block, and no other record of that block between them.
    fn partner(&self, step: u32, words: Words) -> Option<u32> {
        let [head, ptr, ..] = words;
        let is_allocated = op(head) == Op::ALLOCATED;
        if !is_allocated && op(head) != Op::RELEASED {
            return None;
        }
        for distance in 1..NEAR {
            let at = if is_allocated {
                step.wrapping_add(distance)
            } else {
                step.checked_sub(distance)?
            };
            let [other, block, ..] = self.words(at)?;
            if !op(other).is_heap() {
                return None; // a child may inherit the block, or its module go
            }
            if block == ptr {
                let expected = if is_allocated {
                    Op::RELEASED
                } else {
                    Op::ALLOCATED
                };
                let is_pair = op(other) == expected && is_plain(head, other);
                let released = at.max(step);
                return (is_pair && !self.is_released_again(released, ptr)).then_some(at);
            }
        }
        None
    }

    /// Whether a block is released a second time soon after `step`, which would not be known for what it is.
    fn is_released_again(&self, step: u32, ptr: u64) -> bool {
        let after = (1..NEAR).map_while(|distance| self.words(step.checked_add(distance)?));
        let mut same = after.filter(|[_, block, ..]| *block == ptr);
        same.next()
            .is_some_and(|[head, ..]| matches!(op(head), Op::RELEASED | Op::REALLOC_OLD))
    }
}

fn op(head: u64) -> Op {
    let [op, ..] = head.to_le_bytes();
    Op(op)
}

fn number([head, ..]: Words) -> u32 {
    Record::from_words([head, 0, 0, 0, 0]).number
}

fn size([_, _, size, ..]: Words) -> u64 {
    size
}

/// Whether two records are of one family of functions, and no others belong to them.
fn is_plain(one: u64, other: u64) -> bool {
    const FAMILY: u8 = 0x0F;
    let ([_, one, ..], [_, other, ..]) = (one.to_le_bytes(), other.to_le_bytes());
    (one ^ other) & FAMILY == 0 && (one | other) & flag::MORE == 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Culling;
    use crate::ring::{Slot, Span};
    use heapwire_format::{Op, Record};

    /// What is left of records, each {op, flags, ptr, size}, with numbers from 7 on but for `gap` before the last.
    fn left(records: &[(Op, u8, u64, u64)], gap: u32) -> Vec<(Op, u32, u64, u64, u64, u64)> {
        let slots: Vec<Slot> = (0..records.len().next_power_of_two())
            .map(|_| Slot::new())
            .collect();
        let last = records.len() - 1;
        for (index, (op, flags, ptr, size)) in records.iter().enumerate() {
            let number = u32::try_from(7 + index).unwrap() + if index == last { gap } else { 0 };
            let (flags, ptr, size) = (*flags, *ptr, *size);
            let record = Record {
                op: *op,
                flags,
                time: 3,
                number,
                ptr,
                size,
                pc: 0x40,
                base: 0x10,
            };
            slots[index].commit(record.to_words());
        }
        let span = Span {
            from: 0,
            count: u32::try_from(records.len()).unwrap(),
        };
        let culling = Culling::of(&slots, span);
        let kept = (0..span.count).filter_map(|step| {
            let words = slots[step as usize].words();
            culling
                .as_ref()
                .map_or(Some(words), |culling| culling.replaced(step, words))
        });
        let kept = kept.map(Record::from_words);
        kept.map(|it| (it.op, it.number, it.ptr, it.size, it.pc, it.base))
            .collect()
    }

    const A: Op = Op::ALLOCATED;
    const R: Op = Op::RELEASED;

    #[test]
    fn pairs_become_one_record_that_says_how_many_they_were() {
        let records = [
            (A, 0, 1, 10),
            (A, 0, 2, 20),
            (A, 0, 3, 30),
            (R, 0, 3, u64::MAX),
            (R, 0, 2, u64::MAX),
            (A, 0, 3, 5),
            (R, 0, 3, u64::MAX),
        ];
        let expected = [(A, 7, 1, 10, 0x40, 0x10), (Op::CULLED, 8, 3, 55, 50, 6)];
        assert_eq!(left(&records, 0), expected);
    }

    #[test]
    fn what_may_be_no_pair_stays() {
        for records in [
            &[(A, 0, 1, 10), (A, 0, 1, 20)][..],
            &[(A, 0, 1, 10), (R, 2, 1, u64::MAX)], // another family
            &[(A, 0x80, 1, 10), (R, 0, 1, u64::MAX)], // more records belong to it
            &[
                (A, 0, 1, 10),
                (Op::REALLOC_OLD, 0, 1, 20),
                (R, 0, 1, u64::MAX),
            ],
            &[(A, 0, 1, 10), (Op::FORK, 0, 9, 0), (R, 0, 1, u64::MAX)],
            &[(R, 0, 1, u64::MAX), (A, 0, 1, 10)],
            &[
                (A, 0, 1, 10),
                (R, 0, 1, u64::MAX),
                (A, 0, 2, 9),
                (R, 0, 1, u64::MAX),
            ],
        ] {
            assert_eq!(left(records, 0).len(), records.len(), "{records:?}");
        }
        let pair = [(A, 0, 1, 10), (R, 0, 1, u64::MAX)];
        assert_eq!(left(&pair, 0).len(), 1);
        assert_eq!(
            left(&pair, 1).len(),
            2,
            "another thread may have had the block"
        );
    }
}
