//! The caller that is helped: functions that allocate for their caller report the caller's line.
//!
//! `operator new`, `strdup` and the like call `malloc` inside. Their hook leaves here who called and how deep the stack was;
//! the hook of `malloc` inside uses it if its own frame is deeper and its caller is the function that was
//! forwarded to. Both must hold: an exception or a `longjmp` leaves the note behind, but not those two facts.
#![forbid(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};
use heapwire_format::Family;

/// For whom a call is made, and what is to be said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// One block of this size and family.
    Allocate {
        size: usize,
        family: Family,
        helped: bool,
    },
    /// Whatever is allocated is the caller's.
    Help,
    /// Block `ptr` is being released, and that is recorded.
    Release { ptr: usize },
    /// A block is being resized by an allocator that may call `malloc` and `free` for that: those calls are its own.
    Resize,
}

/// What the hook outside leaves for the hook inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Stack pointer when the hook outside was entered.
    pub(crate) sp: usize,
    /// Its return address.
    pub(crate) pc: usize,
    pub(crate) purpose: Purpose,
    /// Code that the inner call must come from.
    pub(crate) low: usize,
    pub(crate) high: usize,
    /// The block that a hook inside has recorded for this call; 0 = none yet.
    pub(crate) taken: usize,
    /// The last block that was recorded inside otherwise: an operator that the program replaced allocates in its own way. A
    /// signal handler can do so as well.
    pub(crate) inner: usize,
}

/// One note, stored and read by the owning thread alone; atomics only because handlers of its signals do so too.
pub(crate) struct Helped {
    /// 0 = no note; stored last.
    sp: AtomicUsize,
    pc: AtomicUsize,
    low: AtomicUsize,
    high: AtomicUsize,
    /// Size, or block.
    value: AtomicUsize,
    /// 0 help, 1 release, 2 allocate, 3 allocate on behalf of the caller, 4 resize; the family above.
    kind: AtomicU32,
    taken: AtomicUsize,
    inner: AtomicUsize,
}

const HELP: u32 = 0;
const RELEASE: u32 = 1;
const ALLOCATE: u32 = 2;
const ALLOCATE_HELPED: u32 = 3;
const RESIZE: u32 = 4;

/// In the place of a block: the call failed. 0 is that there was no call.
const FAILURE: usize = 1;

impl Note {
    /// Whether the call has not got its block yet: an operator may try again after a failure.
    pub(crate) fn is_open(&self) -> bool {
        self.taken == 0 || self.taken == FAILURE
    }

    /// Whether a hook inside has recorded what the call outside gives.
    pub(crate) fn has_recorded(&self, block: usize) -> bool {
        let what = mark_of(block);
        self.taken == what || self.inner == what
    }
}

fn mark_of(block: usize) -> usize {
    if block == 0 { FAILURE } else { block }
}

impl Helped {
    #[cfg(all(target_arch = "x86_64", not(any(loom, test))))]
    pub(crate) const SP_AT: usize = core::mem::offset_of!(Self, sp);

    /// Whether there may be a note for a hook entered with `sp`: all that the hot path asks.
    #[inline]
    pub(crate) fn is_above(&self, sp: usize) -> bool {
        sp < self.sp.load(Relaxed)
    }

    /// The note, if it is for a hook that was entered with `sp` and returns to `pc`.
    pub(crate) fn for_call(&self, pc: usize, sp: usize) -> Option<Note> {
        let note = self.get()?;
        let is_inside = sp < note.sp && (note.low..note.high).contains(&pc);
        (is_inside || (sp < note.sp && pc == crate::forwarded())).then_some(note)
    }

    /// Whether a hook entered with `sp`, which returns to `pc`, was called by the `realloc` that it is below.
    pub(crate) fn is_resize(&self, pc: usize, sp: usize) -> bool {
        self.is_above(sp)
            && self
                .for_call(pc, sp)
                .is_some_and(|note| note.purpose == Purpose::Resize)
    }

    pub(crate) fn get(&self) -> Option<Note> {
        let sp = self.sp.load(Relaxed);
        if sp == 0 {
            return None;
        }
        let (value, kind) = (self.value.load(Relaxed), self.kind.load(Relaxed));
        let [low_kind, family, ..] = kind.to_le_bytes();
        let purpose = match u32::from(low_kind) {
            HELP => Purpose::Help,
            RELEASE => Purpose::Release { ptr: value },
            RESIZE => Purpose::Resize,
            which => Purpose::Allocate {
                size: value,
                family: Family::from_flags(family),
                helped: which == ALLOCATE_HELPED,
            },
        };
        Some(Note {
            sp,
            pc: self.pc.load(Relaxed),
            purpose,
            low: self.low.load(Relaxed),
            high: self.high.load(Relaxed),
            taken: self.taken.load(Relaxed),
            inner: self.inner.load(Relaxed),
        })
    }

