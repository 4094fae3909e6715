//! All that happened to one address.

use super::clock::thread;
use crate::event::Event;
use crate::naming::{Names, hex_address};
use crate::order;
use crate::replay::{self, Beginning, Moment, Replay};
use crate::report::{History, HistoryEvent};
use crate::sites::{SiteId, SiteTable};
use crate::trace::{Trace, TraceError};
use crate::{images, symbols, time};
use heapwire_format::Op;

/// One event, before its site has a name.
struct Found {
    stream: usize,
    event: Event,
    site: SiteId,
}

/// The calls that handed out, resized or released a block at `address` or around it.
pub(crate) fn of(
    trace: &mut Trace,
    address: u64,
    options: &symbols::Options,
) -> Result<History, TraceError> {
    trace.index_all()?;
    let begin = images::begin_clock(trace)?;
    let pids = images::pids(trace)?;
    let mut sites = SiteTable::default();
    let mut found = Vec::new();
    for stream in 0..trace.streams.len() {
        let mut events = Replay::new(Beginning::default()).events;
        let mut none = events.batch(replay::Batch::default());
        // Where the block begins that holds the address now, or held it last.
        let mut around = address;
        order::walk(trace, stream, |event| -> Result<(), TraceError> {
            let record = &event.record;
            if !record.op.is_heap() {
                events.apply(event, &mut sites, &mut none);
                return Ok(());
            }
            let begins = matches!(record.op, Op::ALLOCATED | Op::REALLOC_NEW);
            let holds = record.ptr <= address && address - record.ptr < record.size;
            if begins && holds {
                around = record.ptr;
            }
            if record.ptr == address || record.ptr == around {
                let site = events.site(event, &mut sites);
                found.push(Found {
                    stream,
                    event: *event,
                    site,
                });
            }
            Ok(())
        })?;
    }
    let shown = found.iter().map(|found| found.site).collect();
    let names = Names::of(&shown, &sites, options);
    let events = found.iter().map(|found| {
        let record = &found.event.record;
        let moment = Moment {
            clock: found.event.clock,
            site: found.site,
            tid: found.event.tid,
        };
        HistoryEvent {
            pid: pids.get(found.stream).copied().flatten(),
            event: record.op.name().unwrap_or("unknown"),
            address: hex_address(record.ptr),
            size: (record.op != Op::RELEASED || record.size != u64::MAX).then_some(record.size),
            number: found.event.number,
            thread: thread(moment),
            time_ns: time::since(begin, moment.clock),
            time_is_lower_bound: time::is_lower_bound(moment.clock),
            stack: names.stack(moment.site),
        }
    });
    Ok(History {
        address: hex_address(address),
        events: events.collect(),
    })
}
