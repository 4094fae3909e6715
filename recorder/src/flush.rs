//! Emptying lanes: a lane's owner when it is full, others when its records grow old, everybody at the end.

use crate::config::CONFIG;
use crate::event::{Event, Time};
use crate::image::{self, Image};
use crate::lane::Lane;
use crate::output::{self, Kind, OUTPUT};
use crate::repeat::repeat;
use crate::ring::{Span, slot};
use crate::sync::Relaxed;
use crate::turn::Turn;
use crate::{clock, early, log, modules, sequence, sys};
use heapwire_format::{Op, Record};

/// A record that is this many numbers old is flushed by whoever flushes.
const OLD_NUMBERS: u32 = 65_536;
/// The same in milliseconds.
const OLD_MILLISECONDS: u32 = 1_000;
/// Slots that are looked at for the smallest number that a lane still holds: hooks are not nested deeper.
const NESTED: u32 = 8;

/// Appends where the ring takes nothing at once: it is full, wiped by a fork, or flushed record by record.
#[cold]
#[inline(never)]
pub(crate) fn append_slowly(lane: &Lane, event: Event) {
    if early::keeps(lane, event) {
        return;
    }
    if lane.is_wiped() {
        // We are a forked child at its first call; its lane is another.
        if let Some(lane) = image::attach() {
            #[expect(clippy::cast_possible_truncation, reason = "it was an address")]
            let pc = event.pc as usize;
            lane.append(event.with_pc(pc, modules::base_of(lane, pc)));
        }
        return;
    }
    let Some(image) = image::current() else {
        return;
    };
    let is_open = image.log.gate.is_of(lane.tid.load(Relaxed));
    if image::is_waiting() && !is_open {
        return;
    }
    if CONFIG.get().is_log() {
        return log::append(image, lane, &event);
    }
    let Some(position) = place(image, lane) else {
        sequence::take(1); // what is missing must be known exactly
        image.lose(1);
        return;
    };
    lane.fill(position, event, sequence::take(1), lane.last_time());
    if image.has_ended() {
        empty_own(image, lane);
    }
}

/// Appends an event that has its number already.
pub(crate) fn append_numbered(lane: &Lane, event: Event, number: u64, time: Time) {
    let Some(image) = image::current() else {
        return;
    };
    let limit = lane.limit.load(Relaxed);
    let Some(position) = lane.ring.reserve(limit).or_else(|| place(image, lane)) else {
        image.lose(1);
        return;
    };
    lane.fill(position, event, number, time);
    if image.has_ended() {
        empty_own(image, lane);
    }
}

/// Appends again what was committed after a handler's flush had gone past its slot.
///
/// Another thread's flush may have written it just after the commit: then there are two copies, which must differ in nothing but
/// the time. `read_flag` is that of the first.
#[cold]
#[inline(never)]
pub(crate) fn append_again(lane: &Lane, position: u32, event: Event, number: u64, read_flag: u8) {
    lane.ring.take_back(lane.slots(), position);
    let time = Time {
        read_flag,
        ..lane.last_time()
    };
    append_numbered(lane, event, number, time);
}

/// Fills a slot whose number is too far from the lane's base: the lane is emptied first and its base moved.
#[cold]
#[inline(never)]
pub(crate) fn refill_after_rebase(lane: &Lane, position: u32, event: Event, number: u64) {
    let void = Event::of(Op::VOID, 0, 0).words(0, Time::default());
    if let Some(slot) = slot(lane.slots(), position) {
        slot.commit(void);
    }
    let Some(image) = image::current() else {
        return;
    };
    if rebase(image, lane, number, clock::now()) {
        append_numbered(lane, event, number, lane.last_time());
    } else {
        image.lose(1);
    }
}

/// Moves the lane's base clock to `now`, if the lane can be emptied.
pub(crate) fn rebase_clock(lane: &Lane, now: u64) -> bool {
    image::current().is_some_and(|image| rebase(image, lane, sequence::roughly(), now))
}

fn rebase(image: &Image, lane: &Lane, number: u64, clock: u64) -> bool {
    if lane.is_wiped() || OUTPUT.kind() == Kind::Closed {
        return false;
    }
    empty_own(image, lane);
    let mask = sys::block_signals();
    let me = lane.tid.load(Relaxed);
    let is_locked = lane.ring.try_lock(me).is_ok();
    let is_empty = is_locked && lane.ring.pending() == 0;
    if is_empty {
        lane.rebase(number, clock);
    }
    if is_locked {
        lane.ring.unlock();
    }
    sys::restore_signals(mask);
    is_empty
}

