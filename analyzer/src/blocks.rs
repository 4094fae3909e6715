//! The single blocks that were never released.

use crate::findings::thread;
use crate::images::Images;
use crate::naming::{Names, hex_address};
use crate::report::{Block, LiveBlocks, ProcessBlocks};
use crate::sites::SiteTable;
use crate::trace::Trace;
use crate::{symbols, warnings};

/// Lists the live blocks of `images`, which must have kept them.
pub(crate) fn live(
    trace: &Trace,
    images: &Images,
    sites: &SiteTable,
    options: &symbols::Options,
) -> LiveBlocks {
    let blocks = images.images.iter().flat_map(|image| &image.outcome.blocks);
    let shown = blocks.map(|live| live.block.handed_out.site).collect();
    let names = Names::of(&shown, sites, options);
    let processes = images.images.iter().map(|image| ProcessBlocks {
        pid: image.pid,
        blocks: image
            .outcome
            .blocks
            .iter()
            .map(|live| {
                let at = live.block.handed_out;
                Block {
                    address: hex_address(live.address),
                    size: live.block.size,
                    thread: thread(at),
                    time_ns: Some(at.clock.saturating_sub(images.begin_clock)),
                    inherited: live.is_inherited,
                    stack: names.stack(at.site),
                }
            })
            .collect(),
    });
    let processes = processes.collect();
    let mut warnings = warnings::of(trace, &images.images);
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
