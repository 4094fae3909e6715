//! From what a hook saw to events: allocated, released, moved, failed.

use crate::event::Event;
use crate::helped::Note;
use crate::lane::{Lane, Quick};
use crate::modules;
use heapwire_format::{Family, Op, flag};

/// No size was given with a release; a product that overflows.
pub(crate) const NO_SIZE: u64 = u64::MAX;

/// Where a hook was called from.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// Return address.
    pub(crate) pc: usize,
    /// Stack pointer at entry.
    pub(crate) sp: usize,
}

/// An allocation with no hook above it, or the failure of one where `block` is null; gives `block`.
///
/// Out of line and called as the last thing: hooks share it, and a usual call needs no stack in it.
#[inline(never)]
pub(crate) extern "C" fn allocated_directly(
    lane: &Lane,
    block: usize,
    size: usize,
    flags: u8,
    pc: usize,
) -> usize {
    if block == 0 {
        return allocated_unusually(lane, block, size, flags, pc);
    }
    let Some(base) = modules::known_base_of(lane, pc) else {
        return allocated_unusually(lane, block, size, flags, pc);
    };
    match lane.append_quickly(allocation(block, size, flags, pc, base)) {
        Quick::Done => block,
        Quick::NotBegun => allocated_unusually(lane, block, size, flags, pc),
        Quick::Begun { position, number } => {
            finish_allocation(lane, block, size, flags, pc, (position, number))
        }
    }
}

#[cold]
#[inline(never)]
extern "C" fn allocated_unusually(
    lane: &Lane,
    block: usize,
    size: usize,
    flags: u8,
    pc: usize,
) -> usize {
    append_allocation(lane, block, size, flags, pc);
    block
}

/// Ends what `allocated_directly` has begun.
#[cold]
#[inline(never)]
fn finish_allocation(
    lane: &Lane,
    block: usize,
    size: usize,
    flags: u8,
    pc: usize,
    (position, number): (u32, u64),
) -> usize {
    let event = allocation(block, size, flags, pc, modules::base_of(lane, pc));
    lane.finish(event, position, number);
    block
}

/// An allocation that a hook of `malloc` made: the caller's, or that of the function that helps it.
pub(crate) fn allocated(lane: &Lane, block: usize, size: usize, call: Call) {
    if lane.helped.is_above(call.sp) {
        allocated_inside(lane, block, size, call);
    } else {
        append_allocation(lane, block, size, Family::Malloc as u8, call.pc);
    }
}

#[cold]
#[inline(never)]
fn allocated_inside(lane: &Lane, block: usize, size: usize, call: Call) {
    let note = lane.helped.for_call(call.pc, call.sp);
    let (size, flags, pc) = match note.filter(Note::is_open) {
        Some(note) if note.purpose.is_help() => (size, flag::HELPED, note.pc),
        Some(note) if note.purpose.is_resize() => return,
        note => match note.and_then(|note| Some((note.purpose.allocation()?, note.pc))) {
            Some(((size, flags), pc)) => {
                lane.helped.take(block);
                (size, flags, pc)
            }
            None => {
                lane.helped.saw(block);
                // Inside an operator, but not called by it: one that the program replaced may allocate through others.
                let outside = lane.helped.get();
                let is_operators = outside.is_there()
                    && (outside.purpose.allocation())
                        .is_some_and(|(_, flags)| flags & flag::HELPED != 0);
                let family = if is_operators {
                    Family::Unknown
                } else {
                    Family::Malloc
                };
                (size, family as u8, call.pc)
            }
        },
    };
    append_allocation(lane, block, size, flags, pc);
}

/// Appends an allocation, or the failure of one where `block` is null.
pub(crate) fn append_allocation(lane: &Lane, block: usize, size: usize, flags: u8, pc: usize) {
    let base = modules::base_of(lane, pc);
    lane.append(allocation(block, size, flags, pc, base));
}

