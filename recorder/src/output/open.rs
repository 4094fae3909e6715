//! Opening what the settings name, with a number that the program is not likely to look at.

use super::Kind;
use crate::config::{CONFIG, Config, go_beside};
use crate::path;
use crate::sys::{self, Errno};
use heapwire_format::{ARMOUR_MARK, FRAME_MAGIC};

/// Opens the file that the settings name. A log tells of one process: a file that another one is writing to is left to that.
pub(super) fn open_named(config: &Config, room: &mut [u8]) -> Option<(i32, Kind)> {
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
pub(super) fn open_descriptor(fd: i32) -> Option<(i32, Kind)> {
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
pub(super) fn own(fd: i32) -> Result<i32, Errno> {
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
pub(super) fn to_high_number(fd: i32) -> i32 {
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
