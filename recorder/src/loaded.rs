//! The next definition of each function in a program that a dynamic linker has loaded us into: looked up once, when the program begins.
//!
//! Those that no module defines then can come with a plug-in: see `late`.
#![forbid(unsafe_code)]

use crate::arch;
use crate::function::Function;
use crate::loader::{self, Module, Modules, Tables};
use crate::next::{self, OPERATORS, Rules, known};
use crate::{clock, sequence};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// Whether a module is C++'s library.
pub(crate) fn is_cxx_library(module: &Module) -> bool {
    let mut room = [0; 256];
    let name = loader::base_name(module.path, &mut room).unwrap_or_default();
    name.starts_with(b"libstdc++") || name.starts_with(b"libc++")
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
    next::follow(Rules {
        resizes_by_name: realloc != gnu,
        are_operators_replaced: are_replaced,
        calls_of_operators_come_here: come_here,
        calloc_calls_nothing: calls_nothing,
    });
    if let Some((_, found)) = Modules::all().first_with(clock::KERNELS_NAME) {
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
    next::remember(|function| tables.find(function.name()));
}

/// The next definition, looked up without remembering it: for calls that come before we are relocated.
pub(crate) fn find_now(function: Function) -> Option<usize> {
    let (_, found) = Modules::after(&our_module()?).first_with(function.name())?;
    Some(found.address)
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

/// Our own library.
fn our_module() -> Option<Module> {
    let own = arch::own_dynamic_section();
    Modules::all().find(|module| module.dynamic == own)
}
