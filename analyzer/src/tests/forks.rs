//! Forked children: what they inherit, and what they do with it.

use super::made::{Made, REALLOC_NEW, REALLOC_OLD, live_blocks, report, warned};
use crate::replay::Wanted;
use crate::report::{FaultKind, ProcessBlocks};
use crate::trace::Trace;
use crate::{Options, Selection, Until, analyze_trace, findings, replayed};

const A: u64 = 0x1000;
const B: u64 = 0x2000;

/// A parent with blocks A (10 bytes) and B (20 bytes), and a child forked from it.
fn family() -> (Made, Made) {
    let mut parent = Made::new(0xA0);
    parent.malloc(A, 10, 0x10).malloc(B, 20, 0x20);
    let child = parent.child(0xB0);
    (parent, child)
}

#[test]
fn both_may_release_what_was_there_at_the_fork() {
    let (mut parent, mut child) = family();
    child.free(A, 0x30).malloc(0x3000, 7, 0x40).end(7);
    parent
        .free(A, 0x31)
        .free(B, 0x32)
        .malloc(0x3000, 9, 0x41)
        .end(0);
    // In one file and in two, in any order.
    let (first, second) = (parent.bytes(), child.bytes());
    let inputs = [
        vec![[&first[..], &second].concat()],
        vec![first.clone(), second.clone()],
        vec![second, first],
    ];
    for input in inputs {
        let is_child_first = input.len() == 2 && input[0] == child.bytes();
        let report = report(input);
        assert!(report.trace.complete);
        assert!(report.processes.iter().all(|it| it.errors.is_empty()));
        assert_eq!(
            (report.totals.live_bytes, report.totals.allocations),
            (16, 4)
        );
        let [of_parent, of_child] = &report.processes[..] else {
            panic!("{} processes", report.processes.len());
        };
        let (of_parent, of_child) = if is_child_first {
            (of_child, of_parent)
        } else {
            (of_parent, of_child)
        };
        assert_eq!(
            (
                of_parent.totals.live_bytes,
                of_parent.totals.inherited_blocks
            ),
            (9, 0)
        );
        let totals = of_child.totals;
        assert_eq!(
            (totals.live_blocks, totals.live_bytes, totals.peak_bytes),
            (1, 7, 7)
        );
        assert_eq!((totals.inherited_blocks, totals.inherited_bytes), (1, 20));
        assert_eq!((totals.allocations, totals.releases), (1, 1));
        assert_eq!(of_child.leaks.len(), 1);
        assert_eq!((of_child.end, of_child.exit_status), ("normal", Some(7)));
    }
}

/// Live blocks at `until`: of each process address, size, and whether it was inherited.
fn live_at(inputs: Vec<Vec<u8>>, until: Until) -> Vec<Vec<(String, u64, bool)>> {
    let mut trace = Trace::of_bytes(inputs).unwrap();
    let options = Options {
        until: Some(until),
        ..Options::default()
    };
    let (images, sites) = replayed(&mut trace, Wanted::All, &options).unwrap();
    let live = findings::live(&trace, &images, &sites, &Selection::default(), &options).unwrap();
    let blocks = |process: &ProcessBlocks| {
        let blocks = process.blocks.iter();
        let blocks = blocks.map(|it| (it.address.to_string(), it.size, it.inherited));
        blocks.collect()
    };
    live.processes.iter().map(blocks).collect()
}

#[test]
fn a_child_inherits_what_its_parent_had_after_its_own_peak() {
    let mut parent = Made::new(0xA0);
    parent.malloc(A, 10, 0x10).malloc(B, 20, 0x20);
    // The realloc of another thread is under way at the peak.
    parent.by(101).heap(REALLOC_OLD, 0, B, 15, 0x21).by(100);
    parent.malloc(0x9000, 1000, 0x30);
    parent
        .by(101)
        .heap(REALLOC_NEW, 0, 0x5000, 15, 0x21)
        .by(100);
    parent.free(0x9000, 0x31).malloc(0x6000, 5, 0x32);
    let mut child = parent.child(0xB0);
    child.free(A, 0x40).malloc(0x7000, 7, 0x41);
    let mut grandchild = child.child(0xC0);
    grandchild.malloc(0x8000, 1, 0x42).end(0);
    child.free(0x7000, 0x43).end(0);
    parent.free(0x6000, 0x33).end(0);
    let inputs = || vec![parent.bytes(), child.bytes(), grandchild.bytes()];
    let block = |address: &str, size, inherited| (address.to_owned(), size, inherited);
    let of_parent = vec![
        block("0x1000", 10, false),
        block("0x2000", 20, false),
        block("0x9000", 1000, false),
    ];
    let of_child = vec![
        block("0x5000", 15, true),
        block("0x6000", 5, true),
        block("0x7000", 7, false),
    ];
    let mut of_grandchild = of_child.clone();
    of_grandchild[2].2 = true;
    of_grandchild.push(block("0x8000", 1, false));
    assert_eq!(
        live_at(inputs(), Until::Peak),
        [of_parent, of_child, of_grandchild]
    );
}

