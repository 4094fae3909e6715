//! The trace as a log of glibc's mtrace: a line a call, written by the hooks themselves, one at a time.
//!
//! Hooks say of a release before it happens and of an allocation after it, so lines stand in the order in which one thread after the
//! other has passed the gate. Around a `realloc` the gate stays closed: what it came to decides both of its lines, and nobody can
//! speak of the old block's address before. What a handler does above a line that is being written is counted, not written.

use crate::config::{CONFIG, Target};
use crate::event::Event;
use crate::image::Image;
use crate::lane::Lane;
use crate::output::{OUTPUT, piece};
use crate::paths::Paths;
use crate::sync::{AtomicU32, Relaxed, Wide};
use crate::text::Text;
use crate::turn::{Gate, Turn};
use crate::{start, sys};
use core::cell::UnsafeCell;
use heapwire_format::{Op, PIPE_FRAME};

/// A line without its path, with a line on what is lost before it.
const LINE: usize = 160;

/// The sign of a line by the op of its event: allocated, released, the two halves of a `realloc`, failed, freed, and no memory.
const SIGNS: &[u8; 8] = b" +-<>!-+";

/// See the module. All zero is valid: nothing is written.
pub(crate) struct Log {
    pub(crate) gate: Gate,
    /// Not 0 while a line is being written.
    is_busy: AtomicU32,
    /// The block of the `realloc` that is going on in the thread that has the gate; 0 = none is.
    old: Wide,
    /// Bytes on the page, which are whole lines, and calls that they tell of.
    used: AtomicU32,
    told: AtomicU32,
    /// Calls that no line tells of, and no line of their number.
    lost: AtomicU32,
    pub(crate) paths: Paths,
    page: UnsafeCell<[u8; PIPE_FRAME]>,
}

// SAFETY: the page is used by who is past the gate only; the rest are atomics, and paths answer for themselves.
unsafe impl Sync for Log {}

impl Log {
    /// Passes the gate, or finds that this thread has passed it. `false`: we are above a line that is being written, or nothing is
    /// to be written any more.
    fn enter(&self, image: &Image, me: u32) -> bool {
        if self.gate.enter(image, me) {
            // Whoever had it before may have left it by a jump.
            self.is_busy.store(0, Relaxed);
            self.old.store(0);
            return true;
        }
        self.gate.is_of(me) && self.is_busy.load(Relaxed) == 0
    }

    /// Gives the gate back, unless a `realloc` is going on.
    fn leave(&self, me: u32) {
        if self.old.load() == 0 {
            self.gate.leave(me);
        }
    }
}

/// Puts the first line of a session on the page. Before anybody else writes.
pub(crate) fn begin(image: &Image) {
    if let Some(lane) = crate::early::lane() {
        Page { image, lane }.put(b"= Start\n", None);
    }
}

/// Writes the line of an event, if it has one.
pub(crate) fn append(image: &Image, lane: &Lane, event: &Event) {
    let Some(sign) = SIGNS.get(usize::from(event.op.0)) else {
        return; // and does not wait: whoever says such may have the lock of the modules
    };
    let (log, me) = (&image.log, lane.tid.load(Relaxed));
    if !log.enter(image, me) {
        log.lost.fetch_add(1, Relaxed); // a count
        return;
    }
    let page = Page { image, lane };
    if page.write(*sign, event) && (!image.has_ended() || page.write_out()) {
        log.leave(me);
    }
}

/// Writes out what is on the page; with `is_end`, the last line of a session as well, and closes the file.
pub(crate) fn flush(image: &Image, lane: &Lane, is_end: bool) {
    let (log, me) = (&image.log, lane.tid.load(Relaxed));
    if !log.enter(image, me) {
        return;
    }
    let page = Page { image, lane };
    if (!is_end || page.put(b"= End\n", None)) && page.write_out() {
        if is_end {
            OUTPUT.release();
        }
        log.leave(me);
    }
}

/// The page, past the gate. What it gives says whether it is still ours: a handler's jump can take it away.
struct Page<'p> {
    image: &'p Image,
    lane: &'p Lane,
}

