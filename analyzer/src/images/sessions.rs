//! Replays the sessions of logs of glibc's mtrace: each is a process image of its own.

use crate::address::Machine;
use crate::images::{Image, Pauses, Shelf, Start, Stops};
use crate::log::{self, Batch, Condition, Reader, Seen, Session};
use crate::progress;
use crate::replay::{self, Beginning, Chart, Events, Replay};
use crate::sites::SiteTable;
use crate::trace::Trace;
use std::mem;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

/// Events that are handed to the replay at once.
const BATCH: usize = 1 << 14;
/// Batches that the reader may be ahead of the replay.
const AHEAD: usize = 2;

/// What a log has besides the records of its sessions.
pub(crate) struct Log {
    /// Index of the input, and of the writer in that.
    pub(crate) index: (u32, u32),
    pub(crate) condition: Condition,
    /// The modules that it names.
    pub(crate) modules: Vec<Seen>,
}

impl Log {
    /// Of a log that was read to its end.
    pub(crate) fn of(reader: &Reader<'_>) -> Self {
        Self {
            index: reader.session.log,
            condition: reader.condition(),
            modules: reader.callers().modules().to_vec(),
        }
    }

    /// The path of the program, as far as names tell: the first module that is no library.
    pub(crate) fn program(&self) -> Option<&Path> {
        let mut paths = self.modules.iter().map(|seen| seen.path.as_path());
        paths.find(|path| !log::is_library(path))
    }
}

/// Replays all sessions of the log in `input` into `images`, and gives what else there is of each who wrote to it.
pub(crate) fn replay(
    trace: &Trace,
    input: u32,
    shelf: &mut Shelf,
    stops: &Stops,
    chart: &Chart,
    sites: &mut SiteTable,
    images: &mut Vec<Image>,
) -> Vec<Log> {
    let mut logs = Vec::new();
    let chart = Chart {
        step: None, // logs know no time
        ..chart.clone()
    };
    for mut reader in Reader::all(trace.text(input), input) {
        while reader.next_session() {
            let before = images.iter().filter(|it| it.session.is_some()).count();
            let last = stops.of_session(before);
            images.push(replay_session(&mut reader, shelf, last, &chart, sites));
        }
        logs.push(Log::of(&reader));
    }
    logs
}

fn replay_session(
    reader: &mut Reader<'_>,
    shelf: &mut Shelf,
    last: Option<u64>,
    chart: &Chart,
    sites: &mut SiteTable,
) -> Image {
    let mut replay = Replay::new(Beginning {
        first_number: Some(1),
        is_late: true, // a program calls mtrace() when it likes to
        has_culled: false,
        writes_late: true,
        machine: Machine::Other,
        clock: 0,
        chart: chart.clone(),
    });
    let end = last.map_or(u64::MAX, |last| last.saturating_add(1));
    run(&mut replay, reader, end, sites);
    let session = reader.session;
    let taken = last.map_or(session.taken, |_| 0);
    let mut outcome = replay.finish(taken, 0, shelf.wanted, sites);
    if session.is_mixed {
        for fault in &mut outcome.faults {
            fault.is_whole = false;
        }
    }
    Image {
        tag: 0,
        declaration: None,
        pid: None,
        blocks: shelf.put(mem::take(&mut outcome.blocks)),
        outcome,
        wait_status: None,
        seen_to_end: None,
        is_stopped: last.is_some(),
        pauses: Pauses::default(),
        has_lanes: false,
        lacks_frames: false,
        lacks_parent: false,
        start: start(&session),
        knows_first: true,
        lost: 0,
        void: 0,
        differing_copies: 0,
        late_copies: 0,
        late: 0,
        session: Some(session),
    }
}

/// Replays what the session has below number `end`.
fn run(replay: &mut Replay, reader: &mut Reader<'_>, end: u64, sites: &mut SiteTable) {
    let threads = rayon::current_num_threads();
    if threads == 1 {
        let mut read = Batch::default();
        replay.run(1, &|| false, |events, batch| {
            refill(reader, &mut read)
                .map(|()| look(&mut read, end, events, batch, sites))
                .ok_or(())
        });
    } else {
        // To read lines takes as long as all the rest.
        thread::scope(|scope| {
            let (to_replay, read) = mpsc::sync_channel(AHEAD);
            let (give_back, spare) = mpsc::channel();
            let reader = &mut *reader;
            scope.spawn(move || {
                loop {
                    let mut batch = spare.try_recv().unwrap_or_default();
                    if refill(reader, &mut batch).is_none() || to_replay.send(batch).is_err() {
                        return;
                    }
                }
            });
            let _ended = replay.run(threads - 1, &|| false, |events, batch| {
                let mut read = read.recv()?;
                let batch = look(&mut read, end, events, batch, sites);
                let _ = give_back.send(read); // nobody wants the last ones
                Ok::<_, mpsc::RecvError>(batch)
            });
        });
    }
}

/// Reads the next events of the session, if there are any.
fn refill(reader: &mut Reader<'_>, read: &mut Batch) -> Option<()> {
    read.events.clear();
    let left = reader.left();
    reader.fill(read, BATCH);
    progress::advance((left - reader.left()) as u64);
    (!read.events.is_empty()).then_some(())
}

/// Looks at what was read, as far as its numbers are below `end`.
fn look(
    read: &mut Batch,
    end: u64,
    events: &mut Events,
    mut batch: replay::Batch,
    sites: &mut SiteTable,
) -> replay::Batch {
    for module in read.modules.drain(..) {
        events.declare(module, sites);
    }
    for event in read.events.iter().filter(|event| event.number < end) {
        events.apply(event, sites, &mut batch);
    }
    batch
}

fn start(session: &Session) -> Start {
    if session.has_start {
        Start::Seen
    } else {
        Start::Missing
    }
}
