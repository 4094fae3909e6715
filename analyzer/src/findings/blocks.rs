//! The single blocks that are live at a moment.

use super::clock::{Clock, thread};
use super::warnings;
use crate::images::{Image, Images};
use crate::naming::{Names, hex_address};
use crate::replay::LiveBlock;
use crate::report::{Block, LiveAt, LiveBlocks, ProcessBlocks};
use crate::sites::SiteTable;
use crate::trace::Trace;
use crate::{Options, Selection, Until};

/// Lists the live blocks of `images`, which must have kept them.
pub(crate) fn live(
    trace: &Trace,
    images: &Images,
    sites: &SiteTable,
    selection: &Selection,
    options: &Options,
) -> LiveBlocks {
    let blocks = images.images.iter().flat_map(|image| &image.outcome.blocks);
    let named = blocks.map(|live| live.block.handed_out.site).collect();
    let names = Names::of(&named, sites, &options.symbols);
    let processes = images.images.iter().map(|image| {
        let clock = Clock::of(image, images);
        let blocks = image.outcome.blocks.iter();
        let blocks = blocks.map(|live| shown(live, clock, &names));
        let end = end(image, clock, options);
        ProcessBlocks {
            pid: image.pid,
            blocks: blocks.filter(|block| selection.takes(block, end)).collect(),
        }
    });
    let processes = processes.collect();
    let mut warnings = warnings::of(trace, images);
    if options.until.is_some() {
        warnings::forget_ends(&mut warnings);
    }
    let counts = images.images.iter().map(|image| &image.outcome.counts);
    if counts.fold(0u64, |sum, of| sum.saturating_add(of.calls())) == 0 {
        warnings.insert(0, warnings::no_records(trace, &images.images));
    }
    warnings.extend(names.warnings());
    let (at, until_ns) = match options.until {
        None => (LiveAt::End, None),
        Some(Until::Peak) => (LiveAt::Peak, None),
        Some(Until::Time(time)) => (LiveAt::Time, Some(time)),
    };
    LiveBlocks {
        at,
        until_ns,
        processes,
        warnings,
    }
}

/// The last moment that was looked at.
pub(crate) fn end(image: &Image, clock: Clock, options: &Options) -> u64 {
    let end = match options.until {
        Some(Until::Time(time)) => Some(time),
        Some(Until::Peak) => clock.time_ns(image.outcome.peak.clock),
        None => clock.time_ns(image.outcome.last_clock),
    };
    end.unwrap_or(0)
}

/// A block with the names of its site.
pub(crate) fn shown(live: &LiveBlock, clock: Clock, names: &Names) -> Block {
    let at = live.block.handed_out;
    Block {
        address: hex_address(live.address),
        size: live.block.size,
        thread: thread(at),
        time_ns: clock.time_ns(at.clock),
        time_is_lower_bound: clock.is_lower_bound(at.clock),
        log_line: clock.line(at.clock),
        inherited: live.is_inherited,
        stack: names.stack(at.site),
    }
}
