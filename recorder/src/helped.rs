//! The caller that is helped: functions that allocate for their caller report the caller's line.
//!
//! `operator new`, `strdup` and the like call `malloc` inside. Their hook leaves here who called and how deep the stack was;
//! the hook of `malloc` inside uses it if its own frame is deeper and its caller is the function that was
//! forwarded to. Both must hold: an exception or a `longjmp` leaves the note behind, but not those two facts.
#![forbid(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};
use heapwire_format::flag;

/// For whom a call is made, and what is to be said of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Purpose {
    /// One of the kinds below; above it the flags of an allocation's record.
    kind: u32,
    /// Size of an allocation, block of a release.
    value: usize,
}

const HELP: u32 = 0;
const RELEASE: u32 = 1;
const ALLOCATE: u32 = 2;
const RESIZE: u32 = 3;

impl Purpose {
    /// Whatever is allocated is the caller's.
    pub(crate) const HELP: Self = Self {
        kind: HELP,
        value: 0,
    };

    /// A block is being resized by an allocator that may call `malloc` and `free` for that: those calls are its own.
    pub(crate) const RESIZE: Self = Self {
        kind: RESIZE,
        value: 0,
    };

    /// The block is being released, and that is recorded.
    pub(crate) const fn release(block: usize) -> Self {
        Self {
            kind: RELEASE,
            value: block,
        }
    }

    /// One block of this size, whose record has these flags.
    pub(crate) const fn allocate(size: usize, flags: u8) -> Self {
        Self {
            kind: ALLOCATE | (flags as u32) << 8,
            value: size,
        }
    }

    pub(crate) fn is_help(self) -> bool {
        self.kind == HELP
    }

    pub(crate) fn is_resize(self) -> bool {
        self.kind == RESIZE
    }

    /// Size and flags, if it is an allocation.
    pub(crate) fn allocation(self) -> Option<(usize, u8)> {
        let [kind, flags, ..] = self.kind.to_le_bytes();
        (u32::from(kind) == ALLOCATE).then_some((self.value, flags))
    }

    /// The same on behalf of another's caller.
    pub(crate) fn helped(self) -> Self {
        match self.allocation() {
            Some((size, flags)) => Self::allocate(size, flags | flag::HELPED),
            None => self,
        }
    }
}

/// What the hook outside leaves for the hook inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// Stack pointer when the hook outside was entered; 0 = there is no note.
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
    /// Stored last.
    sp: AtomicUsize,
    pc: AtomicUsize,
    low: AtomicUsize,
    high: AtomicUsize,
    value: AtomicUsize,
    kind: AtomicU32,
    taken: AtomicUsize,
    inner: AtomicUsize,
}

/// In the place of a block: the call failed. 0 is that there was no call.
const FAILURE: usize = 1;

impl Note {
    pub(crate) fn is_there(&self) -> bool {
        self.sp != 0
    }

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
        let note = self.get();
        let is_inside = sp < note.sp && (note.low..note.high).contains(&pc);
        (is_inside || (sp < note.sp && pc == crate::forwarded())).then_some(note)
    }

    /// Whether a hook entered with `sp`, which returns to `pc`, was called by the `realloc` that it is below.
    pub(crate) fn is_resize(&self, pc: usize, sp: usize) -> bool {
        self.is_above(sp)
            && self
                .for_call(pc, sp)
                .is_some_and(|note| note.purpose.is_resize())
    }

    pub(crate) fn get(&self) -> Note {
        Note {
            sp: self.sp.load(Relaxed),
            pc: self.pc.load(Relaxed),
            purpose: Purpose {
                kind: self.kind.load(Relaxed),
                value: self.value.load(Relaxed),
            },
            low: self.low.load(Relaxed),
            high: self.high.load(Relaxed),
            taken: self.taken.load(Relaxed),
            inner: self.inner.load(Relaxed),
        }
    }

    /// Leaves `note` in the place of what is there.
    pub(crate) fn set(&self, note: &Note) {
        self.clear();
        self.pc.store(note.pc, Relaxed);
        self.low.store(note.low, Relaxed);
        self.high.store(note.high, Relaxed);
        self.value.store(note.purpose.value, Relaxed);
        self.kind.store(note.purpose.kind, Relaxed);
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
        let note = self.get();
        let is_it = sp < note.sp && note.is_open() && note.purpose == Purpose::release(block);
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
    use heapwire_format::{Family, flag};

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
        purpose: Purpose::allocate(48, Family::NewArray as u8 | flag::HELPED),
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
            Purpose::HELP,
            Purpose::release(7),
            Purpose::RESIZE,
            Purpose::allocate(0, Family::Malloc as u8),
        ] {
            let note = Note { purpose, ..NOTE };
            cell.set(&note);
            assert_eq!(cell.get(), note);
        }
        cell.take(0);
        assert!(cell.get().is_open(), "it may try again");
        cell.take(0x2000);
        assert!(!cell.get().is_open());
        cell.clear();
        assert!(!cell.get().is_there());
    }

    #[test]
    fn what_is_made_for_another_says_so_if_it_is_a_block() {
        let helped = |purpose: Purpose| purpose.helped().allocation();
        assert_eq!(helped(Purpose::allocate(5, 1)), Some((5, 1 | flag::HELPED)));
        assert_eq!(helped(Purpose::release(5)), None);
    }

    #[test]
    fn it_is_for_deeper_frames_of_the_forwarded_function_only() {
        let cell = helped();
        assert_eq!(cell.for_call(150, 900), None);
        cell.set(&NOTE);
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
        cell.set(&NOTE);
        cell.close();
        assert_eq!(cell.for_call(150, 900), None);
        assert_eq!(cell.get().purpose, NOTE.purpose);
    }

    #[test]
    fn a_release_is_taken_once_whoever_makes_it() {
        let cell = helped();
        let purpose = Purpose::release(7);
        cell.set(&Note { purpose, ..NOTE });
        assert!(!cell.takes_release(7, 1000), "not inside");
        assert!(!cell.takes_release(8, 900), "another block");
        assert!(cell.takes_release(7, 900));
        assert!(!cell.takes_release(7, 900), "the second is another release");
    }

    #[test]
    fn what_was_recorded_inside_is_told_from_what_was_not() {
        let cell = helped();
        cell.set(&Note { inner: 0, ..NOTE });
        assert!(!cell.get().has_recorded(0));
        cell.saw(0);
        assert!(cell.get().has_recorded(0), "a failure");
        cell.saw(0x1000);
        let note = cell.get();
        assert!(note.has_recorded(0x1000) && !note.has_recorded(0x1010) && !note.has_recorded(0));
        cell.take(0x3000);
        cell.saw(0x4000); // a signal handler
        assert!(cell.get().has_recorded(0x3000));
    }
}