#[test]
fn a_child_that_began_before_a_moment_inherits_all_that_was_there_at_its_fork() {
    // The parent's clock was read a little later than the child's.
    let mut parent = Made::new(0xA0);
    parent.at(10).malloc(A, 10, 0x10).at(21).malloc(B, 20, 0x20);
    let mut child = parent.child(0xB0);
    child.at(20).free(B, 0x30).malloc(0x3000, 7, 0x40).end(0);
    parent.at(30).free(A, 0x11).end(0);
    let at = |ms: u64| Until::Time(ms * 1_000_000);
    let inputs = || vec![parent.bytes(), child.bytes()];
    let sizes = |until| -> Vec<Vec<u64>> {
        let of = live_at(inputs(), until);
        of.iter()
            .map(|of| of.iter().map(|it| it.1).collect())
            .collect()
    };
    assert_eq!(sizes(at(20)), [vec![10], vec![10, 7]]);
    let mut trace = Trace::of_bytes(inputs()).unwrap();
    let options = Options {
        until: Some(at(20)),
        ..Options::default()
    };
    let (images, sites) = replayed(&mut trace, Wanted::Own, &options).unwrap();
    let report = findings::report(&trace, &images, &sites, &options).unwrap();
    assert!(report.processes.iter().all(|it| it.errors.is_empty()));
}

/// A program that was started without a record of it, as `posix_spawn` starts them, is known by its own frames alone.
#[test]
fn who_comes_after_the_moment_in_what_is_read_once_is_not_passed_over() {
    let mut first = Made::new(0xA0);
    first.at(0).malloc(A, 10, 0x10).at(50);
    for _ in 0..10_000 {
        first.malloc(B, 20, 0x20).free(B, 0x21);
    }
    first.lose(1 << 20).free(A, 0x11).end(0);
    let mut second = Made::new(0xB0);
    second.at(10).malloc(A, 30, 0x30).end(0);
    let text = vec![b'x'; 8 << 20];
    let bytes = [first.bytes(), text, second.bytes()].concat();
    let options = Options {
        until: Some(Until::Time(20_000_000)),
        ..Options::default()
    };
    let live = |trace: Result<Trace, _>| {
        let report = analyze_trace(trace.unwrap(), &options).unwrap();
        let processes = report.processes.iter();
        let live: Vec<_> = processes.map(|it| it.totals.live_bytes).collect();
        live
    };
    assert_eq!(live(Trace::of_bytes([bytes.clone()])), [10, 30]);
    assert_eq!(live(Trace::of_stream(bytes)), [10, 30]);
}

#[test]
fn an_end_that_nobody_looks_at_is_not_missing() {
    let until = |ms: u64, parent: &Made, child: &Made| {
        let options = Options {
            until: Some(Until::Time(ms * 1_000_000)),
            ..Options::default()
        };
        let trace = Trace::of_bytes([parent.bytes(), child.bytes()]).unwrap();
        let summary = analyze_trace(trace, &options).unwrap().trace;
        (summary.complete, summary.lost_is_lower_bound)
    };
    let (mut parent, mut child) = family();
    parent.at(50).malloc(0x4000, 7, 0x40).end(0);
    child.at(60).malloc(0x5000, 7, 0x40);
    assert_eq!(until(20, &parent, &child), (true, false));
    assert_eq!(until(100, &parent, &child), (false, true));
    child.end(0);
    assert_eq!(until(100, &parent, &child), (true, false));
}

