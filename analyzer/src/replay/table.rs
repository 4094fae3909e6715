//! A hash table of addresses for one shard of the heap: one cache line an entry, filled up to fifteen sixteenths, that grows by
//! a quarter or an eighth, page by page, and lets go of old releases before it does.
//!
//! A byte for each slot says whether it is taken and gives a part of the hash, eight of them in a word, so that a look-up
//! reads one word and one slot.

use super::block::{Block, Entry, Moment};
use super::memory::{LANES, Memory};
use super::slot::{self, Slot};
use heapwire_format::Family;
use std::ops::Range;

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

/// Entries by address.
#[derive(Default)]
pub(super) struct Table {
    memory: Memory,
    /// Slots that are not vacant.
    used: usize,
    live: usize,
    released: usize,
}

/// An address and its hash, which says where it belongs: the top bits choose the shard, those below the word, the lowest are its tag.
#[derive(Clone, Copy)]
pub(super) struct Key {
    address: u64,
    hash: u64,
}

impl Key {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "both halves of the product are folded into one"
    )]
    #[inline]
    pub(super) fn of(address: u64) -> Self {
        let product = u128::from(address ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
        Self {
            address,
            hash: (product >> 64) as u64 ^ product as u64,
        }
    }

    /// The shard of the address.
    #[inline]
    pub(super) fn shard(self) -> usize {
        (self.hash >> (u64::BITS - super::heap::SHARD_BITS)) as usize
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "six bits are what is asked for"
    )]
    #[inline]
    fn tag(self) -> u8 {
        0x80 | (self.hash as u8 & 0x3F)
    }
}

/// A bit at the top of each byte of `word` that is `tag`, and perhaps of some above one that is.
#[inline]
fn matches(word: u64, tag: u8) -> u64 {
    let differing = (word & COMPARED) ^ (LOW * u64::from(tag));
    differing.wrapping_sub(LOW) & !differing & HIGH
}

#[inline]
fn first_lane(mask: u64) -> usize {
    mask.trailing_zeros() as usize / 8
}

impl Table {
    pub(super) fn is_empty(&self) -> bool {
        self.memory.words() == 0
    }

    /// Bytes of its slots.
    pub(super) fn size(&self) -> usize {
        self.memory.words() * LANES * size_of::<Slot>()
    }

