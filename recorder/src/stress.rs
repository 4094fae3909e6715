//! All of the recorder under load: threads that record, come and go, and open and close modules, in a process of its own.
//!
//! The recording half also runs under ThreadSanitizer, which sees memory that two threads use with no order between them.

use crate::event::Event;
use crate::{flush, image, lane, modules};
use heapwire_format::{FrameKind, Header, Op, Record, TRAILER_SIZE, Unpacker};
use std::collections::BTreeMap;
use std::process::Command;
use std::{env, fs, thread};

/// Set in the process that records.
const ROLE: &str = "HEAPWIRE_STRESS";
const THREADS: u64 = 4;
const EVENTS: u64 = 30_000;
const SHORT_THREADS: u64 = 100;
const SHORT_EVENTS: u64 = 10;
const UNLOADS: usize = 200;

fn record(thread: u64, events: u64) {
    let lane = lane::current().unwrap();
    // Two modules at least: this program, and the libc.
    let callers = [
        record as *const () as usize,
        libc::getpid as *const () as usize,
    ];
    for event in 0..events {
        let pc = callers[usize::from(event % 3 == 0)];
        let event = Event::of(Op::ALLOCATED, thread << 32 | event << 4, event);
        lane.append(event.with_pc(pc, modules::base_of(lane, pc)));
    }
}

fn record_in_threads() {
    lane::current().unwrap();
    let image = image::current().unwrap();
    thread::scope(|scope| {
        for one in 1..=THREADS {
            scope.spawn(move || record(one, EVENTS));
        }
        scope.spawn(|| {
            let lane = lane::current().unwrap();
            for _ in 0..UNLOADS {
                image.modules.before_unload(lane);
                image.modules.after_unload(lane);
            }
        });
        for one in 0..SHORT_THREADS {
            let short = scope.spawn(move || record(THREADS + 1 + one, SHORT_EVENTS));
            short.join().unwrap();
        }
    });
    flush::everything(image, lane::current().unwrap());
}

/// The records of all frames, by number.
fn records(trace: &[u8]) -> BTreeMap<u64, Record> {
    let mut all = BTreeMap::new();
    let mut rest = trace;
    while !rest.is_empty() {
        let header = Header::decode(rest).unwrap();
        let (frame, after) = rest.split_at(usize::try_from(header.frame_length()).unwrap());
        let payload = &frame[usize::from(header.header_length)..frame.len() - TRAILER_SIZE];
        let found: Vec<_> = match header.kind {
            FrameKind::PACKED => Unpacker::new(header.first, payload).collect(),
            FrameKind::RECORDS => {
                let slots = payload.as_chunks::<{ Record::SIZE }>().0;
                slots.iter().map(Record::decode).collect()
            }
            _ => Vec::new(),
        };
        for record in found.into_iter().filter(|record| record.op != Op::VOID) {
            let before = all.insert(record.full_number(header.first), record);
            assert_eq!(before, None, "a number is given once");
        }
        rest = after;
    }
    all
}

#[test]
fn threads_under_load_lose_nothing() {
    const NAME: &str = "stress::threads_under_load_lose_nothing";
    if env::var_os(ROLE).is_some() {
        record_in_threads();
        std::process::exit(0); // before the harness does what a sanitizer that does not know it takes for a race
    }
    let trace = env::temp_dir().join(format!("heapwire-stress-{}.hwt", std::process::id()));
    let recorded = Command::new(env::current_exe().unwrap())
        .args(["--exact", NAME, "--test-threads=1", "--nocapture"])
        .env(ROLE, "1")
        .env("HEAPWIRE_OUT", &trace)
        .output()
        .unwrap();
    let bytes = fs::read(&trace).unwrap();
    fs::remove_file(&trace).unwrap();
    let said = String::from_utf8_lossy(&recorded.stderr);
    assert!(recorded.status.success() && said.is_empty(), "{said}");

    let all = records(&bytes);
    assert!(
        all.keys().copied().eq(1..=all.len() as u64),
        "numbers are dense"
    );
    let mut events: Vec<_> = all
        .values()
        .filter(|record| record.op == Op::ALLOCATED)
        .map(|record| (record.ptr >> 32, record.size))
        .collect();
    events.sort_unstable();
    let of = |thread: u64, count: u64| (0..count).map(move |event| (thread, event));
    let expected = (1..=THREADS + SHORT_THREADS).flat_map(|thread| {
        of(
            thread,
            if thread <= THREADS {
                EVENTS
            } else {
                SHORT_EVENTS
            },
        )
    });
    assert!(events.into_iter().eq(expected), "each event is there once");
}
