//! The single blocks that are live at a moment.

use super::clock::{Clock, thread};
use super::end::End;
use super::warnings;
use crate::images::{Image, Images, Listed};
use crate::naming::Names;
use crate::replay::LiveBlock;
use crate::report::{Address, Block, BlockList, BlockSource, LiveAt, LiveBlocks, ProcessBlocks};
use crate::sites::SiteTable;
use crate::trace::Trace;
use crate::{Options, Selection, Until};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// Lists the live blocks of `images`, which must have kept them.
///
/// # Errors
///
/// They cannot be read back.
pub(crate) fn live(
    trace: &Trace,
    images: &Images,
    sites: &SiteTable,
    selection: &Selection,
    options: &Options,
) -> io::Result<LiveBlocks> {
    let asked = images.shown(&options.pids);
    let mut named = BTreeSet::new();
    for live in asked.iter().flat_map(|image| image.blocks.iter()) {
        named.insert(live?.block.handed_out.site);
    }
    let names = Arc::new(Names::of(&named, sites, &options.symbols));
    let mut processes = Vec::new();
    let mut unsure = 0;
    for image in &asked {
        let clock = Clock::of(image, images);
        let ended = selection.of_running && has_ended(image, clock, options);
        let blocks = match ended {
            true => BlockList::of(Vec::new())?,
            false => BlockList::of(Shown {
                listed: image.blocks.clone(),
                clock,
                names: Arc::clone(&names),
                selection: selection.clone(),
                end: end(image, clock, options),
            })?,
        };
        if selection.asks_for_times() {
            let blocks = blocks.iter().filter(|block| selection.is_unsure_of(block));
            unsure += blocks.count() as u64;
        }
        processes.push(ProcessBlocks {
            pid: image.pid,
            command: image.command(),
            exe: images.exe(image),
            is_replaced: End::of(image) == End::Exec,
            is_cut: matches!(End::of(image), End::Cut | End::Signal(_) | End::Unknown),
            ended,
            blocks,
        });
    }
    let mut warnings = warnings::of_part(trace, images, selection, options, unsure);
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
    Ok(LiveBlocks {
        at,
        until_ns,
        filter: selection.words(),
        processes,
        warnings,
    })
}

/// The blocks of an image that are asked for, as they are shown.
struct Shown {
    listed: Listed,
    clock: Clock,
    names: Arc<Names>,
    selection: Selection,
    end: u64,
}

impl BlockSource for Shown {
    fn blocks(&self) -> Box<dyn Iterator<Item = io::Result<Block>> + '_> {
        let show = |live: io::Result<LiveBlock>| match live {
            Ok(live) => {
                let block = shown(&live, self.clock, &self.names);
                let is_asked_for = self.selection.takes(&block, self.end);
                is_asked_for.then_some(Ok(block))
            }
            Err(error) => Some(Err(error)),
        };
        Box::new(self.listed.iter().filter_map(show))
    }
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
