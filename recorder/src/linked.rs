//! The real functions of a program that we are part of: the linker has said where they are.
//!
//! It is told `--wrap=NAME` for each: whoever calls NAME comes to our `__wrap_NAME`, and what would have been called is `__real_NAME`.
//! One that nothing defines is 0. So that there is one where only our weak reference is left of a call, the linker is told `--undefined=NAME` too.

use crate::function::{COUNT, Function, each_function};
use crate::loader::{Found, Module};
use crate::next::{self, OPERATORS, Rules};
use crate::{auxiliary, clock, loader, sequence};

#[cfg(target_pointer_width = "64")]
macro_rules! word {
    ($name:expr) => {
        concat!(".weak ", $name, "\n.8byte ", $name)
    };
}
#[cfg(target_pointer_width = "32")]
macro_rules! word {
    ($name:expr) => {
        concat!(".weak ", $name, "\n.4byte ", $name)
    };
}

macro_rules! table {
    ($($variant:ident $text:expr, $role:expr;)*) => {
        core::arch::global_asm!(
            ".pushsection .data.rel.ro.heapwire,\"aw\"",
            ".balign 8",
            ".globl heapwire_real",
            ".hidden heapwire_real",
            "heapwire_real:",
            $(word!(concat!("__real_", $text)),)*
            // Not wrapped.
            word!("secure_getenv"),
            word!("gnu_get_libc_version"),
            word!("__libc_malloc"),
            word!("__libc_calloc"),
            word!("__libc_realloc"),
            word!("__libc_single_threaded"),
            word!("__libc_message"),
            word!("__libc_message_impl"),
            ".popsection",
        );
    };
}

each_function!(table);

// How a program is known that has the recorder inside, without its symbols: a note of this owner.
core::arch::global_asm!(
    ".pushsection .note.heapwire,\"a\",%note",
    ".balign 4",
    ".4byte 9, 2f - 1f, 1",
    ".asciz \"heapwire\"",
    ".balign 4",
    concat!("1: .asciz \"", env!("CARGO_PKG_VERSION"), "\""),
    "2: .balign 4",
    ".popsection",
);

/// See the table.
#[repr(C)]
struct Real {
    functions: [usize; COUNT],
    getenv: usize,
    gnu_libc_version: usize,
    gnu_malloc: usize,
    gnu_calloc: usize,
    gnu_realloc: usize,
    is_single_threaded: usize,
    messages: [usize; 2],
}

unsafe extern "C" {
    static heapwire_real: Real;
}

fn real() -> &'static Real {
    // SAFETY: the table above, which nothing changes once the program is relocated.
    unsafe { &*(&raw const heapwire_real) }
}

/// Bytes of an operator's code: symbols that say it are not there any more. Enough for a call of `malloc` and a loop around it.
const OPERATORS_CODE: usize = 256;

/// The function that is called in place of ours.
pub(crate) fn find_now(function: Function) -> Option<usize> {
    let address = match function {
        Function::Getenv => real().getenv,
        Function::GnuLibcVersion => real().gnu_libc_version,
        _ => *real().functions.get(function as usize)?,
    };
    (address != 0).then_some(address)
}

/// Whether a call of `abort` that returns to `pc` is the GNU libc's, about a heap or a stack that is damaged: where it is another module than
/// the program, nobody sees that call.
pub(crate) fn is_by_libc(pc: usize) -> bool {
    const CODE: usize = 1024;
    let messages = real().messages.into_iter();
    messages
        .filter(|start| *start != 0)
        .any(|start| (start..start.wrapping_add(CODE)).contains(&pc))
}

/// Takes all over. Idempotent: two threads that do it at once store the same.
pub(crate) fn look_up_all() {
    let real = real();
    let is = |function, address| address != 0 && find_now(function) == Some(address);
    let is_gnu = real.gnu_libc_version != 0 && is(Function::Malloc, real.gnu_malloc);
    // The linker lays out what it is given in this order: the program's objects, ours, libraries.
    let ours = look_up_all as *const () as usize;
    let is_replaced = |function: &Function| find_now(*function).is_some_and(|it| it < ours);
    let are_operators_replaced = OPERATORS.iter().any(is_replaced);
    next::follow(Rules {
        resizes_by_name: !is_gnu || !is(Function::Realloc, real.gnu_realloc),
        are_operators_replaced,
        calls_of_operators_come_here: is_gnu
            && !are_operators_replaced
            && find_now(Function::NewPlain).is_some(),
        calloc_calls_nothing: is_gnu && is(Function::Calloc, real.gnu_calloc),
    });
    next::remember(|function| {
        Some(Found {
            address: find_now(function)?,
            length: OPERATORS_CODE,
        })
    });
    if let Some(kernels) = auxiliary::value(libc::AT_SYSINFO_EHDR).and_then(Module::mapped_at)
        && let Some(found) = kernels.find(clock::KERNELS_NAME)
    {
        clock::use_kernels(found.address);
    }
    if real.is_single_threaded != 0 {
        sequence::watch_threads(real.is_single_threaded);
    }
    loader::check_copies(true);
}
