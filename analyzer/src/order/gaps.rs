//! Numbers that were not there when their window was given out.

use std::collections::BTreeMap;

/// Gaps in the numbers that are remembered, for records that come late.
const GAPS: usize = 1 << 12;

/// Remembers that the numbers from `begin` to `end` are not there.
pub(super) fn note_gap(gaps: &mut BTreeMap<u64, u64>, begin: u64, end: u64) {
    if let Some(mut last) = gaps.last_entry()
        && *last.get() == begin
    {
        last.insert(end);
        return;
    }
    gaps.insert(begin, end);
    if gaps.len() > GAPS {
        gaps.pop_first();
    }
}

/// Whether there are numbers from `first` to `last` that were not there.
pub(super) fn has_gap(gaps: &BTreeMap<u64, u64>, first: u64, last: u64) -> bool {
    let before = gaps.range(..=last).next_back();
    before.is_some_and(|(_, end)| *end > first)
}

/// Whether `number` was not there so far; now it is.
pub(super) fn take_number(gaps: &mut BTreeMap<u64, u64>, number: u64) -> bool {
    let Some((begin, end)) = gaps.range(..=number).next_back().map(|(a, b)| (*a, *b)) else {
        return false;
    };
    if end <= number {
        return false;
    }
    gaps.remove(&begin);
    if begin < number {
        gaps.insert(begin, number);
    }
    if number + 1 < end {
        gaps.insert(number + 1, end);
    }
    true
}
