//! Operators of C++ and `calloc`, where it is known what the real function does: it calls `malloc` or `free`, or is one with them.
//! Then nothing has to be noted for a hook inside.
//!
//! Where a call is not one of the usual ones it is forwarded, as others are.

use crate::arch::{entry_allocate, entry_release};
use crate::function::Function;
use crate::heap::{self, Release};
use crate::{lane, next};
use heapwire_format::{Family, flag};

extern "C" fn allocated(block: usize, size: usize, pc: usize, flags: u8) -> usize {
    match lane::own() {
        Some(lane) => heap::allocated_directly(lane, block, size, flags, pc),
        None => block, // the entry has seen to it that there is one
    }
}

/// Gives the `free` that is left to be called; 0 where the call is not a usual one.
extern "C" fn delete(block: usize, size: usize, pc: usize, sp: usize, flags: u8) -> usize {
    // An entry comes here only when the next functions are known, and so we are relocated.
    let Some(lane) = lane::own().filter(|lane| !lane.helped.is_above(sp)) else {
        return 0;
    };
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
        entry_allocate!(
            $name,
            $function,
            next::CALLS_OF_OPERATORS_COME_HERE,
            Function::Malloc,
            "cmp rdi, 1\n adc rdi, 0", // C++ wants a block where `malloc` need not give one
            "mov rsi, rdi",
            $family as u8 | flag::HELPED,
            allocated
        );
    };
}

macro_rules! entry_delete {
    ($name:ident, $function:expr, $family:expr, $size:literal) => {
        entry_release!(
            $name,
            $function,
            next::CALLS_OF_OPERATORS_COME_HERE,
            delete,
            $family as u8,
            $size
        );
    };
}

entry_allocate!(
    calloc,
    Function::Calloc,
    next::CALLOC_CALLS_NOTHING,
    Function::Calloc,
    "",
    "imul rsi, rdi", // there is a block of that size, so the product fits
    Family::Malloc as u8,
    allocated
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
