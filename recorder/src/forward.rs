//! Hooks that do something before and after the real function: `realloc`, `calloc` and the aligned ones, C++'s operators (unless `direct`
//! does them), the functions that allocate for their caller, `dlclose`, `fork`.

use crate::arch::{self, entry_forward, entry_variadic};
use crate::function::{Function, Role};
use crate::heap::{self, NO_SIZE, Release};
use crate::helped::{Note, Purpose};
use crate::lane::{self, Lane};
#[cfg(not(heapwire_static))]
use crate::late;
use crate::loader::Found;
use crate::{early, fatal, image, modules, next};
use heapwire_format::{Family, Op};

/// One forwarded call, laid out by `arch::forward` on the stack of the caller.
#[repr(C)]
pub(crate) struct Call {
    arguments: [usize; 6],
    index: usize,
    pc: usize,
    sp: usize,
    /// The real function; written by `enter`.
    real: usize,
    /// What was noted before this call; written by `enter`.
    outer: Saved,
}

/// A note in a form without padding that could be read uninitialised: the whole is written by `enter`.
type Saved = core::mem::MaybeUninit<(bool, Note)>;

impl Call {
    /// The block that is to be resized, and to what size: one that no product of a `reallocarray` has that is left to the real one.
    fn resize(&self) -> [usize; 2] {
        let [block, size, ..] = self.arguments;
        let is_left = self.index == Function::Reallocarray as usize;
        [block, if is_left { usize::MAX } else { size }]
    }

    /// Leaves a note for hooks that are called from the code from `low` to `high`, until `leave`.
    fn note(&mut self, lane: &Lane, purpose: Purpose, pc: usize, (low, high): (usize, usize)) {
        self.outer.write((true, lane.helped.get()));
        lane.helped.set(&Note {
            sp: self.sp,
            pc,
            purpose,
            low,
            high,
            taken: 0,
            inner: 0,
        });
    }
}

const _: () = assert!(
    size_of::<Call>() <= 160,
    "the place that arch::forward leaves on the stack"
);

/// Before the real function; gives its address.
///
/// # Safety
///
/// `call` is the one that `arch::forward` has laid out.
pub(crate) unsafe extern "C" fn enter(call: *mut Call) -> usize {
    // SAFETY: `arch::forward` passes its own frame, which nobody else refers to.
    let call = unsafe { &mut *call };
    call.outer.write((false, Note::default()));
    let Some(mut function) = Function::at(call.index) else {
        return arch::missing as *const () as usize;
    };
    if function == Function::Reallocarray {
        let [_, count, each, ..] = &mut call.arguments;
        let product = count.checked_mul(*each);
        // Not every libc has it; and an allocator may not say why it fails, where it says so of an overflow itself.
        if product.is_some() || next::known(function).is_none() {
            *count = product.unwrap_or(usize::MAX);
            function = Function::Realloc;
            call.index = function as usize;
        }
    }
    let Some(real) = next::found(function).or_else(|| find(function, call)) else {
        return arch::missing as *const () as usize;
    };
    call.real = real.address;
    if let Some(lane) = current_lane() {
        prepare(lane, function, real, call);
    }
    real.address
}

/// Where this thread's calls are recorded: with the early ones as long as nothing is known of where to forward to.
fn current_lane() -> Option<&'static Lane> {
    match next::known(Function::Malloc) {
        Some(_) => lane::current(),
        None => early::lane(),
    }
}

#[cold]
fn find(function: Function, call: &Call) -> Option<Found> {
    if next::known(Function::Malloc).is_none() && !image::prepare() {
        let address = next::find_now(function).or_else(|| next::find_now(function.stand_in()));
        return address.map(|address| Found { address, length: 0 });
    }
    next::found(function).or_else(|| find_late(function, call))
}

#[cfg(not(heapwire_static))]
fn find_late(function: Function, call: &Call) -> Option<Found> {
    late::find(function, place_of(call))
}

/// A program that is one piece has all that it calls from the start.
#[cfg(heapwire_static)]
fn find_late(_: Function, _: &Call) -> Option<Found> {
    None
}

