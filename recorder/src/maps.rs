//! The modules of this process as `/proc/self/maps` shows them.
#![forbid(unsafe_code)]

use crate::sys;
use crate::text::{Text, cut, number};

/// Neighbouring mappings of one file, in ascending offsets: what the loader makes of one ELF file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Device and inode, mixed: tells files apart that are mapped at the same address one after the other.
    pub(crate) identity: usize,
    is_executable: bool,
    last_offset: u64,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
struct Mapping<'l> {
    start: usize,
    end: usize,
    is_executable: bool,
    offset: u64,
    identity: usize,
    path: &'l [u8],
}

/// Calls `visit` for each module that has code; `path` holds its path then.
///
/// Gives whether the list could be read.
pub(crate) fn each_module(
    buffer: &mut [u8],
    path: &mut Text<'_>,
    visit: &mut dyn FnMut(&Module, &Text<'_>),
) -> bool {
    let Ok(fd) = sys::open(b"/proc/self/maps\0", libc::O_RDONLY | libc::O_CLOEXEC, 0) else {
        return false;
    };
    let mut current = Module::default();
    let mut held = 0;
    while let Some(room) = buffer.get_mut(held..) {
        let Ok(length) = sys::read(fd, room) else {
            break;
        };
        if length == 0 {
            break;
        }
        let filled = held.wrapping_add(length).min(buffer.len());
        let mut begin = 0;
        while let Some(rest) = buffer.get(begin..filled)
            && let Some(at) = rest.iter().position(|byte| *byte == b'\n')
        {
            if let Some(mapping) = rest.get(..at).and_then(parse) {
                take(&mut current, path, &mapping, visit);
            }
            begin = begin.wrapping_add(at).wrapping_add(1);
        }
        held = filled.saturating_sub(begin);
        buffer.copy_within(begin.min(filled)..filled, 0);
        if held == buffer.len() {
            held = 0; // a line longer than the buffer: not one of the loader's
        }
    }
    sys::close(fd);
    finish(&current, path, visit);
    true
}

fn take(
    current: &mut Module,
    path: &mut Text<'_>,
    mapping: &Mapping<'_>,
    visit: &mut dyn FnMut(&Module, &Text<'_>),
) {
    let continues = mapping.identity == current.identity
        && mapping.offset >= current.last_offset
        && path.bytes() == mapping.path;
    if continues && current.start != 0 {
        current.end = mapping.end;
        current.is_executable |= mapping.is_executable;
        current.last_offset = mapping.offset;
        return;
    }
    if mapping.path.first() != Some(&b'/') && mapping.path != b"[vdso]" {
        return; // heap, stacks and the gaps that the loader leaves do not end a module
    }
    finish(current, path, visit);
    path.clear();
    path.push(mapping.path);
    *current = Module {
        start: mapping.start,
        end: mapping.end,
        identity: mapping.identity,
        is_executable: mapping.is_executable,
        last_offset: mapping.offset,
    };
}

/// Adds a path as it is: the kernel shows the end of a line in it by its number.
pub(crate) fn push_path(text: &mut Text<'_>, mut path: &[u8]) {
    while let [first, behind @ ..] = path {
        match path.strip_prefix(b"\\012") {
            Some(behind) => {
                text.push(b"\n");
                path = behind;
            }
            None => {
                text.push(core::slice::from_ref(first));
                path = behind;
            }
        }
    }
}

fn finish(current: &Module, path: &Text<'_>, visit: &mut dyn FnMut(&Module, &Text<'_>)) {
    if current.start != 0 && current.is_executable {
        visit(current, path);
    }
}

fn parse(line: &[u8]) -> Option<Mapping<'_>> {
    let mut rest = line;
    let start = number(cut(&mut rest, b'-'), 16)?;
    let end = number(cut(&mut rest, b' '), 16)?;
    let access = cut(&mut rest, b' ');
    let offset = number(cut(&mut rest, b' '), 16)?;
    let major = number(cut(&mut rest, b':'), 16)?;
    let device = major.wrapping_shl(20) ^ number(cut(&mut rest, b' '), 16)?;
    let inode = number(cut(&mut rest, b' '), 10)?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a mixture, whose low half is one as well"
    )]
    let identity = (inode.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ device) as usize;
    Some(Mapping {
        start: usize::try_from(start).ok()?,
        end: usize::try_from(end).ok()?,
        is_executable: access.get(2) == Some(&b'x'),
        offset,
        identity,
        path: rest.trim_ascii_start(),
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Module, Text, each_module, finish, parse, push_path, take};

    fn modules(lines: &[&str]) -> Vec<(usize, usize, String)> {
        let (mut current, mut room) = (Module::default(), [0; 64]);
        let mut path = Text::new(&mut room);
        let mut found = Vec::new();
        let mut visit = |module: &Module, path: &Text<'_>| {
            let path = String::from_utf8(path.bytes().to_vec()).unwrap();
            found.push((module.start, module.end, path));
        };
        for line in lines {
            if let Some(mapping) = parse(line.as_bytes()) {
                take(&mut current, &mut path, &mapping, &mut visit);
            }
        }
        finish(&current, &path, &mut visit);
        found
    }

    #[test]
    fn neighbours_of_one_file_are_one_module() {
        let found = modules(&[
            "1000-2000 r--p 00000000 08:01 77   /lib/a b.so",
            "2000-3000 r-xp 00001000 08:01 77   /lib/a b.so",
            "3000-4000 rw-p 00000000 00:00 0",
            "4000-5000 rw-p 00003000 08:01 77   /lib/a b.so",
            "5000-6000 rw-p 00000000 00:00 0    [heap]",
            "7000-8000 r--p 00000000 08:01 78   /usr/lib/locale/archive",
            "8000-9000 r-xp 00000000 08:01 79   /lib/c.so",
            "9000-a000 r-xp 00000000 08:01 79   /lib/c.so",
        ]);
        let expected = [
            (0x1000, 0x5000, "/lib/a b.so"),
            (0x8000, 0xA000, "/lib/c.so"),
        ];
        assert_eq!(
            found,
            expected.map(|(start, end, path)| (start, end, path.to_owned()))
        );
    }

    #[test]
    fn a_file_mapped_again_from_its_start_is_another_module() {
        let found = modules(&[
            "1000-2000 r--p 00000000 08:01 77 /a",
            "2000-3000 r-xp 00001000 08:01 77 /a",
            "5000-6000 r--p 00000000 08:01 77 /a",
            "6000-7000 r-xp 00001000 08:01 77 /a",
        ]);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_path_with_ends_of_lines_is_what_it_was() {
        for (shown, path) in [
            (&b"/a\\012b\\012"[..], &b"/a\nb\n"[..]),
            (b"/a\\01", b"/a\\01"),
            (b"/a\\\\012", b"/a\\\n"),
            (b"", b""),
        ] {
            let mut room = [0; 32];
            let mut text = Text::new(&mut room);
            push_path(&mut text, shown);
            assert_eq!(text.bytes(), path);
        }
    }

    #[test]
    fn damaged_lines_are_nothing() {
        for line in [
            "",
            "1000",
            "1000-x r--p 0 08:01 77 /a",
            "1000-2000 r--p 0 0801 77 /a",
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn this_process_has_modules_through_any_buffer() {
        for size in [300, 512, 4096] {
            let (mut buffer, mut room) = (vec![0; size], [0; 4096]);
            let mut count = 0;
            let mut holds_us = false;
            let here = this_process_has_modules_through_any_buffer as fn() as usize;
            each_module(&mut buffer, &mut Text::new(&mut room), &mut |module, _| {
                count += 1;
                holds_us |= (module.start..module.end).contains(&here);
            });
            assert!(count >= 3 && holds_us, "{size}: {count}");
        }
    }
}
