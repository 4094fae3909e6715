//! All that happened to one address.

use super::clock::{Clock, thread};
use super::warnings;
use crate::address::Machine;
use crate::event::Event;
use crate::images::Log;
use crate::log::{Batch, Reader};
use crate::naming::{Names, hex_address};
use crate::replay::{self, Beginning, Events, Moment, Replay};
use crate::report::{Address, Block, History, HistoryEvent};
use crate::sites::{SiteId, SiteTable};
use crate::trace::{Trace, TraceError};
use crate::{Options, Selection, images, mtrace, order};
use heapwire_format::{Op, Record};

/// Events that are read of a log at once.
const LOG_BATCH: usize = 1 << 14;

/// One event, before its site has a name.
struct Found {
    /// Its stream; none of a log.
    stream: Option<usize>,
    event: Event,
    site: SiteId,
}

/// Looks for an address among the events of one process image.
struct Search {
    stream: Option<usize>,
    address: u64,
    /// Where the block begins that holds the address now, or held it last.
    around: u64,
    events: Events,
    none: replay::Batch,
}

impl Search {
    fn new(address: u64, stream: Option<usize>, machine: Machine) -> Self {
        let beginning = Beginning {
            machine,
            ..Beginning::default()
        };
        let events = Replay::new(beginning).events;
        Self {
            stream,
            address,
            around: address,
            none: events.batch(replay::Batch::default()),
            events,
        }
    }

    fn look(&mut self, event: &Event, sites: &mut SiteTable) -> Option<Found> {
        let record = &event.record;
        if !record.op.is_heap() {
            self.events.apply(event, sites, &mut self.none);
            return None;
        }
        let address = self.address;
        let begins = matches!(record.op, Op::ALLOCATED | Op::REALLOC_NEW);
        let holds = record.ptr <= address && address - record.ptr < record.size;
        if begins && holds {
            self.around = record.ptr;
        }
        (record.ptr == address || record.ptr == self.around).then(|| Found {
            stream: self.stream,
            event: *event,
            site: self.events.site(event, sites),
        })
    }
}

/// The calls that handed out, resized or released a block at `address` or around it, as far as they are selected. Calls that say no size
/// have any.
pub(crate) fn of(
    trace: &mut Trace,
    address: u64,
    selection: &Selection,
    options: &Options,
) -> Result<History, TraceError> {
    trace.index_all()?;
    let begin = images::begin_clock(trace)?;
    let pids = images::pids(trace)?;
    crate::are_there(&options.pids, &pids)?;
    let mut sites = SiteTable::default();
    let mut found = Vec::new();
    let mut missing = 0u64;
    for stream in 0..trace.streams.len() {
        let mut search = Search::new(address, Some(stream), Machine::default());
        let gone = order::walk(trace, stream, |event| -> Result<(), TraceError> {
            found.extend(search.look(event, &mut sites));
            Ok(())
        })?;
        missing = missing.saturating_add(gone);
    }
    let mut logs = Vec::new();
    for input in &trace.logs {
        for reader in Reader::all(trace.text(*input), *input) {
            logs.push(of_log(reader, address, &mut sites, &mut found));
        }
    }
    mtrace::place_modules(&logs, &mut sites, &options.symbols);
    let shown = found.iter().map(|found| found.site).collect();
    let names = Names::of(&shown, &sites, &options.symbols);
    let events = found.iter().map(|found| {
        let record = &found.event.record;
        let clock = match found.stream {
            Some(_) => Clock::since(begin),
            None => Clock::Lines,
        };
        let moment = Moment {
            clock: found.event.clock,
            site: found.site,
            tid: found.event.tid,
        };
        HistoryEvent {
            pid: found.stream.and_then(|stream| *pids.get(stream)?),
            event: record.op.name().unwrap_or("unknown"),
            address: hex_address(record.ptr),
            size: size(record),
            number: found.event.number,
            thread: thread(moment),
            time_ns: clock.time_ns(moment.clock),
            time_is_lower_bound: clock.is_lower_bound(moment.clock),
            log_line: clock.line(moment.clock),
            stack: names.stack(moment.site),
        }
    });
    Ok(History {
        address: hex_address(address),
        filter: selection.words(),
        events: events
            .filter(|event| takes(selection, event))
            .filter(|event| {
                options.pids.is_empty() || event.pid.is_some_and(|pid| options.pids.contains(&pid))
            })
            .collect(),
        warnings: warnings::of_records(trace, missing),
    })
}

/// Looks for `address` in all sessions of a log.
fn of_log(
    mut reader: Reader<'_>,
    address: u64,
    sites: &mut SiteTable,
    found: &mut Vec<Found>,
) -> Log {
    let mut batch = Batch::default();
    while reader.next_session() {
        let mut search = Search::new(address, None, Machine::Other);
        loop {
            batch.events.clear();
            reader.fill(&mut batch, LOG_BATCH);
            for module in batch.modules.drain(..) {
                search.events.declare(module, sites);
            }
            if batch.events.is_empty() {
                break;
            }
            let events = batch.events.iter();
            found.extend(events.filter_map(|event| search.look(event, sites)));
        }
    }
    Log::of(&reader)
}

/// The size of the block that a call is about, if it tells that: the old half of a realloc tells the new one.
fn size(record: &Record) -> Option<u64> {
    match record.op {
        Op::REALLOC_OLD => None,
        Op::RELEASED => Some(record.size).filter(|size| *size != u64::MAX),
        _ => Some(record.size),
    }
}

fn takes(selection: &Selection, event: &HistoryEvent) -> bool {
    let selection = Selection {
        sizes: selection.sizes.filter(|_| event.size.is_some()),
        min_age: None, // blocks have ages
        ..selection.clone()
    };
    let call = Block {
        address: Address(0), // nothing is asked of it
        size: event.size.unwrap_or(0),
        thread: event.thread,
        time_ns: event.time_ns,
        time_is_lower_bound: event.time_is_lower_bound,
        latest_ns: None,
        log_line: event.log_line,
        inherited: false,
        stack: event.stack.clone(),
    };
    selection.takes(&call, 0)
}
