//! SIGKILL at any moment: with a file as output, nothing that was done is missing.

use super::{program, traced};
use heapwire_tests::build::recorder;
use heapwire_tests::raw::Raw;
use heapwire_tests::run::{list, report};
use heapwire_tests::scratch::Scratch;
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

const THREADS: usize = 4;
const KILLS: u64 = 200;

/// What the threads had said when the process died: allocated, released, moved.
fn said(path: &Path) -> Vec<[u64; 3]> {
    let bytes = fs::read(path).unwrap();
    let (words, _) = bytes.as_chunks::<8>();
    let words: Vec<_> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    words.as_chunks::<3>().0[..THREADS].to_vec()
}

fn count(raw: &Raw, op: u8, size: impl Fn(u64) -> bool) -> u64 {
    raw.records()
        .filter(|record| record.op == op && size(record.size))
        .count() as u64
}

/// Releases of what was not live, in the order of numbers.
fn wrong_releases(raw: &Raw) -> usize {
    let mut wrong = 0;
    for records in raw.streams.values() {
        let mut live = HashSet::new();
        for record in records.values() {
            match record.op {
                1 | 4 | 5 => {
                    live.insert(record.ptr);
                }
                2 | 3 => wrong += usize::from(!live.remove(&record.ptr)),
                _ => {}
            }
        }
    }
    wrong
}

/// A program that does not end by itself, and ends with this.
struct Endless(Child);

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may be gone
        let _ = self.0.wait();
    }
}

/// When a program is killed.
#[derive(Clone, Copy)]
struct Moment {
    /// Once its threads are at work, rather than while it starts.
    at_work: bool,
    pause: Duration,
    /// `HEAPWIRE_PACK`.
    packs: &'static str,
}

/// Kills the program at a moment, and holds the trace against what its threads had said.
fn kill_once(program: &Path, library: &Path, folder: &Path, when: Moment, is_reported: bool) {
    let (trace, shared) = (folder.join("t.hwt"), folder.join("shared"));
    let _ = fs::remove_file(&trace); // of the round before
    fs::write(&shared, [0; 4096]).unwrap();
    let child = traced(program, library, trace.to_str().unwrap())
        .arg(&shared)
        .env("HEAPWIRE_PACK", when.packs)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let child = Endless(child);
    while when.at_work && said(&shared).iter().any(|[allocated, ..]| *allocated == 0) {
        thread::sleep(Duration::from_micros(200));
    }
    thread::sleep(when.pause);
    drop(child);
    if !trace.exists() {
        assert!(!when.at_work);
        return; // it died before the recorder began
    }
    let raw = Raw::read(&trace);
    assert!(raw.contradictions.is_empty(), "{:?}", raw.contradictions);
    assert!(
        raw.lost.values().all(|lost| *lost == 0),
        "nothing is lost in a file"
    );
    assert_eq!(wrong_releases(&raw), 0, "no error out of nothing");
    let releases = count(&raw, 2, |_| true);
    let mut all_released = 0;
    for (thread, [allocated, released, moved]) in said(&shared).into_iter().enumerate() {
        let size = 1000 * (thread as u64 + 1);
        let seen = [
            count(&raw, 1, |found| found == size),
            count(&raw, 4, |found| found == size + 8),
        ];
        assert!(
            seen[0] >= allocated && seen[0] <= allocated + 1,
            "{seen:?} of {allocated}"
        );
        assert!(
            seen[1] >= moved && seen[1] <= moved + 1,
            "{seen:?} of {moved}"
        );
        all_released += released;
    }
    assert!(releases >= all_released, "{releases} of {all_released}");
    // Before the first call there is nothing to report on.
    if is_reported && releases > 0 {
        let report = report(&trace);
        let process = &list(&report["processes"])[0];
        assert_eq!(process["end"], "cut");
        assert_eq!(list(&process["errors"]).len(), 0, "no error out of nothing");
    }
}

fn kill_often(folder: &Path, scratch: &Scratch) {
    let (program, library) = (program(scratch, "storm"), recorder(scratch));
    let mut random: u64 = 0x9E37_79B9_7F4A_7C15;
    for round in 0..KILLS {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(round | 1);
        let when = Moment {
            at_work: round % 10 != 0,
            pause: Duration::from_micros((random >> 40) % 3_000),
            packs: if round % 2 == 0 { "1" } else { "0" },
        };
        kill_once(&program, &library, folder, when, round % 20 < 2);
    }
}

#[test]
fn nothing_done_is_missing_on_the_disk() {
    let scratch = Scratch::new("kill");
    kill_often(scratch.path(), &scratch);
}

/// On a tmpfs, a kill tears writes in the middle.
#[test]
fn nothing_done_is_missing_on_a_tmpfs() {
    let scratch = Scratch::new("kill-tmpfs");
    let folder = Scratch::below(Path::new("/dev/shm"), "heapwire-kill");
    kill_often(folder.path(), &scratch);
}