#[inline(always)]
fn allocation(block: usize, size: usize, flags: u8, pc: usize, base: u64) -> Event {
    let op = if block == 0 {
        Op::ALLOCATION_FAILED
    } else {
        Op::ALLOCATED
    };
    Event {
        op,
        flags,
        ptr: block as u64,
        size: size as u64,
        pc: pc as u64,
        base,
    }
}

/// What is to be said of a release, beside where it was called.
#[derive(Clone, Copy)]
pub(crate) struct Release {
    pub(crate) block: usize,
    /// As in the format.
    pub(crate) size: u64,
    /// The family.
    pub(crate) flags: u8,
}

impl Release {
    #[inline(always)]
    fn event(self, pc: usize, base: u64) -> Event {
        Event {
            op: Op::RELEASED,
            flags: self.flags,
            ptr: self.block as u64,
            size: self.size,
            pc: pc as u64,
            base,
        }
    }
}

/// A release that is about to happen, if there is nothing unusual about it.
#[inline(always)]
pub(crate) fn released_quickly(lane: &Lane, release: Release, call: Call) -> Quick {
    match modules::known_base_of(lane, call.pc) {
        Some(base) if !lane.helped.is_above(call.sp) => {
            lane.append_quickly(release.event(call.pc, base))
        }
        _ => Quick::NotBegun,
    }
}

/// A release that is about to happen, with nothing above it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn released_directly(lane: &Lane, release: Release, pc: usize) {
    let done = match modules::known_base_of(lane, pc) {
        Some(base) => lane.append_quickly(release.event(pc, base)),
        None => Quick::NotBegun,
    };
    match done {
        Quick::Done => {}
        Quick::NotBegun => append_release(lane, release, pc),
        Quick::Begun { position, number } => {
            finish_release(lane, release, pc, (position, number));
        }
    }
}

/// A release that is about to happen.
pub(crate) fn released(lane: &Lane, release: Release, call: Call) {
    if lane.helped.is_above(call.sp) && is_recorded_outside(lane, release.block, call) {
        return;
    }
    append_release(lane, release, call.pc);
}

fn append_release(lane: &Lane, release: Release, pc: usize) {
    let base = modules::base_of(lane, pc);
    lane.append(release.event(pc, base));
}

/// Ends what `released_quickly` has begun.
pub(crate) fn finish_release(
    lane: &Lane,
    release: Release,
    pc: usize,
    (position, number): (u32, u64),
) {
    let base = modules::base_of(lane, pc);
    lane.finish(release.event(pc, base), position, number);
}

/// Whether the release is part of one that the hook outside has recorded.
#[cold]
#[inline(never)]
fn is_recorded_outside(lane: &Lane, block: usize, call: Call) -> bool {
    lane.helped.takes_release(block, call.sp) || lane.helped.is_resize(call.pc, call.sp)
}

/// The first half of a `realloc` of `block`, before the real call.
pub(crate) fn resizing(lane: &Lane, [block, size]: [usize; 2], call: Call) {
    if block != 0 {
        append_resize(lane, Op::REALLOC_OLD, [block, size], call);
    }
}

/// The second half, after the real call gave `result`.
pub(crate) fn resized(lane: &Lane, [block, size]: [usize; 2], result: usize, call: Call) {
    match (block, result, size) {
        (0, ..) => allocated(lane, result, size, call),
        (_, 0, 0) => append_resize(lane, Op::REALLOC_FREED, [block, size], call),
        (_, 0, _) => append_resize(lane, Op::REALLOC_FAILED, [block, size], call),
        (_, new, _) => append_resize(lane, Op::REALLOC_NEW, [new, size], call),
    }
}

#[inline(never)]
fn append_resize(lane: &Lane, op: Op, [block, size]: [usize; 2], call: Call) {
    let (pc, flags) = match lane.helped.for_call(call.pc, call.sp) {
        Some(note) if note.purpose.is_help() => (note.pc, flag::HELPED),
        _ => (call.pc, 0),
    };
    lane.append(Event {
        op,
        flags,
        ptr: block as u64,
        size: size as u64,
        pc: pc as u64,
        base: modules::base_of(lane, pc),
    });
}