/// Code of the module that made the call.
#[cfg(not(heapwire_static))]
fn place_of(call: &Call) -> usize {
    if call.pc != crate::forwarded() {
        return call.pc;
    }
    // A real function that ends in a jump: the call that was forwarded to it lies above the return address.
    let above = call.sp.wrapping_add(arch::MACHINE.call_above);
    // SAFETY: `arch::forward` has laid it there, and has not returned.
    unsafe { (*core::ptr::with_exposed_provenance::<Call>(above)).real }
}

fn prepare(lane: &'static Lane, function: Function, real: Found, call: &mut Call) {
    if lane.helped.is_resize(call.pc, call.sp) {
        return;
    }
    let at = heap::Call {
        pc: call.pc,
        sp: call.sp,
    };
    let purpose = match function.role() {
        Role::Own | Role::Fork | Role::Disposition => return,
        Role::Unload => {
            if let Some(image) = image::current() {
                image.modules.before_unload(lane);
            }
            return;
        }
        Role::Resize => {
            heap::resizing(lane, call.resize(), at);
            let inner = next::resizes_by_name().then(|| modules::range_of(real.address));
            let Some((low, high)) = inner.flatten() else {
                return;
            };
            call.note(lane, Purpose::RESIZE, call.pc, (low, high));
            return;
        }
        Role::Release { family, size } => {
            let [block, ..] = call.arguments;
            if block == 0 {
                return;
            }
            let size = size.and_then(|index| call.arguments.get(usize::from(index)));
            let size = size.map_or(NO_SIZE, |size| *size as u64);
            let flags = as_far_as_known(family) as u8;
            let release = Release { block, size, flags };
            heap::released(lane, release, at);
            Purpose::release(block)
        }
        role => allocation_of(role, &call.arguments),
    };
    let around = lane.helped.for_call(call.pc, call.sp);
    let (purpose, pc) = on_behalf_of(around, purpose, call.pc);
    call.note(lane, purpose, pc, inner_code(function, real));
}

/// A function that is called on behalf of another is called on behalf of the other's caller.
fn on_behalf_of(around: Option<Note>, purpose: Purpose, pc: usize) -> (Purpose, usize) {
    match around.filter(Note::is_open) {
        Some(around) if around.purpose.is_help() => (purpose.helped(), around.pc),
        Some(around)
            if around
                .purpose
                .allocation()
                .and(purpose.allocation())
                .is_some() =>
        {
            (around.purpose, around.pc)
        }
        _ => (purpose, pc),
    }
}

fn allocation_of(role: Role, arguments: &[usize; 6]) -> Purpose {
    let [first, second, third, ..] = *arguments;
    match role {
        Role::Allocate { family, size } => {
            let size = arguments.get(usize::from(size)).copied().unwrap_or(0);
            let is_operator = !matches!(family, Family::Malloc | Family::Aligned);
            let purpose = Purpose::allocate(size, as_far_as_known(family) as u8);
            if is_operator {
                purpose.helped()
            } else {
                purpose
            }
        }
        Role::AllocateProduct => {
            Purpose::allocate(first.saturating_mul(second), Family::Malloc as u8)
        }
        Role::AllocateInto => Purpose::allocate(third, Family::Aligned as u8),
        _ => Purpose::HELP,
    }
}

/// The family of an operator, unless the program has replaced some of them: then any of them may be `malloc` and `free`.
fn as_far_as_known(family: Family) -> Family {
    match family {
        Family::Malloc | Family::Aligned => family,
        _ if next::are_operators_replaced() => Family::Unknown,
        _ => family,
    }
}

/// Where calls come from that the real function makes for its caller.
///
/// For an operator this is its own code: what the rest of its library allocates while it throws is not the block. The functions of
/// the libc allocate in others of the libc.
fn inner_code(function: Function, real: Found) -> (usize, usize) {
    if image::current().is_none() {
        return (0, usize::MAX); // an early call: neither symbols nor modules are known, and nobody jumps yet
    }
    let own = (real.address, real.address.wrapping_add(real.length));
    match function.role() {
        Role::Help | Role::AllocateProduct | Role::AllocateInto => {
            modules::range_of(real.address).unwrap_or(own)
        }
        _ => own,
    }
}

