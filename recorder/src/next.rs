//! The next definition of each function: the one the program would have called without us.
//!
//! `loaded` finds them where a dynamic linker has loaded us, `linked` where we are part of the program.

#[cfg(heapwire_static)]
pub(crate) use crate::linked::{find_now, look_up_all};
#[cfg(not(any(heapwire_static, test)))]
pub(crate) use crate::loaded::find_now;
#[cfg(not(heapwire_static))]
pub(crate) use crate::loaded::look_up_all;

use crate::function::{COUNT, Function, Name};
use crate::loader::{self, Found};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicUsize};

/// Addresses by function; 0 = not looked up, or not there.
pub(crate) static ADDRESSES: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];
/// Lengths of the functions' code, as the symbol tables give them.
static LENGTHS: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];

/// Not 0 if an operator of the program's own is called, or may be, where we are not.
static ARE_OPERATORS_REPLACED: AtomicUsize = AtomicUsize::new(0);

/// Not 0 if the next operators are those of C++'s library, what they call is our `malloc` and our `free`, and what these call the GNU
/// libc's.
pub(crate) static CALLS_OF_OPERATORS_COME_HERE: AtomicU32 = AtomicU32::new(0);

/// Not 0 if the next `calloc` is the GNU libc's, with its `malloc`: it calls none of what we stand in for.
pub(crate) static CALLOC_CALLS_NOTHING: AtomicU32 = AtomicU32::new(0);

/// C++'s replaceable operators, as far as one of them is always among those that a program replaces.
pub(crate) const OPERATORS: [Function; 4] = [
    Function::NewPlain,
    Function::ArrayPlain,
    Function::DeletePlain,
    Function::DeleteArray,
];

/// Says that there are operators that are not those of C++'s library.
pub(crate) fn operators_are_replaced() {
    ARE_OPERATORS_REPLACED.store(1, Relaxed);
}

/// Whether the program has operators of its own, beside which some of ours are called.
pub(crate) fn are_operators_replaced() -> bool {
    ARE_OPERATORS_REPLACED.load(Relaxed) != 0 // stored before any hook knows where to forward to
}

/// Not 0 if the next `realloc` may call the next `malloc` and `free` by their names, that is to say, through us.
static RESIZES_BY_NAME: AtomicUsize = AtomicUsize::new(0);

/// Whether `realloc` may call `malloc` and `free` through us. The GNU libc's own does not.
pub(crate) fn resizes_by_name() -> bool {
    RESIZES_BY_NAME.load(Relaxed) != 0 // stored before any hook knows where to forward to
}

/// The address of the next definition if it is known already.
#[inline]
pub(crate) fn known(function: Function) -> Option<usize> {
    let address = ADDRESSES.get(function as usize)?.load(Acquire); // pairs with `look_up`
    (address != 0).then_some(address)
}

/// The same with the length of its code.
pub(crate) fn found(function: Function) -> Option<Found> {
    let address = known(function)?;
    let length = LENGTHS.get(function as usize)?.load(Relaxed); // published by the address
    Some(Found { address, length })
}

/// What is known of how the next functions call each other.
pub(crate) struct Rules {
    pub(crate) resizes_by_name: bool,
    pub(crate) are_operators_replaced: bool,
    pub(crate) calls_of_operators_come_here: bool,
    pub(crate) calloc_calls_nothing: bool,
}

/// Has hooks keep to `rules`; before they know where to forward to.
pub(crate) fn follow(rules: Rules) {
    // Relaxed: whoever sees one of these looks the functions up as well.
    RESIZES_BY_NAME.store(usize::from(rules.resizes_by_name), Relaxed);
    ARE_OPERATORS_REPLACED.store(usize::from(rules.are_operators_replaced), Relaxed);
    CALLS_OF_OPERATORS_COME_HERE.store(u32::from(rules.calls_of_operators_come_here), Relaxed);
    CALLOC_CALLS_NOTHING.store(u32::from(rules.calloc_calls_nothing), Relaxed);
}

/// Remembers what `find` gives for each function of which nothing is known yet.
pub(crate) fn remember(mut find: impl FnMut(Function) -> Option<Found>) {
    for (index, (address, length)) in ADDRESSES.iter().zip(&LENGTHS).enumerate() {
        if address.load(Relaxed) == 0
            && let Some(found) = Function::at(index).and_then(&mut find)
        {
            length.store(found.length, Relaxed); // published by the address
            address.store(found.address, Release); // pairs with `known`
        }
    }
}

/// Value of an environment variable as the program has it now, copied into `room`; empty = it has none, or none that counts.
pub(crate) fn variable<'r>(name: &Name, room: &'r mut [u8]) -> &'r [u8] {
    let Some(address) = known(Function::Getenv) else {
        return &[];
    };
    // SAFETY: the function has this type, and the program may call it where it calls us.
    let value: extern "C" fn(*const u8) -> usize = unsafe { core::mem::transmute(address) };
    loader::copy_text(value(name.as_ptr()), room).unwrap_or_default()
}

/// Version of the GNU libc, copied into `room`; `None` with another libc.
pub(crate) fn gnu_libc_version(room: &mut [u8]) -> Option<&[u8]> {
    let address = known(Function::GnuLibcVersion)?;
    // SAFETY: the function has this type, and gives a string that lives as long as the libc.
    let version: extern "C" fn() -> usize = unsafe { core::mem::transmute(address) };
    loader::copy_text(version(), room)
}
