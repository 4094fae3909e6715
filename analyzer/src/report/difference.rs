//! What changed from one report to another.

use super::{FaultKind, Stack, Warning, is_false};
use serde::Serialize;

/// What changed between two reports.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// What sites must be like to be compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<String>,
    /// What all sums but peaks are divided by: `million allocations` or `second`, of all of each trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per: Option<&'static str>,
    /// Sums of the old one.
    pub old: SiteSums,
    /// Sums of the new one.
    pub new: SiteSums,
    /// Process images of the old one, whose peaks are added up.
    pub old_processes: u64,
    /// Process images of the new one.
    pub new_processes: u64,
    /// Nanoseconds that the old trace spans.
    pub old_duration_ns: u64,
    /// Nanoseconds that the new trace spans.
    pub new_duration_ns: u64,
    /// Of the sums only live bytes and blocks are known, of the blocks that were asked for.
    #[serde(skip_serializing_if = "is_false")]
    pub live_only: bool,
    /// Wrong releases that changed, by kind and site, those that are new first.
    pub errors: Vec<ErrorChange>,
    /// Sites that changed, most growth of live bytes first.
    pub sites: Vec<SiteChange>,
    /// The inputs of the old one.
    pub old_files: Vec<String>,
    /// The inputs of the new one.
    pub new_files: Vec<String>,
    /// What is to be known of the old trace, as in its [report](super::Report).
    pub old_warnings: Vec<Warning>,
    /// The same of the new one.
    pub new_warnings: Vec<Warning>,
}

/// Wrong releases of one kind at one site in both reports.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorChange {
    /// What was wrong.
    pub kind: FaultKind,
    /// How many there are in the old one.
    pub old: u64,
    /// In the new one.
    pub new: u64,
    /// Where it was released; as the new report has it, if it does.
    pub stack: Stack,
}

/// A site in both reports.
#[derive(Clone, Debug, Serialize)]
pub struct SiteChange {
    /// In the old one.
    pub old: SiteSums,
    /// In the new one.
    pub new: SiteSums,
    /// The site; as the new report has it, if it does.
    pub stack: Stack,
}

/// Sums of one site or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SiteSums {
    /// Requested bytes never released.
    pub live_bytes: u64,
    /// Blocks never released.
    pub live_blocks: u64,
    /// The others, where they are known.
    #[serde(flatten)]
    pub whole: Option<WholeSums>,
}

/// Sums that are not of live blocks alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WholeSums {
    /// Requested bytes live at the peak.
    pub peak_bytes: u64,
    /// Blocks ever handed out: of a site by reallocations as well; of all sites together without these, as in a report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocations: Option<u64>,
    /// Blocks released before the same thread allocated again.
    pub temporary: u64,
}

impl SiteSums {
    /// Both together, as far as both are known. Peaks are added up, though they may have been at different moments.
    pub(crate) fn plus(self, other: Self) -> Self {
        let add = u64::saturating_add;
        let whole = self.whole.zip(other.whole);
        Self {
            live_bytes: add(self.live_bytes, other.live_bytes),
            live_blocks: add(self.live_blocks, other.live_blocks),
            whole: whole.map(|(one, other)| WholeSums {
                peak_bytes: add(one.peak_bytes, other.peak_bytes),
                allocations: one
                    .allocations
                    .zip(other.allocations)
                    .map(|(one, other)| add(one, other)),
                temporary: add(one.temporary, other.temporary),
            }),
        }
    }

    /// Nothing, of which as much is known.
    pub(crate) fn none(self) -> Self {
        Self {
            live_bytes: 0,
            live_blocks: 0,
            whole: self.whole.map(|_| WholeSums {
                allocations: Some(0),
                ..WholeSums::default()
            }),
        }
    }

    /// Blocks ever handed out; 0 where that is not known.
    #[must_use]
    pub fn allocations(&self) -> u64 {
        self.whole.and_then(|whole| whole.allocations).unwrap_or(0)
    }

    /// Bytes at the peak; 0 where that is not known.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.whole.map_or(0, |whole| whole.peak_bytes)
    }

    /// Temporary blocks; 0 where that is not known.
    #[must_use]
    pub fn temporary(&self) -> u64 {
        self.whole.map_or(0, |whole| whole.temporary)
    }
}