/// A reserved slot in a lane that is full, after making room. `None`: the record is lost.
fn place(image: &Image, lane: &Lane) -> Option<u32> {
    if OUTPUT.kind() == Kind::Closed {
        return None;
    }
    if image.has_ended() {
        return lane.ring.reserve(lane.capacity());
    }
    let is_ours = flush_own(image, lane, Goal::Room);
    if is_ours {
        sweep(image, lane);
        repeat(image, lane);
    }
    if let Some(position) = lane.ring.reserve(lane.limit.load(Relaxed)) {
        return Some(position);
    }
    // Our own flush is going on below us and waits for the reader: its handlers have the last places.
    if is_ours {
        None
    } else {
        lane.ring.reserve(lane.capacity())
    }
}

/// Flushes the lane of this thread.
pub(crate) fn empty_own(image: &Image, lane: &Lane) {
    flush_own(image, lane, Goal::Own);
}

/// `false` if a flush of our own is going on below us.
fn flush_own(image: &Image, lane: &Lane, goal: Goal) -> bool {
    let mask = sys::block_signals();
    let me = lane.tid.load(Relaxed);
    let is_locked = lock_own(image, lane, me);
    if is_locked {
        let turn = Turn::new(lane, Some(lane), mask);
        empty_locked(image, lane, goal, &turn);
        turn.end();
    }
    let is_nested = !is_locked && lane.ring.holder() == me;
    sys::restore_signals(mask);
    !is_nested
}

/// Takes the lock of our own lane, waiting for another flusher as long as it may take.
fn lock_own(image: &Image, lane: &Lane, me: u32) -> bool {
    let patience = CONFIG
        .get()
        .wait_milliseconds
        .saturating_mul(2)
        .saturating_add(1000);
    let mut spins: u64 = 0;
    let mut end = 0;
    loop {
        match lane.ring.try_lock(me) {
            Ok(()) => return true,
            Err(holder) if holder == me => return false,
            Err(holder) => {
                spins = spins.wrapping_add(1);
                if spins.is_multiple_of(64) {
                    let now = sys::milliseconds();
                    if end == 0 {
                        end = now.wrapping_add(patience);
                    }
                    let is_gone = holder != 0 && !sys::is_alive(image.pid.load(Relaxed), holder);
                    if is_gone && lane.ring.break_lock(holder, me) {
                        return true;
                    }
                    if now >= end {
                        return false;
                    }
                }
                sys::yield_now();
            }
        }
    }
}

/// How far a flush goes. A hole is a slot that is reserved and not filled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// One frame, of our own lane. Holes in front of it are passed: we are above the hook that reserved them, or they were left
    /// by a `longjmp`.
    Room,
    /// All of our own lane, up to a hole in the middle; holes in front are passed, as above.
    Own,
    /// All of another's lane, up to a hole: its owner may be filling it at this moment.
    Others,
    /// All of a lane whose owner is gone: nobody will ever fill the holes.
    Orphan,
}

/// Writes what is committed. With the lock.
fn empty_locked(image: &Image, lane: &Lane, goal: Goal, turn: &Turn<'_>) {
    if CONFIG.get().is_log() {
        if matches!(goal, Goal::Room | Goal::Own) {
            log::flush(image, lane, false);
        }
        return;
    }
    let slots = lane.slots();
    let mut is_first = true;
    // Each turn takes at least one slot, and no more slots are reserved meanwhile than handlers reserve.
    loop {
        let span = lane.ring.committed(slots, OUTPUT.kind().records_in_frame());
        if span.count != 0 {
            let written = output::write_frame(image, lane, span, turn);
            if turn.is_over() {
                return;
            }
            lane.ring.release(slots, written);
            if goal == Goal::Room {
                return;
            }
            is_first = false;
            continue;
        }
        let may_pass = match goal {
            Goal::Room | Goal::Own => is_first,
            Goal::Others => false,
            Goal::Orphan => true,
        };
        let passed = if may_pass {
            lane.ring.pass_holes(slots)
        } else {
            0
        };
        if passed == 0 {
            return;
        }
        image.void.fetch_add(passed, Relaxed);
    }
}

