//! The kinds of address, one type each, so that they cannot be mixed up.

/// An address in the process that was traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuntimeAddress(pub u64);

/// An address as the ELF file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileAddress(pub u64);

/// What the dynamic linker added to a module's addresses when it mapped it; 0 is legal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadBias(pub u64);

impl LoadBias {
    /// The file's address of a run-time one. Wraps, as the linker's own arithmetic does: a prelinked
    /// module has a bias below zero.
    #[must_use]
    pub fn to_file(self, address: RuntimeAddress) -> FileAddress {
        FileAddress(address.0.wrapping_sub(self.0))
    }
}

/// Where a call will return to: the instruction after the call, Thumb bit and all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReturnAddress(pub RuntimeAddress);

impl ReturnAddress {
    /// An address inside the call itself, for look-ups.
    ///
    /// The return address can belong to the next line, and after a call that never returns even to the
    /// next function.
    #[must_use]
    pub fn call(self, machine: Machine) -> RuntimeAddress {
        let Self(RuntimeAddress(address)) = self;
        RuntimeAddress(match machine {
            // The delay slot after the call belongs to the call.
            Machine::Mips => address.saturating_sub(8),
            Machine::Arm => (address & !1).saturating_sub(1),
            Machine::Other => address.saturating_sub(1),
        })
    }
}

/// What of the target's machine decides how a return address is looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Machine {
    /// 32-bit ARM: bit 0 says Thumb.
    Arm,
    /// MIPS: calls have a delay slot.
    Mips,
    /// Any other.
    #[default]
    Other,
}

impl Machine {
    /// The machine of an ELF `e_machine`.
    #[must_use]
    pub fn of_elf(e_machine: u64) -> Self {
        match e_machine {
            40 => Self::Arm,
            8 | 10 => Self::Mips,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LoadBias, Machine, ReturnAddress, RuntimeAddress};

    #[test]
    fn the_call_lies_before_the_return_address() {
        let address = ReturnAddress(RuntimeAddress(0x1001));
        assert_eq!(address.call(Machine::Other), RuntimeAddress(0x1000));
        assert_eq!(address.call(Machine::Arm), RuntimeAddress(0xFFF));
        assert_eq!(address.call(Machine::Mips), RuntimeAddress(0xFF9));
        let zero = ReturnAddress(RuntimeAddress(0));
        assert_eq!(zero.call(Machine::Other), RuntimeAddress(0));
    }

    #[test]
    fn a_bias_below_zero_wraps() {
        let bias = LoadBias(0u64.wrapping_sub(0x1000));
        assert_eq!(bias.to_file(RuntimeAddress(0x500)).0, 0x1500);
    }
}