    /// Blocks that are live.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    pub(super) fn get(&self, address: u64) -> Option<Entry> {
        self.find(Key::of(address)).map(|at| self.entry(at))
    }

    /// Has the tags of an address come near, for [`fetch_slot`](Self::fetch_slot).
    #[inline]
    pub(super) fn fetch_tags(&self, key: Key) {
        self.memory.fetch_word(self.place(key));
    }

    /// Has the entry come near that is probably the one of an address, by the first tag that is like its own; or without one
    /// the place where it may be put.
    #[inline]
    pub(super) fn fetch_slot(&self, key: Key) {
        let mut place = self.place(key);
        let mut word = self.memory.word(place);
        if matches(word, key.tag()) == 0 && vacant(word) == 0 {
            // It is further on, most likely in the next word.
            place = self.after(place);
            word = self.memory.word(place);
        }
        let found = matches(word, key.tag());
        let free = vacant(word) | 1 << 63;
        let at = place * LANES + first_lane(if found == 0 { free } else { found });
        self.memory.fetch_slot(at);
    }

    /// Where the entry of an address is, if there is one.
    #[inline(always)]
    pub(super) fn find(&self, key: Key) -> Option<usize> {
        let place = self.place(key);
        let word = self.memory.word(place);
        let found = matches(word, key.tag());
        let at = place * LANES + first_lane(found | 1 << 63);
        // The first that matches has that tag, for sure.
        if found != 0 && self.is_of(at, key) {
            return Some(at);
        }
        if found == 0 && vacant(word) != 0 {
            return None;
        }
        self.find_from(place, key)
    }

    #[inline]
    fn is_of(&self, at: usize, key: Key) -> bool {
        let slot = self.memory.slot(at);
        slot.is_some_and(|slot| slot::address(slot) == key.address)
    }

    /// As [`find`](Self::find), from a word on.
    #[inline(never)]
    fn find_from(&self, mut place: usize, key: Key) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        loop {
            let word = self.memory.word(place);
            let mut found = matches(word, key.tag());
            while found != 0 {
                let at = place * LANES + first_lane(found);
                if self.is_of(at, key) && self.memory.tag(at) >= 0x80 {
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

    /// Replaces the entry at a place; gives what was there.
    #[inline]
    pub(super) fn replace(&mut self, at: usize, entry: Entry) -> Entry {
        let Some(slot) = self.memory.slot_mut(at) else {
            return Entry::Forgotten;
        };
        let before = slot::entry(slot);
        let (was_live, was_released) = slot::counted(slot);
        let address = slot::address(slot);
        slot::put(slot, address, &entry);
        let (is_live, is_released) = slot::counted(slot);
        self.live = self.live + usize::from(is_live) - usize::from(was_live);
        self.released = self.released + usize::from(is_released) - usize::from(was_released);
        if is_released != was_released {
            self.memory.flip_tag(at, RELEASED);
        }
        before
    }

    /// What is at a place.
    pub(super) fn entry(&self, at: usize) -> Entry {
        self.memory.slot(at).map_or(Entry::Forgotten, slot::entry)
    }

    /// Makes the live block at a place the release of it, and gives the block. Anything else stays, and a block of a family that
    /// is not right.
    #[inline(always)]
    pub(super) fn release(
        &mut self,
        at: usize,
        number: u64,
        released: &Moment,
        is_right: impl FnOnce(Family) -> bool,
    ) -> Option<Block> {
        let slot = self.memory.slot_mut(at)?;
        let block = slot::live(slot).filter(|block| is_right(block.family))?;
        slot::release(slot, number, released);
        self.live -= 1;
        self.released += 1;
        self.memory.flip_tag(at, RELEASED);
        Some(block)
    }

    /// Puts a block where a release of its address is. `false`: there is something else, which stays.
    #[inline(always)]
    pub(super) fn occupy(&mut self, at: usize, block: &Block) -> bool {
        let Some(slot) = self.memory.slot_mut(at).filter(|it| slot::counted(it).1) else {
            return false;
        };
        slot::put_live(slot, block);
        self.live += 1;
        self.released -= 1;
        self.memory.flip_tag(at, RELEASED);
        true
    }

    /// Adds an entry of an address that has none.
    pub(super) fn insert(&mut self, key: Key, entry: Entry, may_let_go: impl Fn(u64) -> bool) {
        if self.used + 1 > self.room() {
            self.make_room(may_let_go);
        }
        self.place_new(key, |slot| slot::put(slot, key.address, &entry));
    }

    /// Slots that may be used: the fuller the table, the further a search goes, but memory is what bounds it.
    fn room(&self) -> usize {
        self.memory.words() * LANES / 16 * 15
    }

    /// Adds an entry that `fill` writes; gives the place of its word.
    #[inline(always)]
    fn place_new(&mut self, key: Key, fill: impl FnOnce(&mut Slot)) -> usize {
        let mut place = self.place(key);
        loop {
            let word = self.memory.word(place);
            let free = vacant(word) | matches(word, GIVEN_UP);
            if free != 0 {
                let at = place * LANES + first_lane(free);
                // The mask may be wrong above the first byte that matches, so the first is asked again.
                let before = self.memory.tag(at);
                if before <= GIVEN_UP
                    && let Some(slot) = self.memory.slot_mut(at)
                {
                    fill(slot);
                    let (is_live, is_released) = slot::counted(slot);
                    self.used += usize::from(before == VACANT);
                    self.live += usize::from(is_live);
                    self.released += usize::from(is_released);
                    let released = RELEASED * u8::from(is_released);
                    self.memory.set_tag(at, key.tag() | released);
                    return place;
                }
            }
            place = self.after(place);
        }
    }

    /// All entries, in no order that may show.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, Entry)> + '_ {
        let taken = self.places_of(0..self.memory.words(), |word| word & HIGH);
        taken.filter_map(|at| self.memory.slot(at)).map(|slot| {
            let address = slot::address(slot);
            (address, slot::entry(slot))
        })
    }

    /// Places whose tags have the bit that `which` leaves in these words.
    fn places_of(
        &self,
        words: Range<usize>,
        which: impl Fn(u64) -> u64,
    ) -> impl Iterator<Item = usize> {
        words.flat_map(move |place| {
            let mut left = which(self.memory.word(place));
            std::iter::from_fn(move || {
                (left != 0).then(|| {
                    let at = place * LANES + first_lane(left);
                    left &= left - 1;
                    at
                })
            })
        })
    }

    /// Lets go of old releases, where there are many; else grows.
    fn make_room(&mut self, may_let_go: impl Fn(u64) -> bool) {
        if self.released > KEPT + self.live / LIVE_A_RELEASE {
            self.let_go(may_let_go);
            if self.used + self.used / 32 < self.room() {
                return;
            }
        }
        let entries = self.live + self.released;
        let has_garbage = self.used > entries + entries / 8;
        let memory = if has_garbage {
            self.memory.as_large()
        } else {
            self.memory.larger()
        };
        self.move_to(memory);
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
            let address = self.memory.slot(at).map(slot::address);
            if address.is_some_and(|address| !may_let_go(address)) {
                continue;
            }
            self.released -= 1;
            let has_vacant = vacant(self.memory.word(at / LANES)) != 0;
            self.used -= usize::from(has_vacant);
            self.memory
                .set_tag(at, if has_vacant { VACANT } else { GIVEN_UP });
        }
    }

    /// Place and number of each release.
    fn releases(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let words = 0..self.memory.words();
        let released = self.places_of(words, |word| word & (word << 1) & HIGH); // taken, and a release
        released.filter_map(|at| Some((at, slot::number(self.memory.slot(at)?))))
    }

    /// Moves all entries that say anything to other memory, which takes over the pages that are done: entries lie in the order of
    /// their hashes, here as there.
    fn move_to(&mut self, memory: Memory) {
        let mut next = Self {
            memory,
            ..Self::default()
        };
        let mut wrapped = Vec::new();
        let mut reached = 0;
        for words in self.memory.pages() {
            let begin = words.start;
            for at in self.places_of(words, |word| word & HIGH) {
                let Some(slot) = self.memory.slot(at) else {
                    continue;
                };
                if slot::counted(slot) == (false, false) {
                    continue;
                }
                let key = Key::of(slot::address(slot));
                if self.place(key) > at / LANES {
                    wrapped.push(*slot);
                    continue;
                }
                reached = reached.max(next.place_new(key, |to| *to = *slot));
            }
            self.memory.hand_page(begin, &mut next.memory, reached);
        }
        for slot in wrapped {
            let key = Key::of(slot::address(&slot));
            next.place_new(key, |to| *to = slot);
        }
        *self = next;
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "less than the words that there are"
    )]
    #[inline]
    fn place(&self, key: Key) -> usize {
        let part = u128::from(key.hash << super::heap::SHARD_BITS) * self.memory.words() as u128;
        (part >> 64) as usize
    }

    fn after(&self, place: usize) -> usize {
        if place + 1 == self.memory.words() {
            0
        } else {
            place + 1
        }
    }
}

