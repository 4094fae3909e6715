//! Paths of modules for the lines of a log, by numbers that fit into what is always zero of a module base.

use crate::sync::{AtomicU32, Relaxed};
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::{Acquire, Release};

/// Most paths, with the empty one.
const MOST: usize = 1024;
/// Room for all of them.
const ROOM: usize = 64 * 1024;
/// Longest path with its colon: a line with it still fits on a page.
const LONGEST: usize = 2048;

/// See the module. All zero is valid: there are none. What is in it stays.
pub(crate) struct Paths {
    count: AtomicU32,
    /// Where each path ends, and the next begins.
    ends: [AtomicU32; MOST],
    bytes: UnsafeCell<[u8; ROOM]>,
}

// SAFETY: bytes are written once, before `count` says so, by the one thread that may change the table of modules.
unsafe impl Sync for Paths {}

impl Paths {
    /// The bits of a module base that hold the number of its path.
    pub(crate) const ID: u64 = 0xFFF;

    /// The number of a path, in the form that lines have it; 0 where there is no room. For the holder of the modules' lock.
    pub(crate) fn number(&self, path: &[u8]) -> u32 {
        let count = self.count.load(Relaxed);
        let id = count.wrapping_add(1);
        let start = self.end(count) as usize;
        let length = path.len().wrapping_add(1);
        let end = start.wrapping_add(length);
        let Some(place) = self.ends.get(id as usize) else {
            return 0;
        };
        if length > LONGEST || end > ROOM {
            return 0;
        }
        // SAFETY: from `start` to `end` is in `bytes`, where nobody reads before `count` says so.
        let new = unsafe { core::slice::from_raw_parts_mut(self.at(start), length) };
        new.fill(b':');
        for (to, from) in new.iter_mut().zip(path) {
            *to = harmless(*from);
        }
        if let Some(known) = (1..=count).find(|id| self.get(u64::from(*id)) == new) {
            return known;
        }
        place.store(u32::try_from(end).unwrap_or(0), Relaxed);
        self.count.store(id, Release); // pairs with `get`
        id
    }

    /// The path with this number, with a colon behind it; empty for none.
    pub(crate) fn get(&self, id: u64) -> &[u8] {
        let id = u32::try_from(id).unwrap_or(0);
        if id == 0 || id > self.count.load(Acquire) {
            return &[];
        }
        let (start, end) = (self.end(id.wrapping_sub(1)), self.end(id));
        let length = end.wrapping_sub(start) as usize;
        // SAFETY: `number` has written these bytes, and nobody changes them any more.
        unsafe { core::slice::from_raw_parts(self.at(start as usize), length) }
    }

    fn at(&self, place: usize) -> *mut u8 {
        self.bytes.get().cast::<u8>().wrapping_add(place)
    }

    fn end(&self, id: u32) -> u32 {
        self.ends
            .get(id as usize)
            .map_or(0, |end| end.load(Relaxed))
    }
}

/// What a script could take apart, or a shell act upon, is not said.
fn harmless(byte: u8) -> u8 {
    let word = PLAIN.get(usize::from(byte >> 5)).copied().unwrap_or(0);
    if word & 1u32.wrapping_shl(byte.into()) == 0 {
        b'_'
    } else {
        byte
    }
}

/// The bytes that a path is said with, a bit each.
#[expect(clippy::indexing_slicing, reason = "runs in the compiler")]
const PLAIN: [u32; 8] = {
    let (mut plain, mut byte) = ([0, 0, 0, 0, u32::MAX, u32::MAX, u32::MAX, u32::MAX], 0u8);
    while byte < 0x80 {
        if byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'/' | b'.' | b'_' | b'-' | b'+' | b'=' | b',' | b'%' | b'~'
            )
        {
            plain[byte as usize >> 5] |= 1 << (byte & 31);
        }
        byte += 1;
    }
    plain
};

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{LONGEST, MOST, Paths};

    fn none() -> Box<Paths> {
        // SAFETY: integers, for which all zero is valid.
        Box::new(unsafe { core::mem::zeroed() })
    }

    #[test]
    fn a_path_has_one_number_and_does_nothing_in_a_shell() {
        let paths = none();
        assert_eq!(paths.get(0), b"");
        assert_eq!((paths.number(b"/a b;c"), paths.number(b"/d")), (1, 2));
        assert_eq!((paths.number(b"/a b;c"), paths.number(b"/")), (1, 3));
        assert_eq!(paths.get(1), b"/a_b_c:");
        assert_eq!(
            (paths.get(2), paths.get(3), paths.get(4)),
            (&b"/d:"[..], &b"/:"[..], &b""[..])
        );
    }

    #[test]
    fn what_has_no_room_has_no_number() {
        let paths = none();
        assert_eq!(paths.number(&[b'a'; LONGEST]), 0);
        for at in 1..MOST {
            assert_eq!(paths.number(format!("/{at}").as_bytes()) as usize, at);
        }
        assert_eq!(paths.number(b"/more"), 0);
        let long = none();
        let numbers = (b'A'..=b'Z')
            .chain(b'a'..=b'z')
            .map(|letter| long.number(&[letter; LONGEST - 1]));
        assert_eq!(numbers.filter(|number| *number != 0).count(), 32);
    }
}
