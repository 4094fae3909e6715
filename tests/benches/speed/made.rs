//! Made-up traces, with their frames packed, as `record` writes them.

use heapwire_tests::packed::twin;
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::Writer;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Records of a frame.
const FRAME: u64 = 1600;
/// Call sites.
const SITES: u64 = 1024;

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frames {
    /// As `record` writes them, unless the user says otherwise.
    Packed,
    /// As they are.
    Plain,
}

/// Blocks of many sites that come and go, `live` of them at a time, in an order that no cache foresees.
pub(crate) fn trace(scratch: &Scratch, calls: u64, live: u64, frames: Frames) -> PathBuf {
    let block = |place: u64| 0x5000_0000_0000 + place * 48;
    written(scratch, calls / 2, frames, |writer, round, random| {
        let place = if round < live {
            round
        } else {
            (random >> 33) % live
        };
        writer.site(random >> 40 & (SITES - 1));
        if round >= live {
            writer.free(block(place));
        }
        writer.malloc(block(place), 32 + (random >> 50 & 63));
    })
}

/// One call, and releases of nothing, which mean nothing to the heap.
pub(crate) fn idle(scratch: &Scratch, records: u64, frames: Frames) -> PathBuf {
    written(scratch, records / 2, frames, |writer, round, random| {
        if round == 0 {
            writer.malloc(0x1000, 8);
        }
        writer.site(random >> 40 & (SITES - 1)).free(0).free(0);
    })
}

/// A trace of rounds, each of which has a random number and adds up to two records.
fn written(
    scratch: &Scratch,
    rounds: u64,
    frames: Frames,
    mut add: impl FnMut(&mut Writer, u64, u64),
) -> PathBuf {
    let path = scratch.join("made.hwt");
    let mut out = BufWriter::new(File::create(&path).expect("the folder is ours"));
    let mut write = |bytes: Vec<u8>| {
        let bytes = match frames {
            Frames::Packed => twin(&bytes),
            Frames::Plain => bytes,
        };
        out.write_all(&bytes).expect("there is room");
    };
    let mut writer = Writer::new();
    writer.frame.sum_kind = 0;
    let mut state = 1u64;
    for round in 0..rounds {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        add(&mut writer, round, state);
        if round % (FRAME / 2) == FRAME / 2 - 1 {
            write(writer.take());
        }
    }
    write(writer.end().take());
    out.flush().expect("there is room");
    path
}
