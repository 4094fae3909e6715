//! What the replay of one process image comes to.

use super::block::Block;
use super::control::Forked;
use super::heap::Heap;
use super::kept::Kept;
use super::marks::Mark;
use super::usage::PeakMoment;
use super::{Counts, Ending, Histogram, RawFault, Replay, ThreadUsage, Timeline};
use crate::sites::{SiteId, SiteTable};
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
    /// Requested bytes of all blocks ever handed out.
    pub(crate) handed_out_bytes: u64,
    /// Blocks that a realloc made larger, and by how many bytes.
    pub(crate) grown: (u64, u64),
    /// Bytes and blocks at the peak.
    pub(crate) at_peak: (u64, u64),
    /// When the oldest live block was handed out.
    pub(crate) oldest: Option<u64>,
}

impl SiteRow {
    /// Of a site that handed out nothing.
    pub(crate) const fn of(site: SiteId) -> Self {
        Self {
            site,
            live_bytes: 0,
            live_blocks: 0,
            handed_out: 0,
            temporary: 0,
            handed_out_bytes: 0,
            grown: (0, 0),
            at_peak: (0, 0),
            oldest: None,
        }
    }
}

/// Which of the single live blocks are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    None,
    /// Those that were not inherited.
    Own,
    All,
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
    /// The children that it forked.
    pub(crate) forked: Vec<Forked>,
    pub(crate) live_blocks: u64,
    pub(crate) live_bytes: u64,
    pub(crate) peak: PeakMoment,
    /// Up to the last record.
    pub(crate) timeline: Timeline,
    /// In order of number.
    pub(crate) faults: Vec<RawFault>,
    /// Faults beyond those.
    pub(crate) more_faults: u64,
    /// The allocator is called past the recorder, by what this process or the one before the fork was handed.
    pub(crate) is_bypassed: bool,
    /// Blocks were left out on purpose, here or in the process that this one was forked from.
    pub(crate) has_culled: bool,
    /// Sites that handed out anything; in order of call address, then of first use.
    pub(crate) sites: Vec<SiteRow>,
    /// In order of number; empty unless asked for.
    pub(crate) blocks: Vec<LiveBlock>,
    /// In order of appearance; with the blocks and bytes that each was handed and that are live.
    pub(crate) threads: Vec<(ThreadUsage, (u64, u64))>,
    /// Sites of calls that returned no memory: how many, and the bytes they asked for; in order of first use.
    pub(crate) failed: Vec<(SiteId, (u64, u64))>,
    /// Requested sizes of all blocks.
    pub(crate) sizes: Histogram,
    /// Nanoseconds that released blocks were live.
    pub(crate) lifetimes: Histogram,
    /// Released blocks of which the trace does not tell how long they were live.
    pub(crate) lifetimes_unknown: u64,
    /// Records from one's that handed a block out to that of its release.
    pub(crate) lifetimes_in_records: Histogram,
    /// Numbers that no record carries.
    pub(crate) missing: u64,
    /// Blocks that are live as far as is known, and of which a realloc was in flight when the trace ended.
    pub(crate) in_flight: u64,
    pub(crate) marks: Vec<Mark>,
    /// The trace's clock at the last record.
    pub(crate) last_clock: u64,
}

impl Replay {
    /// Ends the replay. Numbers below `taken` were all taken, and `culled` records left out on purpose.
    pub(crate) fn finish(
        mut self,
        taken: u64,
        culled: u32,
        wanted: Wanted,
        sites: &mut SiteTable,
    ) -> Outcome {
        let events = &mut self.events;
        events.end_declaring(sites);
        events.end_numbers(taken, culled);
        // Asked before reallocs in flight are undone: their addresses may rightly be another's by now.
        let is_bypassed =
            self.inherits_bypass || self.ledger.unseen_releases > self.ledger.late_releases;
        for fault in &mut self.ledger.faults {
            fault.is_last = events.threads.last_call(fault.at.tid) == Some(fault.number);
        }
        let (in_flight, gone) = self.heap.undo_open();
        for block in &gone {
            self.ledger.end(block);
        }
        let live = self.ledger.live();
        self.ledger.timeline.advance_to(events.last_clock, live);
        let kept = self.heap.kept(self.first_own);
        let rows = self.rows(sites, &kept);
        let threads = self.threads(&kept);
        let Self {
            mut events,
            ledger,
            heap,
            first_own,
            ..
        } = self;
        let was_there = events.counts.records > 0; // else it is a child before its fork
        let listed = match wanted {
            Wanted::Own | Wanted::All if was_there => blocks(heap, first_own, wanted),
            _ => Vec::new(),
        };
        ledger.tell(&mut events.counts, was_there);
        events.counts.unseen_releases += gone.len() as u64;
        let mut failed: Vec<_> = events.failed.into_iter().collect();
        failed.sort_unstable_by_key(|(site, _)| *site);
        Outcome {
            counts: events.counts,
            ending: events.ending,
            forked: events.forked,
            live_blocks: ledger.usage.live_blocks,
            live_bytes: ledger.usage.live_bytes,
            peak: ledger.usage.peak,
            timeline: ledger.timeline,
            faults: ledger.faults,
            more_faults: ledger.more_faults,
            is_bypassed,
            has_culled: events.has_culled,
            sites: rows,
            blocks: listed,
            threads,
            failed,
            sizes: ledger.sizes,
            lifetimes: ledger.lifetimes,
            lifetimes_unknown: ledger.lifetimes_unknown,
            lifetimes_in_records: ledger.lifetimes_in_records,
            missing: events.numbers.missing,
            in_flight,
            marks: events.marks.finish(),
            last_clock: events.last_clock,
        }
    }

    fn rows(&self, table: &SiteTable, kept: &Kept) -> Vec<SiteRow> {
        let mut rows: Vec<_> = self
            .ledger
            .usage
            .sites()
            .map(|(site, usage)| SiteRow {
                site,
                live_bytes: usage.live_bytes,
                live_blocks: usage.live_blocks,
                handed_out: usage.handed_out,
                temporary: usage.temporary,
                at_peak: self.ledger.usage.at_peak(usage),
                handed_out_bytes: usage.handed_out_bytes,
                grown: (usage.grown, usage.grown_bytes),
                oldest: kept.oldest.get(&site).map(|oldest| oldest.clock),
            })
            .collect();
        rows.sort_unstable_by_key(|row| (table.site(row.site).call, row.site));
        rows
    }

    fn threads(&self, kept: &Kept) -> Vec<(ThreadUsage, (u64, u64))> {
        let threads = self.events.threads.usage().into_iter();
        threads
            .map(|usage| {
                (
                    usage,
                    kept.by_thread.get(&usage.tid).copied().unwrap_or_default(),
                )
            })
            .collect()
    }
}

/// The live blocks of `heap` that are wanted, in order; those with numbers below `first_own` are the parent's.
fn blocks(heap: Heap, first_own: u64, wanted: Wanted) -> Vec<LiveBlock> {
    let mut blocks = match wanted {
        Wanted::All => Vec::with_capacity(heap.live()),
        _ => Vec::new(),
    };
    heap.into_live_blocks(|address, block| {
        let is_inherited = block.number < first_own;
        if wanted == Wanted::All || !is_inherited {
            blocks.push(LiveBlock {
                address,
                block,
                is_inherited,
            });
        }
    });
    blocks.sort_unstable_by_key(|live| (live.block.number, live.address));
    // An inherited block that a realloc left as it was stands in the child's layer as well.
    blocks.dedup_by_key(|live| (live.block.number, live.address));
    blocks
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
