//! One process image: what the recorder knows about itself between a start or fork and the end.
//!
//! It lies in memory that a forked child gets as zeroes (`MADV_WIPEONFORK`): the child finds no lane, no lock held by a
//! thread that it does not have, and a state that says "not started", and begins a stream of its own at its first call. What
//! must outlive a fork (settings, output, counter, looked-up functions) lies outside.

use crate::config::{CONFIG, Target};
use crate::extent::HAS_LOGS;
use crate::lane::{self, Lane};
use crate::log::{self, Log};
use crate::output::OUTPUT;
use crate::pack::Benches;
use crate::repeat::Repeats;
use crate::start::{self, Beginning};
use crate::stream::Stream;
use crate::sync::{AtomicU32, Relaxed, Wide};
use crate::turn::Gate;
use crate::{arch, flush, modules, next, registry, sys};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Release};
use heapwire_format::{EndReason, Op};

/// Most lanes, and so most threads that record at the same time.
pub(crate) const LANES: usize = 4096;

/// See the module. All zero is a valid image that has not started.
#[repr(C)]
pub(crate) struct Image {
    state: AtomicU32,
    pub(crate) pid: AtomicU32,
    /// Stream tag.
    pub(crate) tag: AtomicU32,
    /// Threads so far.
    pub(crate) threads: AtomicU32,
    /// Frames so far.
    pub(crate) frames: AtomicU32,
    pub(crate) lost: AtomicU32,
    pub(crate) void: AtomicU32,
    pub(crate) culled: AtomicU32,
    /// The file was at least this long: it holds our lanes.
    pub(crate) file_floor: Wide,
    /// Of who has the descriptor, where it is only there for one frame.
    pub(crate) held: Gate,
    /// Not 0 while the reader does not read: nobody waits for it then.
    pub(crate) is_stalled: AtomicU32,
    ended: AtomicU32,
    pub(crate) registry: registry::Registry,
    pub(crate) modules: modules::Table,
    pub(crate) stream: Stream,
    pub(crate) benches: Benches,
    pub(crate) repeats: Repeats,
    pub(crate) log: Log,
    lanes: [Lane; LANES],
}

const FRESH: u32 = 0;
const STARTING: u32 = 1;
const READY: u32 = 2;

/// The image, once there is memory for it.
static IMAGE: AtomicPtr<Image> = AtomicPtr::new(core::ptr::null_mut());

/// `Cold → Claimed → Recording → Off`, and from anywhere to `Off`. Nothing leaves `Off`.
///
/// Where nothing says from the start where to record to, it is `Claimed → Waiting` for a call of `mtrace`, then
/// `Waiting → Beginning → Recording`, and with `muntrace` `Recording → Waiting`.
static LIFE: AtomicU32 = AtomicU32::new(0);
const COLD: u32 = 0;
const CLAIMED: u32 = 1;
const BEGINNING: u32 = 2;
const RECORDING: u32 = 3;
const OFF: u32 = 4;
const WAITING: u32 = 5;

/// Calls that could not be recorded because they came before we were relocated or while we started.
static EARLY: AtomicU32 = AtomicU32::new(0);

/// The image, if it was ever started.
#[inline]
pub(crate) fn current() -> Option<&'static Image> {
    // SAFETY: null, or memory that `allocate` mapped for an image and that is never unmapped. Acquire: pairs with `allocate`.
    unsafe { IMAGE.load(Acquire).as_ref() }
}

/// Gets ready for the first hook: looks functions up and starts recording. Hooks call it as long as they do not
/// know the function that they forward to.
///
/// `false`: nothing can be recorded yet, and the address must be looked up by `early_address`.
#[cold]
#[inline(never)]
pub(crate) fn prepare() -> bool {
    #[cfg(not(heapwire_static))]
    if !arch::is_relocated() {
        crate::relocate::relocate_early();
        return false;
    }
    next::look_up_all();
    true
}

/// Counts a call that could not be recorded at all.
pub(crate) fn count_early() {
    crate::sequence::take(1);
    EARLY.fetch_add(1, Relaxed); // a count; read when the start is over
}

