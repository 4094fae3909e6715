//! The way out: the descriptor that frames are written to, and the care it needs.
//!
//! The descriptor is our own (duplicated or opened anew, with a high number, closed at exec), and before each write it is
//! checked to be still the file that was opened: programs close and replace descriptors that they do not know. Whatever
//! goes wrong, the program is not told; records that cannot be written are counted.
//!
//! Where the program may have only a few descriptors, files are opened for each frame, as long as it has one thread: it can have all of
//! these, and none of its threads sees that one is taken.

use crate::config::{CONFIG, Config, Target, go_beside};
use crate::cull::Culling;
use crate::image::Image;
use crate::lane::Lane;
use crate::pack::{PAYLOAD, Taken};
use crate::ring::{Slot, Span, slot};
use crate::sync::{Relaxed, Wide};
use crate::sys::{self, Errno, SignalSet};
use crate::turn::Turn;
use crate::{clock, flush, path, registry};
use core::sync::atomic::Ordering::{Acquire, Release};
use core::sync::atomic::{AtomicI32, AtomicU32};
use heapwire_format::{
    ARMOUR_MARK, Crc32, FLAG_LATE, FRAME_MAGIC, FrameKind, Header, Op, PACKED_RECORD, PACKED_START,
    PIPE_FRAME, Record, SumKind, TRAILER_SIZE, trailer,
};

/// What the descriptor is, which decides how it is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// Nothing is open.
    Closed = 0,
    /// A regular file that we opened by its path.
    File = 1,
    /// A regular file that the program has open as well.
    Shared = 2,
    /// A pipe or FIFO.
    Pipe = 3,
    /// A terminal, or what gets lines as one does.
    Terminal = 4,
    /// A socket.
    Socket = 5,
    /// Another device, such as /dev/null.
    Device = 6,
}

/// The open output. A forked child inherits it.
pub(crate) struct Output {
    kind: AtomicU32,
    fd: AtomicI32,
    device: Wide,
    inode: Wide,
    /// Not 0 where it is open only while a frame is written.
    is_fleeting: AtomicU32,
}

pub(crate) static OUTPUT: Output = Output {
    kind: AtomicU32::new(0),
    fd: AtomicI32::new(0), // of no device, so it is not ours
    device: Wide::zero(),
    inode: Wide::zero(),
    is_fleeting: AtomicU32::new(0),
};

/// In place of a descriptor.
const NONE: i32 = -1;

/// Programs that may have fewer descriptors than these get by without one of ours.
const FEW: u64 = 32;

/// Pieces of memory in each write: a filter of system calls may look at their number.
pub(crate) const PIECES: i32 = 4;

/// Records in a frame that one write to a pipe takes whole, with room left in the page for the frame of the last record: the
/// kernel puts that one there where the pipe is full, and what was dropped is told.
const RECORDS_IN_PIPE_FRAME: u32 = 96;
const _: () = assert!(RECORDS_IN_PIPE_FRAME as usize * Record::SIZE <= MOST_IN_PIPE);
/// Bytes of a payload of which the same holds.
const MOST_IN_PIPE: usize =
    PIPE_FRAME - 2 * (Header::SIZE + TRAILER_SIZE) - PACKED_START - PACKED_RECORD;

/// Records that a payload has room for, whatever they are.
const RECORDS_THAT_FIT: u32 = 80;
const _: () = assert!(
    PACKED_START + PACKED_RECORD * RECORDS_THAT_FIT as usize <= MOST_IN_PIPE
        && MOST_IN_PIPE <= PAYLOAD
);

impl Output {
    pub(crate) fn kind(&self) -> Kind {
        match self.kind.load(Relaxed) {
            1 => Kind::File,
            2 => Kind::Shared,
            3 => Kind::Pipe,
            4 => Kind::Terminal,
            5 => Kind::Socket,
            6 => Kind::Device,
            _ => Kind::Closed,
        }
    }

    pub(crate) fn fd(&self) -> i32 {
        self.fd.load(Relaxed)
    }

