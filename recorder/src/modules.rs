//! Which module a return address lies in.
//!
//! The table is filled from `/proc/self/maps` when an address is in none of its ranges: no lock of the loader is ever
//! taken, so nothing can deadlock against `dlopen` in another thread or below a signal handler. Readers never wait:
//! a reader that meets a change gives up, and the record says "module unknown", which the analyzer resolves by range.

use crate::config::CONFIG;
use crate::event::Event;
use crate::lane::Lane;
use crate::maps::{self, Module};
use crate::sync::Wide;
use crate::text::Text;
use crate::turn::Gate;
use crate::{elf, image, sys};
use core::cell::UnsafeCell;
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicUsize, fence};
use heapwire_format::Op;

/// Most modules that are known at one time; the rest have no module base.
const MOST: usize = 2048;
/// Calls from memory of no module that are believed without looking again.
const TRUSTED_CALLS: u32 = 1024;
/// How often a module is looked for that others take out at the same time.
const TRIES: usize = 8;
const SCRATCH: usize = 20 * 1024;
/// In the paths of modules that libc unloads when it likes to, and tells nobody: another may be there at any time, so their few calls
/// have no module.
const CONVERTERS: &[u8] = b"/gconv/";
/// Look-ups that a thread remembers; a power of two.
const CACHES: usize = 8;
/// Addresses that differ in the bits above these are remembered apart: most modules are about this large.
const CACHED_BITS: usize = 20;

/// One known module.
struct Known {
    start: AtomicUsize,
    end: AtomicUsize,
    identity: AtomicUsize,
    /// Number of its declaration.
    since: Wide,
    /// Number of the path in a log; 0 = none.
    path: AtomicU32,
    /// Not 0 if it was there when the program image began: it is never unloaded.
    is_permanent: AtomicU32,
    /// Mark and sweep of a refill.
    is_there: AtomicU32,
}

/// The modules of the process image, sorted by start. All zero is a valid, empty table.
pub(crate) struct Table {
    /// Odd while the table changes.
    version: AtomicU32,
    count: AtomicU32,
    /// Tid of the thread that may change the table and use the scratch; 0 = nobody.
    gate: Gate,
    /// Calls of `dlclose` that are going on.
    unloading: AtomicU32,
    /// The first and the last page of those in which no module was found, the first inverted; 0 = there is none.
    codeless: [AtomicUsize; 2],
    known: [Known; MOST],
    scratch: UnsafeCell<[u8; SCRATCH]>,
}

// SAFETY: the scratch is reached through a `Guard` only, of which there is one at a time; the rest are atomics.
unsafe impl Sync for Table {}

/// What a thread remembers of its last look-ups: one for each part of the address space, so that calls out of several modules by
/// turns are not looked up anew each time.
pub(crate) struct Caches([Cache; CACHES]);

impl Caches {
    #[inline(always)]
    fn of(&self, pc: usize) -> Option<&Cache> {
        self.0.get(pc >> CACHED_BITS & (CACHES - 1)) // always there, which the compiler sees
    }
}

/// One of them. Stored by the owning thread alone.
struct Cache {
    version: AtomicU32,
    /// Calls for which a range of no module is still believed.
    trusted: AtomicU32,
    start: AtomicUsize,
    end: AtomicUsize,
    /// Module base; 0 = the range belongs to no module.
    base: AtomicUsize,
}

impl Cache {
    #[inline(always)]
    fn holds(&self, pc: usize) -> bool {
        (self.start.load(Relaxed)..self.end.load(Relaxed)).contains(&pc)
    }

    fn keep(&self, version: u32, start: usize, end: usize, base: usize) {
        self.end.store(0, Relaxed); // a handler in between finds nothing
        self.version.store(version, Relaxed);
        self.start.store(start, Relaxed);
        self.base.store(base, Relaxed);
        self.trusted.store(TRUSTED_CALLS, Relaxed);
        self.end.store(end, Relaxed);
    }
}

/// Lowest mapped address of the module that holds `pc`; 0 = none known. Where a log is written, the bits that are always zero
/// in it have the number of the path.
pub(crate) fn base_of(lane: &Lane, pc: usize) -> u64 {
    known_base_of(lane, pc)
        .or_else(|| Some(image::current()?.modules.look_up(lane, pc) as u64))
        .unwrap_or(0)
}

/// The same, if the thread remembers the module.
#[inline(always)]
pub(crate) fn known_base_of(lane: &Lane, pc: usize) -> Option<u64> {
    let (table, cache) = (&image::current()?.modules, lane.caches.of(pc)?);
    let is_known = cache.holds(pc) && cache.version.load(Relaxed) == table.version.load(Relaxed);
    let base = cache.base.load(Relaxed) as u64;
    (is_known && base != 0).then_some(base)
}