/// After the real function gave `result`; gives what the caller gets.
///
/// # Safety
///
/// As for `enter`, which was called before.
pub(crate) unsafe extern "C" fn leave(call: *mut Call, result: usize) -> usize {
    // SAFETY: as in `enter`.
    let call = unsafe { &mut *call };
    let Some(function) = Function::at(call.index) else {
        return result;
    };
    if matches!(function.role(), Role::Disposition) {
        return disposed(function, call, result);
    }
    #[cfg(not(heapwire_static))]
    if matches!(function.role(), Role::Unload) {
        late::forget();
    }
    let Some(lane) = current_lane() else {
        return result;
    };
    match function.role() {
        Role::Fork => forked(lane, result, call.pc),
        Role::Unload => {
            if let Some(image) = image::current() {
                image.modules.after_unload(lane);
            }
        }
        role => {
            // SAFETY: `enter` has written it.
            let (is_noted, outer) = unsafe { call.outer.assume_init() };
            if matches!(role, Role::Resize) {
                resized(lane, (is_noted, outer), result, call);
            } else if is_noted {
                finish(lane, role, outer, result, call);
            }
        }
    }
    result
}

/// Puts the note of the call around back if a `realloc` left its own, and records what it gave.
fn resized(lane: &Lane, (is_noted, outer): (bool, Note), result: usize, call: &Call) {
    if is_noted {
        lane.helped.set(&outer);
    }
    let Call { pc, sp, .. } = *call;
    if !lane.helped.is_resize(pc, sp) {
        heap::resized(lane, call.resize(), result, heap::Call { pc, sp });
    }
}

/// Records what no hook inside has recorded, and puts the note of the call around back.
fn finish(lane: &Lane, role: Role, outer: Note, result: usize, call: &Call) {
    let note = lane.helped.get();
    if !note.is_there() {
        return;
    }
    lane.helped.set(&outer);
    let Some((size, flags)) = note.purpose.allocation() else {
        return;
    };
    let block = match role {
        Role::Help => return,
        Role::AllocateInto => block_behind(result, call.arguments),
        _ => result,
    };
    // An operator can put a header in front: then what it gives is not what was recorded inside.
    if !note.has_recorded(block) {
        heap::append_allocation(lane, block, size, flags, note.pc);
    }
    // The call around, if this one was made for it, has its block now.
    if outer.is_there() && outer.purpose.allocation().is_some() {
        if note.pc == call.pc {
            lane.helped.saw(block);
        } else {
            lane.helped.take(block);
        }
    }
}

/// The block that `posix_memalign` has stored, if it succeeded.
fn block_behind(result: usize, [place, ..]: [usize; 6]) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "the result is an int")]
    let error = result as u32;
    if error != 0 {
        return 0;
    }
    // SAFETY: it succeeded, so it has just stored a pointer there.
    unsafe { core::ptr::with_exposed_provenance::<usize>(place).read() }
}

fn disposed(function: Function, call: &Call, result: usize) -> usize {
    let [signal, _, old, ..] = call.arguments;
    #[expect(clippy::cast_possible_truncation, reason = "both are ints")]
    let (signal, error) = ((signal as u32).cast_signed(), result as u32);
    if function != Function::Sigaction {
        return fatal::after_signal(signal, result);
    }
    if error == 0 {
        fatal::after_sigaction(signal, old);
    }
    result
}

/// In the parent: a child was made. In the child its first call is to find the image wiped; older kernels, and emulators, do not do that.
fn forked(lane: &Lane, result: usize, pc: usize) {
    #[expect(clippy::cast_possible_truncation, reason = "a pid is an int")]
    let pid = (result as u32).cast_signed();
    if lane.is_wiped() {
        return;
    }
    if pid == 0 {
        image::wipe();
    }
    if pid > 0 {
        lane.append_rare(Op::FORK, u64::from(pid.cast_unsigned()), 0, pc);
    }
}

/// Entry of an operator that takes a size, whose type is part of its name.
macro_rules! entry_sized {
    ($wide:ident, $narrow:ident, $function:expr) => {
        #[cfg(target_pointer_width = "64")]
        entry_forward!($wide, $function);
        #[cfg(target_pointer_width = "32")]
        entry_forward!($narrow, $function);
    };
}