    /// The same, if it will be that for each frame.
    pub(crate) fn known_fd(&self) -> Option<i32> {
        (self.is_fleeting.load(Relaxed) == 0).then(|| self.fd())
    }

    /// Most records in one frame.
    pub(crate) fn records_in_frame(&self) -> u32 {
        match self.kind() {
            Kind::Pipe | Kind::Terminal | Kind::Socket => RECORDS_IN_PIPE_FRAME,
            _ => u32::MAX,
        }
    }

    /// Opens what the settings name, using `room` for a path. Gives whether there is an output now.
    pub(crate) fn open(&self, config: &Config, room: &mut [u8]) -> bool {
        let opened = match config.target {
            Target::Nothing => None,
            Target::Descriptor(fd) => open_descriptor(fd),
            Target::File => open_named(config, room),
        };
        let Some((fd, kind)) = opened else {
            self.close();
            return false;
        };
        let is_socket = kind == Kind::Socket; // which has a call of its own
        self.keep(
            fd,
            if config.wants_lines() && !is_socket {
                Kind::Terminal
            } else {
                kind
            },
        );
        true
    }

    /// Closes the descriptor, if it is still ours, so that the program can take the file.
    pub(crate) fn release(&self) {
        if self.check().is_some() {
            let _ = sys::lock(self.fd(), libc::LOCK_UN); // a child can have the same description
            sys::close(self.fd());
        }
        self.close();
    }

    fn keep(&self, fd: i32, kind: Kind) {
        let Ok(status) = sys::fstat(fd) else { return };
        self.have(fd, kind);
        self.device.store(status.device);
        self.inode.store(status.inode);
        self.kind.store(kind as u32, Relaxed);
    }

    /// Has a descriptor from now on, or for one frame. A file can be opened again as often as that takes, and a log is locked.
    fn have(&self, fd: i32, kind: Kind) {
        let is_scarce = sys::descriptor_limit() < FEW;
        let can_come_back = matches!(kind, Kind::File | Kind::Shared) && !CONFIG.get().is_log;
        self.is_fleeting
            .store(u32::from(is_scarce && can_come_back), Relaxed);
        self.fd.store(fd, Release); // pairs with `check`: who finds it knows how long it is there
    }

    /// Gives the output up. Nothing is closed: the number may be the program's by now.
    pub(crate) fn close(&self) {
        self.kind.store(Kind::Closed as u32, Relaxed);
    }

    /// Whether the descriptor is still the file that was opened; its status then.
    pub(crate) fn check(&self) -> Option<sys::Status> {
        // Acquire: pairs with the Release in `have`.
        self.status_of(self.fd.load(Acquire))
    }

    fn status_of(&self, fd: i32) -> Option<sys::Status> {
        let status = sys::fstat(fd).ok()?;
        let is_ours = status.device == self.device.load() && status.inode == self.inode.load();
        is_ours.then_some(status)
    }

    /// The descriptor for one frame, opened again where it is not there; `None` where the program has all that it may have. What can
    /// never be opened again is given up. With all signals blocked.
    pub(crate) fn hold<'i>(&self, image: &'i Image) -> Option<Held<'i>> {
        let mut held = Held {
            image,
            owner: 0,
            size: 0,
        };
        loop {
            // Acquire, as below: stored before the descriptor that `check` finds.
            if held.owner == 0 && self.is_fleeting.load(Acquire) != 0 {
                let me = sys::gettid();
                // Another thread would meet it: where its own descriptor should be, or in place of the last one.
                if registry::has_others(image, me) {
                    return None;
                }
                if !image.held.enter(image, me) {
                    return None;
                }
                held.owner = me;
            }
            held.size = match self.check().map_or_else(|| self.recover(image), Ok) {
                Ok(status) => status.size,
                Err(Errno::MFILE | Errno::NFILE) => return None,
                Err(_) => {
                    image.give_up();
                    return None;
                }
            };
            // One that somebody has opened for himself meanwhile he closes as well.
            if held.owner != 0 || self.is_fleeting.load(Acquire) == 0 {
                return Some(held);
            }
        }
    }

    /// Opens the same file again after it was closed.
    fn recover(&self, image: &Image) -> Result<sys::Status, Errno> {
        let (config, kind) = (CONFIG.get(), self.kind());
        let fd = match (kind, config.target) {
            (Kind::File, Target::File) => {
                let mut room = [0; 512];
                let path = path::expand_for(config.path(), image, &mut room).ok_or(Errno::BADF)?;
                let flags = libc::O_RDWR | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOCTTY;
                to_high_number(sys::open(path, flags, 0)?)
            }
            (Kind::Shared, Target::Descriptor(fd)) => own(fd)?,
            _ => return Err(Errno::BADF),
        };
        let Some(status) = self.status_of(fd) else {
            sys::close(fd);
            return Err(Errno::BADF);
        };
        self.have(fd, kind);
        Ok(status)
    }
}

