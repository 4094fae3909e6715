//! The way out: the descriptor that frames are written to, and the care it needs.
//!
//! The descriptor is our own (duplicated or opened anew, with a high number, closed at exec), and before each write it is
//! checked to be still the file that was opened: programs close and replace descriptors that they do not know. Whatever
//! goes wrong, the program is not told; records that cannot be written are counted.
//!
//! Where the program may have only a few descriptors, files are opened for each frame, as long as it has one thread: it can have all of
//! these, and none of its threads sees that one is taken.

mod frame;
mod open;
mod write;

pub(crate) use frame::write_frame;
pub(crate) use write::{PIECES, Patience, piece, total, write};

use crate::config::{CONFIG, Config, Target};
use crate::image::Image;
use crate::sync::{Relaxed, Wide};
use crate::sys::{self, Errno};
use crate::{path, registry};
use core::sync::atomic::Ordering::{Acquire, Release};
use core::sync::atomic::{AtomicI32, AtomicU32};
use open::{open_descriptor, open_named, own, to_high_number};

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