    /// Leaves `note`, or takes away what is there.
    pub(crate) fn set(&self, note: Option<Note>) {
        self.clear();
        let Some(note) = note else { return };
        let (kind, value) = match note.purpose {
            Purpose::Help => (HELP, 0),
            Purpose::Release { ptr } => (RELEASE, ptr),
            Purpose::Resize => (RESIZE, 0),
            Purpose::Allocate {
                size,
                family,
                helped,
            } => {
                let kind = if helped { ALLOCATE_HELPED } else { ALLOCATE };
                (kind | (family as u32) << 8, size)
            }
        };
        self.pc.store(note.pc, Relaxed);
        self.low.store(note.low, Relaxed);
        self.high.store(note.high, Relaxed);
        self.value.store(value, Relaxed);
        self.kind.store(kind, Relaxed);
        self.taken.store(note.taken, Relaxed);
        self.inner.store(note.inner, Relaxed);
        self.sp.store(note.sp, Relaxed);
    }

    /// Lets nobody take the note any more: a jump may leave the call that it is for. Where it does not, what is
    /// allocated inside from now on is recorded by itself.
    pub(crate) fn close(&self) {
        self.high.store(self.low.load(Relaxed), Relaxed);
    }

    pub(crate) fn clear(&self) {
        self.sp.store(0, Relaxed);
    }

    /// Remembers a block that was recorded inside, though not for this call.
    pub(crate) fn saw(&self, block: usize) {
        self.inner.store(mark_of(block), Relaxed);
    }

    /// Whether a hook outside has recorded the release of `block` that a hook entered with `sp` is to make; once.
    ///
    /// Whoever calls: what stands between may be an operator that the program replaced.
    pub(crate) fn takes_release(&self, block: usize, sp: usize) -> bool {
        let is_it = self.get().is_some_and(|note| {
            sp < note.sp && note.is_open() && note.purpose == Purpose::Release { ptr: block }
        });
        if is_it {
            self.take(block);
        }
        is_it
    }

    /// Remembers the block that was recorded for this call.
    pub(crate) fn take(&self, block: usize) {
        self.taken.store(mark_of(block), Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Helped, Note, Purpose};
    use heapwire_format::Family;

    fn helped() -> Helped {
        Helped {
            sp: 0.into(),
            pc: 0.into(),
            low: 0.into(),
            high: 0.into(),
            value: 0.into(),
            kind: 0.into(),
            taken: 0.into(),
            inner: 0.into(),
        }
    }

    const NOTE: Note = Note {
        sp: 1000,
        pc: 5,
        purpose: Purpose::Allocate {
            size: 48,
            family: Family::NewArray,
            helped: true,
        },
        low: 100,
        high: 200,
        taken: 0,
        inner: 9,
    };

    #[test]
    fn a_note_comes_back_as_it_was_left() {
        let cell = helped();
        for purpose in [
            NOTE.purpose,
            Purpose::Help,
            Purpose::Release { ptr: 7 },
            Purpose::Resize,
            Purpose::Allocate {
                size: 0,
                family: Family::Malloc,
                helped: false,
            },
        ] {
            let note = Note { purpose, ..NOTE };
            cell.set(Some(note));
            assert_eq!(cell.get(), Some(note));
        }
        cell.take(0);
        assert!(cell.get().unwrap().is_open(), "it may try again");
        cell.take(0x2000);
        assert!(!cell.get().unwrap().is_open());
        cell.clear();
        assert_eq!(cell.get(), None);
    }

    #[test]
    fn it_is_for_deeper_frames_of_the_forwarded_function_only() {
        let cell = helped();
        assert_eq!(cell.for_call(150, 900), None);
        cell.set(Some(NOTE));
        assert!(cell.is_above(900) && !cell.is_above(1000));
        assert_eq!(cell.for_call(150, 900), Some(NOTE));
        assert_eq!(cell.for_call(200, 900), None, "another function");
        assert_eq!(
            cell.for_call(150, 1000),
            None,
            "a frame that is not deeper: the note is stale"
        );
    }

    #[test]
    fn nobody_takes_the_note_of_a_call_that_a_jump_may_have_left() {
        let cell = helped();
        cell.set(Some(NOTE));
        cell.close();
        assert_eq!(cell.for_call(150, 900), None);
        assert_eq!(cell.get().map(|note| note.purpose), Some(NOTE.purpose));
    }

    #[test]
    fn a_release_is_taken_once_whoever_makes_it() {
        let cell = helped();
        let purpose = Purpose::Release { ptr: 7 };
        cell.set(Some(Note { purpose, ..NOTE }));
        assert!(!cell.takes_release(7, 1000), "not inside");
        assert!(!cell.takes_release(8, 900), "another block");
        assert!(cell.takes_release(7, 900));
        assert!(!cell.takes_release(7, 900), "the second is another release");
    }

    #[test]
    fn what_was_recorded_inside_is_told_from_what_was_not() {
        let cell = helped();
        cell.set(Some(Note { inner: 0, ..NOTE }));
        assert!(!cell.get().unwrap().has_recorded(0));
        cell.saw(0);
        assert!(cell.get().unwrap().has_recorded(0), "a failure");
        cell.saw(0x1000);
        let note = cell.get().unwrap();
        assert!(note.has_recorded(0x1000) && !note.has_recorded(0x1010) && !note.has_recorded(0));
        cell.take(0x3000);
        cell.saw(0x4000); // a signal handler
        assert!(cell.get().unwrap().has_recorded(0x3000));
    }
}