/// The descriptor while a frame is written.
pub(crate) struct Held<'i> {
    image: &'i Image,
    /// Kernel tid of the thread that has it alone, and closes it afterwards; 0 where it stays.
    owner: u32,
    /// Bytes in the file.
    pub(crate) size: u64,
}

impl Held<'_> {
    /// Whether nobody else writes by it.
    pub(crate) fn is_ours_alone(&self) -> bool {
        self.owner != 0
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.owner != 0 {
            if OUTPUT.check().is_some() {
                sys::close(OUTPUT.fd.swap(NONE, Relaxed));
            }
            self.image.held.leave(self.owner);
        }
    }
}

/// Opens the file that the settings name. A log tells of one process: a file that another one is writing to is left to that.
fn open_named(config: &Config, room: &mut [u8]) -> Option<(i32, Kind)> {
    loop {
        let (fd, kind) = path::expand(config.path(), room).and_then(open_file)?;
        let is_shared = !config.is_log() || kind != Kind::File || config.is_per_process();
        if is_shared || sys::lock(fd, libc::LOCK_EX | libc::LOCK_NB) != Err(Errno::AGAIN) {
            return Some((fd, kind));
        }
        sys::close(fd);
        go_beside(config); // which is one a process
    }
}

/// A descriptor of our own for what the program has open as `fd`.
fn open_descriptor(fd: i32) -> Option<(i32, Kind)> {
    if !sys::is_writable(fd) {
        return None; // a pipe that the program reads would never end for it
    }
    let status = sys::fstat(fd).ok()?;
    if status.is(libc::S_IFREG) {
        // Opened anew it would have a position of its own, and each stream would overwrite the other.
        return Some((own(fd).ok()?, Kind::Shared));
    }
    if status.is(libc::S_IFSOCK) {
        return Some((own(fd).ok()?, Kind::Socket));
    }
    let kind = if status.is(libc::S_IFIFO) {
        Kind::Pipe
    } else if sys::is_terminal(fd) {
        Kind::Terminal
    } else {
        Kind::Device
    };
    // Opened anew, so that waiting or not is our own choice: the program's description keeps its flags.
    let flags = libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let mut name = [0; 32];
    let reopened = sys::open(path::of_descriptor(fd, &mut name), flags, 0);
    let fd = reopened.map(to_high_number).or_else(|_| own(fd)).ok()?;
    Some((fd, kind))
}

/// A duplicate for us alone.
fn own(fd: i32) -> Result<i32, Errno> {
    sys::duplicate(fd, high_number()).or_else(|_| sys::duplicate(fd, 3))
}

