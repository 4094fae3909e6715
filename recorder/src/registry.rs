//! Which lane belongs to which thread, and where the memory of lanes comes from.
//!
//! Lanes come in chunks, small ones after the first few, so that a program with one thread pays for one. In a regular file
//! a chunk is a LANES frame, mapped: its records outlive the process. Elsewhere it is private memory.

use crate::config::CONFIG;
use crate::image::{Image, LANES};
use crate::lane::Lane;
use crate::output::{self, Kind, OUTPUT, piece};
use crate::ring::Slot;
use crate::sync::{FileWord, Relaxed};
use crate::sys::{self, SignalSet};
use crate::turn::Gate;
use crate::{clock, path};
use core::sync::atomic::Ordering::{Acquire, Release};
use core::sync::atomic::{AtomicU32, AtomicUsize};
use heapwire_format::{
    FrameKind, Header, LANES_PAGE, LaneHeader, LanesTable, Op, Record, TRAILER_SIZE, trailer,
};

use crate::event::Event;

/// Lanes and slots of the chunks for files, in order; the last one repeats.
const FILE_CHUNKS: [Shape; 4] = [
    Shape {
        lanes: 1,
        slots: 2048,
    },
    Shape {
        lanes: 3,
        slots: 1024,
    },
    Shape {
        lanes: 8,
        slots: 512,
    },
    Shape {
        lanes: 32,
        slots: 128,
    },
];
/// The same for pipes, sockets and terminals: a lane is a frame, and the rest is for handlers.
const PIPE_CHUNKS: [Shape; 2] = [
    Shape {
        lanes: 4,
        slots: 128,
    },
    Shape {
        lanes: 32,
        slots: 128,
    },
];

/// Lanes whose owners a new thread looks at before it takes another lane: each look is a system call, and threads may be thousands.
const LOOKS: usize = 16;

/// Most chunks that are remembered for leaving the file.
const CHUNKS: usize = 256;

#[derive(Clone, Copy)]
struct Shape {
    lanes: u32,
    slots: u32,
}

/// The book of lanes. All zero is valid: there are none.
pub(crate) struct Registry {
    gate: Gate,
    /// Lanes that have had an owner: the first ones of the image.
    in_use: AtomicU32,
    /// Lanes that have memory.
    furnished: AtomicU32,
    chunks: AtomicU32,
    ended: AtomicU32,
    /// The lane whose owner is looked at next.
    next: AtomicUsize,
    /// Calls for which no lane is looked for, after none was to be had: looking costs a system call a lane.
    patience: AtomicU32,
    places: [Place; CHUNKS],
}

/// Where a chunk in the file is mapped; length 0 = not in the file.
struct Place {
    address: AtomicUsize,
    length: AtomicUsize,
}

impl Registry {
    pub(crate) fn in_use(&self) -> usize {
        self.in_use.load(Acquire) as usize // pairs with the Release in `new_lane`
    }

    /// Whether the caller is the first to end the image.
    pub(crate) fn claim_end(&self) -> bool {
        self.ended.compare_exchange(0, 1, Relaxed, Relaxed).is_ok()
    }

    /// Whether `address` lies in a chunk in the file.
    pub(crate) fn holds(&self, address: usize) -> bool {
        self.places.iter().any(|place| {
            let (start, length) = (place.address.load(Relaxed), place.length.load(Relaxed));
            (start..start.wrapping_add(length)).contains(&address)
        })
    }

    /// Says in the first table in the file how much is lost by now: where the disk is full no frame will.
    pub(crate) fn note_losses(&self, lost: u32, void: u32, taken: u64) {
        let Some(first) = self.places.first() else {
            return;
        };
        if first.length.load(Relaxed) == 0 {
            return;
        }
        let table =
            core::ptr::with_exposed_provenance::<[FileWord; 8]>(first.address.load(Relaxed));
        // SAFETY: the table of a chunk of ours, which stays mapped, aligned to a page.
        let [_, _, _, sizes, holes, number, ..] = unsafe { &*table };
        // Nothing is published: the file is read by others only when we are gone.
        sizes.store(LaneHeader::SIZE as u64 | u64::from(lost) << 32);
        holes.store(u64::from(void));
        number.store(taken);
    }

    /// Puts private memory in the place of all chunks in the file.
    pub(crate) fn leave_file(&self) {
        for place in &self.places {
            let length = place.length.load(Relaxed);
            if length != 0 {
                // SAFETY: the range is a mapping of ours; its records are given up with the file.
                let _ = unsafe { sys::replace_by_anonymous(place.address.load(Relaxed), length) };
            }
        }
    }
}