/// The range of the module that holds `address`, if it is known.
pub(crate) fn range_of(address: usize) -> Option<(usize, usize)> {
    let (start, end, _) = image::current()?.modules.find(address)?;
    Some((start, end))
}

impl Table {
    #[cold]
    #[inline(never)]
    fn look_up(&self, lane: &Lane, pc: usize) -> usize {
        if lane.is_wiped() {
            // A child's first call: its image has not begun, and what is declared now would take the parent's numbers.
            return 0;
        }
        let Some(cache) = lane.caches.of(pc) else {
            return 0;
        };
        let trusted = cache.trusted.load(Relaxed);
        let is_current = cache.version.load(Relaxed) == self.version.load(Relaxed);
        if is_current && cache.holds(pc) && cache.base.load(Relaxed) == 0 && trusted != 0 {
            cache.trusted.store(trusted.wrapping_sub(1), Relaxed);
            return 0;
        }
        // The version from before the search: what is found is kept only as long as nothing was taken out since.
        let (mut version, mut found) = (self.version.load(Acquire), self.find(pc));
        // Another thread's `dlclose` may take out again what one has just put in.
        for _ in 0..TRIES {
            if found.is_some() || !self.refill(lane, Some(pc), false) {
                break;
            }
            (version, found) = (self.version.load(Acquire), self.find(pc));
        }
        let Some((start, end, path)) = found else {
            // Code of no module, such as a JIT's. A page is range enough.
            let page = pc & !0xFFF;
            let [first, last] = &self.codeless;
            first.fetch_max(!page, Relaxed); // before the cache has it
            last.fetch_max(page, Relaxed);
            cache.keep(version, page, page.wrapping_add(0x1000), 0);
            return 0;
        };
        let base = start | path as usize;
        cache.keep(version, start, end, base);
        base
    }

    /// The range of the known module that holds `address`, and the number of its path in a log.
    fn find(&self, address: usize) -> Option<(usize, usize, u32)> {
        for _ in 0..8 {
            let before = self.version.load(Acquire); // pairs with the end of `change`
            if before & 1 == 0 {
                let found = self.search(address);
                fence(Acquire); // the reads above come before the second look at the version
                if self.version.load(Relaxed) == before {
                    return found;
                }
            }
        }
        None
    }

    fn search(&self, address: usize) -> Option<(usize, usize, u32)> {
        let known = self.known()?;
        let at = known.partition_point(|module| module.start.load(Relaxed) <= address);
        let module = known.get(at.checked_sub(1)?)?;
        let (start, end) = (module.start.load(Relaxed), module.end.load(Relaxed));
        let path = module.path.load(Relaxed);
        (start..end)
            .contains(&address)
            .then_some((start, end, path))
    }

    fn known(&self) -> Option<&[Known]> {
        self.known.get(..self.count.load(Relaxed) as usize)
    }

