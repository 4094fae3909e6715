//! Files whose addresses are not those that ran: prelink moves a library on the device, and the files with its
//! debug information stay as the linker made them.

use object::{Object, ObjectSection, ObjectSegment};

/// Granularity of mappings.
const PAGE: u64 = 4096;

/// What to add to the addresses of one file so that they are those of another; wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shift(u64);

impl Shift {
    /// From the addresses of a module whose first page was `first` to those of its file.
    ///
    /// They are the same if the file has one of the `wanted` ones in its memory, and if it has none of them either way.
    pub(super) fn to_file(first: Option<u64>, wanted: &[u64], file: &object::File<'_>) -> Self {
        let segments = || {
            let segments = file.segments().map(|it| (it.address(), it.size()));
            segments.filter(|(_, size)| *size > 0)
        };
        let lowest = segments().map(|(begin, _)| begin).min();
        let (Some(first), Some(lowest)) = (first, lowest) else {
            return Self::default();
        };
        let shift = Self((lowest - lowest % PAGE).wrapping_sub(first));
        let has = |address: u64| {
            segments().any(|(begin, size)| address.checked_sub(begin).is_some_and(|at| at < size))
        };
        let has_some = |shift: Self| wanted.iter().any(|&address| has(shift.of(address)));
        if has_some(Self::default()) || !has_some(shift) {
            return Self::default();
        }
        shift
    }

    /// From the addresses of a module's file to those of its debug file.
    pub(super) fn to_debug_file(file: &object::File<'_>, debug: &object::File<'_>) -> Self {
        let code = |elf: &object::File<'_>| {
            let text = elf.section_by_name(".text")?;
            Some((text.address(), text.size()))
        };
        match (code(file), code(debug)) {
            (Some((here, size)), Some((there, its))) if size == its => {
                Self(there.wrapping_sub(here))
            }
            _ => Self::default(),
        }
    }

    pub(super) fn back(self) -> Self {
        Self(self.0.wrapping_neg())
    }

    pub(super) fn of(self, address: u64) -> u64 {
        address.wrapping_add(self.0)
    }

    /// All of `addresses`, which ascend; as they are where that would not be so any more.
    pub(super) fn of_all(self, addresses: &[u64]) -> Vec<u64> {
        let moved: Vec<u64> = addresses.iter().map(|&address| self.of(address)).collect();
        if moved.is_sorted() {
            moved
        } else {
            addresses.to_vec()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Shift;

    #[test]
    fn addresses_ascend_or_stay() {
        let addresses = [1, 0x2000, u64::MAX];
        assert_eq!(Shift(0).of_all(&addresses), addresses);
        assert_eq!(Shift(0x1000).of_all(&addresses), addresses);
        assert_eq!(Shift(0x1000).back().of_all(&[0x1000, 0x1001]), [0, 1]);
    }
}