/// Opens the file at `path`, if it is one that a trace may go to.
fn open_file(path: &[u8]) -> Option<(i32, Kind)> {
    let append = libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
    let fd = sys::open(path, libc::O_RDWR | libc::O_CREAT | append, 0o666)
        .or_else(|_| open_writing(path, libc::O_WRONLY | append))
        .ok()?;
    let fd = to_high_number(fd);
    let status = sys::fstat(fd).ok()?;
    let kind = if status.is(libc::S_IFREG) {
        Kind::File
    } else if status.is(libc::S_IFIFO) {
        // Our own reading end would keep a FIFO alive whose reader is gone.
        sys::close(fd);
        let fd = open_writing(path, libc::O_WRONLY | append).ok()?;
        return Some((to_high_number(fd), Kind::Pipe));
    } else if sys::is_terminal(fd) {
        Kind::Terminal
    } else {
        Kind::Device
    };
    if kind == Kind::File && status.size != 0 && !is_continued(fd) {
        sys::close(fd); // somebody's file: never touched
        return None;
    }
    Some((fd, kind))
}

/// Opens for writing; a FIFO waits for its reader as long as a frame would.
fn open_writing(path: &[u8], flags: i32) -> Result<i32, Errno> {
    let config = CONFIG.get();
    let patience = if config.drops {
        0
    } else {
        config.wait_milliseconds
    };
    let mut waited = 0;
    loop {
        match sys::open(path, flags, 0o666) {
            Err(Errno::NXIO) if waited < patience => {
                sys::sleep(10);
                waited = waited.wrapping_add(10);
            }
            result => return result,
        }
    }
}

/// Whether the file begins as what is written does: a trace, as it is or in lines, or a log. One that we may not read does not.
fn is_continued(fd: i32) -> bool {
    let mut start = [0; FRAME_MAGIC.len()];
    let config = CONFIG.get();
    let expected = if config.is_log() {
        b"= Start\n"
    } else if config.wants_lines() {
        &ARMOUR_MARK[..]
    } else {
        &FRAME_MAGIC
    };
    sys::read_start(fd, &mut start) == Ok(start.len()) && start.starts_with(expected)
}

/// Moves a descriptor to a number that the program is not likely to look at.
fn to_high_number(fd: i32) -> i32 {
    match sys::duplicate(fd, high_number()) {
        Ok(high) => {
            sys::close(fd);
            high
        }
        Err(_) => fd,
    }
}

fn high_number() -> i32 {
    let limit = sys::descriptor_limit().min(2000);
    i32::try_from(limit.saturating_sub(20)).unwrap_or(3).max(3)
}

/// Writes the first slots of `span` as one frame and says how many they were. What cannot be written is counted as lost.
///
/// Where the turn is over afterwards, that means nothing.
pub(crate) fn write_frame(image: &Image, lane: &Lane, span: Span, turn: &Turn<'_>) -> Span {
    try_write_frame(image, lane, span, turn).unwrap_or_else(|| {
        if !turn.is_over() {
            image.lose(span.count);
        }
        span
    })
}

fn try_write_frame(image: &Image, lane: &Lane, span: Span, turn: &Turn<'_>) -> Option<Span> {
    let kind = OUTPUT.kind();
    if kind == Kind::Closed {
        return None;
    }
    // Before the size: another thread may append lanes in between, and the file is no shorter for it.
    let floor = image.file_floor.load(); // stored by `map_in_file`, which has written them
    let held = OUTPUT.hold(image)?;
    if kind == Kind::File && held.size < floor {
        image.file_shrank();
        return None;
    }
    let packs = CONFIG.get().packs(kind);
    let mut bench = packs.then(|| image.benches.take()).flatten();
    let first = first_number(lane, span);
    let payload = match &mut bench {
        Some(bench) => Payload::packed(bench, first, lane, span, image, kind),
        None => Payload::plain(lane, span, kind),
    };
    let span = Span {
        count: payload.records,
        ..span
    };
    let header = Header {
        first,
        ..header(image, lane, span, &payload, kind)
    };
    let number = header.frame;
    let end = trailer(number);
    let header = header.encode();
    let [one, other] = payload.pieces;
    let frame = [piece(&header), one, other, piece(&end)];
    let is_written = match kind {
        Kind::Terminal | Kind::Socket => {
            let is_written = image.stream.write(image, &frame, number, kind, turn);
            if !is_written && !turn.is_over() {
                // Missing numbers are for frames that are lost on the way; in a race this one stays missing.
                let next = number.wrapping_add(1);
                let _ = image
                    .frames
                    .compare_exchange(next, number, Relaxed, Relaxed);
            }
            is_written
        }
        Kind::Pipe => write_pipe(image, &frame, turn),
        _ => write_file(&frame),
    };
    if is_written {
        image.repeats.note_written(total(&frame));
    }
    is_written.then_some(span)
}

