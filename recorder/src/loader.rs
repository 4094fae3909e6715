//! The dynamic linker's list of modules and their symbols, as they lie in memory.
//!
//! Nothing is imported for it (`dlsym` is missing from programs of old libcs that are not linked with libdl, and allocates in
//! others), and nothing is called before we are relocated. Until the program runs the list only grows, and is read as it is. Later
//! any of its modules can be unloaded while we look, so it is read by copies that fail where memory is gone.

#[cfg(heapwire_static)]
use crate::elf;
use crate::function::Name;
use crate::sys::{self, Errno};
#[cfg(not(heapwire_static))]
use crate::{arch, auxiliary};
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// Not 0 if modules can go away, and system calls can be made.
static ARE_COPIES_CHECKED: AtomicU32 = AtomicU32::new(0);

/// From now on modules can go away while we look at them (`yes`), or no system call may be made any more.
pub(crate) fn check_copies(yes: bool) {
    ARE_COPIES_CHECKED.store(u32::from(yes), Relaxed); // publishes nothing
}

/// Reads a word-like value of the loader's data; `None` where no memory is.
///
/// # Safety
///
/// Any bytes must be a valid `T`. `address` comes from the loader's data, so that there was memory at least.
unsafe fn peek<T: Copy>(address: usize) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    let is_there = copy(address, value.as_mut_ptr().cast(), size_of::<T>());
    // SAFETY: all bytes were written, and the caller vouches for them.
    is_there.then(|| unsafe { value.assume_init() })
}

/// Two words at an address of which nobody knows whether memory is there.
pub(crate) fn probe(address: usize) -> Option<[usize; 2]> {
    let mut words = [0; 2];
    let length = size_of_val(&words);
    let copied = sys::copy_own_bytes(address, words.as_mut_ptr().cast(), length);
    (copied == Ok(length)).then_some(words)
}

fn are_copies_checked() -> bool {
    ARE_COPIES_CHECKED.load(Relaxed) != 0
}

#[inline(never)]
fn copy(from: usize, to: *mut u8, length: usize) -> bool {
    if are_copies_checked() {
        match sys::copy_own_bytes(from, to, length) {
            Ok(copied) => return copied == length,
            Err(Errno::FAULT) => return false,
            Err(_) => {} // not allowed in this process
        }
    }
    let from = core::ptr::with_exposed_provenance::<u8>(from);
    // SAFETY: `peek` passes a place of its own for `length` bytes, and its callers addresses of the loader's data.
    unsafe { core::ptr::copy_nonoverlapping(from, to, length) };
    true
}

/// The zero-terminated text at `address`, as far as `room` holds it.
pub(crate) fn copy_text(address: usize, room: &mut [u8]) -> Option<&[u8]> {
    const WORD: usize = size_of::<usize>();
    if address == 0 {
        return None;
    }
    let (mut at, mut skip) = (address & !(WORD - 1), address & (WORD - 1));
    let mut length = 0;
    loop {
        // SAFETY: an aligned word lies in one page with the byte of the text that is in it; we stop at the end.
        let word: [u8; WORD] = unsafe { peek(at) }?;
        for byte in word.iter().skip(skip) {
            let place = room.get_mut(length).filter(|_| *byte != 0);
            let Some(place) = place else {
                return room.get(..length);
            };
            *place = *byte;
            length = length.wrapping_add(1);
        }
        at = at.wrapping_add(WORD);
        skip = 0;
    }
}

/// The last part of the path at `address`.
#[inline(never)]
pub(crate) fn base_name(address: usize, room: &mut [u8]) -> Option<&[u8]> {
    copy_text(address, room)?
        .rsplit(|byte| *byte == b'/')
        .next()
}

/// A module in the loader's list: the public part of `struct link_map` in <link.h>.
#[derive(Clone, Copy, Default)]
pub(crate) struct Module {
    /// Address of the loader's entry.
    pub(crate) at: usize,
    bias: usize,
    /// Address of its path; an empty one is the executable's.
    pub(crate) path: usize,
    /// Address of its dynamic section.
    pub(crate) dynamic: usize,
    next: usize,
}

/// The modules from one on, in the order in which they were loaded.
pub(crate) struct Modules {
    next: usize,
    left: u32,
}

