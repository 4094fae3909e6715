//! Blocks from past the recorder: what a program was handed by calls of the allocator that no hook sees.
//!
//! A plug-in opened with `RTLD_DEEPBIND`, a call of `__libc_malloc`, an allocator's own function: their blocks come to light when
//! the program releases them, and look like a release of an address that was never handed out. What tells them apart is
//! that the program survives it; and where one such block is, more may lie at addresses that were handed out before.

use super::end::End;
use crate::images::Image;
use crate::replay::{RawFault, Target};

/// How long a process may take to die of a wrong release.
const DYING: u64 = 1_000_000_000;

/// What an image shows of such blocks.
pub(crate) struct Bypass {
    end: End,
    last_clock: u64,
    /// Releases of blocks that must be such.
    pub(crate) releases: u64,
    /// There are such blocks, in this image or in the one that it was forked from.
    is_seen: bool,
}

/// What became of the thread after a wrong release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    WentOn,
    Died,
    Unknown,
}

impl Bypass {
    pub(crate) fn of(image: &Image) -> Self {
        let outcome = &image.outcome;
        let mut bypass = Self {
            end: End::of(image),
            last_clock: outcome.last_clock,
            releases: 0,
            is_seen: outcome.is_bypassed,
        };
        let strangers = outcome.faults.iter().filter(|fault| {
            let is_stranger = fault.target == Target::Stranger && fault.is_whole;
            is_stranger && bypass.after(fault) == After::WentOn
        });
        bypass.releases = strangers.count() as u64;
        bypass.is_seen |= bypass.releases > 0;
        bypass
    }

    /// Whether a block from past the recorder would explain `fault`.
    pub(crate) fn explains(&self, fault: &RawFault) -> bool {
        match fault.target {
            Target::Crooked | Target::LeftOut => false,
            Target::Known => self.is_seen,
            Target::Stranger => self.is_seen || self.after(fault) != After::Died,
        }
    }

    fn after(&self, fault: &RawFault) -> After {
        if !fault.is_last {
            return After::WentOn;
        }
        let is_soon = self.last_clock <= fault.at.clock.saturating_add(DYING);
        match self.end {
            End::Normal | End::Exec => After::WentOn,
            End::Signal(signal) if is_of_fault(signal) && is_soon => After::Died,
            End::Signal(_) | End::Cut | End::Unknown => After::Unknown,
        }
    }
}

/// Whether a signal is one that a process gets for what it does itself.
fn is_of_fault(signal: u64) -> bool {
    const ILL: u64 = 4;
    const TRAP: u64 = 5;
    const ABRT: u64 = 6;
    const BUS: u64 = 7;
    const SEGV: u64 = 11;
    [ILL, TRAP, ABRT, BUS, SEGV].contains(&signal)
}
