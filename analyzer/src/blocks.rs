//! The single blocks that were never released.

use crate::findings::{Clock, thread};
use crate::images::Images;
use crate::naming::{Names, hex_address};
use crate::replay::LiveBlock;
use crate::report::{Block, LiveBlocks, ProcessBlocks};
use crate::sites::SiteTable;
use crate::trace::Trace;
use crate::{Options, Selection, Until, warnings};

/// Lists the live blocks of `images`, which must have kept them.
pub(crate) fn live(
    trace: &Trace,
    images: &Images,
    sites: &SiteTable,
    selection: &Selection,
    options: &Options,
) -> LiveBlocks {
    let blocks = images.images.iter().flat_map(|image| &image.outcome.blocks);
    let shown = blocks.map(|live| live.block.handed_out.site).collect();
    let names = Names::of(&shown, sites, &options.symbols);
    let block = |live: &LiveBlock, clock: Clock| {
        let at = live.block.handed_out;
        Block {
            address: hex_address(live.address),
            size: live.block.size,
            thread: thread(at),
            time_ns: clock.time_ns(at.clock),
            log_line: clock.line(at.clock),
            inherited: live.is_inherited,
            stack: names.stack(at.site),
        }
    };
    let processes = images.images.iter().map(|image| {
        let clock = Clock::of(image, images);
        let blocks = image.outcome.blocks.iter();
        let blocks = blocks.map(|live| block(live, clock));
        let last = image.outcome.last_clock;
        let end = match options.until {
            Some(Until::Time(time)) => Some(time),
            Some(Until::Peak) => clock.time_ns(image.outcome.peak.clock),
            None => clock.time_ns(last),
        };
        ProcessBlocks {
            pid: image.pid,
            blocks: blocks
                .filter(|block| selection.takes(block, end.unwrap_or(0)))
                .collect(),
        }
    });
    let processes = processes.collect();
    let mut warnings = warnings::of(trace, images);
    if options.until.is_some() {
        // The end was not looked at.
        const OF_ENDS: [&str; 3] = ["cut", "image-missing", "child-missing"];
        warnings.retain(|warning| !OF_ENDS.contains(&warning.kind));
    }
    let counts = images.images.iter().map(|image| &image.outcome.counts);
    if counts.fold(0u64, |sum, of| sum.saturating_add(of.calls())) == 0 {
        warnings.insert(0, warnings::no_records(&images.images));
    }
    warnings.extend(names.warnings());
    LiveBlocks {
        processes,
        warnings,
    }
}
