//! The begin of a process image: settings, output, and what must be declared first.

use crate::config::{CONFIG, Config, Target, go_beside};
use crate::event::Event;
use crate::extent::HAS_LOGS;
use crate::image::Image;
use crate::lane::{self, Lane};
use crate::output::{Kind, OUTPUT};
use crate::sync::{AtomicU32, Relaxed};
use crate::text::Text;
use crate::{arch, auxiliary, clock, early, log, next, registry, sequence, sys};
#[cfg(not(heapwire_static))]
use crate::{function::Function, loaded};
use heapwire_format::Op;

/// Stream tag of the image that this process had last; a forked child finds its parent's here.
static LAST_TAG: AtomicU32 = AtomicU32::new(0);
static PARENT_TAG: AtomicU32 = AtomicU32::new(0);

/// What a process image begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    Exec,
    Fork,
    /// A call of `mtrace`: others have gone before.
    Call,
}

/// Whether this process image was forked from another that recorded.
pub(crate) fn is_child() -> bool {
    PARENT_TAG.load(Relaxed) != 0
}

/// Reads the settings and opens the output. `false`: nothing is to be recorded, or cannot be.
pub(crate) fn begin(image: &'static Image, beginning: Beginning) -> bool {
    let Some(mut guard) = image.modules.lock(sys::gettid()) else {
        return false;
    };
    let room = guard.scratch();
    if beginning == Beginning::Exec || CONFIG.get().target == Target::Nothing {
        // SAFETY: `image` calls this from the thread that claimed the start, before recording opens.
        let config = unsafe { CONFIG.get_mut() };
        match beginning {
            Beginning::Call if HAS_LOGS => {
                config.take_malloc_trace(next::variable(b"MALLOC_TRACE\0", room));
            }
            _ => config.read(room),
        }
    }
    image.pid.store(sys::getpid(), Relaxed);
    if image.tag.load(Relaxed) == 0 {
        let tag = sys::random().max(1); // 0 is an observer's
        image.tag.store(tag, Relaxed);
        PARENT_TAG.store(LAST_TAG.swap(tag, Relaxed), Relaxed);
    }
    let config = CONFIG.get();
    if config.is_log() {
        log::begin(image);
    }
    if beginning == Beginning::Fork {
        return continue_output(image, config, room);
    }
    OUTPUT.open(config, room)
}

/// The output of a forked child: a file of its own, or the inherited one if it is still there.
fn continue_output(image: &Image, config: &Config, room: &mut [u8]) -> bool {
    if config.is_log() && config.target == Target::File {
        go_beside(config);
    }
    if config.is_per_process() {
        let inherited = OUTPUT.check().map(|_| OUTPUT.fd());
        if let Some(fd) = inherited {
            sys::close(fd);
        }
        return OUTPUT.open(config, room);
    }
    let _ = OUTPUT.hold(image); // given up where it is gone
    OUTPUT.kind() != Kind::Closed
}

/// Declares the process, its modules and this thread.
pub(crate) fn declare(image: &'static Image, beginning: Beginning) {
    let is_first = beginning == Beginning::Exec;
    let Some(own) = registry::register(image) else {
        return;
    };
    lane::set_current(own);
    declare_process(image, own, beginning);
    image.modules.fill(own, is_first);
    registry::introduce(own);
    if is_first {
        early::replay(own);
    }
    // What the rest is read by goes out first, before a disk is full or a slow reader makes records drop.
    crate::flush::everything(image, own);
    #[cfg(not(test))]
    crate::fatal::install(image);
}

