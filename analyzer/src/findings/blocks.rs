//! The single blocks that are live at a moment.

use super::clock::{Clock, thread};
use super::end::End;
use super::warnings;
use crate::images::{Image, Images};
use crate::naming::Names;
use crate::replay::LiveBlock;
use crate::report::{Address, Block, LiveAt, LiveBlocks, ProcessBlocks};
use crate::sites::SiteTable;
use crate::trace::Trace;
use crate::{Options, Selection, Until};

/// Blocks after which the memory of those that are shown is given back.
const GIVEN_BACK: usize = 1 << 16;

/// Lists the live blocks of `images`, which must have kept them, and loses them.
pub(crate) fn live(
    trace: &Trace,
    images: &mut Images,
    sites: &SiteTable,
    selection: &Selection,
    options: &Options,
) -> LiveBlocks {
    let kept = images.take_blocks(&options.pids);
    let images = &*images;
    let asked = images.shown(&options.pids);
    let blocks = kept.iter().flatten();
    let named = blocks.map(|live| live.block.handed_out.site).collect();
    let names = Names::of(&named, sites, &options.symbols);
    let processes = asked.iter().zip(kept).map(|(image, kept)| {
        let clock = Clock::of(image, images);
        let ended = selection.of_running && has_ended(image, clock, options);
        let end = end(image, clock, options);
        let show = |live: &LiveBlock| {
            let block = shown(live, clock, &names);
            (!ended && selection.takes(&block, end)).then_some(block)
        };
        ProcessBlocks {
            pid: image.pid,
            command: image.command(),
            exe: images.exe(image),
            is_replaced: End::of(image) == End::Exec,
            is_cut: matches!(End::of(image), End::Cut | End::Signal(_) | End::Unknown),
            ended,
            blocks: in_place_of(kept, show),
        }
    });
    let processes: Vec<ProcessBlocks> = processes.collect();
    let blocks = processes.iter().flat_map(|process| &process.blocks);
    let unsure = blocks.filter(|block| selection.is_unsure_of(block)).count();
    let mut warnings = warnings::of_part(trace, images, selection, options, unsure as u64);
    let counts = asked.iter().map(|image| &image.outcome.counts);
    if counts.fold(0u64, |sum, of| sum.saturating_add(of.calls())) == 0 {
        warnings.insert(0, warnings::no_records(trace, &asked));
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
        filter: selection.words(),
        processes,
        warnings,
    }
}

/// What `show` makes of blocks, one by one: of many there is not the room for both.
fn in_place_of(
    mut blocks: Vec<LiveBlock>,
    show: impl Fn(&LiveBlock) -> Option<Block>,
) -> Vec<Block> {
    let mut shown = Vec::new();
    blocks.reverse();
    while let Some(live) = blocks.pop() {
        shown.extend(show(&live));
        if blocks.len().is_multiple_of(GIVEN_BACK) {
            blocks.shrink_to_fit();
        }
    }
    shown
}

/// The last moment that was looked at.
pub(crate) fn end(image: &Image, clock: Clock, options: &Options) -> u64 {
    let end = match options.until {
        Some(Until::Time(time)) => Some(time),
        Some(Until::Peak) => clock.time_ns(image.outcome.peak.clock),
        None => {
            let last = image.outcome.last_clock;
            clock.time_ns(image.seen_to_end.map_or(last, |seen| seen.max(last)))
        }
    };
    end.unwrap_or(0)
}

/// Whether a process had ended at the time that the trace is followed to.
fn has_ended(image: &Image, clock: Clock, options: &Options) -> bool {
    let Some(Until::Time(time)) = options.until else {
        return false;
    };
    let told = image.outcome.ending;
    let is_told = told.end.is_some() || told.is_exec || told.fault.is_some();
    let seen = image.seen_to_end.and_then(|at| clock.time_ns(at));
    !image.is_stopped && is_told || seen.is_some_and(|seen| seen <= time)
}

/// A block with the names of its site.
pub(crate) fn shown(live: &LiveBlock, clock: Clock, names: &Names) -> Block {
    let at = live.block.handed_out;
    Block {
        address: Address(live.address),
        size: live.block.size,
        thread: thread(at),
        time_ns: clock.time_ns(at.clock),
        time_is_lower_bound: clock.is_lower_bound(at.clock),
        latest_ns: clock.latest_ns(at.clock),
        log_line: clock.line(at.clock),
        inherited: live.is_inherited,
        stack: names.stack(at.site),
    }
}
