//! Reads DWARF sections with limits, so that a damaged or hostile debug file costs bounded time and stack.
//!
//! `addr2line` follows whatever the file says: units that share one huge range list, inlined functions nested a
//! million deep. Everything it reads passes through here, so here is where it can be stopped.

use gimli::{EndianSlice, Error, Reader, ReaderOffsetId, Result, RunTimeEndian};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Bytes of stack that reading may use: enough for functions inlined into each other some thousand times.
const MAX_STACK: usize = super::STACK / 8;

/// Bytes of a name or path that are looked at.
const MAX_TEXT: usize = 64 * 1024;

/// Reads allowed whatever the size of the sections.
const MIN_READS: u64 = 1 << 24;

/// Reads allowed for a byte of the sections. Looking up every function was measured to need less than one.
const READS_PER_BYTE: u64 = 2;

/// What is left of the reads, stack and addresses that one module's debug information may use.
///
/// Used by one thread only; atomics without ordering make it shareable as `gimli` wants it.
#[derive(Debug)]
pub(super) struct Limits {
    reads_left: AtomicU64,
    /// Address of a local of the function that began the look-up.
    stack_base: AtomicUsize,
    /// Units are indexed; from now on addresses in entries belong to functions.
    in_functions: AtomicBool,
    /// Lowest address of executable code.
    first_code: u64,
}

impl Limits {
    pub(super) fn new(first_code: u64) -> Self {
        Self {
            reads_left: AtomicU64::new(MIN_READS),
            stack_base: AtomicUsize::new(stack_position()),
            in_functions: AtomicBool::new(false),
            first_code,
        }
    }

    /// Allows the reads that `bytes` more of sections may need.
    pub(super) fn allow_for(&self, bytes: usize) {
        let more = READS_PER_BYTE.saturating_mul(bytes as u64);
        self.reads_left
            .store(self.reads_left.load(Relaxed).saturating_add(more), Relaxed);
    }

    /// Says that the index of units is complete.
    ///
    /// Until then an address of 0 can be a unit's base, to which all its ranges are added. After that it is a
    /// function which the linker left out.
    pub(super) fn enter_functions(&self) {
        self.in_functions.store(true, Relaxed);
    }

    /// Does something for which addresses are those of units again.
    pub(super) fn outside_functions<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.in_functions.swap(false, Relaxed);
        let done = work();
        self.in_functions.store(before, Relaxed);
        done
    }

    /// Whether a limit was met; what was found until then stands.
    pub(super) fn are_exhausted(&self) -> bool {
        self.reads_left.load(Relaxed) == 0
    }

    /// Whether `address` stands for code that the linker left out.
    ///
    /// GNU ld leaves 0 and what is added to it where a section was dropped; such a range would otherwise cover the first
    /// real functions.
    pub(super) fn is_left_out(&self, address: u64) -> bool {
        address < self.first_code
    }

    /// Counts `cost` reads; false if they are no longer allowed.
    #[inline]
    pub(super) fn charge(&self, cost: usize) -> bool {
        let left = self
            .reads_left
            .load(Relaxed)
            .saturating_sub(cost.max(1) as u64);
        self.reads_left.store(left, Relaxed);
        left > 0 && self.stack_base.load(Relaxed).abs_diff(stack_position()) < MAX_STACK
    }
}

/// Roughly where the stack ends now.
#[inline]
fn stack_position() -> usize {
    let here = 0u8;
    std::ptr::from_ref(&here).addr()
}

/// What the addresses in a section mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addresses {
    /// Of functions, once the units are indexed.
    Functions,
    /// Of code, always.
    Code,
    /// Anything.
    Other,
}

impl Addresses {
    pub(super) fn of(section: gimli::SectionId) -> Self {
        match section {
            gimli::SectionId::DebugInfo | gimli::SectionId::DebugAddr => Self::Functions,
            gimli::SectionId::DebugLine => Self::Code,
            _ => Self::Other,
        }
    }
}

/// A section or a part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitedReader<'a> {
    slice: EndianSlice<'a, RunTimeEndian>,
    addresses: Addresses,
    limits: &'a Limits,
}

impl<'a> LimitedReader<'a> {
    pub(super) fn new(
        bytes: &'a [u8],
        endian: RunTimeEndian,
        addresses: Addresses,
        limits: &'a Limits,
    ) -> Self {
        Self {
            slice: EndianSlice::new(bytes, endian),
            addresses,
            limits,
        }
    }

    /// What counts its reads.
    pub(super) fn limits(&self) -> &'a Limits {
        self.limits
    }

    /// The bytes, for a reader that counts on its own.
    pub(super) fn unlimited(&self) -> EndianSlice<'a, RunTimeEndian> {
        self.slice
    }

    #[inline]
    fn charge(&self, cost: usize) -> Result<()> {
        if self.limits.charge(cost) {
            Ok(())
        } else {
            Err(Error::UnexpectedEof(self.slice.offset_id()))
        }
    }

    /// Whether `address`, as it stands here, is one of code that the linker left out.
    fn is_left_out(&self, address: u64) -> bool {
        let names_code = match self.addresses {
            Addresses::Functions => self.limits.in_functions.load(Relaxed),
            Addresses::Code => true,
            Addresses::Other => false,
        };
        names_code && self.limits.is_left_out(address)
    }
}

