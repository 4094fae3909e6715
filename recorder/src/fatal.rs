//! Fatal signals, where the last records would die with the process.
//!
//! Lanes in a file survive whatever happens; there only SIGBUS is caught, because somebody may cut the file below them.
//! Elsewhere the five signals that a fault of the program raises are caught, if nobody else catches them: what is committed is
//! flushed, and the signal does what it would have done. The program does not see the handlers: to `sigaction`
//! and `signal` the disposition is the default.

use crate::image::{self, Image};
use crate::lane;
use crate::{arch, flush, sys};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use heapwire_format::Op;

/// SIGBUS first: it is the one that is caught always.
const SIGNALS: [i32; 5] = [
    libc::SIGBUS,
    libc::SIGABRT,
    libc::SIGSEGV,
    libc::SIGILL,
    libc::SIGFPE,
];

/// How many of `SIGNALS`, from its start, are caught.
static CAUGHT: AtomicU32 = AtomicU32::new(0);

/// A disposition as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Action {
    #[cfg(target_arch = "mips")]
    pub(crate) flags: usize,
    pub(crate) handler: usize,
    #[cfg(not(target_arch = "mips"))]
    pub(crate) flags: usize,
    #[cfg(not(any(target_arch = "mips", target_arch = "riscv64")))]
    pub(crate) restorer: usize,
    pub(crate) mask: sys::SignalSet,
}

/// Catches the fatal signals that have their default.
pub(crate) fn install(image: &Image) {
    let count = if image.are_lanes_in_file() { 1 } else { 5 };
    CAUGHT.store(count, Relaxed);
    for signal in SIGNALS.iter().take(count as usize) {
        catch_if_default(*signal);
    }
}

/// Whether a thread with this mask can catch that somebody has cut the file below its lanes. Where SIGBUS is blocked or ignored, a store
/// there is the end of the process.
pub(crate) fn can_catch_cuts(mask: sys::SignalSet) -> bool {
    let is_ignored = |action: Action| action.handler == libc::SIG_IGN;
    !mask.has(libc::SIGBUS) && !sys::action(libc::SIGBUS).is_ok_and(is_ignored)
}

/// Gives the signals back.
pub(crate) fn uninstall() {
    for signal in SIGNALS.iter().take(CAUGHT.swap(0, Relaxed) as usize) {
        if sys::action(*signal).is_ok_and(|action| action.handler == handler_address()) {
            sys::set_action(*signal, &Action::default());
        }
    }
}

/// Our handler's address, to compare dispositions with.
fn handler_address() -> usize {
    caught as *const () as usize
}

fn catch_if_default(signal: i32) {
    if sys::action(signal).is_ok_and(|action| action.handler == libc::SIG_DFL) {
        const FLAGS: u32 = (libc::SA_SIGINFO | libc::SA_ONSTACK).cast_unsigned();
        let mut action = Action {
            handler: handler_address(),
            flags: FLAGS as usize,
            mask: sys::SignalSet::ALL,
            ..Action::default()
        };
        arch::set_restorer(&mut action);
        sys::set_action(signal, &action);
    }
}

/// Gets the faulting thread's records out, and lets the signal do what it would have done.
extern "C" fn caught(signal: i32, information: *const libc::siginfo_t, context: *const u8) {
    // SAFETY: the kernel passes the information and the context of this signal on our stack.
    let fault = unsafe { Fault::read(signal, information, context) };
    if let Some(image) = image::current().filter(|image| image.holds_lanes(fault.address))
        && signal == libc::SIGBUS
    {
        image.file_shrank(); // the store goes into private memory when we return
        return;
    }
    if let (Some(lane), Some(image)) = (lane::current(), image::current()) {
        let size = u64::from(signal.cast_unsigned()) | u64::from(fault.code.cast_unsigned()) << 32;
        lane.append_rare(Op::FAULT, fault.address as u64, size, fault.pc);
        flush::everything(image, lane);
    }
    sys::set_action(signal, &Action::default());
    if fault.code <= 0 {
        // Sent, not caused: it would not come again by itself. It waits until we return.
        sys::send_to_this_thread(signal);
    }
}

/// What the kernel says of a signal.
struct Fault {
    code: i32,
    address: usize,
    pc: usize,
}

impl Fault {
    /// # Safety
    ///
    /// Both pointers are those that the kernel passed to a handler with `SA_SIGINFO`.
    unsafe fn read(signal: i32, information: *const libc::siginfo_t, context: *const u8) -> Self {
        // SAFETY: the caller vouches for it.
        let information = unsafe { &*information };
        let code = information.si_code;
        let has_address = code > 0 && signal != libc::SIGABRT;
        // SAFETY: these signals carry an address when the kernel caused them, and the field is there anyway.
        let address = unsafe { information.si_addr() }.expose_provenance();
        let address = if has_address { address } else { 0 };
        // SAFETY: the context lies where the caller says.
        let pc = unsafe { arch::interrupted_pc(context) };
        Self { code, address, pc }
    }
}

/// After the program has asked for or changed the disposition of `signal` through `sigaction`, which wrote
/// `old` (or null).
pub(crate) fn after_sigaction(signal: i32, old: usize) {
    if !is_ours(signal) {
        return;
    }
    if old != 0 {
        let place = core::ptr::with_exposed_provenance_mut::<libc::sigaction>(old);
        // SAFETY: `sigaction` succeeded, so it has just written there.
        let action = unsafe { &mut *place };
        if action.sa_sigaction == handler_address() {
            // SAFETY: all zero is the default without flags, and an empty set.
            *action = unsafe { core::mem::zeroed() };
        }
    }
    catch_if_default(signal);
}

/// After `signal` gave `old`; gives what the program is to see.
pub(crate) fn after_signal(signal: i32, old: usize) -> usize {
    if !is_ours(signal) {
        return old;
    }
    catch_if_default(signal);
    if old == handler_address() {
        libc::SIG_DFL
    } else {
        old
    }
}

fn is_ours(signal: i32) -> bool {
    // Relaxed: stored before any handler of ours is installed.
    SIGNALS
        .iter()
        .take(CAUGHT.load(Relaxed) as usize)
        .any(|caught| *caught == signal)
}
