//! Runs the program of a line table, which is much of what a look-up reads.
//!
//! Reads are counted once for the whole program, since each instruction takes at least one byte and none goes back.

use super::reader::{LimitedReader, Limits};
use gimli::{EndianSlice, Error, LineProgramHeader, Reader as _, RunTimeEndian};

/// What a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registers {
    pub(super) address: u64,
    operation: u64,
    pub(super) file: u64,
    pub(super) line: u64,
    pub(super) column: u64,
    /// The row is none, and only says where the one before ends.
    pub(super) is_end: bool,
    /// The linker dropped the code.
    is_left_out: bool,
}

impl Registers {
    const FIRST: Self = Self {
        address: 0,
        operation: 0,
        file: 1,
        line: 1,
        column: 0,
        is_end: false,
        is_left_out: false,
    };
}

/// A program while it runs.
pub(super) struct LineProgram<'data> {
    rest: EndianSlice<'data, RunTimeEndian>,
    registers: Registers,
    opcode_base: u8,
    line_base: i64,
    line_range: u8,
    instruction_length: u64,
    operations: u64,
    /// How many operands each standard instruction has.
    operands: EndianSlice<'data, RunTimeEndian>,
    address_size: u8,
    /// The highest address.
    highest: u64,
    limits: &'data Limits,
    /// Some instruction names a file that the header lacks.
    pub(super) names_files: bool,
}

impl<'data> LineProgram<'data> {
    /// Begins with the first row.
    ///
    /// # Errors
    ///
    /// It may not be read any more.
    pub(super) fn new(header: &LineProgramHeader<LimitedReader<'data>>) -> Result<Self, Error> {
        let program = header.raw_program_buf();
        let limits = program.limits();
        if !limits.charge(program.len()) {
            return Err(Error::UnexpectedEof(program.offset_id()));
        }
        let bits = 8 * u32::from(header.address_size().clamp(1, 8));
        Ok(Self {
            rest: program.unlimited(),
            registers: Registers::FIRST,
            opcode_base: header.opcode_base(),
            line_base: header.line_base().into(),
            line_range: header.line_range().max(1),
            instruction_length: header.minimum_instruction_length().into(),
            operations: header.maximum_operations_per_instruction().max(1).into(),
            operands: header.standard_opcode_lengths().unlimited(),
            address_size: header.address_size(),
            highest: u64::MAX >> (u64::BITS - bits),
            limits,
            names_files: false,
        })
    }

    /// The next row of code that is there; `None` at the end.
    ///
    /// # Errors
    ///
    /// The program is damaged.
    pub(super) fn next(&mut self) -> Result<Option<Registers>, Error> {
        loop {
            if self.registers.is_end {
                self.registers = Registers::FIRST;
            }
            if self.rest.is_empty() {
                return Ok(None);
            }
            let opcode = self.rest.read_u8()?;
            let is_row = match opcode.checked_sub(self.opcode_base) {
                Some(special) => {
                    let advance = i64::from(special % self.line_range);
                    self.advance_line(self.line_base + advance);
                    self.advance(u64::from(special / self.line_range))?;
                    true
                }
                None if opcode == 0 => self.extended()?,
                None => self.standard(gimli::DwLns(opcode))?,
            };
            if is_row && !self.registers.is_left_out {
                return Ok(Some(self.registers));
            }
        }
    }

    /// Runs a standard instruction; true if that makes a row.
    fn standard(&mut self, opcode: gimli::DwLns) -> Result<bool, Error> {
        match opcode {
            gimli::DW_LNS_copy => return Ok(true),
            gimli::DW_LNS_advance_pc => {
                let operations = self.number()?;
                self.advance(operations)?;
            }
            gimli::DW_LNS_advance_line => {
                let lines = self.signed()?;
                self.advance_line(lines);
            }
            gimli::DW_LNS_set_file => self.registers.file = self.number()?,
            gimli::DW_LNS_set_column => self.registers.column = self.number()?,
            gimli::DW_LNS_const_add_pc => {
                let special = u8::MAX - self.opcode_base;
                self.advance(u64::from(special / self.line_range))?;
            }
            gimli::DW_LNS_fixed_advance_pc => {
                let bytes = self.rest.read_u16()?;
                if !self.registers.is_left_out {
                    self.advance_address(bytes.into())?;
                    self.registers.operation = 0;
                }
            }
            gimli::DW_LNS_negate_stmt
            | gimli::DW_LNS_set_basic_block
            | gimli::DW_LNS_set_prologue_end
            | gimli::DW_LNS_set_epilogue_begin => {}
            gimli::DW_LNS_set_isa => self.rest.skip_leb128()?,
            unknown => {
                let mut operands = self.operands;
                operands.skip(usize::from(unknown.0) - 1)?;
                for _ in 0..operands.read_u8()? {
                    self.rest.skip_leb128()?;
                }
            }
        }
        Ok(false)
    }

