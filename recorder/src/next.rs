//! The next definition of each function: the one the program would have called without us.
//!
//! All are looked up once, when the program begins. Those of them that no module defines then can come with a plug-in:
//! see `late`.

use crate::arch;
use crate::function::{COUNT, Function, Name};
use crate::loader::{self, Found, Module, Modules, Tables};
use crate::{clock, sequence};
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
const OPERATORS: [Function; 4] = [
    Function::NewPlain,
    Function::ArrayPlain,
    Function::DeletePlain,
    Function::DeleteArray,
];

/// Whether a module is C++'s library.
pub(crate) fn is_cxx_library(module: &Module) -> bool {
    let mut room = [0; 256];
    let name = loader::base_name(module.path, &mut room).unwrap_or_default();
    name.starts_with(b"libstdc++") || name.starts_with(b"libc++")
}

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

/// The loader's entry of the last of the modules that were there when functions were looked up.
static LAST_OF_FIRST: AtomicUsize = AtomicUsize::new(0);

/// The modules that came after those that the program began with, which stay as long as it does.
pub(crate) fn later_modules() -> Modules {
    let last = Modules::from(LAST_OF_FIRST.load(Relaxed)).next();
    Modules::after(&last.unwrap_or_default())
}

/// Looks every function up. Idempotent: two threads that do it at once store the same.
pub(crate) fn look_up_all() {
    let Some(ours) = our_module() else { return };
    for module in Modules::after(&ours) {
        look_up_in(&module);
        LAST_OF_FIRST.store(module.at, Relaxed); // of an entry that never goes away
    }
    let first = |name| Modules::all().first_with(name).map(|(module, _)| module);
    let after = |function: Function| {
        let found = Modules::after(&ours).first_with(function.name());
        found.map(|(module, _)| module)
    };
    let is_ours = |function: &Function| first(function.name()).is_some_and(|it| it.at == ours.at);
    // Where the next operators are not those of a C++ library nobody knows what they do with `malloc`.
    let is_replaced = |function: &Function| {
        !is_ours(function) || after(*function).is_some_and(|it| !is_cxx_library(&it))
    };
    let are_replaced = OPERATORS.iter().any(is_replaced);
    let are_ours = [Function::Malloc, Function::Free].iter().all(is_ours);
    let [malloc, calloc, realloc, gnu] = [
        Function::Malloc,
        Function::Calloc,
        Function::Realloc,
        Function::GnuLibcVersion,
    ]
    .map(|function| after(function).map(|module| module.at));
    let is_gnu = malloc.is_some() && malloc == gnu;
    let calls_nothing = is_gnu && malloc == calloc;
    // Where `malloc` gives nothing the operator calls it again, which others may count.
    let come_here = !are_replaced && are_ours && is_gnu && known(Function::NewPlain).is_some();
    // Relaxed: whoever sees one of these looks the function up as well.
    RESIZES_BY_NAME.store(usize::from(realloc != gnu), Relaxed);
    ARE_OPERATORS_REPLACED.store(usize::from(are_replaced), Relaxed);
    CALLS_OF_OPERATORS_COME_HERE.store(u32::from(come_here), Relaxed);
    CALLOC_CALLS_NOTHING.store(u32::from(calls_nothing), Relaxed);
    // The kernel's own, in the library that it maps into every process: the program may have a `clock_gettime` of its
    // own, which must not be called from inside `malloc`.
    const CLOCK: &Name = if cfg!(any(
        target_arch = "aarch64",
        target_arch = "powerpc",
        target_arch = "s390x"
    )) {
        b"__kernel_clock_gettime\0"
    } else {
        b"__vdso_clock_gettime\0"
    };
    if let Some((_, found)) = Modules::all().first_with(CLOCK) {
        clock::use_kernels(found.address);
    }
    // Data: the definition that counts is the first of all, as an executable may hold the libc's variable.
    if let Some((_, found)) = Modules::all().first_with(b"__libc_single_threaded\0") {
        sequence::watch_threads(found.address);
    }
    loader::check_copies(true);
}

/// Remembers what a module defines, unless one before it did.
fn look_up_in(module: &Module) {
    let Some(tables) = Tables::of(module) else {
        return;
    };
    for (index, (address, length)) in ADDRESSES.iter().zip(&LENGTHS).enumerate() {
        if address.load(Relaxed) == 0
            && let Some(found) = Function::at(index).and_then(|it| tables.find(it.name()))
        {
            length.store(found.length, Relaxed); // published by the address
            address.store(found.address, Release); // pairs with `known`
        }
    }
}

/// The next definition, looked up without remembering it: for calls that come before we are relocated.
pub(crate) fn find_now(function: Function) -> Option<usize> {
    let (_, found) = Modules::after(&our_module()?).first_with(function.name())?;
    Some(found.address)
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

/// Path of the module that `malloc` is forwarded to, as the loader has it, copied into `room`.
pub(crate) fn allocator_path(room: &mut [u8]) -> Option<&[u8]> {
    let (module, _) = Modules::after(&our_module()?).first_with(Function::Malloc.name())?;
    loader::copy_text(module.path, room)
}

/// What an allocator always has, though a program may define only some of it.
const FAMILY: [Function; 7] = [
    Function::Malloc,
    Function::Free,
    Function::Calloc,
    Function::Realloc,
    Function::Memalign,
    Function::AlignedAlloc,
    Function::PosixMemalign,
];

/// The first of the allocator's functions of which another than ours is called, and the path of the module that has it, as the loader
/// has it, copied into `room`; empty = the executable.
pub(crate) fn shadowing(room: &mut [u8]) -> Option<(Function, &[u8])> {
    let own = arch::own_dynamic_section();
    let other = |function: Function| {
        let (module, _) = Modules::all().first_with(function.name())?;
        (module.dynamic != own).then_some((function, module.path))
    };
    let (function, path) = FAMILY.into_iter().find_map(other)?;
    Some((function, loader::copy_text(path, room)?))
}

/// Version of the GNU libc, copied into `room`; `None` with another libc.
pub(crate) fn gnu_libc_version(room: &mut [u8]) -> Option<&[u8]> {
    let address = known(Function::GnuLibcVersion)?;
    // SAFETY: the function has this type, and gives a string that lives as long as the libc.
    let version: extern "C" fn() -> usize = unsafe { core::mem::transmute(address) };
    loader::copy_text(version(), room)
}

/// Our own library.
fn our_module() -> Option<Module> {
    let own = arch::own_dynamic_section();
    Modules::all().find(|module| module.dynamic == own)
}
