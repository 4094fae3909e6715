//! Memory for a table of addresses: a word of tags for each eight slots, and slots of one cache line each.
//!
//! Slots come from the kernel in large pages, where there are many: a look-up among small pages misses the processor's
//! table of pages too. What one table leaves is kept for the next that grows, since the kernel clears what it gives.

use super::slot::Slot;
use memmap2::{Advice, MmapMut};
use std::mem;
use std::ops::Range;
use std::sync::Mutex;

/// Slots of a word.
pub(super) const LANES: usize = 8;
/// Words whose slots fill a large page.
const LARGE: usize = (1 << 21) / (LANES * size_of::<Slot>());
/// Words up to which memory doubles, and from which on it grows by an eighth.
const SMALL: usize = 1 << 10;
const BIG: usize = 2 * LARGE;
/// Words of the least there is: their slots fill a page.
const LEAST: usize = 8;

/// Large pages that a table left: at most as many as one of them had.
static LEFT: Mutex<Vec<MmapMut>> = Mutex::new(Vec::new());

/// Tags and slots.
#[derive(Default)]
pub(super) struct Memory {
    tags: Vec<u64>,
    /// Large pages, then what is less than one.
    pages: Vec<MmapMut>,
}

impl Memory {
    /// Memory with no tag set.
    fn new(words: usize) -> Self {
        let mut pages = Vec::with_capacity(words / LARGE + 1);
        if words >= LARGE
            && let Ok(mut left) = LEFT.lock()
        {
            let kept = left.len().saturating_sub(words / LARGE);
            pages.extend(left.drain(kept..));
        }
        while pages.len() < words / LARGE {
            let page = map(LARGE);
            // A kernel without large pages gives small ones.
            let _ = page.advise(Advice::HugePage);
            pages.push(page);
        }
        let rest = words % LARGE;
        if rest > 0 {
            pages.push(map(rest));
        }
        Self {
            tags: vec![0; words],
            pages,
        }
    }

    /// Memory of the same length.
    pub(super) fn as_large(&self) -> Self {
        Self::new(self.words().max(LEAST))
    }

    /// Memory that is longer: twice while it is short, by a quarter or an eighth when it is long.
    pub(super) fn larger(&self) -> Self {
        let words = self.words();
        Self::new(match words {
            0 => LEAST,
            1..SMALL => words * 2,
            SMALL..BIG => words + words / 4,
            _ if words < 4 * LARGE => words + words / 8,
            // In whole pages, which others can take over.
            _ => words / LARGE * LARGE + (words / 8 / LARGE).max(1) * LARGE,
        })
    }

    pub(super) fn words(&self) -> usize {
        self.tags.len()
    }

    /// The words of each page, in order.
    pub(super) fn pages(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let words = self.words();
        let begins = (0..words).step_by(LARGE);
        begins.map(move |begin| begin..(begin + LARGE).min(words))
    }

    /// Hands the page in which a word is to `other`, in place of the one behind that in which another is, unless either is less than a large one.
    pub(super) fn hand_page(&mut self, word: usize, other: &mut Self, before: usize) {
        let page = self.pages.get_mut(word / LARGE);
        let behind = other.pages.get_mut(before / LARGE + 1);
        if let (Some(page), Some(behind)) = (page, behind)
            && page.len() == behind.len()
        {
            mem::swap(page, behind);
        }
    }

    #[inline]
    pub(super) fn slot(&self, at: usize) -> Option<&Slot> {
        let page = self.pages.get(at / (LARGE * LANES))?;
        page.as_chunks().0.get(at % (LARGE * LANES))
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, at: usize) -> Option<&mut Slot> {
        let page = self.pages.get_mut(at / (LARGE * LANES))?;
        page.as_chunks_mut().0.get_mut(at % (LARGE * LANES))
    }

    /// The tags at a place, the first in the lowest byte; 0 where there are none.
    #[inline]
    pub(super) fn word(&self, place: usize) -> u64 {
        self.tags.get(place).copied().unwrap_or(0)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "one byte is what is asked for"
    )]
    #[inline]
    pub(super) fn tag(&self, at: usize) -> u8 {
        (self.word(at / LANES) >> (at % LANES * 8)) as u8
    }

    #[inline]
    pub(super) fn set_tag(&mut self, at: usize, tag: u8) {
        let shift = at % LANES * 8;
        if let Some(word) = self.tags.get_mut(at / LANES) {
            *word = *word & !(0xFF << shift) | u64::from(tag) << shift;
        }
    }

    /// Changes the bits of a tag that are set in `bits`.
    #[inline]
    pub(super) fn flip_tag(&mut self, at: usize, bits: u8) {
        if let Some(word) = self.tags.get_mut(at / LANES) {
            *word ^= u64::from(bits) << (at % LANES * 8);
        }
    }

    /// Has the tags at a place come near.
    #[inline]
    pub(super) fn fetch_word(&self, place: usize) {
        if let Some(word) = self.tags.get(place) {
            fetch(word);
        }
    }

    /// Has a slot come near.
    #[inline]
    pub(super) fn fetch_slot(&self, at: usize) {
        if let Some(slot) = self.slot(at) {
            fetch(slot);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.pages.truncate(self.tags.len() / LARGE);
        if let Ok(mut left) = LEFT.lock()
            && left.len() < self.pages.len()
        {
            *left = mem::take(&mut self.pages);
        }
    }
}

fn map(words: usize) -> MmapMut {
    MmapMut::map_anon(words * LANES * size_of::<Slot>()).expect("there is memory")
}

/// Has the cache line that is `ahead` elements behind the end of `list` come near to be written, without waiting for it. Another
/// processor may have it, which has read what was there.
#[inline(always)]
pub(super) fn fetch_to_push<T>(list: &[T], ahead: usize) {
    let place = list.as_ptr().wrapping_add(list.len() + ahead);
    #[cfg(target_arch = "x86_64")]
    {
        #[expect(
            unsafe_code,
            reason = "the processor is told by an instruction of its own"
        )]
        // SAFETY: it changes nothing that a program sees, at any address; processors that do not know it pass it over.
        unsafe {
            std::arch::asm!("prefetchw [{place}]", place = in(reg) place, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Has the cache line where `what` begins come near, without waiting for it.
#[inline]
fn fetch<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(
            unsafe_code,
            reason = "the processor is told by an instruction of its own"
        )]
        // SAFETY: it changes nothing that a program sees, at any address; SSE is part of x86-64.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(what).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}
