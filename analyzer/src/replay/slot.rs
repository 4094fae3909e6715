//! One entry of the table of addresses in one cache line: its bytes are laid out by hand, so that a table can lie in memory
//! that comes from the kernel as it is.

use super::block::{Block, Entry, Moment, Released};
use crate::sites::SiteId;
use heapwire_format::Family;

pub(super) type Slot = [u8; 64];

const ADDRESS: usize = 0;
/// Of a live block the number of its allocation, else that of the release.
const NUMBER: usize = 8;
const SIZE: usize = 16;
const HANDED_OUT: usize = 24;
const RELEASED: usize = 40;
const KIND: usize = 56;
const FAMILY: usize = 57;

/// Kinds of entries. That of memory nobody wrote to is the first.
const FORGOTTEN: u8 = 0;
const LIVE: u8 = 1;
const OF_BLOCK: u8 = 2;
const OF_UNKNOWN: u8 = 3;

#[inline]
pub(super) fn address(slot: &Slot) -> u64 {
    word(slot, ADDRESS)
}

/// The block, if the entry is a live one.
#[inline(always)]
pub(super) fn live(slot: &Slot) -> Option<Block> {
    if slot[KIND] != LIVE {
        return None;
    }
    Some(Block {
        size: word(slot, SIZE),
        number: word(slot, NUMBER),
        handed_out: moment(slot, HANDED_OUT)?,
        family: Family::from_flags(slot[FAMILY]),
    })
}

/// The entry, which is of the address given with it.
#[inline]
pub(super) fn entry(slot: &Slot) -> Entry {
    if let Some(block) = live(slot) {
        return Entry::Live(block);
    }
    match (slot[KIND], moment(slot, HANDED_OUT), moment(slot, RELEASED)) {
        (OF_BLOCK | OF_UNKNOWN, handed_out, Some(released)) => Entry::Released(Released {
            block: handed_out
                .filter(|_| slot[KIND] == OF_BLOCK)
                .map(|moment| (word(slot, SIZE), moment)),
            number: word(slot, NUMBER),
            released,
        }),
        _ => Entry::Forgotten,
    }
}

/// Whether the entry is a live block; whether it is a release.
#[inline]
pub(super) fn counted(slot: &Slot) -> (bool, bool) {
    let kind = slot[KIND];
    (kind == LIVE, kind == OF_BLOCK || kind == OF_UNKNOWN)
}

/// Number of the release, of an entry that is one.
pub(super) fn number(slot: &Slot) -> u64 {
    word(slot, NUMBER)
}

#[inline]
pub(super) fn put(slot: &mut Slot, address: u64, entry: &Entry) {
    put_word(slot, ADDRESS, address);
    match entry {
        Entry::Live(block) => put_live(slot, block),
        Entry::Released(release) => {
            put_word(slot, NUMBER, release.number);
            put_moment(slot, RELEASED, &release.released);
            slot[KIND] = OF_UNKNOWN;
            if let Some((size, handed_out)) = &release.block {
                put_word(slot, SIZE, *size);
                put_moment(slot, HANDED_OUT, handed_out);
                slot[KIND] = OF_BLOCK;
            }
        }
        Entry::Forgotten => slot[KIND] = FORGOTTEN,
    }
}

/// Makes the entry a live block.
#[inline(always)]
pub(super) fn put_live(slot: &mut Slot, block: &Block) {
    put_word(slot, NUMBER, block.number);
    put_word(slot, SIZE, block.size);
    put_moment(slot, HANDED_OUT, &block.handed_out);
    slot[KIND] = LIVE;
    slot[FAMILY] = block.family as u8;
}

/// Makes a live block the release of it.
#[inline(always)]
pub(super) fn release(slot: &mut Slot, number: u64, released: &Moment) {
    put_word(slot, NUMBER, number);
    put_moment(slot, RELEASED, released);
    slot[KIND] = OF_BLOCK;
}

#[inline(always)]
fn moment(slot: &Slot, at: usize) -> Option<Moment> {
    Some(Moment {
        clock: word(slot, at),
        site: SiteId::of_raw(half(slot, at + 8))?,
        tid: half(slot, at + 12),
    })
}

#[inline(always)]
fn put_moment(slot: &mut Slot, at: usize, moment: &Moment) {
    put_word(slot, at, moment.clock);
    slot[at + 8..][..4].copy_from_slice(&moment.site.raw().to_le_bytes());
    slot[at + 12..][..4].copy_from_slice(&moment.tid.to_le_bytes());
}

#[inline(always)]
fn word(slot: &Slot, at: usize) -> u64 {
    u64::from_le_bytes(slot[at..][..8].try_into().unwrap_or_default())
}

#[inline(always)]
fn half(slot: &Slot, at: usize) -> u32 {
    u32::from_le_bytes(slot[at..][..4].try_into().unwrap_or_default())
}

#[inline(always)]
fn put_word(slot: &mut Slot, at: usize, value: u64) {
    slot[at..][..8].copy_from_slice(&value.to_le_bytes());
}
