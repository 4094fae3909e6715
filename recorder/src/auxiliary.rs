//! What the kernel tells a new process image, read before any libc is ready: the auxiliary vector and the environment.

use crate::sys;

/// The file with the zero-terminated `path`, given to `take` piece by piece until it says stop.
#[inline(never)]
pub(crate) fn each_piece(path: &[u8], buffer: &mut [u8], take: &mut dyn FnMut(&[u8]) -> bool) {
    let Ok(fd) = sys::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0) else {
        return;
    };
    while let Ok(length) = sys::read(fd, buffer) {
        match buffer.get(..length) {
            Some(piece) if !piece.is_empty() && take(piece) => {}
            _ => break,
        }
    }
    sys::close(fd);
}

/// A value of the auxiliary vector.
pub(crate) fn value(key: libc::c_ulong) -> Option<usize> {
    let mut found = None;
    let mut buffer = [0; 512]; // whole pairs
    each_piece(b"/proc/self/auxv\0", &mut buffer, &mut |piece| {
        let (words, _) = piece.as_chunks::<{ size_of::<usize>() }>();
        for pair in words.as_chunks::<2>().0 {
            let [tag, value] = pair.map(usize::from_ne_bytes);
            if tag as libc::c_ulong == key {
                found = Some(value);
            }
        }
        found.is_none()
    });
    found
}

/// Whether the program was started with the rights of another user than the one who started it.
pub(crate) fn is_secure() -> bool {
    sys::is_privileged() || value(libc::AT_SECURE).is_some_and(|secure| secure != 0)
}

#[cfg(not(heapwire_static))]
/// Address of the loader's list for debuggers, found through the executable's own headers.
pub(crate) fn debug_list() -> Option<usize> {
    const DYNAMIC: u32 = 2;
    const HEADERS: u32 = 6;
    const DEBUG: usize = 21;
    let headers = value(libc::AT_PHDR)?;
    let count = value(libc::AT_PHNUM)?;
    let size = value(libc::AT_PHENT)?;
    let (mut bias, mut dynamic) = (0usize, None);
    for at in (0..count).map(|index| headers.wrapping_add(index.wrapping_mul(size))) {
        // SAFETY: the kernel gives the place, number and size of the program headers that it mapped.
        let header: [u32; 2] = unsafe { core::ptr::with_exposed_provenance::<[u32; 2]>(at).read() };
        let place =
            core::ptr::with_exposed_provenance::<usize>(at.wrapping_add(size_of::<[usize; 2]>()));
        // SAFETY: as before; `p_vaddr` is the third word of a program header, with 32 bits as with 64.
        let address = unsafe { place.read() };
        match header[0] {
            HEADERS => bias = headers.wrapping_sub(address),
            DYNAMIC => dynamic = Some(address),
            _ => {}
        }
    }
    let mut at = dynamic?.wrapping_add(bias);
    for _ in 0..1000 {
        // SAFETY: the executable's dynamic section is an array of pairs that ends with a zero tag.
        let [tag, value] = unsafe { core::ptr::with_exposed_provenance::<[usize; 2]>(at).read() };
        match tag {
            0 => return None,
            DEBUG => return Some(value),
            // Where the dynamic section cannot be written to, it says where the address is to be found.
            #[cfg(target_arch = "mips")]
            0x7000_0016 => return Some(word_at(value)),
            #[cfg(target_arch = "mips")]
            0x7000_0035 => return Some(word_at(at.wrapping_add(value))),
            _ => at = at.wrapping_add(size_of::<[usize; 2]>()),
        }
    }
    None
}

#[cfg(all(target_arch = "mips", not(heapwire_static)))]
fn word_at(address: usize) -> usize {
    // SAFETY: the executable's dynamic section names a word of its data.
    unsafe { core::ptr::with_exposed_provenance::<usize>(address).read() }
}

/// The zero-terminated entries of the file at the zero-terminated `path`, one call of `take` each, with how much is cut of one that is
/// longer than `room`.
pub(crate) fn each_entry(path: &[u8], room: &mut [u8], take: &mut dyn FnMut(&[u8], usize)) {
    let (mut used, mut cut) = (0, 0);
    let mut buffer = [0; 512];
    each_piece(path, &mut buffer, &mut |piece| {
        for byte in piece {
            if *byte == 0 {
                take(room.get(..used).unwrap_or_default(), cut);
                (used, cut) = (0, 0);
            } else if let Some(place) = room.get_mut(used) {
                *place = *byte;
                used = used.wrapping_add(1);
            } else {
                cut = cut.wrapping_add(1);
            }
        }
        true
    });
}