#[test]
fn inherited_blocks_are_listed_as_such() {
    let (parent, mut child) = family();
    child.free(A, 0x30).malloc(0x3000, 7, 0x40);
    let live = live_blocks([parent.bytes(), child.bytes()]);
    let blocks = |index: usize| {
        let blocks = &live.processes[index].blocks;
        blocks
            .iter()
            .map(|it| (it.address.0, it.inherited, it.stack[0].address.clone()))
            .collect::<Vec<_>>()
    };
    let of = |expected: [(u64, bool, &str); 2]| {
        expected.map(|(address, inherited, call)| (address, inherited, call.to_owned()))
    };
    let expected = of([(A, false, "0x400010"), (B, false, "0x400020")]);
    assert_eq!(blocks(0), expected);
    let expected = of([(B, true, "0x400020"), (0x3000, false, "0x400040")]);
    assert_eq!(blocks(1), expected);
}

#[test]
fn an_inherited_block_that_a_failed_realloc_leaves_is_listed_once() {
    let (parent, mut child) = family();
    child.realloc(A, None, 1 << 60, 0x30);
    let live = live_blocks([parent.bytes(), child.bytes()]);
    let blocks = live.processes[1].blocks.iter();
    let listed: Vec<_> = blocks.map(|it| (it.address.0, it.inherited)).collect();
    assert_eq!(listed, [(A, true), (B, true)]);
    let report = report([parent.bytes(), child.bytes()]);
    assert_eq!(report.processes[1].totals.inherited_bytes, 30);
}

#[test]
fn an_inherited_block_that_is_resized_is_the_childs_own() {
    let (parent, mut child) = family();
    child.realloc(A, Some(A), 11, 0x30).free(B, 0x31).end(0);
    let report = report([parent.bytes(), child.bytes()]);
    let totals = report.processes[1].totals;
    assert_eq!((totals.inherited_blocks, totals.live_bytes), (0, 11));
    assert_eq!(totals.temporary, 0);
}

#[test]
fn a_double_free_may_have_its_first_release_in_the_parent() {
    let mut parent = Made::new(0xA0);
    parent.malloc(A, 10, 0x10).free(A, 0x20);
    let mut child = parent.child(0xB0);
    child
        .free(A, 0x30)
        .free(0x7008, 0x31)
        .push(0xF5, 0, [0, 6 | 0xFFFF_FFFA << 32, 0, 0]); // the libc ends it there
    let report = report([parent.bytes(), child.bytes()]);
    let errors = &report.processes[1].errors;
    let kinds: Vec<_> = errors.iter().map(|it| (it.kind, it.certain)).collect();
    let expected = [
        (FaultKind::DoubleFree, true),
        (FaultKind::InvalidFree, true),
    ];
    assert_eq!(kinds, expected);
    assert!(report.processes[0].errors.is_empty());
}

#[test]
fn what_is_not_known_of_the_parent_is_not_known_of_the_child() {
    let mut late = Made::bare(0xA0);
    late.process(1, "began=late\0").malloc(A, 1, 0x10);
    let mut child = late.child(0xB0);
    child.free(0x9000, 0x20).end(0);
    let of_late = report([late.bytes(), child.bytes()]);
    assert_eq!(of_late.processes[1].totals.earlier_releases, 1);

    let mut lossy = Made::new(0xA0);
    lossy
        .malloc(A, 1, 0x10)
        .free(A, 0x11)
        .lose(2)
        .malloc(B, 1, 0x10);
    let mut child = lossy.child(0xB0);
    child.free(A, 0x20).free(0x9000, 0x21).end(0);
    let report = report([lossy.bytes(), child.bytes()]);
    let process = &report.processes[1];
    assert_eq!(process.totals.earlier_releases, 1);
    let kinds: Vec<_> = process
        .errors
        .iter()
        .map(|it| (it.kind, it.certain))
        .collect();
    assert_eq!(kinds, [(FaultKind::DoubleFree, false)]);
    assert_eq!(report.trace.lost_records, 2);
}

#[test]
fn what_the_parent_does_after_the_fork_is_not_inherited() {
    let (mut parent, mut child) = family();
    parent.free(A, 0x50).malloc(0x6000, 1, 0x60);
    child.free(A, 0x30).free(0x6000, 0x31).end(0);
    let report = report([parent.bytes(), child.bytes()]);
    let errors = &report.processes[1].errors;
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].address, "0x6000");
}