impl Modules {
    /// From the loader's entry at `first` on.
    pub(crate) fn from(first: usize) -> Self {
        /// The list is the loader's, but a loop in it must not be ours.
        const MOST: u32 = 100_000;
        Self {
            next: first,
            left: MOST,
        }
    }

    /// All.
    pub(crate) fn all() -> Self {
        Self::from(first_entry())
    }

    /// Those behind `module`.
    pub(crate) fn after(module: &Module) -> Self {
        Self::from(module.next)
    }

    /// The first that defines `name`, and what it defines.
    #[inline(never)]
    pub(crate) fn first_with(mut self, name: &Name) -> Option<(Module, Found)> {
        self.find_map(|module| Some((module, module.find(name)?)))
    }
}

impl Iterator for Modules {
    type Item = Module;

    #[inline(never)]
    fn next(&mut self) -> Option<Module> {
        self.left = self.left.checked_sub(1)?;
        let at = self.next;
        if at == 0 {
            return None;
        }
        // SAFETY: an entry begins with words.
        let [bias, path, dynamic, next]: [usize; 4] = unsafe { peek(at) }?;
        self.next = next;
        Some(Module {
            at,
            bias,
            path,
            dynamic,
            next,
        })
    }
}

/// The loader's first entry.
fn first_entry() -> usize {
    #[cfg(heapwire_static)]
    return 0;
    #[cfg(not(heapwire_static))]
    loaders_first_entry()
}

#[cfg(not(heapwire_static))]
fn loaders_first_entry() -> usize {
    let debug = match arch::is_relocated().then(arch::loader_debug_list) {
        Some(list) if list != 0 => list,
        _ => auxiliary::debug_list().unwrap_or(0),
    };
    if debug == 0 {
        return 0;
    }
    // SAFETY: `struct r_debug` has its list in the second word (<link.h>).
    unsafe { peek(debug.wrapping_add(size_of::<usize>())) }.unwrap_or(0)
}

impl Module {
    /// The module whose header is mapped at `address`, which no list has to name.
    #[cfg(heapwire_static)]
    pub(crate) fn mapped_at(address: usize) -> Option<Self> {
        let header = elf::Header::read(address)?;
        Some(Self {
            bias: header.load_bias,
            dynamic: header.load_bias.wrapping_add(header.dynamic),
            ..Self::default()
        })
    }

    /// What it defines by that name.
    pub(crate) fn find(&self, name: &Name) -> Option<Found> {
        Tables::of(self)?.find(name)
    }

    /// Tags and values of its dynamic section.
    fn tags(&self) -> Tags {
        Tags {
            at: self.dynamic,
            held: [[0; 2]; MANY],
            left: 0,
        }
    }

    /// Calls `visit` with the last part of the name of each library that it asks for, until that gives true; gives that.
    #[inline(never)]
    pub(crate) fn needs(&self, visit: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        const NEEDED: usize = 1;
        let strings = Tables::of(self).map_or(0, |tables| tables.strings);
        for [tag, offset] in self.tags() {
            if tag == NEEDED
                && base_name(strings.wrapping_add(offset), &mut [0; 256]).is_some_and(&mut *visit)
            {
                return true;
            }
        }
        false
    }
}

/// Entries of a dynamic section that are read at once where that can do no harm.
const MANY: usize = 16;

/// The entries of a dynamic section, up to its end.
struct Tags {
    at: usize,
    held: [[usize; 2]; MANY],
    /// How many of `held`, at its end, are still to come.
    left: usize,
}

impl Iterator for Tags {
    type Item = [usize; 2];

    #[inline(never)]
    fn next(&mut self) -> Option<[usize; 2]> {
        const SIZE: usize = size_of::<[usize; 2]>();
        if self.left == 0 {
            let place = self.held.as_mut_ptr().cast();
            let many = are_copies_checked()
                && sys::copy_own_bytes(self.at, place, SIZE * MANY) == Ok(SIZE * MANY);
            self.left = if many { MANY } else { 1 };
            if !many {
                // SAFETY: two words.
                *self.held.last_mut()? = unsafe { peek(self.at) }?;
            }
            self.at = self.at.wrapping_add(SIZE.wrapping_mul(self.left));
        }
        let entry = *self.held.get(MANY.wrapping_sub(self.left))?;
        self.left = self.left.wrapping_sub(1);
        (entry[0] != 0).then_some(entry)
    }
}

/// A definition.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) address: usize,
    /// Bytes of code, if the symbol says so.
    pub(crate) length: usize,
}

