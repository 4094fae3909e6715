//! Finds the next definition of a function: the one the program would have called without us.
//!
//! Reads the dynamic linker's list of modules and their hash tables as they lie in memory, so that nothing is
//! imported (`dlsym` is missing from programs of old libcs that are not linked with libdl, and allocates in others) and
//! nothing is called before we are relocated. Each name is looked up once; only one that was not
//! there is looked for again, since C++'s run-time library can come with a plug-in.

use crate::arch;
use crate::auxiliary;
use crate::function::{COUNT, Function, Name};
use crate::{clock, sequence};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicUsize};

/// Addresses by function; 0 = not looked up, or not there.
static ADDRESSES: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];
/// Lengths of the functions' code, as the symbol tables give them.
static LENGTHS: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];

/// Not 0 if an operator of the program's own is called, or may be, where we are not.
static ARE_OPERATORS_REPLACED: AtomicUsize = AtomicUsize::new(0);

/// Not 0 if the next operators are those of C++'s library, and what they call is our `malloc` and our `free`.
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

/// Whether the next operators are not those of a C++ library: then nobody knows what they do with `malloc`.
fn are_operators_foreign(ours: usize) -> bool {
    const LIBRARIES: [&[u8]; 2] = [b"libstdc++", b"libc++"];
    let mut after = entries(ours).skip(1);
    let first = after.find(|(_, entry)| {
        Tables::of(entry).is_some_and(|tables| {
            OPERATORS
                .iter()
                .any(|one| tables.find(one.name()).is_some())
        })
    });
    let Some((_, entry)) = first else {
        return false;
    };
    let mut room = [0; 256];
    let path = copy_text(entry.name, &mut room).unwrap_or_default();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    !LIBRARIES.iter().any(|library| name.starts_with(library))
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

/// Where the code of the next definition ends, if its symbol says so.
pub(crate) fn end_of_code(function: Function, address: usize) -> usize {
    let length = LENGTHS
        .get(function as usize)
        .map_or(0, |length| length.load(Relaxed));
    address.wrapping_add(length)
}

/// Looks every function up. Idempotent: two threads that do it at once store the same.
pub(crate) fn look_up_all() {
    let Some(ours) = our_entry() else { return };
    for index in 0..COUNT {
        if let Some(function) = Function::at(index) {
            look_up(function, ours);
        }
    }
    let before = entries(first_entry()).take_while(|(at, _)| *at != ours);
    let replaced = before
        .filter_map(|(_, entry)| Tables::of(&entry))
        .any(|tables| {
            OPERATORS
                .iter()
                .any(|one| tables.find(one.name()).is_some())
        });
    let is_libcs = definer(Function::Realloc, ours) == definer(Function::GnuLibcVersion, ours);
    RESIZES_BY_NAME.store(usize::from(!is_libcs), Relaxed);
    let are_foreign = are_operators_foreign(ours);
    ARE_OPERATORS_REPLACED.store(usize::from(replaced || are_foreign), Relaxed);
    let are_ours = [Function::Malloc, Function::Free]
        .iter()
        .all(|one| first_with(first_entry(), one.name()) == Some(ours));
    let come_here = !replaced && !are_foreign && are_ours && known(Function::NewPlain).is_some();
    let after = entries(ours).nth(1).map_or(0, |(at, _)| at);
    let [malloc, calloc, gnu] = [Function::Malloc, Function::Calloc, Function::GnuLibcVersion]
        .map(|function| first_with(after, function.name()));
    let calls_nothing = malloc.is_some() && malloc == calloc && malloc == gnu;
    // Relaxed: whoever sees the one or the other looks the function up as well.
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
    let mut all = entries(first_entry());
    if let Some(found) = all.find_map(|(_, entry)| Tables::of(&entry)?.find(CLOCK)) {
        clock::use_kernels(found.address);
    }
    // Data: the definition that counts is the first of all, as an executable may hold the libc's variable.
    const SINGLE_THREADED: &Name = b"__libc_single_threaded\0";
    let mut all = entries(first_entry());
    if let Some(found) = all.find_map(|(_, entry)| Tables::of(&entry)?.find(SINGLE_THREADED)) {
        sequence::watch_threads(found.address);
    }
}

/// The next definition, looked up without remembering it: for calls that come before we are relocated.
pub(crate) fn find_now(function: Function) -> Option<usize> {
    next_definition(function.name(), our_entry()?).map(|found| found.address)
}

/// Path of the module that `malloc` is forwarded to, as the loader has it, copied into `room`.
pub(crate) fn allocator_path(room: &mut [u8]) -> Option<&[u8]> {
    let at = definer(Function::Malloc, our_entry()?)?;
    // SAFETY: an entry of the loader's list.
    let entry: Entry = unsafe { peek(at) };
    copy_text(entry.name, room)
}

/// Path of the module whose `malloc` is called in place of ours, as the loader has it, copied into `room`; empty = the
/// executable.
pub(crate) fn shadowing_path(room: &mut [u8]) -> Option<&[u8]> {
    let (own, name) = (arch::own_dynamic_section(), Function::Malloc.name());
    let mut before = entries(first_entry()).take_while(|(_, entry)| entry.dynamic != own);
    let (_, entry) = before
        .find(|(_, entry)| Tables::of(entry).is_some_and(|tables| tables.find(name).is_some()))?;
    copy_text(entry.name, room)
}

/// Version of the GNU libc, copied into `room`; `None` with another libc.
pub(crate) fn gnu_libc_version(room: &mut [u8]) -> Option<&[u8]> {
    let address = known(Function::GnuLibcVersion)?;
    // SAFETY: the function has this type, and gives a string that lives as long as the libc.
    let version: extern "C" fn() -> usize = unsafe { core::mem::transmute(address) };
    copy_text(version(), room)
}

fn copy_text(address: usize, room: &mut [u8]) -> Option<&[u8]> {
    if address == 0 {
        return None;
    }
    let mut length = 0;
    for (at, place) in room.iter_mut().enumerate() {
        // SAFETY: the callers pass zero-terminated strings of the loader or the libc; we stop at the end.
        let byte: u8 = unsafe { peek(address.wrapping_add(at)) };
        if byte == 0 {
            break;
        }
        *place = byte;
        length = at.wrapping_add(1);
    }
    room.get(..length)
}

/// Looks up a function that was not there before.
pub(crate) fn look_up_again(function: Function) -> Option<usize> {
    look_up(function, our_entry()?);
    known(function)
}

fn look_up(function: Function, ours: usize) {
    let index = function as usize;
    let (Some(address), Some(length)) = (ADDRESSES.get(index), LENGTHS.get(index)) else {
        return;
    };
    if let Some(found) = next_definition(function.name(), ours) {
        length.store(found.length, Relaxed); // published by the address
        address.store(found.address, Release); // pairs with `known`
    }
}

struct Found {
    address: usize,
    length: usize,
}

/// Reads a word-like value of the process's own loader data.
///
/// # Safety
///
/// `address` must be mapped, readable, and aligned for `T`; any bytes must be a valid `T`.
unsafe fn peek<T: Copy>(address: usize) -> T {
    // SAFETY: the caller vouches for the address.
    unsafe { core::ptr::with_exposed_provenance::<T>(address).read() }
}

/// The loader's entry of a module, `struct link_map` in <link.h>.
#[derive(Clone, Copy)]
#[repr(C)]
struct Entry {
    bias: usize,
    name: usize,
    dynamic: usize,
    next: usize,
    previous: usize,
}

/// Most modules that are looked at: the list is the loader's, but a loop in it must not be ours.
const MOST_MODULES: usize = 100_000;

fn entries(first: usize) -> impl Iterator<Item = (usize, Entry)> {
    let mut at = first;
    core::iter::from_fn(move || {
        if at == 0 {
            return None;
        }
        // SAFETY: the loader's list holds whole entries; an entry leaves it only when its module is unloaded,
        // which cannot happen before `main`, when all but a few look-ups are made.
        let entry: Entry = unsafe { peek(at) };
        let this = core::mem::replace(&mut at, entry.next);
        Some((this, entry))
    })
    .take(MOST_MODULES)
}

/// The head of the loader's list.
fn first_entry() -> usize {
    let debug = match arch::is_relocated().then(arch::loader_debug_list) {
        Some(list) if list != 0 => list,
        _ => auxiliary::debug_list().unwrap_or(0),
    };
    if debug == 0 {
        return 0;
    }
    // SAFETY: `struct r_debug` has its list in the second word (<link.h>).
    unsafe { peek(debug.wrapping_add(size_of::<usize>())) }
}

/// The first module of the list from `first` on that defines `name`.
fn first_with(first: usize, name: &Name) -> Option<usize> {
    let mut all = entries(first);
    let found = all.find(|(_, entry)| Tables::of(entry).is_some_and(|it| it.find(name).is_some()));
    found.map(|(at, _)| at)
}

/// The list from our own entry on.
fn our_entry() -> Option<usize> {
    let own = arch::own_dynamic_section();
    entries(first_entry())
        .find(|(_, entry)| entry.dynamic == own)
        .map(|(at, _)| at)
}

/// The entry of the module that holds the next definition.
fn definer(function: Function, ours: usize) -> Option<usize> {
    let is_there = |entry: &Entry| Tables::of(entry)?.find(function.name());
    entries(ours)
        .skip(1)
        .find(|(_, entry)| is_there(entry).is_some())
        .map(|(at, _)| at)
}

fn next_definition(name: &Name, ours: usize) -> Option<Found> {
    entries(ours)
        .skip(1)
        .find_map(|(_, entry)| Tables::of(&entry)?.find(name))
}

/// What the dynamic section of a module says of its symbols.
#[derive(Default)]
struct Tables {
    bias: usize,
    symbols: usize,
    strings: usize,
    gnu_hash: usize,
    hash: usize,
    versions: usize,
}

/// `Elf64_Sym` in <elf.h>.
#[cfg(target_pointer_width = "64")]
#[derive(Clone, Copy)]
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: usize,
}

