//! A hash table of addresses for one shard of the heap: one cache line an entry, filled up to seven eighths, that grows by
//! a quarter and lets go of old releases before it does.
//!
//! A byte for each slot says whether it is taken and gives a part of the hash, eight of them in a word, so that a look-up
//! reads one word and one slot.

use super::block::{Entry, Released};

const LANES: usize = 8;
const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;
/// All bits of a tag but `RELEASED`.
const COMPARED: u64 = 0xBFBF_BFBF_BFBF_BFBF;
const VACANT: u8 = 0;
/// Of a slot that was given up in a word without a vacant one: a search goes on beyond it.
const GIVEN_UP: u8 = 1;
/// Bit of a tag whose slot holds a release.
const RELEASED: u8 = 0x40;
/// Releases that are remembered in any case, and one for so many live blocks beyond.
const KEPT: usize = 6144;
const LIVE_A_RELEASE: usize = 16;
/// Words up to which a table doubles.
const SMALL: usize = 1 << 10;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Slot {
    address: u64,
    entry: Entry,
}

const _: () = assert!(size_of::<Slot>() == 64);

/// Entries by address.
#[derive(Default)]
pub(super) struct Table {
    words: Vec<u64>,
    slots: Vec<Slot>,
    /// Slots that are not vacant.
    used: usize,
    live: usize,
    released: usize,
}

/// A hash of an address; its top bits choose the shard.
#[expect(
    clippy::cast_possible_truncation,
    reason = "both halves of the product are folded into one"
)]
#[inline]
pub(super) fn hash(address: u64) -> u64 {
    let product = u128::from(address ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
    (product >> 64) as u64 ^ product as u64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "six bits are what is asked for"
)]
fn tag(hash: u64) -> u8 {
    0x80 | (hash as u8 & 0x3F)
}

/// A bit at the top of each byte of `word` that is `tag`, and perhaps of some above one that is.
fn matches(word: u64, tag: u8) -> u64 {
    let differing = (word & COMPARED) ^ (LOW * u64::from(tag));
    differing.wrapping_sub(LOW) & !differing & HIGH
}

fn first_lane(mask: u64) -> usize {
    mask.trailing_zeros() as usize / 8
}

impl Table {
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Blocks that are live.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    pub(super) fn get(&self, address: u64) -> Option<Entry> {
        self.find(address).map(|at| self.slots[at].entry)
    }

    pub(super) fn entry(&self, at: usize) -> Entry {
        self.slots[at].entry
    }

    /// Where the entry of `address` probably is; reads what a look-up would wait for.
    #[inline]
    pub(super) fn hint(&self, address: u64) -> usize {
        let hash = hash(address);
        let Some(word) = self.words.get(self.place(hash)) else {
            return usize::MAX;
        };
        let found = matches(*word, tag(hash));
        if found == 0 {
            return usize::MAX;
        }
        let at = self.place(hash) * LANES + first_lane(found);
        if self.slots[at].address == address {
            at
        } else {
            usize::MAX
        }
    }

    /// Where the entry of `address` is, if there is one; `hint` is what [`hint`](Self::hint) said.
    #[inline]
    pub(super) fn find_near(&self, address: u64, hint: usize) -> Option<usize> {
        match self.slots.get(hint) {
            Some(slot) if slot.address == address && tag_of(&self.words, hint) >= 0x80 => {
                Some(hint)
            }
            _ => self.find(address),
        }
    }

    pub(super) fn find(&self, address: u64) -> Option<usize> {
        let hash = hash(address);
        let mut place = self.place(hash);
        loop {
            let word = *self.words.get(place)?;
            let mut found = matches(word, tag(hash));
            while found != 0 {
                let at = place * LANES + first_lane(found);
                if self.slots[at].address == address {
                    return Some(at);
                }
                found &= found - 1;
            }
            if vacant(word) != 0 {
                return None;
            }
            place = self.after(place);
        }
    }

    /// Replaces the entry at a place.
    #[inline]
    pub(super) fn set(&mut self, at: usize, entry: Entry) {
        let (live, released) = counted(&self.slots[at].entry);
        self.live -= live;
        self.released -= released;
        let (live, released) = counted(&entry);
        self.live += live;
        self.released += released;
        let tag = tag_of(&self.words, at) & !RELEASED;
        self.set_tag(at, tag | (RELEASED * u8::from(released != 0)));
        self.slots[at].entry = entry;
    }

