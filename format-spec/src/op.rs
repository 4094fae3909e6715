//! The op byte, the function families and the other small numbers of SPEC.md 2 to 4.

/// What a record says (SPEC.md 2.1). Any byte is an `Op`; the constants are those this version knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Op(pub u8);

impl Op {
    /// No record: a slot that is unused or not committed.
    pub const HOLE: Self = Self(0x00);
    /// A block was handed out.
    pub const ALLOCATED: Self = Self(0x01);
    /// A block is given back.
    pub const RELEASED: Self = Self(0x02);
    /// `realloc` of a block begins.
    pub const REALLOC_OLD: Self = Self(0x03);
    /// `realloc` gave a block.
    pub const REALLOC_NEW: Self = Self(0x04);
    /// `realloc` failed; the old block is as it was.
    pub const REALLOC_FAILED: Self = Self(0x05);
    /// `realloc` released the block and gave none.
    pub const REALLOC_FREED: Self = Self(0x06);
    /// An allocation returned no memory.
    pub const ALLOCATION_FAILED: Self = Self(0x07);
    /// 32 bytes of the text of a declaration.
    pub const TEXT: Self = Self(0x70);
    /// Declares the process image.
    pub const PROCESS: Self = Self(0x71);
    /// Declares a module.
    pub const MODULE_LOADED: Self = Self(0x72);
    /// A module's range may be given to another.
    pub const MODULE_UNLOADED: Self = Self(0x73);
    /// Names a thread.
    pub const THREAD: Self = Self(0x74);
    /// A child was forked.
    pub const FORK: Self = Self(0x75);
    /// The process is about to replace its image.
    pub const EXEC: Self = Self(0x76);
    /// The process image ended by its own will.
    pub const END: Self = Self(0x77);
    /// A node of the tree of stacks.
    pub const STACK_NODE: Self = Self(0x78);
    /// A further property of the record before it.
    pub const MORE: Self = Self(0x79);
    /// Recording was switched off.
    pub const PAUSE: Self = Self(0x7A);
    /// Recording was switched on again.
    pub const RESUME: Self = Self(0x7B);
    /// Pairs of records that were left out on purpose.
    pub const CULLED: Self = Self(0x7C);
    /// Calls go to another allocator from here on.
    pub const ALLOCATOR_SWITCHED: Self = Self(0x7D);
    /// A point that the program or the user marked.
    pub const MARK: Self = Self(0xF0);
    /// A named phase begins.
    pub const PHASE_BEGIN: Self = Self(0xF1);
    /// A named phase ends.
    pub const PHASE_END: Self = Self(0xF2);
    /// The value of a counter.
    pub const COUNTER: Self = Self(0xF3);
    /// The monotonic and the wall clock at one moment.
    pub const CLOCK_PAIR: Self = Self(0xF4);
    /// A fatal signal arrived.
    pub const FAULT: Self = Self(0xF5);
    /// Whether a live block can still be reached.
    pub const REACHABILITY: Self = Self(0xF6);
    /// Names a heap.
    pub const HEAP: Self = Self(0xF7);
    /// How the process ended, as its parent saw it.
    pub const OBSERVED_END: Self = Self(0xF8);
    /// A repair left frames out of which nothing is known.
    pub const LEFT_OUT: Self = Self(0xF9);
    /// A slot that was reserved and not needed; takes no number.
    pub const VOID: Self = Self(0xFF);

    /// Whether a reader that does not know the op may skip it and lose nothing that counts.
    #[inline]
    #[must_use]
    pub const fn is_ignorable(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// Whether the record says something of a heap block.
    #[inline]
    #[must_use]
    pub const fn is_heap(self) -> bool {
        matches!(self.0, 0x01..=0x07)
    }

    /// The name in SPEC.md, if this version of the format knows the op.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::HOLE => "hole",
            Self::ALLOCATED => "allocated",
            Self::RELEASED => "released",
            Self::REALLOC_OLD => "realloc-old",
            Self::REALLOC_NEW => "realloc-new",
            Self::REALLOC_FAILED => "realloc-failed",
            Self::REALLOC_FREED => "realloc-freed",
            Self::ALLOCATION_FAILED => "allocation-failed",
            Self::TEXT => "text",
            Self::PROCESS => "process",
            Self::MODULE_LOADED => "module-loaded",
            Self::MODULE_UNLOADED => "module-unloaded",
            Self::THREAD => "thread",
            Self::FORK => "fork",
            Self::EXEC => "exec",
            Self::END => "end",
            Self::STACK_NODE => "stack-node",
            Self::MORE => "more",
            Self::PAUSE => "pause",
            Self::RESUME => "resume",
            Self::CULLED => "culled",
            Self::ALLOCATOR_SWITCHED => "allocator-switched",
            Self::MARK => "mark",
            Self::PHASE_BEGIN => "phase-begin",
            Self::PHASE_END => "phase-end",
            Self::COUNTER => "counter",
            Self::CLOCK_PAIR => "clock-pair",
            Self::FAULT => "fault",
            Self::REACHABILITY => "reachability",
            Self::HEAP => "heap",
            Self::OBSERVED_END => "observed-end",
            Self::LEFT_OUT => "left-out",
            Self::VOID => "void",
            _ => return None,
        })
    }

    /// Bytes of text that a declaration with this op and `base` says it has, if its op has a text at all.
    #[must_use]
    pub const fn text_length(self, base: u64) -> Option<u64> {
        match self {
            Self::PROCESS
            | Self::MODULE_LOADED
            | Self::THREAD
            | Self::EXEC
            | Self::ALLOCATOR_SWITCHED
            | Self::MARK
            | Self::PHASE_BEGIN
            | Self::PHASE_END
            | Self::COUNTER
            | Self::HEAP => Some(base),
            _ => None,
        }
    }
}