/// `Elf32_Sym`.
#[cfg(target_pointer_width = "32")]
#[derive(Clone, Copy)]
#[repr(C)]
struct Symbol {
    name: u32,
    value: usize,
    size: usize,
    info: u8,
    other: u8,
    section: u16,
}

/// A word of the older hash table; wider on this machine than on all others.
#[cfg(target_arch = "s390x")]
type HashWord = u64;
#[cfg(not(target_arch = "s390x"))]
type HashWord = u32;

impl Tables {
    fn of(entry: &Entry) -> Option<Self> {
        const MOST_TAGS: usize = 1000;
        let mut tables = Self {
            bias: entry.bias,
            ..Self::default()
        };
        if entry.dynamic == 0 {
            return None;
        }
        for at in 0..MOST_TAGS {
            let place = entry
                .dynamic
                .wrapping_add(at.wrapping_mul(size_of::<[usize; 2]>()));
            // SAFETY: a dynamic section is an array of pairs that ends with a zero tag; we stop there.
            let [tag, value]: [usize; 2] = unsafe { peek(place) };
            // Some loaders relocate these in place, others leave them as in the file.
            let address = if value < entry.bias {
                value.wrapping_add(entry.bias)
            } else {
                value
            };
            match tag {
                0 => break,
                4 => tables.hash = address,
                5 => tables.strings = address,
                6 => tables.symbols = address,
                0x6FFF_FEF5 => tables.gnu_hash = address,
                0x6FFF_FFF0 => tables.versions = address,
                _ => {}
            }
        }
        (tables.symbols != 0 && tables.strings != 0).then_some(tables)
    }