/// Flushes other threads' lanes whose records have grown old.
fn sweep(image: &Image, own: &Lane) {
    let (numbers, now) = (sequence::roughly(), clock::now());
    for lane in image.lanes_in_use() {
        if !core::ptr::eq(lane, own) && is_old(lane, numbers, now) {
            empty_other(image, lane, own);
        }
    }
}

fn is_old(lane: &Lane, numbers: u64, now: u64) -> bool {
    let span = lane.ring.committed(lane.slots(), 1);
    let Some(oldest) = slot(lane.slots(), span.from).filter(|_| span.count != 0) else {
        return false;
    };
    let record = Record::from_words([oldest.head(), 0, 0, 0, 0]);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the distance of the low halves is what counts"
    )]
    let distance = (numbers as u32).wrapping_sub(record.number);
    distance > OLD_NUMBERS || lane.age(now) > u32::from(record.time).wrapping_add(OLD_MILLISECONDS)
}

fn empty_other(image: &Image, lane: &Lane, own: &Lane) {
    let mask = sys::block_signals();
    if lane.ring.try_lock(own.tid.load(Relaxed)).is_ok() {
        let turn = Turn::new(lane, Some(own), mask);
        empty_locked(image, lane, Goal::Others, &turn);
        turn.end();
    }
    sys::restore_signals(mask);
}

/// Flushes every lane as far as it is committed.
pub(crate) fn everything(image: &Image, own: &Lane) {
    empty_own(image, own);
    for lane in image.lanes_in_use() {
        if !core::ptr::eq(lane, own) && lane.ring.pending() != 0 {
            empty_other(image, lane, own);
        }
    }
}

/// A number below which every record of this image is written, once the frame of `span` is; 0 where nothing can be said.
pub(crate) fn settled(image: &Image, own: &Lane, span: Span) -> u64 {
    // Loaded before the lanes are looked at: a number that is taken later is not below it.
    let mut settled = sequence::so_far();
    for lane in image.lanes_in_use() {
        let declaring = lane.declaring.load();
        if declaring != 0 {
            settled = settled.min(declaring);
        }
        let skip = if core::ptr::eq(lane, own) {
            span.count
        } else {
            0
        };
        match smallest_pending(lane, skip) {
            Pending::Nothing => {}
            Pending::From(number) => settled = settled.min(number),
            Pending::Unknown => return 0,
        }
    }
    settled
}

enum Pending {
    Nothing,
    From(u64),
    /// A slot is reserved and not filled.
    Unknown,
}

/// The smallest number in the lane, its first `skip` records aside.
fn smallest_pending(lane: &Lane, skip: u32) -> Pending {
    let pending = lane.ring.pending();
    let base = lane.base_number.load();
    let start = lane.ring.tail();
    let mut smallest = None;
    for step in skip..pending.min(skip.wrapping_add(NESTED)) {
        let Some(slot) = slot(lane.slots(), start.wrapping_add(step)) else {
            continue;
        };
        let record = Record::from_words([slot.head(), 0, 0, 0, 0]);
        match record.op {
            Op::HOLE => return Pending::Unknown,
            Op::VOID => {}
            _ => {
                let number = record.full_number(base);
                smallest = Some(smallest.map_or(number, |least: u64| least.min(number)));
            }
        }
    }
    smallest.map_or(Pending::Nothing, Pending::From)
}

/// Empties a lane whose owner is gone and hands it to the caller, who is to give it a new owner. Signals are blocked, and stay so: the
/// caller has a lock that nobody breaks.
pub(crate) fn empty_orphan(image: &Image, lane: &Lane, me: u32) -> bool {
    let holder = match lane.ring.try_lock(me) {
        Ok(()) => me,
        Err(holder) => holder,
    };
    if holder != me {
        let is_gone = holder != 0 && !sys::is_alive(image.pid.load(Relaxed), holder);
        if !(is_gone && lane.ring.break_lock(holder, me)) {
            return false;
        }
    }
    let turn = Turn::new(lane, None, sys::SignalSet::ALL);
    empty_locked(image, lane, Goal::Orphan, &turn);
    let is_empty = lane.ring.pending() == 0;
    if is_empty {
        lane.tid.store(me, Relaxed); // with the lock: from here on it is ours
    }
    turn.end();
    is_empty
}
