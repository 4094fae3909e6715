//! Calls that come before this library is relocated: kept here, and recorded when recording starts.
//!
//! An indirect function's resolver can allocate while libraries are still being relocated. Our word in thread-local storage
//! cannot be reached then, and nobody can be told of a module. So such calls go through a lane that takes nothing,
//! and its events wait, without numbers, for the first call after the relocation. There is one thread as yet.

use crate::event::{Event, Time};
use crate::lane::Lane;
use crate::modules;
use crate::ring::{Slot, slot};
use heapwire_format::Record;

/// Most events that are kept; the rest are counted.
const KEPT: u32 = 128;

// SAFETY: a lane consists of atomics and null pointers, for which all zero is valid; such a lane takes no records.
static LANE: Lane = unsafe { core::mem::zeroed() };
// SAFETY: a slot consists of atomics, for which all zero is valid.
static EVENTS: [Slot; KEPT as usize] = unsafe { core::mem::zeroed() };

/// The lane of calls before the relocation.
pub(crate) fn lane() -> Option<&'static Lane> {
    Some(&LANE)
}

/// Keeps `event` if it is one of `lane`'s. `false`: `lane` is another.
pub(crate) fn keeps(lane: &Lane, event: Event) -> bool {
    if !core::ptr::eq(lane, &raw const LANE) {
        return false;
    }
    let place = LANE.ring.reserve(KEPT);
    match place.and_then(|position| slot(&EVENTS, position)) {
        Some(slot) => slot.commit(event.words(0, Time::default())),
        None => crate::image::count_early(),
    }
    true
}

/// Records in `own` what was kept. In the thread that has started recording, once its modules are declared.
pub(crate) fn replay(own: &Lane) {
    let span = LANE.ring.committed(&EVENTS, KEPT);
    for slot in EVENTS.iter().take(span.count as usize) {
        let Record {
            op,
            flags,
            ptr,
            size,
            pc,
            ..
        } = Record::from_words(slot.words());
        let event = Event {
            flags,
            ..Event::of(op, ptr, size)
        };
        #[expect(clippy::cast_possible_truncation, reason = "it was an address")]
        let pc = pc as usize;
        own.append(event.with_pc(pc, modules::base_of(own, pc)));
    }
    LANE.ring.release(&EVENTS, span);
}