    /// Takes the right to change the table and to use the scratch; `None` if another thread has it.
    pub(crate) fn lock(&self, tid: u32) -> Option<Guard<'_>> {
        if image::is_off() {
            return None; // and perhaps no system call may be made
        }
        let mask = sys::block_signals(); // a handler must never find the lock held below it
        if self.gate.enter(image::current()?, tid) {
            return Some(Guard {
                table: self,
                tid,
                mask,
            });
        }
        sys::restore_signals(mask);
        None
    }

    /// Declares the modules that are mapped and not known, and takes out those that are gone.
    ///
    /// With `wanted`, only if no module holds that address yet.
    ///
    /// `false`: it was no use, and will be none.
    fn refill(&self, lane: &Lane, wanted: Option<usize>, is_start: bool) -> bool {
        let Some(mut guard) = self.lock(lane.tid.load(Relaxed)) else {
            return false;
        };
        if wanted.is_some_and(|address| self.search(address).is_some()) {
            return true;
        }
        guard.read_maps(lane, wanted, is_start);
        wanted.is_some_and(|address| self.search(address).is_some())
    }

    /// Declares the modules of an image that begins. `is_exec`: none of them can ever be unloaded.
    pub(crate) fn fill(&self, lane: &Lane, is_exec: bool) {
        self.refill(lane, None, is_exec);
    }

    /// Before the program itself unmaps memory, or maps something over it: modules that begin there go, and what was no module may be
    /// one next.
    #[inline(never)]
    pub(crate) fn before_replaced(&self, lane: &Lane, start: usize, length: usize) {
        let range = start..start.saturating_add(length);
        let [first, last] = &self.codeless;
        let was_codeless = !first.load(Relaxed) < range.end && start <= last.load(Relaxed);
        let mut next = self.first_in(&range);
        if !was_codeless && next.is_none() {
            return;
        }
        let Some(guard) = self.lock(lane.tid.load(Relaxed)) else {
            return;
        };
        first.store(0, Relaxed);
        last.store(0, Relaxed);
        self.version.fetch_add(2, Relaxed); // nobody believes what he remembers
        while let Some(at) = next {
            guard.unload(lane, at);
            next = self.first_in(&range);
        }
    }

    /// The first of the known modules that begin in a range.
    #[inline(never)]
    fn first_in(&self, range: &Range<usize>) -> Option<usize> {
        let mut starts = self.known()?.iter();
        starts.position(|module| range.contains(&module.start.load(Relaxed)))
    }

    /// Says that modules may go, before they do: the numbers come before any reuse of the ranges.
    ///
    /// Which modules a `dlclose` unmaps nobody knows before. So all that were not there from the start are taken out;
    /// those that stay are found again by `after_unload`, or by the next call out of one of them.
    pub(crate) fn before_unload(&self, lane: &Lane) {
        self.unloading.fetch_add(1, Relaxed); // read with the lock, which orders it
        let Some(guard) = self.lock(lane.tid.load(Relaxed)) else {
            return;
        };
        for at in (0..self.count.load(Relaxed) as usize).rev() {
            if let Some(module) = self.known.get(at)
                && module.is_permanent.load(Relaxed) == 0
            {
                guard.unload(lane, at);
            }
        }
    }

    /// Declares what is there after a `dlclose`, unless another is going on that may be about to unmap some of it.
    pub(crate) fn after_unload(&self, lane: &Lane) {
        self.unloading.fetch_sub(1, Relaxed); // as above
        if let Some(mut guard) = self.lock(lane.tid.load(Relaxed))
            && self.unloading.load(Relaxed) == 0
        {
            guard.read_maps(lane, None, false);
        }
    }
}

/// The right to change the table and to use the scratch; all signals are blocked meanwhile.
pub(crate) struct Guard<'t> {
    table: &'t Table,
    tid: u32,
    mask: sys::SignalSet,
}

impl Guard<'_> {
    /// Room that would be too large for the stack of a small thread.
    pub(crate) fn scratch(&mut self) -> &mut [u8; SCRATCH] {
        // SAFETY: there is one guard at a time, and the result borrows it.
        unsafe { &mut *self.table.scratch.get() }
    }

    /// Declares what is not known; while a `dlclose` is going on, only the module of the running code `wanted`: others may be
    /// about to go.
    fn read_maps(&mut self, lane: &Lane, wanted: Option<usize>, is_start: bool) {
        let table = self.table;
        let only = wanted.filter(|_| table.unloading.load(Relaxed) != 0);
        for module in table.known().unwrap_or_default() {
            module.is_there.store(0, Relaxed);
        }
        let (buffer, mut path, mut text) = self.rooms();
        let was_read = maps::each_module(buffer, &mut path, &mut |module, path| {
            let is_asked = only.is_none_or(|pc| (module.start..module.end).contains(&pc))
                && !path
                    .bytes()
                    .windows(CONVERTERS.len())
                    .any(|it| it == CONVERTERS);
            if let Some(known) = table.entry_of(module) {
                known.is_there.store(1, Relaxed);
            } else if is_asked {
                table.declare(lane, module, path, &mut text, is_start);
            }
        });
        if was_read {
            for at in (0..table.count.load(Relaxed) as usize).rev() {
                if table
                    .known
                    .get(at)
                    .is_some_and(|module| module.is_there.load(Relaxed) == 0)
                {
                    self.unload(lane, at);
                }
            }
        }
    }

    /// Room for the list of modules, for a path and for the text of a declaration.
    fn rooms(&mut self) -> (&mut [u8], Text<'_>, Text<'_>) {
        let (buffer, rest) = self.scratch().split_at_mut(8 * 1024);
        let (path, text) = rest.split_at_mut(5 * 1024);
        (buffer, Text::new(path), Text::new(text))
    }

    /// Declares again the known module that comes next above `last`. Gives its base and how long its text is.
    pub(crate) fn repeat_above(&mut self, lane: &Lane, last: u64) -> Option<(u64, usize)> {
        let table = self.table;
        let (buffer, mut path, mut text) = self.rooms();
        let mut next = None;
        maps::each_module(buffer, &mut path, &mut |module, path| {
            if next.is_none()
                && module.start as u64 > last
                && let Some(known) = table.entry_of(module)
            {
                next = describe(module, path.bytes(), &mut text).zip(Some(known.since.load()));
            }
        });
        let (event, since) = next?;
        text.number_entry(b"since", since);
        lane.declare(event, text.bytes());
        Some((event.ptr, text.bytes().len()))
    }

    fn unload(&self, lane: &Lane, at: usize) {
        let Some(module) = self.table.known.get(at) else {
            return;
        };
        let (start, end) = (module.start.load(Relaxed), module.end.load(Relaxed));
        let length = end.wrapping_sub(start) as u64;
        self.table.change(|known, count| {
            for (to, from) in known.iter().zip(known.iter().skip(1)).skip(at) {
                to.copy(from);
            }
            count.wrapping_sub(1)
        });
        lane.append_rare(Op::MODULE_UNLOADED, start as u64, length, 0);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.table.gate.leave(self.tid);
        sys::restore_signals(self.mask);
    }
}

