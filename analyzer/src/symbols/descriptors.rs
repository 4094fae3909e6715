//! Function descriptors of the older ABI of 64-bit PowerPC: its symbols point to these, not to code.

use object::{Architecture, Object, ObjectSection};

/// Bytes of the address of code that each descriptor begins with.
const ADDRESS: usize = 8;

/// The descriptors of one module.
#[derive(Debug)]
pub(super) struct Descriptors<'data> {
    /// Where they begin in the module's addresses.
    start: u64,
    bytes: &'data [u8],
    is_little_endian: bool,
}

impl<'data> Descriptors<'data> {
    /// Those of a module, which debug files lack; `None` where functions are known by their code.
    pub(super) fn of(module: &object::File<'data>) -> Option<Self> {
        if module.architecture() != Architecture::PowerPc64 {
            return None;
        }
        let section = module.section_by_name(".opd")?;
        let bytes = section.data().ok().filter(|bytes| !bytes.is_empty())?;
        Some(Self {
            start: section.address(),
            bytes,
            is_little_endian: module.is_little_endian(),
        })
    }

    /// Where the code is whose descriptor is at `address`; `None` where there is no descriptor.
    pub(super) fn code(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let (bytes, _) = self.bytes.get(at..)?.split_first_chunk::<ADDRESS>()?;
        Some(if self.is_little_endian {
            u64::from_le_bytes(*bytes)
        } else {
            u64::from_be_bytes(*bytes)
        })
    }
}