/// This thread's lane, found or made; `None` where nothing is to be recorded.
///
/// Called where a thread has no lane: at its first call, at the first of a process image, and always while
/// recording is off.
#[cold]
#[inline(never)]
pub(crate) fn attach() -> Option<&'static Lane> {
    match LIFE.load(Acquire) {
        // Acquire: pairs with the Release in `start_first`.
        RECORDING => {}
        OFF => return current().and_then(missed),
        WAITING | BEGINNING => return None,
        COLD => {
            // Relaxed: the claim publishes nothing.
            if LIFE
                .compare_exchange(COLD, CLAIMED, Relaxed, Relaxed)
                .is_err()
            {
                return early();
            }
            if !start_first() {
                return None;
            }
        }
        _ => return early(),
    }
    let image = current()?;
    match image.state.load(Acquire) {
        // Acquire: pairs with the Release in `start_child` and `start_first`.
        READY => {}
        FRESH => start_child(image)?,
        _ => return early(),
    }
    if arch::thread_word() == 0 || lane::current().is_none_or(Lane::is_wiped) {
        if !image.is_ours() {
            // The child of a vfork, in its parent's memory: a lane under its tid would be an orphan's when it is gone.
            return missed(image);
        }
        let Some(own) = registry::register(image) else {
            return missed(image);
        };
        lane::set_current(own);
        registry::introduce(own);
    }
    lane::current()
}

/// Counts a call of a thread that has no lane.
fn missed(image: &Image) -> Option<&'static Lane> {
    crate::sequence::take(1);
    image.lose(1);
    None
}

fn early() -> Option<&'static Lane> {
    count_early();
    None
}

/// Starts the first image of this process. Only the thread that claimed it gets here.
fn start_first() -> bool {
    let Some(image) = allocate() else {
        turn_off();
        return false;
    };
    image.lost.store(EARLY.load(Relaxed), Relaxed);
    begin(image, Beginning::Exec)
}

/// Begins to record in this image. Only the thread that claimed it gets here.
fn begin(image: &'static Image, beginning: Beginning) -> bool {
    let is_recording = start::begin(image, beginning);
    if is_recording {
        image.state.store(READY, Release); // pairs with `attach`
    }
    let life = match CONFIG.get().target {
        _ if is_recording => RECORDING,
        Target::Nothing if HAS_LOGS => WAITING,
        _ => OFF,
    };
    // Release: pairs with the Acquire in `attach`: settings, output and image are there. It stays off if turned off.
    let claimed = match beginning {
        Beginning::Call => BEGINNING,
        _ => CLAIMED,
    };
    let opened = LIFE
        .compare_exchange(claimed, life, Release, Relaxed)
        .is_ok();
    if opened && is_recording {
        image.set_limits(); // of lanes from before
        start::declare(image, beginning);
    }
    opened && is_recording
}

/// Begins to record at a call of `mtrace`, if that is what to wait for and MALLOC_TRACE says where to. Gives whether it is.
pub(crate) fn begin_session() -> bool {
    // Acquire: pairs with the Release of who opened it.
    if LIFE.load(Acquire) == RECORDING {
        return CONFIG.get().is_by_call; // a second call does nothing
    }
    // Acquire: pairs with the Release of who has been here before.
    let claimed = LIFE.compare_exchange(WAITING, BEGINNING, Acquire, Relaxed);
    let Some(image) = current().filter(|_| claimed.is_ok()) else {
        return false;
    };
    if image.state.load(Relaxed) != READY || CONFIG.get().is_log() {
        begin(image, Beginning::Call);
    } else {
        // As in `begin`.
        let _ = LIFE.compare_exchange(BEGINNING, RECORDING, Release, Relaxed);
        image.set_limits();
    }
    if let Some(lane) = lane::current() {
        lane.append_rare(Op::RESUME, 0, 0, 0); // the first time it says nothing new
        image.modules.fill(lane, false);
    }
    !is_waiting()
}

/// Ends what `begin_session` has begun. Gives whether it has.
pub(crate) fn end_session(image: &Image, lane: &Lane) -> bool {
    if !CONFIG.get().is_by_call {
        return false;
    }
    lane.append_rare(Op::END, EndReason::Immediate as u64, u64::MAX, 0);
    // Release: pairs with the Acquire in `begin_session`.
    if LIFE
        .compare_exchange(RECORDING, WAITING, Release, Relaxed)
        .is_err()
    {
        return true;
    }
    image.set_limits();
    flush::everything(image, lane);
    if CONFIG.get().is_log() {
        log::flush(image, lane, true);
    }
    true
}

/// Starts the image of a forked child, which its parent's memory was wiped from.
fn start_child(image: &'static Image) -> Option<()> {
    // Relaxed: the claim publishes nothing.
    image
        .state
        .compare_exchange(FRESH, STARTING, Relaxed, Relaxed)
        .ok()?;
    if !start::begin(image, Beginning::Fork) {
        turn_off();
        return None;
    }
    image.state.store(READY, Release); // pairs with `attach`
    start::declare(image, Beginning::Fork);
    Some(())
}

