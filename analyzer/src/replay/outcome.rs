//! What the replay of one process image comes to.

use super::heap::{Block, Moment};
use super::usage::PeakMoment;
use super::{Counts, Ending, RawFault, Replay};
use crate::sites::{SiteId, SiteTable};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// The account of one site at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SiteRow {
    pub(crate) site: SiteId,
    pub(crate) live_bytes: u64,
    pub(crate) live_blocks: u64,
    /// Blocks ever handed out.
    pub(crate) handed_out: u64,
    pub(crate) temporary: u64,
    /// Bytes and blocks at the peak.
    pub(crate) at_peak: (u64, u64),
    /// When the oldest live block was handed out.
    pub(crate) oldest: Option<u64>,
}

/// A block that was never released, and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveBlock {
    pub(crate) address: u64,
    pub(crate) block: Block,
    pub(crate) is_inherited: bool,
}

/// The findings of one process image, in numbers.
pub(crate) struct Outcome {
    pub(crate) counts: Counts,
    pub(crate) ending: Ending,
    /// Pids of the children that it forked.
    pub(crate) forked: Vec<u64>,
    pub(crate) live_blocks: u64,
    pub(crate) live_bytes: u64,
    pub(crate) peak: PeakMoment,
    /// Nanoseconds of a step, and most live bytes in each.
    pub(crate) timeline: (u64, Vec<u64>),
    pub(crate) faults: Vec<RawFault>,
    /// The allocator is called past the recorder, by what this process or the one before the fork was handed.
    pub(crate) is_bypassed: bool,
    /// Sites that handed out anything; in order of call address, then of first use.
    pub(crate) sites: Vec<SiteRow>,
    /// In order of number; empty unless asked for.
    pub(crate) blocks: Vec<LiveBlock>,
    pub(crate) threads: usize,
    /// Numbers that no record carries.
    pub(crate) missing: u64,
    /// Reallocs in flight when the trace ended.
    pub(crate) in_flight: u64,
    /// The trace's clock at the last record.
    pub(crate) last_clock: u64,
}

impl Replay {
    /// Ends the replay. Numbers below `taken` were all taken; `want_blocks` keeps the single live blocks.
    pub(crate) fn finish(
        mut self,
        taken: u64,
        want_blocks: bool,
        sites: &mut SiteTable,
    ) -> Outcome {
        self.end_declaring(sites);
        self.numbers.note_taken(taken);
        // Asked before reallocs in flight are undone: their addresses may rightly be another's by now.
        let is_bypassed = self.inherits_bypass || self.counts.unseen_releases > 0;
        for fault in &mut self.faults {
            fault.is_last = self.threads.get(fault.at.tid).last_call == fault.number;
        }
        let open: Vec<_> = self.threads.all_open().copied().collect();
        for realloc in &open {
            self.undo(realloc);
        }
        let rows = self.rows(sites);
        let blocks = if want_blocks {
            self.blocks()
        } else {
            Vec::new()
        };
        Outcome {
            counts: self.counts,
            ending: self.ending,
            forked: self.forked,
            live_blocks: self.usage.live_blocks,
            live_bytes: self.usage.live_bytes,
            peak: self.usage.peak,
            timeline: self.timeline.finish(),
            faults: self.faults,
            is_bypassed,
            sites: rows,
            blocks,
            threads: self.threads.len(),
            missing: self.numbers.missing,
            in_flight: open.len() as u64,
            last_clock: self.last_clock,
        }
    }

    fn rows(&self, table: &SiteTable) -> Vec<SiteRow> {
        let mut oldest: FxHashMap<usize, (u64, Moment)> = FxHashMap::default();
        for (_, block) in self.heap.own_live() {
            if block.number >= self.first_own {
                let this = (block.number, block.handed_out);
                let site = block.handed_out.site.index();
                let found = oldest.entry(site).or_insert(this);
                if this.0 < found.0 {
                    *found = this;
                }
            }
        }
        let mut rows: Vec<_> = self
            .usage
            .sites()
            .map(|(site, usage)| SiteRow {
                site,
                live_bytes: usage.live_bytes,
                live_blocks: usage.live_blocks,
                handed_out: usage.handed_out,
                temporary: usage.temporary,
                at_peak: self.usage.at_peak(usage),
                oldest: oldest.get(&site.index()).map(|(_, at)| at.clock),
            })
            .collect();
        rows.sort_unstable_by_key(|row| (table.site(row.site).call, row.site));
        rows
    }

    fn blocks(&self) -> Vec<LiveBlock> {
        let mut blocks: Vec<_> = self
            .heap
            .own_live()
            .chain(self.heap.inherited_live())
            .map(|(address, block)| LiveBlock {
                address,
                block,
                is_inherited: block.number < self.first_own,
            })
            .collect();
        blocks.sort_unstable_by_key(|live| (live.block.number, live.address));
        // An inherited block that a realloc left as it was stands in the child's layer as well.
        blocks.dedup_by_key(|live| (live.block.number, live.address));
        blocks
    }
}

impl Outcome {
    /// Sites that hold live blocks, most bytes first; ties by address.
    pub(crate) fn leaks(&self) -> Vec<SiteRow> {
        self.most(|row| (row.live_blocks > 0).then_some(row.live_bytes))
    }

    /// Sites that held blocks at the peak, most bytes first; ties by address.
    pub(crate) fn peak_sites(&self) -> Vec<SiteRow> {
        self.most(|row| (row.at_peak.1 > 0).then_some(row.at_peak.0))
    }

    /// Sites of temporary blocks, most first; ties by address.
    pub(crate) fn temporaries(&self) -> Vec<SiteRow> {
        self.most(|row| (row.temporary > 0).then_some(row.temporary))
    }

    fn most(&self, measure: impl Fn(&SiteRow) -> Option<u64>) -> Vec<SiteRow> {
        let mut rows: Vec<_> = self
            .sites
            .iter()
            .filter_map(|row| Some((measure(row)?, *row)))
            .collect();
        rows.sort_by_key(|(measured, _)| Reverse(*measured)); // stable: rows are in order of address
        rows.into_iter().map(|(_, row)| row).collect()
    }
}