/// What a frame holds.
struct Payload {
    kind: FrameKind,
    /// The first slots of the span, as many as these.
    records: u32,
    pieces: [libc::iovec; 2],
    sum: Option<u32>,
}

impl Payload {
    /// Records as they are.
    fn plain(lane: &Lane, span: Span, kind: Kind) -> Self {
        Self {
            kind: FrameKind::RECORDS,
            records: span.count,
            pieces: pieces(lane.slots(), span),
            sum: CONFIG.get().sums(kind).then(|| sum(lane.slots(), span)),
        }
    }

    /// Records packed, which lie in `bench`.
    fn packed(
        bench: &mut Taken<'_>,
        first: u64,
        lane: &Lane,
        span: Span,
        image: &Image,
        kind: Kind,
    ) -> Self {
        let most = match kind {
            Kind::Pipe | Kind::Terminal | Kind::Socket => MOST_IN_PIPE,
            _ => PAYLOAD,
        };
        let config = CONFIG.get();
        let all = Span {
            count: span.count.min(RECORDS_THAT_FIT),
            ..span
        };
        let culling = config
            .culls
            .then(|| Culling::of(lane.slots(), all))
            .flatten();
        if let Some(culling) = &culling {
            image.culled.fetch_add(culling.records, Relaxed); // a count
        }
        let span = if culling.is_some() { all } else { span };
        let (payload, records) = bench.pack(first, lane.slots(), span, culling.as_ref(), most);
        Self {
            kind: FrameKind::PACKED,
            records,
            pieces: [piece(payload), piece::<u8>(&[])],
            sum: config.sums(kind).then(|| Crc32::of(payload)),
        }
    }
}

fn header(image: &Image, lane: &Lane, span: Span, payload: &Payload, kind: Kind) -> Header {
    let sum_kind = if payload.sum.is_some() {
        SumKind::Crc32
    } else {
        SumKind::None
    };
    let is_late = lane.is_late(clock::now());
    Header {
        flags: if is_late { FLAG_LATE } else { 0 },
        sum_kind: sum_kind as u8,
        payload_length: u32::try_from(total(&payload.pieces)).unwrap_or(u32::MAX),
        thread: lane.thread.load(Relaxed),
        tid: lane.tid.load(Relaxed),
        payload_sum: payload.sum.unwrap_or(0),
        clock: lane.base_clock.load(),
        settled: if kind == Kind::File {
            0
        } else {
            flush::settled(image, lane, span)
        },
        lost: image.lost.load(Relaxed),
        void: image.void.load(Relaxed),
        culled: image.culled.load(Relaxed),
        ..Header::new(
            payload.kind,
            image.tag.load(Relaxed),
            image.frames.fetch_add(1, Relaxed), // each frame its own number; publishes nothing
        )
    }
}

/// The full number of the first record.
fn first_number(lane: &Lane, span: Span) -> u64 {
    let (slots, base) = (lane.slots(), lane.base_number.load());
    let records = (0..span.count).filter_map(|step| slot(slots, span.from.wrapping_add(step)));
    records
        .map(|slot| Record::from_words([slot.head(), 0, 0, 0, 0]))
        .find(|record| record.op != Op::VOID)
        .map_or(base, |record| record.full_number(base))
}

fn sum(slots: &[Slot], span: Span) -> u32 {
    (0..span.count)
        .filter_map(|step| slot(slots, span.from.wrapping_add(step)))
        .flat_map(Slot::words)
        .fold(Crc32::new(), |sum, word| sum.with(&word.to_le_bytes()))
        .value()
}

