//! A trace with a bit of everything that parts are made by.

use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{BASE, Record, Writer};
use std::path::PathBuf;

/// Two processes of three threads, with calls that look random, each process with a clock that goes on by some milliseconds.
pub(super) fn made(scratch: &Scratch) -> PathBuf {
    made_of(scratch, "made.hwt", 1)
}

/// The same with other calls for each `seed`.
pub(super) fn made_of(scratch: &Scratch, name: &str, seed: u64) -> PathBuf {
    let mut parent = Writer::new();
    parent.module(0x70_0000, 0x1000, "/opt/lib/libother.so");
    let mut state = seed;
    let mut blocks = calls(&mut parent, &mut state, Vec::new(), 0);
    let mut child = Writer::bare(0x0BAD_CAFE);
    child.next = parent.next;
    child.frame.clock = parent.frame.clock;
    let fork = format!("fork={}", parent.next);
    let keys = [
        "exe=/bin/p",
        "ppid=4711",
        "parent=c0ffee11",
        &fork,
        "began=fork",
    ];
    child.declare(
        0x71,
        [4712, 1_700_000_000_000_000_000, child.frame.clock],
        &keyed(&keys),
    );
    child
        .module(BASE, 0x10_0000, "/bin/p")
        .module(0x70_0000, 0x1000, "/opt/lib/libother.so");
    child.flush();
    calls(&mut child, &mut state, blocks.clone(), 10);
    blocks = calls(&mut parent, &mut state, blocks, 20);
    assert!(!blocks.is_empty());
    let bytes = [parent.end().bytes(), child.end().bytes()].concat();
    scratch.write(name, bytes)
}

fn keyed(keys: &[&str]) -> Vec<u8> {
    keys.iter().flat_map(|key| key.bytes().chain([0])).collect()
}

/// Adds some hundred calls and gives the blocks that are live then.
fn calls(writer: &mut Writer, state: &mut u64, mut blocks: Vec<u64>, zone: u64) -> Vec<u64> {
    let mut below = |bound: u64| {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % bound
    };
    let mut fresh = 0x10_0000 * (1 + zone);
    for cycle in 0..60 {
        writer.flush();
        if cycle % 25 == 12 {
            writer.declare(0xF0, [cycle, 0, 0x40_1136], b"cycle");
        }
        writer.frame.tid = u32::try_from(4711 + below(3)).unwrap();
        writer.frame.clock += below(9) * 1_000_000;
        let is_other = below(3) == 0;
        let (pc, base) = if is_other {
            (0x70_0100, 0x70_0000)
        } else {
            (0x40_1136, BASE)
        };
        for time in 0..below(12) {
            let mut call = |op: u8, ptr: u64, size: u64| {
                let time = u16::try_from(time).unwrap();
                let pc = pc + 16 * (size % 5);
                writer.record(Record {
                    op,
                    time,
                    ptr,
                    size,
                    pc,
                    base,
                    ..Record::default()
                });
            };
            fresh += 0x10_00;
            let size = below(4) * below(700);
            match below(5) {
                0 if !blocks.is_empty() => {
                    let at = usize::try_from(below(blocks.len() as u64)).unwrap();
                    call(2, blocks.swap_remove(at), u64::MAX);
                }
                1 if !blocks.is_empty() => {
                    let at = usize::try_from(below(blocks.len() as u64)).unwrap();
                    call(3, blocks[at], size + 1);
                    call(4, fresh, size + 1);
                    blocks[at] = fresh;
                }
                _ => {
                    call(1, fresh, size);
                    blocks.push(fresh);
                }
            }
        }
    }
    blocks
}