#[inline]
fn vacant(word: u64) -> u64 {
    word.wrapping_sub(LOW) & !word & HIGH
}

#[cfg(test)]
mod tests {
    use super::{KEPT, Key, Table};
    use crate::address::{ReturnAddress, RuntimeAddress};
    use crate::replay::block::{Block, Entry, Moment, Released};
    use crate::replay::heap::SHARD_BITS;
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
        let key = Key::of(address);
        match table.find(key) {
            Some(at) => _ = table.replace(at, entry),
            None => table.insert(key, entry, |_| true),
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
        assert!(table.memory.words() <= KEPT / 2, "{}", table.memory.words());
        assert_eq!(table.get(2000 * 16), None);
    }
    /// Pages are handed on while entries are moved, and some lie at the begin whose places are at the end.
    #[test]
    fn what_grows_over_many_pages_keeps_all() {
        let mut table = Table::default();
        let is_at_end = |it: &u64| Key::of(*it).hash << SHARD_BITS >> 52 == 0xFFF;
        let moved: Vec<_> = (0..1u64 << 30)
            .map(|it| it * 16)
            .filter(is_at_end)
            .take(150)
            .collect();
        let mut at_end = moved.iter();
        for number in 0..150_000 {
            put(&mut table, number << 20 | 8, live(number));
            if number % 1000 == 0 {
                put(&mut table, *at_end.next().unwrap(), released(number));
            }
        }
        assert!(table.memory.pages().count() > 4 && table.live() == 150_000);
        assert_eq!(table.entries().count(), 150_150);
        for number in 0..150_000 {
            assert_eq!(table.get(number << 20 | 8), Some(live(number)));
        }
        for address in moved {
            assert!(matches!(table.get(address), Some(Entry::Released(_))));
        }
    }
}