fn declare_process(image: &'static Image, own: &Lane, beginning: Beginning) {
    // A forked child inherits what was done below this number, so it is read before the child takes one.
    let fork_point = sequence::so_far();
    let Some(mut guard) = image.modules.lock(own.tid.load(Relaxed)) else {
        return;
    };
    let buffer = guard.scratch().as_mut_slice();
    let pid = u64::from(image.pid.load(Relaxed));
    let event = Event {
        pc: sys::clock(libc::CLOCK_MONOTONIC),
        ..Event::of(Op::PROCESS, pid, clock::wall())
    };
    image.repeats.declare_process(own, event, |text| {
        push_exe(text, buffer);
        text.number_entry(b"ppid", u64::from(sys::getppid()));
        text.entry(
            b"began",
            match beginning {
                Beginning::Exec => b"exec",
                Beginning::Fork => b"fork",
                Beginning::Call => b"late",
            },
        );
        if beginning == Beginning::Fork {
            let mut room = [0; 8];
            let mut tag = Text::new(&mut room);
            tag.push_hex(&PARENT_TAG.load(Relaxed).to_be_bytes());
            text.entry(b"parent", tag.bytes());
            text.number_entry(b"fork", fork_point);
        }
        push_target(text);
        #[cfg(not(heapwire_static))]
        push_allocator(text, buffer);
        text.entry(b"options", CONFIG.get().options());
        text.entry(b"recorder", env!("CARGO_PKG_VERSION").as_bytes());
        push_arguments(text, buffer);
    });
}

fn push_exe(text: &mut Text<'_>, buffer: &mut [u8]) {
    if let Ok(length) = sys::read_link(b"/proc/self/exe\0", buffer)
        && let Some(path) = buffer.get(..length)
    {
        text.entry(b"exe", path.strip_suffix(b" (deleted)").unwrap_or(path));
    }
}

/// What blocks are aligned to: what the widest type needs, and two words at least.
const MALLOC_ALIGNMENT: usize = if align_of::<u128>() > size_of::<[usize; 2]>() {
    align_of::<u128>()
} else {
    size_of::<[usize; 2]>()
};

/// What of the target the reader must know.
fn push_target(text: &mut Text<'_>) {
    text.number_entry(b"machine", arch::MACHINE.elf);
    text.number_entry(b"word", size_of::<usize>() as u64);
    text.entry(
        b"order",
        if cfg!(target_endian = "little") {
            b"little"
        } else {
            b"big"
        },
    );
    text.number_entry(
        b"page",
        auxiliary::value(libc::AT_PAGESZ).unwrap_or(4096) as u64,
    );
    text.number_entry(b"align", MALLOC_ALIGNMENT as u64);
    let mut release = [0; 65];
    sys::kernel_release(&mut release);
    let length = release.iter().position(|byte| *byte == 0).unwrap_or(0);
    text.entry(b"kernel", release.get(..length).unwrap_or_default());
    let mut room = [0; 32];
    if let Some(version) = next::gnu_libc_version(&mut room) {
        let mut name = [0; 48];
        let mut libc = Text::new(&mut name);
        libc.push(b"glibc ");
        libc.push(version);
        text.entry(b"libc", libc.bytes());
    }
    text.entry(b"clock", b"monotonic-coarse");
    text.number_entry(b"clock-resolution", clock::resolution());
}

/// Which module's allocator is called, and what of it the program does not call through us.
#[cfg(not(heapwire_static))]
fn push_allocator(text: &mut Text<'_>, buffer: &mut [u8]) {
    if let Some(path) = loaded::allocator_path(buffer) {
        text.entry(b"allocator", path);
    }
    match loaded::shadowing(buffer) {
        Some((Function::Malloc, path)) => {
            text.entry(b"own-malloc", path);
        }
        Some((function, _)) => {
            let name = function.name().split(|byte| *byte == 0).next();
            text.entry(b"own-function", name.unwrap_or_default());
        }
        None => {}
    }
}

/// The command line, as far as it fits.
fn push_arguments(text: &mut Text<'_>, buffer: &mut [u8]) {
    let mut left_out: u64 = 0;
    auxiliary::each_entry(b"/proc/self/cmdline\0", buffer, &mut |argument, cut| {
        let used = argument.len();
        left_out = left_out.wrapping_add(cut as u64);
        // Room is kept for the entry that says how much is missing.
        if text.left() < used.wrapping_add(64) || !text.entry(b"arg", argument) {
            left_out = left_out.wrapping_add(used as u64).wrapping_add(1);
        }
    });
    if left_out != 0 {
        text.number_entry(b"args-cut", left_out);
    }
}