    /// Adds an entry of an address that has none.
    pub(super) fn insert(&mut self, address: u64, entry: Entry, may_let_go: impl Fn(u64) -> bool) {
        if (self.used + 1) * 8 > self.slots.len() * 7 {
            self.make_room(may_let_go);
        }
        self.place_new(address, entry);
    }

    fn place_new(&mut self, address: u64, entry: Entry) {
        let hash = hash(address);
        let mut place = self.place(hash);
        loop {
            let word = self.words[place];
            let free = vacant(word) | matches(word, GIVEN_UP);
            if free != 0 {
                let at = place * LANES + first_lane(free);
                // The mask may be wrong above the first byte that matches, so the first is asked again.
                let before = tag_of(&self.words, at);
                if before <= GIVEN_UP {
                    self.used += usize::from(before == VACANT);
                    let (live, released) = counted(&entry);
                    self.live += live;
                    self.released += released;
                    self.set_tag(at, tag(hash) | (RELEASED * u8::from(released != 0)));
                    self.slots[at] = Slot { address, entry };
                    return;
                }
            }
            place = self.after(place);
        }
    }

    /// All entries, in no order that may show.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, Entry)> + '_ {
        self.slots
            .iter()
            .enumerate()
            .filter(|(at, _)| tag_of(&self.words, *at) >= 0x80)
            .map(|(_, slot)| (slot.address, slot.entry))
    }

    /// Lets go of old releases, where there are many; else grows.
    fn make_room(&mut self, may_let_go: impl Fn(u64) -> bool) {
        if self.released > KEPT + self.live / LIVE_A_RELEASE {
            self.let_go(may_let_go);
            if (self.used + self.used / 32 + 1) * 8 <= self.slots.len() * 7 {
                return;
            }
        }
        let words = self.words.len();
        let entries = self.live + self.released;
        let has_garbage = self.used > entries + entries / 8;
        let wanted = match words {
            _ if has_garbage => words,
            0 => 2,
            1..SMALL => words * 2,
            _ => words + words / 4,
        };
        self.rebuild(wanted);
    }

    /// Forgets the older three quarters of the releases.
    fn let_go(&mut self, may_let_go: impl Fn(u64) -> bool) {
        let mut numbers: Vec<u64> = self.releases().map(|(_, number)| number).collect();
        let kept_from = numbers.len() * 3 / 4;
        let (_, oldest_kept, _) = numbers.select_nth_unstable(kept_from);
        let oldest_kept = *oldest_kept;
        let old: Vec<usize> = self
            .releases()
            .filter(|(_, number)| *number < oldest_kept)
            .map(|(at, _)| at)
            .collect();
        for at in old {
            if !may_let_go(self.slots[at].address) {
                continue;
            }
            self.released -= 1;
            let has_vacant = vacant(self.words[at / LANES]) != 0;
            self.used -= usize::from(has_vacant);
            self.set_tag(at, if has_vacant { VACANT } else { GIVEN_UP });
        }
    }

    /// Place and number of each release.
    fn releases(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let words = self.words.iter().enumerate();
        let released = words.flat_map(|(place, word)| {
            let mut left = word & (word << 1) & HIGH; // taken, and a release
            std::iter::from_fn(move || {
                (left != 0).then(|| {
                    let at = place * LANES + first_lane(left);
                    left &= left - 1;
                    at
                })
            })
        });
        released.filter_map(|at| match self.slots[at].entry {
            Entry::Released(Released { number, .. }) => Some((at, number)),
            _ => None,
        })
    }

    fn rebuild(&mut self, words: usize) {
        let mut next = Self {
            words: vec![0; words],
            slots: vec![
                Slot {
                    address: 0,
                    entry: Entry::Forgotten
                };
                words * LANES
            ],
            ..Self::default()
        };
        for (address, entry) in self.entries() {
            if entry != Entry::Forgotten {
                next.place_new(address, entry);
            }
        }
        *self = next;
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "less than the words that there are"
    )]
    fn place(&self, hash: u64) -> usize {
        // The top bits chose the shard: those below choose the word.
        let part = u128::from(hash << super::heap::SHARD_BITS) * self.words.len() as u128;
        (part >> 64) as usize
    }

    fn after(&self, place: usize) -> usize {
        if place + 1 == self.words.len() {
            0
        } else {
            place + 1
        }
    }

    fn set_tag(&mut self, at: usize, tag: u8) {
        let shift = at % LANES * 8;
        let word = &mut self.words[at / LANES];
        *word = *word & !(0xFF << shift) | u64::from(tag) << shift;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "one byte is what is asked for"
)]
fn tag_of(words: &[u64], at: usize) -> u8 {
    (words[at / LANES] >> (at % LANES * 8)) as u8
}