/// Which functions a heap call belongs to (SPEC.md 3.1): bits 0 to 3 of the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Family {
    /// `malloc` and what promises a block for `free`.
    Malloc = 0,
    /// `aligned_alloc` and its kin.
    Aligned = 1,
    /// `operator new`.
    New = 2,
    /// `operator new[]`.
    NewArray = 3,
    /// `operator new` with an alignment.
    NewAligned = 4,
    /// `operator new[]` with an alignment.
    NewArrayAligned = 5,
    /// Not known: fits every other.
    Unknown = 15,
}

impl Family {
    /// The family in a flags byte; a reserved number is `Unknown`.
    #[inline]
    #[must_use]
    pub const fn from_flags(flags: u8) -> Self {
        Self::BY_NUMBER[flags as usize & 0x0F]
    }

    const BY_NUMBER: [Self; 16] = {
        let mut all = [Self::Unknown; 16];
        let known = [
            Self::Malloc,
            Self::Aligned,
            Self::New,
            Self::NewArray,
            Self::NewAligned,
            Self::NewArrayAligned,
        ];
        let mut at = 0;
        while at < known.len() {
            all[known[at] as usize] = known[at];
            at += 1;
        }
        all
    };

    /// Whether a release by `release` is right for a block of this family.
    #[inline]
    #[must_use]
    pub const fn is_released_by(self, release: Self) -> bool {
        match (self.group(), release.group()) {
            (None, _) | (_, None) => true,
            (Some(ours), Some(theirs)) => ours == theirs,
        }
    }

    #[inline]
    const fn group(self) -> Option<u8> {
        match self {
            Self::Malloc | Self::Aligned => Some(0),
            Self::New | Self::NewAligned => Some(1),
            Self::NewArray | Self::NewArrayAligned => Some(2),
            Self::Unknown => None,
        }
    }
}

/// Bits of the flags of heap records beside the family (SPEC.md 3.1).
pub mod flag {
    /// The last field is a stack.
    pub const HAS_STACK: u8 = 1 << 4;
    /// The clock was read for this record.
    pub const TIME_READ: u8 = 1 << 5;
    /// The call came through a function that allocates for its caller.
    pub const HELPED: u8 = 1 << 6;
    /// *more* records follow.
    pub const MORE: u8 = 1 << 7;
}

/// Size of the fork record of a child that is in its parent's memory, and has no stream of its own, until its `execve` (SPEC.md 4.4).
pub const IN_PARENTS_MEMORY: u64 = 1;

/// How a process image ended by its own will (SPEC.md 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum EndReason {
    /// `exit`, or return from `main`.
    Exit = 0,
    /// `_exit`, `_Exit` or `quick_exit`.
    Immediate = 1,
}

/// What a *more* record adds (SPEC.md 4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum MoreKind {
    /// Alignment in bytes.
    Alignment = 1,
    /// Usable size in bytes.
    UsableSize = 2,
    /// A second return address.
    SecondPc = 3,
    /// A tag.
    Tag = 4,
    /// Id of a blob.
    Contents = 5,
}

#[cfg(test)]
mod tests {
    use super::{Family, Op};

    #[test]
    fn groups_tell_malloc_new_and_new_array_apart() {
        assert!(Family::Malloc.is_released_by(Family::Malloc));
        assert!(Family::Aligned.is_released_by(Family::Malloc));
        assert!(Family::NewAligned.is_released_by(Family::New));
        assert!(!Family::New.is_released_by(Family::NewArray));
        assert!(!Family::New.is_released_by(Family::Malloc));
        assert!(!Family::Malloc.is_released_by(Family::New));
        assert!(Family::Unknown.is_released_by(Family::NewArray));
        assert!(Family::from_flags(9) == Family::Unknown);
    }

    #[test]
    fn heap_ops_are_those_without_a_resource_bit() {
        assert!(Op::ALLOCATED.is_heap() && Op::ALLOCATION_FAILED.is_heap());
        assert!(!Op::HOLE.is_heap() && !Op(0x08).is_heap() && !Op(0x11).is_heap());
        assert!(Op::MARK.is_ignorable() && !Op::END.is_ignorable());
    }
}