    fn find(&self, name: &Name) -> Option<Found> {
        if self.gnu_hash != 0 {
            return self.find_gnu(name);
        }
        if self.hash != 0 {
            return self.find_sysv(name);
        }
        None
    }

    fn find_gnu(&self, name: &Name) -> Option<Found> {
        let hash = gnu_hash(name);
        // SAFETY: the table starts with four 32-bit words (the System V ABI's GNU extension).
        let [buckets, first, bloom_words, shift]: [u32; 4] = unsafe { peek(self.gnu_hash) };
        if buckets == 0 || bloom_words == 0 {
            return None;
        }
        let bloom = self.gnu_hash.wrapping_add(16);
        let in_bloom = hash.checked_div(usize::BITS)? & bloom_words.wrapping_sub(1);
        // SAFETY: the Bloom filter has `bloom_words` words, a power of two.
        let word: usize = unsafe { peek(place(bloom, in_bloom, size_of::<usize>())) };
        let bit = |hash: u32| 1usize.wrapping_shl(hash); // wraps at the width of the word
        let bits = bit(hash) | bit(hash.checked_shr(shift).unwrap_or(0));
        if word & bits != bits {
            return None;
        }
        let bucket = place(bloom, bloom_words, size_of::<usize>());
        let chain = place(bucket, buckets, 4);
        let bucket_at = place(bucket, hash.checked_rem(buckets)?, 4);
        // SAFETY: there are `buckets` buckets.
        let mut index: u32 = unsafe { peek(bucket_at) };
        let mut hidden = None;
        while index >= first {
            let at = place(chain, index.wrapping_sub(first), 4);
            // SAFETY: a chain ends with a word whose lowest bit is set; we stop there.
            let word: u32 = unsafe { peek(at) };
            if (word | 1) == (hash | 1)
                && let Some((found, is_hidden)) = self.symbol(index, name)
            {
                if !is_hidden {
                    return Some(found);
                }
                hidden = Some(found);
            }
            if word & 1 == 1 {
                break;
            }
            index = index.wrapping_add(1);
        }
        hidden
    }