/// The path of a file that may be deleted.
fn shown(path: &[u8]) -> &[u8] {
    path.strip_suffix(b" (deleted)").unwrap_or(path)
}

/// The declaration of a module, with its text in `text`; `None` where no ELF header lies.
fn describe(module: &Module, path: &[u8], text: &mut Text<'_>) -> Option<Event> {
    let header = elf::Header::read(module.start)?;
    text.clear();
    text.push(b"path=");
    maps::push_path(text, shown(path));
    text.push(b"\0");
    header.push_build_id(text);
    let length = module.end.wrapping_sub(module.start);
    let event = Event::of(Op::MODULE_LOADED, module.start as u64, length as u64);
    Some(Event {
        pc: header.load_bias as u64,
        ..event
    })
}

/// What only the holder of the guard may do.
impl Table {
    /// Changes the known modules; `edit` gives the new count. Readers give up meanwhile.
    fn change(&self, edit: impl FnOnce(&[Known], u32) -> u32) {
        let version = self.version.load(Relaxed);
        self.version.store(version.wrapping_add(1), Relaxed);
        fence(Release); // the odd version comes before the changes
        let count = self.count.load(Relaxed);
        let known = self.known.get(..(count as usize).wrapping_add(1).min(MOST));
        self.count
            .store(edit(known.unwrap_or_default(), count), Relaxed);
        self.version.store(version.wrapping_add(2), Release); // pairs with `find`
    }

    fn entry_of(&self, module: &Module) -> Option<&Known> {
        self.known()?.iter().find(|known| {
            known.start.load(Relaxed) == module.start
                && known.end.load(Relaxed) == module.end
                && known.identity.load(Relaxed) == module.identity
        })
    }

    fn declare(
        &self,
        lane: &Lane,
        module: &Module,
        path: &Text<'_>,
        text: &mut Text<'_>,
        is_permanent: bool,
    ) {
        if self.count.load(Relaxed) as usize >= MOST {
            return;
        }
        let path = path.bytes();
        let Some(event) = describe(module, path, text) else {
            return;
        };
        let number = match image::current() {
            Some(image) if CONFIG.get().is_log() => image.log.paths.number(shown(path)),
            _ => 0,
        };
        // Declared before the table names it: a record that refers to it has a higher number.
        let since = lane.declare(event, text.bytes());
        self.change(|known, count| {
            let used = known.get(..count as usize).unwrap_or_default();
            let at = used.partition_point(|known| known.start.load(Relaxed) < module.start);
            for to in (at..count as usize).rev() {
                if let (Some(from), Some(to)) = (known.get(to), known.get(to.wrapping_add(1))) {
                    to.copy(from);
                }
            }
            if let Some(place) = known.get(at) {
                place.start.store(module.start, Relaxed);
                place.end.store(module.end, Relaxed);
                place.identity.store(module.identity, Relaxed);
                place.since.store(since);
                place.path.store(number, Relaxed);
                place.is_permanent.store(u32::from(is_permanent), Relaxed);
                place.is_there.store(1, Relaxed);
            }
            count.wrapping_add(1)
        });
    }
}

impl Known {
    fn copy(&self, from: &Self) {
        self.start.store(from.start.load(Relaxed), Relaxed);
        self.end.store(from.end.load(Relaxed), Relaxed);
        self.identity.store(from.identity.load(Relaxed), Relaxed);
        self.since.store(from.since.load());
        self.path.store(from.path.load(Relaxed), Relaxed);
        self.is_permanent
            .store(from.is_permanent.load(Relaxed), Relaxed);
        self.is_there.store(from.is_there.load(Relaxed), Relaxed);
    }
}
