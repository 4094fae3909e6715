//! Names of files: %p and %e filled in, and the names of descriptors.

use crate::image::Image;
use crate::sync::Relaxed;
use crate::sys;
use crate::text::Text;

/// The zero-terminated path of descriptor `fd`.
pub(crate) fn of_descriptor(fd: i32, room: &mut [u8; 32]) -> &[u8] {
    let mut text = Text::new(room);
    text.push(b"/proc/self/fd/");
    text.push_decimal(u64::from(fd.cast_unsigned()));
    text.push(b"\0");
    let used = text.bytes().len();
    room.get(..used).unwrap_or_default()
}

/// `pattern` with this process's pid for %p and the name of its executable for %e, zero-terminated in `room`.
pub(crate) fn expand<'r>(pattern: &[u8], room: &'r mut [u8]) -> Option<&'r [u8]> {
    expand_with(pattern, sys::getpid(), room)
}

/// The same with the pid of `image`, which a `vfork`ed child shares with its parent.
pub(crate) fn expand_for<'r>(
    pattern: &[u8],
    image: &Image,
    room: &'r mut [u8],
) -> Option<&'r [u8]> {
    expand_with(pattern, image.pid.load(Relaxed), room)
}

fn expand_with<'r>(pattern: &[u8], pid: u32, room: &'r mut [u8]) -> Option<&'r [u8]> {
    let mut text = Text::new(room);
    let mut bytes = pattern.iter();
    while let Some(byte) = bytes.next() {
        if text.left() < 2 {
            return None;
        }
        match (*byte, bytes.as_slice().first()) {
            (b'%', Some(b'p')) => text.push_decimal(u64::from(pid)),
            (b'%', Some(b'e')) => push_name(&mut text),
            (b'%', Some(b'%')) => text.push(b"%"),
            _ => {
                text.push(&[*byte]);
                continue;
            }
        }
        bytes.next();
    }
    if text.left() == 0 {
        return None;
    }
    text.push(b"\0");
    let used = text.bytes().len();
    room.get(..used)
}

/// The last part of the executable's path.
fn push_name(text: &mut Text<'_>) {
    let mut link = [0; 256];
    let length = sys::read_link(b"/proc/self/exe\0", &mut link).unwrap_or(0);
    let path = link.get(..length).unwrap_or_default();
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    text.push(if name.is_empty() { b"program" } else { name });
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{expand_with, of_descriptor};

    #[test]
    fn pid_and_name_are_filled_in() {
        let mut room = [0; 256];
        assert_eq!(
            expand_with(b"/a/%p.%%x", 12, &mut room),
            Some(&b"/a/12.%x\0"[..])
        );
        let name = expand_with(b"%e", 12, &mut room).unwrap();
        let exe = std::env::current_exe().unwrap();
        let expected = exe.file_name().unwrap().as_encoded_bytes();
        assert_eq!(name.strip_suffix(b"\0"), Some(expected));
        assert_eq!(expand_with(b"a%", 1, &mut room), Some(&b"a%\0"[..]));
    }

    #[test]
    fn a_path_that_does_not_fit_is_none() {
        assert_eq!(expand_with(b"/abcd", 1, &mut [0; 5]), None);
        assert_eq!(expand_with(b"/%p", 123_456, &mut [0; 4]), None);
        assert!(expand_with(b"/abc", 1, &mut [0; 6]).is_some());
    }

    #[test]
    fn descriptors_have_names() {
        assert_eq!(of_descriptor(12, &mut [0; 32]), b"/proc/self/fd/12\0");
    }
}
