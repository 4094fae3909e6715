//! Our own relocation, for calls that come before the dynamic linker has done it.
//!
//! An indirect function's resolver can allocate while libraries are still being relocated, and ours comes late. What the
//! linker will do for addresses inside this library, base plus addend, can be done at once and again by the linker;
//! compiled code needs no more than that.

use crate::arch;

/// One entry of the table, `Elf64_Rela` in <elf.h>.
#[derive(Clone, Copy)]
#[repr(C)]
struct Relocation {
    place: usize,
    kind: usize,
    addend: usize,
}

/// Applies all relocations that refer to this library alone.
///
/// Where doing it twice would do harm, compiled code needs none of them before the linker has made them.
pub(crate) fn relocate_early() {
    let Some(relative) = arch::MACHINE.relative else {
        return;
    };
    const TABLE: usize = 7;
    const TABLE_SIZE: usize = 8;
    let base = arch::own_base();
    let mut at = arch::own_dynamic_section();
    let (mut table, mut size) = (0, 0);
    loop {
        // SAFETY: our dynamic section is an array of pairs that ends with a zero tag.
        let [tag, value] = unsafe { core::ptr::with_exposed_provenance::<[usize; 2]>(at).read() };
        match tag {
            0 => break,
            // Some loaders have relocated the address already.
            TABLE => {
                table = if value < base {
                    value.wrapping_add(base)
                } else {
                    value
                }
            }
            TABLE_SIZE => size = value,
            _ => {}
        }
        at = at.wrapping_add(size_of::<[usize; 2]>());
    }
    let mut at = table;
    let end = table.wrapping_add(size);
    while at < end {
        // SAFETY: our relocation table has `size` bytes of whole entries.
        let entry = unsafe { core::ptr::with_exposed_provenance::<Relocation>(at).read() };
        if entry.kind == relative {
            let place =
                core::ptr::with_exposed_provenance_mut::<usize>(base.wrapping_add(entry.place));
            // SAFETY: the linker that made this library says that an address belongs here; the memory is
            // made read-only only after the loader has stored the same.
            unsafe { place.write(base.wrapping_add(entry.addend)) };
        }
        at = at.wrapping_add(size_of::<Relocation>());
    }
}
