//! What was declared is declared again from time to time on a line, so that a capture of it may begin anywhere.
//!
//! One declaration at a time, whenever so many bytes of frames were written that it costs a small share of the line: the process, then
//! its modules by their addresses. A repetition says with its key `since` which declaration it repeats.

use crate::event::Event;
use crate::image::Image;
use crate::lane::Lane;
use crate::output::{Kind, OUTPUT};
use crate::sync::{Acquire, AtomicU32, Relaxed, Release, Wide};
use crate::text::Text;
use core::cell::UnsafeCell;
use heapwire_format::Op;

/// Bytes of frames for each byte of text that is repeated.
const SHARE: u32 = 48;

/// Most bytes of the text of a process.
const ROOM: usize = 16 << 10;

/// What is to be declared again. All zero is valid: nothing, yet.
pub(crate) struct Repeats {
    /// Bytes of frames to be written before the next repetition.
    left: AtomicU32,
    /// Base of the module that was repeated last; 0: the process comes next.
    last: Wide,
    /// Length of `text`; 0 = the process is not declared yet.
    length: AtomicU32,
    pid: Wide,
    wall: Wide,
    clock: Wide,
    text: UnsafeCell<[u8; ROOM]>,
}

// SAFETY: `text` is stored by the thread that starts the image, before it stores `length`, and only read afterwards.
unsafe impl Sync for Repeats {}

impl Repeats {
    /// Declares the process: `event` with the text that `write` makes.
    pub(crate) fn declare_process(
        &self,
        lane: &Lane,
        event: Event,
        write: impl FnOnce(&mut Text<'_>),
    ) {
        // SAFETY: the thread that starts the image gets here, once.
        let mut text = Text::new(unsafe { &mut *self.text.get() });
        write(&mut text);
        let since = lane.declare(event, text.bytes());
        text.number_entry(b"since", since);
        let length = u32::try_from(text.bytes().len()).unwrap_or(0);
        self.pid.store(event.ptr);
        self.wall.store(event.size);
        self.clock.store(event.pc);
        self.wait_for(length);
        self.length.store(length, Release); // pairs with `repeat_process`
    }

    /// Takes note of bytes of frames that were written.
    pub(crate) fn note_written(&self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(0);
        let left = self.left.load(Relaxed); // a hint: threads may count at the same time
        self.left.store(left.saturating_sub(bytes), Relaxed);
    }

    /// Has the next repetition wait for what one of this length costs.
    fn wait_for(&self, length: u32) {
        self.left.store(length.saturating_mul(SHARE), Relaxed); // a hint
    }

    fn repeat_process(&self, lane: &Lane) -> u32 {
        let length = self.length.load(Acquire); // pairs with `declare_process`
        // SAFETY: nothing is stored there any more.
        let text = unsafe { &*self.text.get() };
        let event = Event::of(Op::PROCESS, self.pid.load(), self.wall.load());
        let pc = self.clock.load();
        lane.declare(
            Event { pc, ..event },
            text.get(..length as usize).unwrap_or_default(),
        );
        length
    }
}

/// Repeats a declaration, if it is time for one. `lane` is this thread's, has just been flushed, and nothing of it is being declared.
pub(crate) fn repeat(image: &Image, lane: &Lane) {
    let repeats = &image.repeats;
    let is_due = OUTPUT.kind() == Kind::Terminal
        && repeats.left.load(Relaxed) == 0
        && repeats.length.load(Relaxed) != 0;
    if !is_due || lane.declaring.load() != 0 {
        return;
    }
    let Some(mut guard) = image.modules.lock(lane.tid.load(Relaxed)) else {
        return;
    };
    let length = if let Some((base, length)) = guard.repeat_above(lane, repeats.last.load()) {
        repeats.last.store(base);
        u32::try_from(length).unwrap_or(0)
    } else {
        repeats.last.store(0);
        repeats.repeat_process(lane)
    };
    repeats.wait_for(length);
}