impl Page<'_> {
    fn write(&self, sign: u8, event: &Event) -> bool {
        let log = &self.image.log;
        let old = log.old.load();
        if event.op == Op::REALLOC_OLD && old == 0 {
            log.old.store(event.ptr);
            return true; // below a handler's, whose `<` stands for this one
        }
        if (Op::REALLOC_NEW..=Op::REALLOC_FREED).contains(&event.op) {
            log.old.store(0);
        }
        if event.op == Op::REALLOC_NEW && old != 0 {
            let event = Event { ptr: old, ..*event };
            if !self.put(b"<", Some(&event)) {
                return false;
            }
        }
        self.put(&[sign], Some(event))
    }

    /// Puts a line on the page, that of a mark where there is no event, and before it what is lost.
    #[inline(never)]
    fn put(&self, sign: &[u8], event: Option<&Event>) -> bool {
        let log = &self.image.log;
        let id = event.map_or(0, |event| event.base & Paths::ID);
        let path = log.paths.get(id);
        let used = log.used.load(Relaxed) as usize;
        let needed = used.saturating_add(path.len()).saturating_add(LINE);
        if needed > PIPE_FRAME && !self.write_out() {
            return false;
        }
        log.is_busy.store(1, Relaxed);
        let used = log.used.load(Relaxed);
        // SAFETY: we are past the gate, and a handler above us finds that we are busy.
        let page = unsafe { &mut *log.page.get() };
        let mut page = Text::new(page.get_mut(used as usize..).unwrap_or_default());
        let lost = log.lost.swap(0, Relaxed);
        if lost != 0 {
            page.push(b"= Lost ");
            page.push_decimal(lost.into());
            page.push(b"\n");
        }
        if start::is_child() && CONFIG.get().target != Target::File {
            // On its parent's descriptor.
            page.push(b"[");
            page.push_decimal(self.image.pid.load(Relaxed).into());
            page.push(b"] ");
        }
        if let Some(event) = event {
            page.push(b"@ ");
            page.push(path);
            page.push(b"[0x");
            let base = event.base.wrapping_sub(id);
            page.push_number(
                event
                    .pc
                    .wrapping_sub(if path.is_empty() { 0 } else { base }),
            );
            page.push(b"] ");
        }
        page.push(sign);
        if let Some(event) = event {
            if event.ptr == 0 {
                page.push(b" (nil)");
            } else {
                page.push(b" 0x");
                page.push_number(event.ptr);
            }
            if !matches!(sign, b"-" | b"<") {
                page.push(if event.size == 0 { b" " } else { b" 0x" });
                page.push_number(event.size);
            }
            page.push(b"\n");
        }
        let told = u32::from(event.is_some()).wrapping_add(lost);
        log.told.fetch_add(told, Relaxed);
        let added = u32::try_from(page.bytes().len()).unwrap_or(0);
        log.used.store(used.wrapping_add(added), Relaxed);
        log.is_busy.store(0, Relaxed);
        true
    }

    fn write_out(&self) -> bool {
        let log = &self.image.log;
        let used = log.used.swap(0, Relaxed) as usize;
        let mask = sys::block_signals();
        let turn = Turn::new(self.lane, Some(self.lane), mask);
        log.is_busy.store(1, Relaxed);
        let told = log.told.swap(0, Relaxed);
        log.lost.fetch_add(told, Relaxed); // unless it goes well: a jump can end it
        // SAFETY: as in `put`.
        let page = unsafe { &*log.page.get() };
        let nothing = piece::<u8>(&[]);
        let lines = piece(page.get(..used).unwrap_or_default());
        let pieces = [lines, nothing, nothing, nothing];
        let held = OUTPUT.hold(self.image);
        let stream = &self.image.stream;
        if held.is_some() && stream.write(self.image, &pieces, 0, OUTPUT.kind(), &turn) {
            log.lost.fetch_sub(told, Relaxed);
        }
        let is_ours = !turn.is_over();
        if is_ours {
            log.is_busy.store(0, Relaxed);
        }
        sys::restore_signals(mask);
        is_ours
    }
}