    /// Runs an extended instruction; true if that makes a row.
    fn extended(&mut self) -> Result<bool, Error> {
        let length = self.number()?;
        let length = usize::try_from(length).map_err(|_| Error::UnsupportedOffset)?;
        let mut instruction = self.rest.split(length)?;
        match gimli::DwLne(instruction.read_u8()?) {
            gimli::DW_LNE_end_sequence => {
                self.registers.is_end = true;
                return Ok(true);
            }
            gimli::DW_LNE_set_address => {
                let address = instruction.read_address(self.address_size)?;
                // Linkers mark what they dropped by the highest addresses, by low ones, or by the one before.
                self.registers.is_left_out = address < self.registers.address
                    || address >= self.highest - 1
                    || self.limits.is_left_out(address);
                if !self.registers.is_left_out {
                    self.registers.address = address;
                    self.registers.operation = 0;
                }
            }
            gimli::DW_LNE_define_file => self.names_files = true,
            _ => {}
        }
        Ok(false)
    }

    /// The next operand, which is most often of one byte.
    #[inline]
    fn number(&mut self) -> Result<u64, Error> {
        match self.rest.slice().first() {
            Some(&byte) if byte < 0x80 => {
                self.rest.skip(1)?;
                Ok(byte.into())
            }
            _ => self.rest.read_uleb128(),
        }
    }

    /// The same where it has a sign.
    #[inline]
    fn signed(&mut self) -> Result<i64, Error> {
        match self.rest.slice().first() {
            Some(&byte) if byte < 0x80 => {
                self.rest.skip(1)?;
                Ok(i64::from((byte << 1).cast_signed() >> 1))
            }
            _ => self.rest.read_sleb128(),
        }
    }

    fn advance_line(&mut self, lines: i64) {
        let line = self.registers.line;
        self.registers.line = if lines < 0 {
            line.saturating_sub(lines.unsigned_abs())
        } else {
            line.wrapping_add(lines.unsigned_abs())
        };
    }

    fn advance(&mut self, operations: u64) -> Result<(), Error> {
        if self.registers.is_left_out {
            return Ok(());
        }
        let mut instructions = operations;
        if self.operations > 1 {
            let operation = self.registers.operation.wrapping_add(operations);
            instructions = operation / self.operations;
            self.registers.operation = operation % self.operations;
        }
        self.advance_address(self.instruction_length.wrapping_mul(instructions))
    }

    fn advance_address(&mut self, bytes: u64) -> Result<(), Error> {
        let address = self.registers.address.checked_add(bytes);
        let address = address.filter(|address| *address <= self.highest);
        self.registers.address = address.ok_or(Error::AddressOverflow)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::LineProgram;
    use crate::symbols::file::{MappedFile, first_code};
    use crate::symbols::reader::Limits;
    use crate::symbols::sections::Sections;

    /// Rows that are compared; the naive twin takes its time.
    const ROWS: usize = 300_000;

    /// The rows are those that `gimli` gives, which reads every instruction by itself.
    #[test]
    fn rows_are_those_of_the_twin() {
        let file = MappedFile::open(&std::env::current_exe().unwrap()).unwrap();
        let sections = Sections::load(&file, None, None).unwrap();
        let limits = Limits::new(first_code(&file.elf()));
        limits.allow_for(sections.bytes());
        let dwarf = sections.dwarf(&limits);
        let mut units = dwarf.units();
        let mut count = 0;
        while let (true, Some(header)) = (count < ROWS, units.next().unwrap()) {
            let unit = dwarf.unit(header).unwrap();
            let Some(twin) = unit.line_program else {
                continue;
            };
            let mut program = LineProgram::new(twin.header()).unwrap();
            let mut rows = twin.rows();
            while let Some((_, row)) = rows.next_row().unwrap() {
                let ours = program.next().unwrap().unwrap();
                let column = match row.column() {
                    gimli::ColumnType::LeftEdge => 0,
                    gimli::ColumnType::Column(column) => column.get(),
                };
                assert_eq!(
                    (ours.address, ours.file, ours.line, ours.column, ours.is_end),
                    (
                        row.address(),
                        row.file_index(),
                        row.line().map_or(0, std::num::NonZeroU64::get),
                        column,
                        row.end_sequence()
                    )
                );
                count += 1;
            }
            assert_eq!(program.next().unwrap(), None);
        }
        assert!(count > ROWS / 2, "{count}");
    }
}