fn vacant(word: u64) -> u64 {
    word.wrapping_sub(LOW) & !word & HIGH
}

fn counted(entry: &Entry) -> (usize, usize) {
    match entry {
        Entry::Live(_) => (1, 0),
        Entry::Released(_) => (0, 1),
        Entry::Forgotten => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, Table};
    use crate::address::{ReturnAddress, RuntimeAddress};
    use crate::replay::block::{Block, Entry, Moment, Released};
    use crate::sites::{Site, SiteTable};
    use heapwire_format::Family;
    use proptest::prelude::{any, proptest};
    use std::collections::HashMap;

    fn moment() -> Moment {
        let site = SiteTable::default().add(Site {
            call: ReturnAddress(RuntimeAddress(1)),
            module: None,
            parent: None,
        });
        Moment {
            clock: 0,
            site,
            tid: 1,
        }
    }

    fn live(number: u64) -> Entry {
        Entry::Live(Block {
            size: 8,
            number,
            handed_out: moment(),
            family: Family::Malloc,
        })
    }

    fn released(number: u64) -> Entry {
        Entry::Released(Released {
            block: Some((8, moment())),
            number,
            released: moment(),
        })
    }

    fn put(table: &mut Table, address: u64, entry: Entry) {
        match table.find_near(address, table.hint(address)) {
            Some(at) => table.set(at, entry),
            None => table.insert(address, entry, |_| true),
        }
    }

    proptest! {
        #[test]
        fn it_holds_what_a_map_of_the_library_holds(
            steps in proptest::collection::vec((0u64..500, 0u8..3, any::<bool>()), 0..2000)
        ) {
            let mut table = Table::default();
            let mut map = HashMap::new();
            for (number, (address, what, is_far)) in (0..).zip(steps) {
                let address = if is_far { address << 40 } else { address * 8 };
                let entry = match what {
                    0 => live(number),
                    1 => released(number),
                    _ => Entry::Forgotten,
                };
                put(&mut table, address, entry);
                map.insert(address, entry);
            }
            // Too few for any to be let go; what says nothing may be dropped.
            let said = |entry: Option<Entry>| entry.filter(|it| *it != Entry::Forgotten);
            for address in (0..500).flat_map(|it| [it << 40, it * 8, it * 8 + 1]) {
                assert_eq!(said(table.get(address)), said(map.get(&address).copied()));
            }
            let are_live = |entry: &&Entry| matches!(entry, Entry::Live(_));
            assert_eq!(table.live(), map.values().filter(are_live).count());
        }
    }

    #[test]
    fn old_releases_are_let_go_and_live_blocks_are_not() {
        let mut table = Table::default();
        for address in 0..1000 {
            put(&mut table, address * 16, live(address));
        }
        let all = 40 * KEPT as u64;
        for number in 1000..all {
            put(&mut table, number * 16, live(number));
            put(&mut table, number * 16, released(number));
        }
        assert_eq!(table.live(), 1000);
        assert!((0..1000).all(|it| table.get(it * 16) == Some(live(it))));
        let last = all - KEPT as u64 / 4..all;
        assert!(
            last.clone()
                .all(|it| table.get(it * 16) == Some(released(it)))
        );
        assert!(table.released <= 2 * KEPT, "{}", table.released);
        assert!(table.slots.len() <= 4 * KEPT, "{}", table.slots.len());
        assert_eq!(table.get(2000 * 16), None);
    }
}