    fn find_sysv(&self, name: &Name) -> Option<Found> {
        const WORD: usize = size_of::<HashWord>();
        let index_at = |at: usize| {
            // SAFETY: the callers pass places in the table.
            let word: HashWord = unsafe { peek(at) };
            narrow(word)
        };
        // The table starts with the numbers of buckets and chains (System V ABI); that many words follow.
        let (buckets, chains) = (index_at(self.hash), index_at(place(self.hash, 1, WORD)));
        let start = place(self.hash, 2, WORD);
        let bucket_at = place(start, sysv_hash(name).checked_rem(buckets)?, WORD);
        let mut index = index_at(bucket_at);
        let mut hidden = None;
        for _ in 0..chains {
            if index == 0 || index >= chains {
                break;
            }
            if let Some((found, is_hidden)) = self.symbol(index, name) {
                if !is_hidden {
                    return Some(found);
                }
                hidden = Some(found);
            }
            index = index_at(place(start, buckets.wrapping_add(index), WORD));
        }
        hidden
    }

    /// What symbol `index` defines if its name is `name`, and whether it is an old version of it.
    fn symbol(&self, index: u32, name: &Name) -> Option<(Found, bool)> {
        const DATA: u8 = 1;
        const FUNCTION: u8 = 2;
        const INDIRECT: u8 = 10;
        let at = place(self.symbols, index, size_of::<Symbol>());
        // SAFETY: the hash table names symbols that exist.
        let symbol: Symbol = unsafe { peek(at) };
        let kind = symbol.info & 15;
        if symbol.section == 0 || symbol.value == 0 || !matches!(kind, DATA | FUNCTION | INDIRECT) {
            return None;
        }
        let text = self.strings.wrapping_add(symbol.name as usize);
        if !is_text(text, name) {
            return None;
        }
        let mut address = symbol.value.wrapping_add(self.bias);
        if kind == INDIRECT {
            address = resolve_indirect(address);
        }
        Some((
            Found {
                address,
                length: symbol.size,
            },
            self.is_hidden(index),
        ))
    }

    fn is_hidden(&self, index: u32) -> bool {
        if self.versions == 0 {
            return false;
        }
        // SAFETY: there is one 16-bit version for each symbol.
        let version: u16 = unsafe { peek(place(self.versions, index, 2)) };
        version & 0x8000 != 0
    }
}

fn narrow(word: impl TryInto<u32>) -> u32 {
    word.try_into().unwrap_or(u32::MAX)
}

/// Address of entry `index` of a table of entries of `width` bytes.
fn place(table: usize, index: u32, width: usize) -> usize {
    table.wrapping_add((index as usize).wrapping_mul(width))
}

/// Whether the zero-terminated string at `address` is `name`.
fn is_text(address: usize, name: &Name) -> bool {
    for (at, expected) in name.iter().enumerate() {
        // SAFETY: a string table's strings end with a zero byte; we stop at the first difference, so at
        // that byte at the latest.
        let byte: u8 = unsafe { peek(address.wrapping_add(at)) };
        if byte != *expected {
            return false;
        }
        if byte == 0 {
            return true;
        }
    }
    false
}

/// Asks an indirect function's resolver which implementation it chooses.
fn resolve_indirect(resolver: usize) -> usize {
    // SAFETY: the symbol's type says that this is a resolver: a function without arguments that gives an
    // address. Its module was relocated before us, as we come before it in the search order.
    let resolver: extern "C" fn() -> usize = unsafe { core::mem::transmute(resolver) };
    resolver()
}

fn text_of(name: &Name) -> impl Iterator<Item = u32> {
    name.iter()
        .take_while(|byte| **byte != 0)
        .map(|byte| u32::from(*byte))
}

fn gnu_hash(name: &Name) -> u32 {
    text_of(name).fold(5381, |hash: u32, byte| {
        hash.wrapping_mul(33).wrapping_add(byte)
    })
}

fn sysv_hash(name: &Name) -> u32 {
    text_of(name).fold(0, |hash: u32, byte| {
        let hash = (hash << 4).wrapping_add(byte);
        let high = hash & 0xF000_0000;
        (hash ^ high >> 24) & !high
    })
}
