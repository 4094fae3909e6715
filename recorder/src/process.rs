//! The ways a process image ends, and the marks that a program sets.

use crate::arch::{self, entry_pass};
use crate::config::CONFIG;
use crate::event::Event;
use crate::extent::HAS_LOGS;
use crate::function::Function;
use crate::image::{self, Image};
use crate::lane::{self, Lane};
use crate::sandbox::Wish;
use crate::{clock, fatal, flush, loader, next, sys, turn};
use heapwire_format::{EndReason, IN_PARENTS_MEMORY, Op};

/// Before the function with this index, which returns to `pc`. Gives its address; the caller jumps there.
///
/// # Safety
///
/// `saved` is what `arch::pass` has laid out.
pub(crate) unsafe extern "C" fn before(
    index: usize,
    pc: usize,
    saved: *const arch::Saved,
) -> usize {
    let missing = arch::missing as *const () as usize;
    let Some(function) = Function::at(index) else {
        return missing;
    };
    if next::known(Function::Malloc).is_none() && !image::prepare() {
        return next::find_now(function).unwrap_or(missing);
    }
    if let Function::Longjmp
    | Function::LongjmpOld
    | Function::LongjmpChecked
    | Function::Siglongjmp = function
    {
        if let (Some(lane), Some(image)) = (lane::own(), image::current()) {
            lane.helped.close();
            turn::end_all(image, lane);
        }
        return next::known(function).unwrap_or(missing);
    }
    // SAFETY: the caller vouches for it.
    let arguments = arch::first_four(unsafe { *saved });
    if let Function::Mmap | Function::MmapWide | Function::Munmap = function {
        let [start, length, _, flags] = arguments;
        let replaces = flags & libc::MAP_FIXED.cast_unsigned() as usize != 0;
        if (replaces || function == Function::Munmap)
            && let (Some(lane), Some(image)) = (lane::own(), image::current())
        {
            image.modules.before_replaced(lane, start, length);
        }
        return next::known(function).unwrap_or(missing);
    }
    let is_filter = matches!(function, Function::Prctl | Function::Syscall);
    let wish = Wish::of(function, arguments);
    if image::is_waiting() && wish.is_some() {
        image::turn_off(); // which calls will be left, nobody has asked
    }
    if is_session(function) {
        return missing;
    }
    #[cfg(heapwire_static)]
    if function == Function::Abort && crate::linked::is_by_libc(pc) {
        return next::known(function).unwrap_or(missing);
    }
    if (!is_filter || wish.is_some())
        && !image::is_off()
        && let (Some(lane), Some(image)) = (lane_for(function), image::current())
    {
        match wish {
            Some(wish) if image.is_ours() && wish.forbids(image) => seal(image, lane),
            Some(_) => {}
            None => announce(image, lane, function, pc, arguments),
        }
    }
    next::known(function).unwrap_or(missing)
}

/// This thread's lane. A child that calls nothing else leaves no log, and no trace unless it becomes another program.
fn lane_for(function: Function) -> Option<&'static Lane> {
    let is_new = lane::own().is_none_or(Lane::is_wiped);
    match function {
        _ if is_new && CONFIG.get().is_log() => None,
        Function::Exit | Function::ExitC | Function::QuickExit => lane::current(),
        _ if is_new => image::attach(),
        _ => lane::current(),
    }
}

/// Whether a call of `mtrace` or `muntrace` is one of those that MALLOC_TRACE has us answer.
fn is_session(function: Function) -> bool {
    match function {
        _ if !HAS_LOGS => false,
        Function::Mtrace => image::begin_session(),
        Function::Muntrace if !image::is_off() => {
            let both = image::current().zip(lane::current());
            both.is_some_and(|(image, lane)| image::end_session(image, lane))
        }
        _ => false,
    }
}

/// Makes the last system calls.
fn seal(image: &Image, lane: &Lane) {
    if !image.are_lanes_in_file() {
        lane.append_rare(Op::PAUSE, 0, 0, 0); // nobody will be told how much is lost
    }
    flush::everything(image, lane);
    fatal::uninstall();
    clock::stop();
    loader::check_copies(false);
    image.seal();
}

