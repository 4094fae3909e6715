//! The hooks of `malloc`, `free`, `realloc` and their kin: each forwards and records, and no more.
//!
//! The order of the two is the whole point. A release is recorded *before* the real call: once the block is free, another
//! thread can be given the same address, and its allocation must have a higher number. An allocation is recorded *after*.

use crate::arch::{entry, entry_malloc, then_free};
use crate::extent::HAS_SHORT_WAYS;
use crate::function::Function;
use crate::heap::{self, Call, NO_SIZE, Release};
use crate::lane::{self, Lane, Quick};
use crate::{early, image, next};
use heapwire_format::Family;

entry_malloc!(malloc, malloc_done, first_malloc);
entry!(free, 1, free_hook);
entry!(cfree, 1, cfree_hook);
entry!(free_sized, 2, free_sized_hook);
entry!(free_aligned_sized, 3, free_aligned_sized_hook);

/// The address to forward to, and whether we are relocated.
#[inline(always)]
fn target(function: Function) -> (Option<usize>, bool) {
    match next::known(function) {
        Some(address) => (Some(address), true),
        None => first_target(function),
    }
}

#[cold]
#[inline(never)]
fn first_target(function: Function) -> (Option<usize>, bool) {
    if image::prepare() {
        return (next::known(function), true);
    }
    (next::find_now(function), false)
}

/// Where the call is to be recorded: in this thread's lane, or with the early ones.
#[inline(always)]
fn lane(can_record: bool) -> Option<&'static Lane> {
    if can_record {
        lane::current()
    } else {
        early::lane()
    }
}

/// Calls the C function at `address` with one word-sized argument.
///
/// # Safety
///
/// A function with the C calling convention must be there whose argument and result these are.
#[inline(always)]
pub(crate) unsafe fn call_one(address: usize, argument: usize) -> usize {
    // SAFETY: the caller vouches for the function.
    let real: extern "C" fn(usize) -> usize = unsafe { core::mem::transmute(address) };
    real(argument)
}

/// Calls a `free`.
///
/// # Safety
///
/// As for [`call_one`].
#[inline(always)]
pub(crate) unsafe fn free_by(address: usize, block: usize) {
    // SAFETY: the caller vouches for the function.
    let real: extern "C" fn(usize) = unsafe { core::mem::transmute(address) };
    real(block);
}

/// After the real `malloc` gave `block`.
extern "C" fn malloc_done(block: usize, size: usize, pc: usize, sp: usize) -> usize {
    match lane::own() {
        Some(lane) if HAS_SHORT_WAYS && !lane.helped.is_above(sp) => {
            heap::allocated_directly(lane, block, size, Family::Malloc as u8, pc)
        }
        _ => allocated_slowly(block, size, pc, sp),
    }
}

// What follows a usual call is out of line and in tail position, so that a usual call needs few registers.

#[cold]
#[inline(never)]
extern "C" fn first_malloc(size: usize, pc: usize, sp: usize) -> usize {
    let (Some(real), can_record) = target(Function::Malloc) else {
        return 0;
    };
    // SAFETY: the libc's `malloc`, or another that stands in for it.
    let block = unsafe { call_one(real, size) };
    if let Some(lane) = lane(can_record) {
        heap::allocated(lane, block, size, Call { pc, sp });
    }
    block
}

#[cold]
#[inline(never)]
extern "C" fn allocated_slowly(block: usize, size: usize, pc: usize, sp: usize) -> usize {
    if let Some(lane) = lane::current() {
        heap::allocated(lane, block, size, Call { pc, sp });
    }
    block
}

extern "C" fn free_hook(block: usize, pc: usize, sp: usize) {
    if block == 0 {
        return; // what the real function does with null is nothing
    }
    let (true, Some(real), Some(lane)) = (HAS_SHORT_WAYS, next::known(Function::Free), lane::own())
    else {
        return free_slowly(block, pc, sp);
    };
    match heap::released_quickly(lane, freed(block), Call { pc, sp }) {
        // SAFETY: the libc's `free`, or another that stands in for it; the block is our caller's to release.
        Quick::Done => unsafe { free_by(real, block) },
        Quick::NotBegun => free_slowly(block, pc, sp),
        Quick::Begun { position, number } => finish_free(block, lane, pc, position, number),
    }
}

#[inline(always)]
const fn freed(block: usize) -> Release {
    Release {
        block,
        size: NO_SIZE,
        flags: Family::Malloc as u8,
    }
}

then_free!(free_slowly, free_recorded(pc: usize, sp: usize));
then_free!(finish_free, free_finished(lane: &Lane, pc: usize, position: u32, number: u64));
then_free!(cfree_hook, free_recorded(pc: usize, sp: usize));
then_free!(free_sized_hook, free_sized_recorded(size: usize, pc: usize, sp: usize));
then_free!(
    free_aligned_sized_hook,
    free_aligned_sized_recorded(alignment: usize, size: usize, pc: usize, sp: usize)
);

// Each gives the `free` that is left to be called; 0 = none.

#[cold]
extern "C" fn free_recorded(block: usize, pc: usize, sp: usize) -> usize {
    release(freed(block), Call { pc, sp })
}

#[cold]
extern "C" fn free_finished(
    block: usize,
    lane: &Lane,
    pc: usize,
    position: u32,
    number: u64,
) -> usize {
    heap::finish_release(lane, freed(block), pc, (position, number));
    next::known(Function::Free).unwrap_or(0)
}

/// Libcs before C23 have no `free_sized`; `free` does the same.
extern "C" fn free_sized_recorded(block: usize, size: usize, pc: usize, sp: usize) -> usize {
    let size = size as u64;
    let flags = Family::Malloc as u8;
    let released = Release { block, size, flags };
    release(released, Call { pc, sp })
}

extern "C" fn free_aligned_sized_recorded(
    block: usize,
    _alignment: usize,
    size: usize,
    pc: usize,
    sp: usize,
) -> usize {
    let size = size as u64;
    let flags = Family::Aligned as u8;
    let released = Release { block, size, flags };
    release(released, Call { pc, sp })
}

fn release(released: Release, at: Call) -> usize {
    if released.block == 0 {
        return 0;
    }
    let (Some(real), can_record) = target(Function::Free) else {
        return 0;
    };
    if let Some(lane) = lane(can_record) {
        heap::released(lane, released, at);
    }
    real
}