impl Reader for LimitedReader<'_> {
    type Endian = RunTimeEndian;
    type Offset = usize;

    #[inline]
    fn endian(&self) -> RunTimeEndian {
        self.slice.endian()
    }

    #[inline]
    fn len(&self) -> usize {
        self.slice.len()
    }

    #[inline]
    fn empty(&mut self) {
        self.slice.empty();
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> Result<()> {
        self.slice.truncate(len)
    }

    #[inline]
    fn offset_from(&self, base: &Self) -> usize {
        Reader::offset_from(&self.slice, &base.slice)
    }

    #[inline]
    fn offset_id(&self) -> ReaderOffsetId {
        self.slice.offset_id()
    }

    #[inline]
    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        self.slice.lookup_offset_id(id)
    }

    #[inline]
    fn find(&self, byte: u8) -> Result<usize> {
        let found = Reader::find(&self.slice, byte)?;
        self.charge(found / 16)?;
        Ok(found)
    }

    #[inline]
    fn skip(&mut self, len: usize) -> Result<()> {
        self.charge(1)?;
        self.slice.skip(len)
    }

    #[inline]
    fn split(&mut self, len: usize) -> Result<Self> {
        self.charge(1)?;
        Ok(Self {
            slice: self.slice.split(len)?,
            ..*self
        })
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(self.slice.slice()))
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        self.charge(self.len())?;
        Reader::to_string(&self.slice)
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        // Copies are made of these, one a file of a line table: memory counts as reads.
        let text = self.slice.slice();
        let text = &text[..text.len().min(MAX_TEXT)];
        self.charge(text.len())?;
        Ok(String::from_utf8_lossy(text))
    }

    #[inline]
    fn read_slice(&mut self, buf: &mut [u8]) -> Result<()> {
        self.charge(1)?;
        Reader::read_slice(&mut self.slice, buf)
    }

    #[inline]
    fn read_u8(&mut self) -> Result<u8> {
        self.charge(1)?;
        self.slice.read_u8()
    }

    // These would work without: by bytes, each with its charge.

    #[inline]
    fn read_uleb128(&mut self) -> Result<u64> {
        self.charge(1)?;
        self.slice.read_uleb128()
    }

    #[inline]
    fn read_uleb128_u32(&mut self) -> Result<u32> {
        self.charge(1)?;
        self.slice.read_uleb128_u32()
    }

    #[inline]
    fn read_uleb128_u16(&mut self) -> Result<u16> {
        self.charge(1)?;
        self.slice.read_uleb128_u16()
    }

    #[inline]
    fn read_sleb128(&mut self) -> Result<i64> {
        self.charge(1)?;
        self.slice.read_sleb128()
    }

    #[inline]
    fn skip_leb128(&mut self) -> Result<()> {
        let before = self.slice.len();
        self.slice.skip_leb128()?;
        self.charge(1 + (before - self.slice.len()) / 16)
    }

    #[inline]
    fn read_null_terminated_slice(&mut self) -> Result<Self> {
        let slice = self.slice.read_null_terminated_slice()?;
        self.charge(1 + slice.len() / 16)?;
        Ok(Self { slice, ..*self })
    }

    fn read_address(&mut self, address_size: u8) -> Result<u64> {
        self.charge(1)?;
        let address = self.slice.read_address(address_size)?;
        Ok(if self.is_left_out(address) {
            // What DWARF 6 writes for left-out code, and gimli knows.
            u64::MAX >> (64 - 8 * u32::from(address_size))
        } else {
            address
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Addresses, LimitedReader, Limits};
    use gimli::{Reader, RunTimeEndian};

    #[test]
    fn reads_end_when_the_allowance_is_used() {
        let limits = Limits::new(0);
        limits.reads_left.store(4, super::Relaxed);
        let mut reader =
            LimitedReader::new(&[1; 16], RunTimeEndian::Little, Addresses::Other, &limits);
        assert_eq!((0..16).take_while(|_| reader.read_u8().is_ok()).count(), 3);
        assert!(limits.are_exhausted());
    }

    #[test]
    fn deep_recursion_ends() {
        fn recurse(mut reader: LimitedReader<'_>, depth: usize) -> usize {
            let frame = std::hint::black_box([0u8; 16 * 1024]);
            match reader.read_u8() {
                Ok(_) => recurse(reader, depth + 1) + usize::from(frame[0]),
                Err(_) => depth,
            }
        }
        let depth = crate::symbols::with_large_stack(|| {
            let limits = Limits::new(0);
            let bytes = [0; 4096];
            let reader =
                LimitedReader::new(&bytes, RunTimeEndian::Little, Addresses::Other, &limits);
            recurse(reader, 0)
        });
        assert!((50..=256).contains(&depth.unwrap()), "{depth:?}");
    }

    #[test]
    fn an_address_below_the_code_was_left_out() {
        let limits = Limits::new(0x1000);
        let bytes = [0x10, 0, 0, 0, 0, 0x10, 0, 0];
        let read = |addresses| {
            let mut reader = LimitedReader::new(&bytes, RunTimeEndian::Little, addresses, &limits);
            [
                reader.read_address(4).unwrap(),
                reader.read_address(4).unwrap(),
            ]
        };
        assert_eq!(read(Addresses::Code), [0xFFFF_FFFF, 0x1000]);
        assert_eq!(read(Addresses::Functions), [0x10, 0x1000]);
        limits.enter_functions();
        assert_eq!(read(Addresses::Functions), [0xFFFF_FFFF, 0x1000]);
        assert_eq!(read(Addresses::Other), [0x10, 0x1000]);
    }
}