fn announce(image: &Image, lane: &Lane, function: Function, pc: usize, [argument, ..]: [usize; 4]) {
    match function {
        Function::Mtrace => mark(lane, pc, b"mtrace"),
        Function::Muntrace => mark(lane, pc, b"muntrace"),
        // A vforked child leaves in its parent's memory: what it flushes is right, an end or exec would not be.
        Function::Exit
        | Function::ExitC
        | Function::QuickExit
        | Function::Abort
        | Function::AssertFail
            if !image.is_ours() =>
        {
            flush::empty_own(image, lane);
        }
        // Else its death would be taken for one in the last release.
        Function::Abort | Function::AssertFail => {
            lane.append_rare(Op::FAULT, 0, libc::SIGABRT.cast_unsigned().into(), pc);
            flush::everything(image, lane);
        }
        _ if !image.is_ours() => {
            // The parent does not see it become a program of its own; the reader is to look for that program's stream.
            lane.append_rare(Op::FORK, u64::from(sys::getpid()), IN_PARENTS_MEMORY, pc);
            flush::empty_own(image, lane);
        }
        Function::Exit | Function::ExitC | Function::QuickExit => {
            let status = argument as u64 & 0xFF;
            end(image, lane, EndReason::Immediate, status);
        }
        _ => {
            // Counts only if nothing follows it: the call can fail.
            lane.renew_clock();
            lane.append_rare(Op::EXEC, 0, 0, pc);
            flush::everything(image, lane);
        }
    }
}

fn mark(lane: &Lane, pc: usize, label: &[u8]) {
    lane.renew_clock();
    let _ = lane.time(); // which the declaration has then
    lane.declare(Event::of(Op::MARK, 0, 0).with_pc(pc, 0), label);
}

fn end(image: &Image, lane: &Lane, reason: EndReason, status: u64) {
    if !image.are_lanes_in_file() {
        // Before the end, so that the last lanes are written with limits as they were, and the end can go alone: where frames are
        // dropped, one so small gets through.
        flush::everything(image, lane);
    }
    if image.end() {
        lane.renew_clock();
        lane.append_rare(Op::END, reason as u64, status, 0);
    }
    flush::everything(image, lane);
}

/// Starts recording even where the program never allocates: that too is an answer.
extern "C" fn begin() {
    if image::prepare() {
        let _ = lane::current();
    }
}

/// The destructor of this library. Others may run later, and allocate.
extern "C" fn finish() {
    if next::known(Function::Malloc).is_none() || image::is_off() {
        return;
    }
    if let (Some(lane), Some(image)) = (lane::current(), image::current())
        && image.is_ours()
    {
        end(image, lane, EndReason::Exit, u64::MAX);
    }
}

// In a program that we are part of, the first of those that begin, and so the last of those that end.
#[used]
#[cfg_attr(not(heapwire_static), unsafe(link_section = ".init_array"))]
#[cfg_attr(heapwire_static, unsafe(link_section = ".init_array.00000"))]
static BEGIN: extern "C" fn() = begin;

#[used]
#[cfg_attr(not(heapwire_static), unsafe(link_section = ".fini_array"))]
#[cfg_attr(heapwire_static, unsafe(link_section = ".fini_array.00000"))]
static FINISH: extern "C" fn() = finish;

entry_pass!(_exit, Function::Exit);
entry_pass!(_Exit, Function::ExitC);
entry_pass!(quick_exit, Function::QuickExit);
entry_pass!(execve, Function::Execve);
entry_pass!(execv, Function::Execv);
entry_pass!(execvp, Function::Execvp);
entry_pass!(execvpe, Function::Execvpe);
entry_pass!(execl, Function::Execl);
entry_pass!(execlp, Function::Execlp);
entry_pass!(execle, Function::Execle);
entry_pass!(fexecve, Function::Fexecve);
entry_pass!(execveat, Function::Execveat);
entry_pass!(longjmp, Function::Longjmp);
entry_pass!(_longjmp, Function::LongjmpOld);
entry_pass!(__longjmp_chk, Function::LongjmpChecked);
entry_pass!(siglongjmp, Function::Siglongjmp);
entry_pass!(abort, Function::Abort);
entry_pass!(__assert_fail, Function::AssertFail);
entry_pass!(prctl, Function::Prctl);
entry_pass!(syscall, Function::Syscall);
entry_pass!(mmap, Function::Mmap);
entry_pass!(mmap64, Function::MmapWide);
entry_pass!(munmap, Function::Munmap);
entry_pass!(mtrace, Function::Mtrace);
entry_pass!(muntrace, Function::Muntrace);