fn allocate() -> Option<&'static Image> {
    let address = sys::map_anonymous(size_of::<Image>()).ok()?;
    // An old kernel cannot wipe; then lanes must not be shared with a child, see `registry`.
    let wipes = sys::wipe_on_fork(address, size_of::<Image>()).is_ok();
    WIPES.store(u32::from(wipes), Relaxed);
    let image = core::ptr::with_exposed_provenance_mut::<Image>(address);
    IMAGE.store(image, Release); // pairs with `current`
    current()
}

/// Whether the kernel wipes the image in a forked child.
static WIPES: AtomicU32 = AtomicU32::new(0);

pub(crate) fn is_wiped_by_kernel() -> bool {
    WIPES.load(Relaxed) != 0 // stored before recording opens
}

/// Does what the kernel should have done: in a forked child, whose only thread is the caller's.
#[cfg_attr(test, expect(dead_code, reason = "tests have no hooks"))]
pub(crate) fn wipe() {
    let image = IMAGE.load(Acquire).expose_provenance(); // as in `current`
    // SAFETY: the mapping is ours, and what it holds is the parent's.
    let _ = unsafe { sys::replace_by_anonymous(image, size_of::<Image>()) };
}

/// Whether nothing is recorded, for good or until a call of `mtrace`.
pub(crate) fn is_off() -> bool {
    LIFE.load(Relaxed) >= OFF // publishes nothing
}

/// Whether nothing is recorded until a call of `mtrace`, or until one comes back.
pub(crate) fn is_waiting() -> bool {
    HAS_LOGS && matches!(LIFE.load(Relaxed), WAITING | BEGINNING) // publishes nothing
}

/// Turns recording off for good.
pub(crate) fn turn_off() {
    OUTPUT.close();
    LIFE.store(OFF, Relaxed);
}

impl Image {
    /// Whether this image is the one of the running process, and not its parent's seen by a `vfork`ed child.
    pub(crate) fn is_ours(&self) -> bool {
        self.state.load(Relaxed) == READY && self.pid.load(Relaxed) == sys::getpid()
    }

    pub(crate) fn lane(&self, index: usize) -> Option<&Lane> {
        self.lanes.get(index)
    }

    /// The lanes that have had an owner.
    pub(crate) fn lanes_in_use(&self) -> &[Lane] {
        self.lanes.get(..self.registry.in_use()).unwrap_or_default()
    }

    /// Whether the end was declared: then each record on a descriptor is written at once.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed) != 0
    }

    /// Declares the end over, once. Lanes in a file go on as before: they are in the file.
    pub(crate) fn end(&self) -> bool {
        let is_first = self.registry.claim_end();
        if is_first && !self.are_lanes_in_file() {
            self.ended.store(1, Relaxed);
            self.set_limits();
        }
        is_first
    }

    /// Counts records that cannot be recorded.
    pub(crate) fn lose(&self, count: u32) {
        let lost = self.lost.fetch_add(count, Relaxed).wrapping_add(count); // a count; publishes nothing
        let void = self.void.load(Relaxed);
        self.registry
            .note_losses(lost, void, crate::sequence::roughly());
    }

    /// Whether lanes outlive the process.
    pub(crate) fn are_lanes_in_file(&self) -> bool {
        self.file_floor.load() != 0
    }

    /// Whether `address` lies in lanes in the file.
    pub(crate) fn holds_lanes(&self, address: usize) -> bool {
        self.registry.holds(address)
    }

    /// The output is gone for good.
    pub(crate) fn give_up(&self) {
        turn_off();
        self.set_limits();
    }

    /// Has lanes take as much as they are to take now.
    fn set_limits(&self) {
        for lane in self.lanes_in_use() {
            lane.limit.store(self.limit_of(lane.capacity()), Relaxed);
        }
    }

    /// No system call may be made any more: lanes in the file take what they have room for.
    pub(crate) fn seal(&self) {
        turn_off();
        for lane in self.lanes_in_use() {
            let room = if self.are_lanes_in_file() {
                lane.capacity()
            } else {
                0
            };
            lane.limit.store(room, Relaxed);
        }
    }

    /// Somebody cut our file: the lanes in it must not be touched any more.
    pub(crate) fn file_shrank(&self) {
        self.give_up();
        self.registry.leave_file();
    }

    /// Slots at which a lane of `capacity` is flushed: the rest is for records of handlers during a flush.
    pub(crate) fn limit_of(&self, capacity: u32) -> u32 {
        if self.has_ended() || is_off() || CONFIG.get().is_log() {
            return 0;
        }
        let most = capacity.wrapping_sub(capacity / 8);
        most.min(OUTPUT.kind().records_in_frame())
    }

    /// Whether lanes can lie in the output file.
    pub(crate) fn can_map(&self) -> bool {
        let config = CONFIG.get();
        is_wiped_by_kernel() && config.target == Target::File && !config.is_log()
    }
}