#[test]
fn an_operation_open_at_the_fork_counts_as_not_done() {
    let mut parent = Made::new(0xA0);
    parent
        .malloc(A, 10, 0x10)
        .by(101)
        .heap(REALLOC_OLD, 0, A, 30, 0x20);
    let mut child = parent.child(0xB0);
    parent
        .by(101)
        .heap(REALLOC_NEW, 0, B, 30, 0x20)
        .by(100)
        .free(B, 0x21)
        .end(0);
    child.free(A, 0x30).end(0);
    let report = report([parent.bytes(), child.bytes()]);
    assert!(report.processes.iter().all(|it| it.errors.is_empty()));
    assert_eq!(warned(&report, "in-flight"), 0);
    assert_eq!(report.processes[1].totals.inherited_blocks, 0);
}

#[test]
fn without_the_parent_unknown_blocks_are_earlier() {
    let (_, mut child) = family();
    child
        .free(A, 0x30)
        .malloc(0x3000, 7, 0x40)
        .free(0x3001, 0x41)
        .end(0);
    let report = report([child.bytes()]);
    assert_eq!(warned(&report, "parent-missing"), 1);
    let process = &report.processes[0];
    assert_eq!(process.totals.earlier_releases, 1);
    assert_eq!(process.errors.len(), 1);
    assert_eq!(process.errors[0].address, "0x3001");
    assert_eq!(report.trace.lost_records, 0);
}

#[test]
fn grandchildren_inherit_from_both() {
    let (mut parent, mut child) = family();
    child.free(A, 0x30).malloc(0x3000, 7, 0x40);
    let mut grandchild = child.child(0xC0);
    grandchild
        .free(B, 0x50)
        .free(0x3000, 0x51)
        .free(A, 0x52)
        .end(0);
    child.free(0x3000, 0x41).free(B, 0x42).end(0);
    parent.free(A, 0x60).free(B, 0x61).end(0);
    let report = report([grandchild.bytes(), parent.bytes(), child.bytes()]);
    let errors: Vec<_> = report.processes.iter().map(|it| it.errors.len()).collect();
    assert_eq!(errors, [1, 0, 0]);
    let fault = &report.processes[0].errors[0];
    assert_eq!(
        (fault.kind, &*fault.address),
        (FaultKind::DoubleFree, "0x1000")
    );
    assert_eq!(report.processes[0].totals.inherited_blocks, 0);
}

#[test]
fn parents_in_a_circle_and_beyond_measure_are_all_reported() {
    let mut one = Made::bare(0xA0);
    one.process(1, "parent=000000b0\0fork=5\0began=fork\0")
        .malloc(A, 1, 0x10);
    let mut other = Made::bare(0xB0);
    other
        .process(2, "parent=000000a0\0fork=2\0began=fork\0")
        .free(A, 0x10);
    let mut own = Made::bare(0xC0);
    own.process(3, "parent=000000c0\0fork=1\0began=fork\0")
        .malloc(A, 1, 0x10);
    let circle = report([one.bytes(), other.bytes(), own.bytes()]);
    let pids: Vec<_> = circle.processes.iter().filter_map(|it| it.pid).collect();
    assert_eq!(pids, [1, 2, 3]);

    let mut line = vec![Made::new(1)];
    for stream in 2..600 {
        let parent = line.last_mut().unwrap();
        parent.malloc(0x1000 * u64::from(stream), 1, 0x10);
        let child = parent.child(stream);
        line.push(child);
    }
    let report = report([line.iter().flat_map(Made::bytes).collect()]);
    assert_eq!(report.processes.len(), 599);
    assert_eq!(report.processes[255].totals.inherited_blocks, 255);
    assert_eq!(warned(&report, "parent-missing"), 2);
}

/// Of two children in a namespace of their own, that know other pids than their parent does, one is there.
#[test]
fn a_child_that_knows_itself_by_another_pid_is_no_missing_one() {
    let mut parent = Made::new(0xA0);
    parent.malloc(A, 1, 0x10);
    let mut child = parent.child(0xB0);
    child.malloc(B, 1, 0x20).end(0);
    parent.push(0x75, 0, [77, 0, 0, 0]);
    parent.push(0x75, 0, [78, 0, 0, 0]).end(0);
    let both = report([parent.bytes(), child.bytes()]);
    assert_eq!(warned(&both, "child-missing"), 1);
    assert_eq!(warned(&report([parent.bytes()]), "child-missing"), 2);
}