/// The memory of the slots of `span`: one piece, or two where the ring wraps.
fn pieces(slots: &[Slot], span: Span) -> [libc::iovec; 2] {
    let start = span.from as usize & slots.len().wrapping_sub(1);
    let count = span.count as usize;
    let until_end = slots.len().saturating_sub(start).min(count);
    let first = slots
        .get(start..start.wrapping_add(until_end))
        .unwrap_or_default();
    let second = slots
        .get(..count.saturating_sub(until_end))
        .unwrap_or_default();
    [piece(first), piece(second)]
}

pub(crate) fn piece<T>(memory: &[T]) -> libc::iovec {
    libc::iovec {
        iov_base: memory.as_ptr().cast_mut().cast(),
        iov_len: size_of_val(memory),
    }
}

pub(crate) fn total(pieces: &[libc::iovec]) -> usize {
    pieces
        .iter()
        .fold(0, |sum, piece| sum.wrapping_add(piece.iov_len))
}

/// Appends a frame. After a short write the whole frame is written again: the torn one is known by its trailer.
fn write_file(frame: &[libc::iovec]) -> bool {
    for _ in 0..3 {
        match write(OUTPUT.fd(), frame) {
            Ok(written) if written == total(frame) => return true,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    false
}

/// Writes a frame to a pipe, which takes it whole or not at all.
fn write_pipe(image: &Image, frame: &[libc::iovec], turn: &Turn<'_>) -> bool {
    let mut patience = Patience::new();
    loop {
        match write(OUTPUT.fd(), frame) {
            Ok(written) => return written == total(frame),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                if !patience.wait(image, turn) {
                    return false;
                }
            }
            Err(Errno::PIPE) => {
                image.give_up();
                return false;
            }
            Err(_) => return false,
        }
    }
}

/// Writes without the signals that this may cause. All signals are blocked, so one can only wait; it is taken away unless one
/// waited before.
#[inline(never)]
pub(crate) fn write(fd: i32, pieces: &[libc::iovec]) -> Result<usize, Errno> {
    let waiting = sys::pending_signals();
    let result = sys::writev(fd, pieces);
    let signal = match result {
        Err(Errno::PIPE) => libc::SIGPIPE,
        Err(Errno::FBIG) => libc::SIGXFSZ,
        _ => return result,
    };
    if !waiting.has(signal) {
        sys::take_signal(SignalSet::of(signal));
    }
    result
}

/// How long a slow reader is still waited for, over all tries of one frame.
pub(crate) struct Patience {
    end: u64,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { end: 0 }
    }

    /// Waits for the reader under the program's own signal mask. `false` where it took too long, where the user chose to drop, and
    /// where a jump has ended the turn.
    pub(crate) fn wait(&mut self, image: &Image, turn: &Turn<'_>) -> bool {
        self.is_ready(image, turn) && !turn.is_over()
    }

    fn is_ready(&mut self, image: &Image, turn: &Turn<'_>) -> bool {
        let config = CONFIG.get();
        if config.drops || image.is_stalled.load(Relaxed) != 0 {
            // After one frame waited in vain, the next ones only try: a program that reads its own trace must not hang.
            let is_ready = turn.wait(0) == Ok(true);
            image
                .is_stalled
                .store(u32::from(!is_ready && !config.drops), Relaxed);
            return is_ready && self.once();
        }
        let now = sys::milliseconds();
        if self.end == 0 {
            self.end = now.wrapping_add(config.wait_milliseconds);
        }
        if now >= self.end {
            image.is_stalled.store(1, Relaxed);
            return false;
        }
        let left = self.end.wrapping_sub(now);
        // An interruption is the program's handler that ran; the time goes on.
        !matches!(turn.wait(left), Err(error) if error != Errno::INTR)
    }

    fn once(&mut self) -> bool {
        let first = self.end == 0;
        self.end = u64::MAX;
        first
    }
}