/// What the dynamic section of a module says of its symbols.
#[derive(Default)]
pub(crate) struct Tables {
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

/// Bytes of a word of the older hash table, which on one machine is wider than on all others.
const HASH_WORD: usize = if cfg!(target_arch = "s390x") { 8 } else { 4 };

impl Tables {
    #[inline(never)]
    pub(crate) fn of(module: &Module) -> Option<Self> {
        let mut tables = Self {
            bias: module.bias,
            ..Self::default()
        };
        if module.dynamic == 0 {
            return None;
        }
        for [tag, value] in module.tags() {
            let place = match tag {
                4 => &mut tables.hash,
                5 => &mut tables.strings,
                6 => &mut tables.symbols,
                0x6FFF_FEF5 => &mut tables.gnu_hash,
                0x6FFF_FFF0 => &mut tables.versions,
                _ => continue,
            };
            // Some loaders relocate these in place, others leave them as in the file.
            *place = if value < module.bias {
                value.wrapping_add(module.bias)
            } else {
                value
            };
        }
        (tables.symbols != 0 && tables.strings != 0).then_some(tables)
    }

    pub(crate) fn find(&self, name: &Name) -> Option<Found> {
        // The GNU table's filter would say sooner that there is none, and takes as long to ask.
        let is_gnu = self.gnu_hash != 0;
        let table = if is_gnu { self.gnu_hash } else { self.hash };
        if table == 0 {
            return None;
        }
        let width = if is_gnu { 4 } else { HASH_WORD };
        let index_at = |table, index| {
            // The low half of a wide word, on a machine that has that half last.
            let at = place(table, index, width).wrapping_add(width.wrapping_sub(4));
            // SAFETY: the tables consist of such words, and the places below are in them.
            unsafe { peek::<u32>(at) }
        };
        // Both start with the number of buckets. The GNU one goes on with the first symbol that it has, the size of a filter and
        // something about that (the System V ABI's GNU extension); the other with the number of chains (System V ABI).
        let buckets = index_at(table, 0)?;
        let (hash, first, start) = if is_gnu {
            let filter = table.wrapping_add(16);
            let start = place(filter, index_at(table, 2)?, size_of::<usize>());
            (gnu_hash(name), index_at(table, 1)?.max(1), start)
        } else {
            (sysv_hash(name), 1, place(table, 2, width))
        };
        let mut chain = place(start, buckets, width);
        if is_gnu {
            chain = chain.wrapping_sub(place(0, first, 4)); // there the chains begin with that symbol
        }
        let mut index = index_at(start, hash.checked_rem(buckets)?)?;
        let mut best = None;
        while index >= first {
            if let Some((found, is_hidden)) = self.symbol(index, name) {
                best = Some(found);
                if !is_hidden {
                    break;
                }
            }
            let word = index_at(chain, index)?;
            index = match (is_gnu, word & 1) {
                (false, _) => word,
                (true, 0) => index.wrapping_add(1),
                (true, _) => 0, // the chain's last
            };
        }
        best
    }

    /// What symbol `index` defines if its name is `name`, and whether it is an old version of it.
    fn symbol(&self, index: u32, name: &Name) -> Option<(Found, bool)> {
        const DATA: u8 = 1;
        const FUNCTION: u8 = 2;
        const INDIRECT: u8 = 10;
        let at = place(self.symbols, index, size_of::<Symbol>());
        // SAFETY: the hash table names symbols that exist.
        let symbol: Symbol = unsafe { peek(at) }?;
        let kind = symbol.info & 15;
        if symbol.section == 0 || symbol.value == 0 || !matches!(kind, DATA | FUNCTION | INDIRECT) {
            return None;
        }
        let text = self.strings.wrapping_add(symbol.name as usize);
        let mut room = [0; LONGEST_NAME];
        if !name
            .strip_prefix(copy_text(text, &mut room)?)?
            .starts_with(b"\0")
        {
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
        let version = unsafe { peek::<u16>(place(self.versions, index, 2)) };
        version.is_some_and(|version| version & 0x8000 != 0)
    }
}

/// More than any name has that is looked for.
const LONGEST_NAME: usize = 40;

/// Address of entry `index` of a table of entries of `width` bytes.
fn place(table: usize, index: u32, width: usize) -> usize {
    table.wrapping_add((index as usize).wrapping_mul(width))
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