/// Finds or makes a lane for this thread, which has none.
pub(crate) fn register(image: &'static Image) -> Option<&'static Lane> {
    let patience = &image.registry.patience;
    let left = patience.load(Relaxed);
    if left != 0 {
        patience.store(left.wrapping_sub(1), Relaxed); // a rough count will do
        return None;
    }
    let mask = sys::block_signals(); // a handler must never find the registry locked below it
    let tid = sys::gettid();
    let gate = &image.registry.gate;
    let mut lane = None;
    if gate.enter(image, tid) {
        lane = orphan(image, tid).or_else(|| new_lane(image, mask));
        lane = lane.inspect(|lane| assign(image, lane, tid));
        gate.leave(tid);
    }
    sys::restore_signals(mask);
    if lane.is_none() {
        patience.store(1000, Relaxed);
    }
    lane
}

/// Declares the thread that owns `lane`: the caller.
pub(crate) fn introduce(lane: &Lane) {
    let mut name = [0; 16];
    sys::thread_name(&mut name);
    let length = name
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(name.len());
    let (tid, serial) = (lane.tid.load(Relaxed), lane.thread.load(Relaxed));
    let event = Event::of(Op::THREAD, u64::from(tid), u64::from(serial));
    lane.declare(event, name.get(..length).unwrap_or_default());
}

/// Whether a thread that has made a record is alive beside this one.
pub(crate) fn has_others(image: &Image, tid: u32) -> bool {
    let pid = image.pid.load(Relaxed);
    image.lanes_in_use().iter().any(|lane| {
        let owner = lane.tid.load(Relaxed);
        owner != 0 && owner != tid && sys::is_alive(pid, owner)
    })
}

/// A lane whose owner is gone, emptied of its records, if there is one among the next few; where there are no more lanes, among all.
fn orphan(image: &'static Image, tid: u32) -> Option<&'static Lane> {
    let pid = image.pid.load(Relaxed);
    let (lanes, next) = (image.lanes_in_use(), &image.registry.next);
    let looks = if lanes.len() == LANES { LANES } else { LOOKS };
    for _ in 0..lanes.len().min(looks) {
        let at = next.load(Relaxed);
        let at = if at < lanes.len() { at } else { 0 };
        next.store(at.wrapping_add(1), Relaxed); // one thread registers at a time
        let lane = lanes.get(at)?;
        let owner = lane.tid.load(Relaxed);
        // A lane with our own tid is one of a thread that had it before us.
        let is_orphan = owner == tid || !sys::is_alive(pid, owner);
        if is_orphan && crate::flush::empty_orphan(image, lane, tid) {
            return Some(lane);
        }
    }
    None
}

fn new_lane(image: &'static Image, mask: SignalSet) -> Option<&'static Lane> {
    let registry = &image.registry;
    let index = registry.in_use.load(Relaxed);
    if index == registry.furnished.load(Relaxed) {
        add_chunk(image, mask)?;
    }
    let lane = image.lane(index as usize)?;
    registry.in_use.store(index.wrapping_add(1), Release); // pairs with `in_use`: its memory is there
    Some(lane)
}

/// Gives an empty lane to this thread.
fn assign(image: &Image, lane: &Lane, tid: u32) {
    let serial = image.threads.fetch_add(1, Relaxed).wrapping_add(1);
    lane.assign(tid, serial);
    lane.limit.store(image.limit_of(lane.capacity()), Relaxed);
}

fn add_chunk(image: &'static Image, mask: SignalSet) -> Option<()> {
    let registry = &image.registry;
    let chunk = registry.chunks.load(Relaxed) as usize;
    let shapes = match OUTPUT.kind() {
        Kind::Pipe | Kind::Terminal | Kind::Socket => &PIPE_CHUNKS[..],
        _ if CONFIG.get().is_log() => &PIPE_CHUNKS[..],
        _ => &FILE_CHUNKS[..],
    };
    let shape = *shapes.get(chunk.min(shapes.len().saturating_sub(1)))?;
    let first = registry.furnished.load(Relaxed);
    let last = first
        .checked_add(shape.lanes)
        .filter(|last| *last as usize <= LANES)?;
    // As the first is, they all are: which signals are caught depends on it.
    let can_map = if chunk == 0 {
        OUTPUT.kind() == Kind::File && image.can_map() && can_catch_cuts(mask)
    } else {
        image.are_lanes_in_file()
    };
    let in_file = can_map
        .then(|| map_in_file(image, registry.places.get(chunk)?, shape))
        .flatten();
    let table = match in_file {
        Some(table) => table,
        None => sys::map_anonymous(shape.bytes()).ok()?,
    };
    write_table(image, table, shape);
    for step in 0..shape.lanes {
        let header = table.wrapping_add(shape.header_at(step));
        let slots = table.wrapping_add(shape.slots_at(step));
        image.lane(first.wrapping_add(step) as usize)?.furnish(
            core::ptr::with_exposed_provenance_mut::<Slot>(slots),
            shape.slots,
            core::ptr::with_exposed_provenance_mut::<[FileWord; 8]>(header),
        );
    }
    registry
        .chunks
        .store(u32::try_from(chunk).ok()?.wrapping_add(1), Relaxed);
    registry.furnished.store(last, Relaxed);
    Some(())
}

#[cfg(not(test))]
use crate::fatal::can_catch_cuts;
/// Tests catch no signals.
#[cfg(test)]
fn can_catch_cuts(_: SignalSet) -> bool {
    true
}

impl Shape {
    fn header_at(self, lane: u32) -> usize {
        LanesTable::SIZE.wrapping_add((lane as usize).wrapping_mul(LaneHeader::SIZE))
    }

    fn slots_at(self, lane: u32) -> usize {
        let ring = (self.slots as usize).wrapping_mul(Record::SIZE);
        self.header_at(self.lanes)
            .wrapping_add((lane as usize).wrapping_mul(ring))
    }

    /// Bytes of the table with all slots, in whole pages.
    fn bytes(self) -> usize {
        self.slots_at(self.lanes).next_multiple_of(LANES_PAGE)
    }
}

/// Appends a LANES frame to the file and maps its table.
fn map_in_file(image: &Image, place: &Place, shape: Shape) -> Option<usize> {
    let mut name = [0; 32];
    let flags = libc::O_RDWR | libc::O_APPEND | libc::O_CLOEXEC;
    let held = OUTPUT.hold(image)?;
    // An open file description of our own: its position is where our write ended, whoever else appends.
    let table = if held.is_ours_alone() {
        append_and_map(image, OUTPUT.fd(), shape)
    } else {
        let fd = sys::open(path::of_descriptor(OUTPUT.fd(), &mut name), flags, 0).ok()?;
        let table = append_and_map(image, fd, shape);
        sys::close(fd);
        table
    };
    let (table, floor) = table?;
    place.address.store(table, Relaxed);
    place.length.store(shape.bytes(), Relaxed);
    // Only one thread registers at a time. `try_write_frame` reads it.
    image.file_floor.store(image.file_floor.load().max(floor));
    Some(table)
}

/// File systems on which a store to a mapping can fail for want of room, though the pages were written.
fn is_mappable(fd: i32) -> bool {
    const BTRFS: u64 = 0x9123_683E;
    const F2FS: u64 = 0xF2F5_2010;
    const UBIFS: u64 = 0x2405_1905;
    const NFS: u64 = 0x6969;
    const FUSE: u64 = 0x6573_5546;
    const PLAN9: u64 = 0x0102_1997;
    const CIFS: u64 = 0xFF53_4D42;
    const SMB2: u64 = 0xFE53_4D42;
    sys::file_system(fd)
        .is_ok_and(|kind| ![BTRFS, F2FS, UBIFS, NFS, FUSE, PLAN9, CIFS, SMB2].contains(&kind))
}

/// The mapped table, and the length that the file has at least.
fn append_and_map(image: &Image, fd: i32, shape: Shape) -> Option<(usize, u64)> {
    if !is_mappable(fd) {
        return None;
    }
    // Room for the table to start on a page, wherever the frame starts.
    let payload = shape.bytes().wrapping_add(LANES_PAGE);
    let length = Header::SIZE
        .wrapping_add(payload)
        .wrapping_add(TRAILER_SIZE);
    let number = image.frames.fetch_add(1, Relaxed);
    let header = Header {
        payload_length: u32::try_from(payload).ok()?,
        ..Header::new(FrameKind::LANES, image.tag.load(Relaxed), number)
    }
    .encode();
    let end = trailer(number);
    // Written out as zeroes, not left as a hole: a store to a hole on a full disk would be a SIGBUS in the program.
    let zeroes = sys::map_anonymous(payload).ok()?;
    let zeroed = libc::iovec {
        iov_base: core::ptr::with_exposed_provenance_mut(zeroes),
        iov_len: payload,
    };
    let pieces = [piece(&header), zeroed, piece(&end), piece::<u8>(&[])];
    let written = output::write(fd, &pieces);
    // SAFETY: mapped above, and only the kernel has looked at it.
    unsafe { sys::unmap(zeroes, payload) };
    if written != Ok(length) {
        return None;
    }
    let stop = sys::position(fd).ok()?;
    let start = stop.checked_sub(length as u64)?;
    let table = start
        .wrapping_add(Header::SIZE as u64)
        .next_multiple_of(LANES_PAGE as u64);
    let address = sys::map_file(fd, table, shape.bytes()).ok()?;
    Some((address, table.wrapping_add(shape.bytes() as u64)))
}

/// Writes the table and the lane headers into fresh memory of lanes.
fn write_table(image: &Image, table: usize, shape: Shape) {
    let fixed = LanesTable {
        stream: image.tag.load(Relaxed),
        pid: image.pid.load(Relaxed),
        lanes: shape.lanes,
        headers_at: offset(LanesTable::SIZE),
        header_size: offset(LaneHeader::SIZE),
        lost: 0,
        void: 0,
        taken: 0,
    };
    for step in 0..shape.lanes {
        let header = LaneHeader {
            tid: 0,
            thread: 0,
            slots_at: offset(shape.slots_at(step)),
            slots: shape.slots,
            base_number: 0,
            base_clock: clock::now(),
        };
        store(table.wrapping_add(shape.header_at(step)), &header.encode());
    }
    store(table, &fixed.encode());
}

fn offset(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn store(address: usize, bytes: &[u8; 64]) {
    let place = core::ptr::with_exposed_provenance_mut::<[u8; 64]>(address);
    // SAFETY: the callers pass places inside a chunk that was just mapped and that no other thread knows.
    unsafe { place.write(*bytes) };
}
