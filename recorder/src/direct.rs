//! Operators of C++ and `calloc`, where it is known what the real function does: it calls `malloc` or `free`, or is one with them.
//! Then nothing has to be noted for a hook inside.
//!
//! Each hook gives 0 where the call is not one of the usual ones; it is forwarded then, as others are.

use crate::arch::entry_direct;
use crate::function::Function;
use crate::heap::{self, Release};
use crate::hooks::{call, call_one};
use crate::lane::{self, Lane};
use crate::next;
use heapwire_format::{Family, flag};

/// This thread's lane, if no function outside helps its caller.
#[inline(always)]
fn lane(sp: usize) -> Option<&'static Lane> {
    // An entry comes here only when the next functions are known, and so we are relocated.
    lane::own().filter(|lane| !lane.helped.is_above(sp))
}

extern "C" fn new(size: usize, _unused: usize, pc: usize, sp: usize, flags: u8) -> usize {
    // One after the other, here and below: both at once take a register more.
    let Some(lane) = lane(sp) else { return 0 };
    let Some(real) = next::known(Function::Malloc) else {
        return 0;
    };
    // SAFETY: the libc's `malloc`, or another that stands in for it. C++ wants a block where `malloc` need not give one.
    let block = unsafe { call_one(real, size.max(1)) };
    match block {
        0 => 0,
        _ => heap::allocated_directly(lane, block, size, flags, pc),
    }
}

extern "C" fn calloc_hook(count: usize, each: usize, pc: usize, sp: usize, flags: u8) -> usize {
    let Some(lane) = lane(sp) else { return 0 };
    let Some(real) = next::known(Function::Calloc) else {
        return 0;
    };
    // SAFETY: the libc's `calloc`.
    let block = unsafe { call(real, [count, each, 0]) };
    match block {
        0 => 0,
        // There is a block of that size, so the product fits.
        _ => heap::allocated_directly(lane, block, count.wrapping_mul(each), flags, pc),
    }
}

/// Gives the `free` that is left to be called.
extern "C" fn delete(block: usize, size: usize, pc: usize, sp: usize, flags: u8) -> usize {
    let Some(lane) = lane(sp) else { return 0 };
    let Some(real) = next::known(Function::Free) else {
        return 0;
    };
    if block != 0 {
        let release = Release {
            block,
            size: size as u64,
            flags,
        };
        heap::released_directly(lane, release, pc);
    }
    real
}

macro_rules! entry_new {
    ($name:ident, $function:expr, $family:expr) => {
        entry_direct!(
            $name,
            $function,
            next::CALLS_OF_OPERATORS_COME_HERE,
            new,
            $family as u8 | flag::HELPED,
            "",
            "ret"
        );
    };
}

macro_rules! entry_delete {
    ($name:ident, $function:expr, $family:expr, $size:literal) => {
        entry_direct!(
            $name,
            $function,
            next::CALLS_OF_OPERATORS_COME_HERE,
            delete,
            $family as u8,
            $size,
            "jmp rax"
        );
    };
}

entry_direct!(
    calloc,
    Function::Calloc,
    next::CALLOC_CALLS_NOTHING,
    calloc_hook,
    Family::Malloc as u8,
    "",
    "ret"
);
entry_new!(_Znwm, Function::NewPlain, Family::New);
entry_new!(_Znam, Function::ArrayPlain, Family::NewArray);
entry_delete!(_ZdlPv, Function::DeletePlain, Family::New, "mov rsi, -1");
entry_delete!(_ZdlPvm, Function::DeleteSized, Family::New, "");
entry_delete!(
    _ZdaPv,
    Function::DeleteArray,
    Family::NewArray,
    "mov rsi, -1"
);
entry_delete!(_ZdaPvm, Function::DeleteArraySized, Family::NewArray, "");