entry_forward!(realloc, Function::Realloc);
entry_forward!(reallocarray, Function::Reallocarray);
entry_forward!(memalign, Function::Memalign);
entry_forward!(aligned_alloc, Function::AlignedAlloc);
entry_forward!(posix_memalign, Function::PosixMemalign);
entry_forward!(valloc, Function::Valloc);
entry_forward!(pvalloc, Function::Pvalloc);
entry_sized!(
    _ZnwmRKSt9nothrow_t,
    _ZnwjRKSt9nothrow_t,
    Function::NewNothrow
);
entry_sized!(
    _ZnwmSt11align_val_t,
    _ZnwjSt11align_val_t,
    Function::NewAlign
);
entry_sized!(
    _ZnwmSt11align_val_tRKSt9nothrow_t,
    _ZnwjSt11align_val_tRKSt9nothrow_t,
    Function::NewAlignNothrow
);
entry_sized!(
    _ZnamRKSt9nothrow_t,
    _ZnajRKSt9nothrow_t,
    Function::ArrayNothrow
);
entry_sized!(
    _ZnamSt11align_val_t,
    _ZnajSt11align_val_t,
    Function::ArrayAlign
);
entry_sized!(
    _ZnamSt11align_val_tRKSt9nothrow_t,
    _ZnajSt11align_val_tRKSt9nothrow_t,
    Function::ArrayAlignNothrow
);
entry_forward!(_ZdlPvRKSt9nothrow_t, Function::DeleteNothrow);
entry_forward!(_ZdlPvSt11align_val_t, Function::DeleteAlign);
entry_forward!(
    _ZdlPvSt11align_val_tRKSt9nothrow_t,
    Function::DeleteAlignNothrow
);
entry_sized!(
    _ZdlPvmSt11align_val_t,
    _ZdlPvjSt11align_val_t,
    Function::DeleteSizedAlign
);
entry_forward!(_ZdaPvRKSt9nothrow_t, Function::DeleteArrayNothrow);
entry_forward!(_ZdaPvSt11align_val_t, Function::DeleteArrayAlign);
entry_forward!(
    _ZdaPvSt11align_val_tRKSt9nothrow_t,
    Function::DeleteArrayAlignNothrow
);
entry_sized!(
    _ZdaPvmSt11align_val_t,
    _ZdaPvjSt11align_val_t,
    Function::DeleteArraySizedAlign
);
entry_forward!(strdup, Function::Strdup);
entry_forward!(__strdup, Function::StrdupOld);
entry_forward!(strndup, Function::Strndup);
entry_forward!(__strndup, Function::StrndupOld);
entry_forward!(wcsdup, Function::Wcsdup);
entry_forward!(vasprintf, Function::Vasprintf);
entry_forward!(__vasprintf_chk, Function::VasprintfChecked);
entry_variadic!(asprintf, Function::Vasprintf, 2);
entry_variadic!(__asprintf_chk, Function::VasprintfChecked, 3);
entry_forward!(getline, Function::Getline);
entry_forward!(getdelim, Function::Getdelim);
entry_forward!(__getdelim, Function::GetdelimOld);
entry_forward!(realpath, Function::Realpath);
entry_forward!(__realpath_chk, Function::RealpathChecked);
entry_forward!(canonicalize_file_name, Function::CanonicalizeFileName);
entry_forward!(getcwd, Function::Getcwd);
entry_forward!(__getcwd_chk, Function::GetcwdChecked);
entry_forward!(get_current_dir_name, Function::GetCurrentDirName);
entry_forward!(sigaction, Function::Sigaction);
entry_forward!(signal, Function::Signal);
entry_forward!(__sysv_signal, Function::SignalSysv);
entry_forward!(bsd_signal, Function::SignalBsd);
entry_forward!(ssignal, Function::SignalOld);
entry_forward!(sysv_signal, Function::SignalPlainSysv);
entry_forward!(sigset, Function::Sigset);
entry_forward!(dlclose, Function::Dlclose);
entry_forward!(fork, Function::Fork);
entry_forward!(_Fork, Function::ForkOnly);

/// What `direct` does where there is machine code for it.
#[cfg(not(target_arch = "x86_64"))]
mod not_direct {
    use super::{Function, entry_forward};

    entry_forward!(calloc, Function::Calloc);
    entry_sized!(_Znwm, _Znwj, Function::NewPlain);
    entry_sized!(_Znam, _Znaj, Function::ArrayPlain);
    entry_forward!(_ZdlPv, Function::DeletePlain);
    entry_sized!(_ZdlPvm, _ZdlPvj, Function::DeleteSized);
    entry_forward!(_ZdaPv, Function::DeleteArray);
    entry_sized!(_ZdaPvm, _ZdaPvj, Function::DeleteArraySized);
}