/// Its fork record was lost, but it calls its parent as that calls itself: its pid is what the parent knows.
#[test]
fn a_child_that_nobody_told_of_is_not_the_missing_one() {
    let mut parent = Made::new(0xA0);
    parent.malloc(A, 1, 0x10);
    let keys = |pid: u64| {
        format!(
            "ppid={pid}\0parent=000000a0\0fork={}\0began=fork\0",
            parent.next
        )
    };
    let child = |parent: u64| {
        let mut child = Made::bare(0xB0);
        child.process(4711, &keys(parent)).malloc(B, 1, 0x20).end(0);
        child.bytes()
    };
    let (untold, elsewhere) = (child(4000 + 0xA0), child(0));
    parent.push(0x75, 0, [77, 0, 0, 0]).end(0);
    let missing = |child| warned(&report([parent.bytes(), child]), "child-missing");
    assert_eq!((missing(untold), missing(elsewhere)), (1, 0));
}

/// What is not there must not read as good news.
#[test]
fn a_child_and_an_image_of_which_nothing_is_there_are_named() {
    let (mut parent, mut child) = family();
    parent.push(0x75, 0, [4000 + 0xB0, 0, 0, 0]).end(0);
    child.push(0x76, 0, [0; 4]); // it becomes another program
    let alone = report([parent.bytes()]);
    assert_eq!(warned(&alone, "child-missing"), 1);
    assert_eq!(warned(&alone, "image-missing"), 0);
    let both = report([parent.bytes(), child.bytes()]);
    assert_eq!(warned(&both, "child-missing"), 0);
    assert_eq!(warned(&both, "image-missing"), 1);
    let mut image = Made::bare(0xC0);
    image
        .process(4000 + 0xB0, "began=exec\0")
        .malloc(A, 1, 0x10)
        .end(0);
    let all = report([parent.bytes(), child.bytes(), image.bytes()]);
    assert_eq!(
        warned(&all, "child-missing") + warned(&all, "image-missing"),
        0
    );
    // What it did before it became that program is not there; what did nothing before, lacks nothing.
    let later = report([parent.bytes(), image.bytes()]);
    assert_eq!(warned(&later, "child-missing"), 1);
    let (mut parent, _) = family();
    parent.push(0x75, 0, [4000 + 0xB0, 1, 0, 0]).end(0);
    let later = report([parent.bytes(), image.bytes()]);
    assert_eq!(warned(&later, "child-missing"), 0);
}

/// Times from before and after another start of the machine.
#[test]
fn inputs_that_count_time_from_different_moments_are_told_of() {
    let made = |tag: u32, wall: u64| {
        let mut made = Made::bare(tag);
        made.declare(0x71, [4000, wall, made.frame.clock], "began=exec\0");
        made.malloc(A, 1, 0x10).end(0).bytes()
    };
    const HOUR: u64 = 3_600_000_000_000;
    let told = |walls: [u64; 2]| {
        let report = report([made(0xA0, walls[0]), made(0xB0, walls[1])]);
        warned(&report, "clocks-differ")
    };
    assert_eq!(told([HOUR, HOUR + 30_000_000_000]), 0);
    assert_eq!(told([9 * HOUR, HOUR]), 1);
    let in_one = [made(0xA0, HOUR), made(0xB0, 9 * HOUR)].concat();
    assert_eq!(warned(&report([in_one]), "clocks-differ"), 0);
}

#[test]
fn what_comes_after_the_moment_that_is_asked_for_and_before_a_fork_is_not_missing() {
    let mut parent = Made::new(0xA0);
    parent.at(0).malloc(0x1000, 8, 0x10);
    parent.at(50).malloc(0x2000, 8, 0x10).at(100);
    let mut child = Made::bare(0xB0);
    child.next = parent.next;
    child.frame.clock += 100_000_000;
    let keys = format!("parent=000000a0\0fork={}\0began=fork\0", parent.next);
    child.process(4000 + 0xB0, &keys).free(0x1000, 0x20).end(0);
    parent.push(0x75, 0, [4000 + 0xB0, 0, 0, 0]).end(0);
    for both in [[&parent, &child], [&child, &parent]] {
        let bytes = both.map(Made::bytes).concat();
        let options = Options {
            until: Some(Until::Time(10_000_000)),
            ..Options::default()
        };
        let report = analyze_trace(Trace::of_bytes([bytes]).unwrap(), &options).unwrap();
        assert_eq!(report.trace.lost_records, 0);
        let inherited = report.processes.iter().map(|it| it.totals.inherited_blocks);
        assert_eq!(inherited.sum::<u64>(), 0, "it was not there yet");
        assert_eq!(report.totals.live_blocks, 1);
    }
}
