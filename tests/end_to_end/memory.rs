//! A trace longer than the memory that its report may take. `benches/memory.rs` does the same at full length.

use heapwire_tests::memory;

#[test]
fn memory_follows_the_live_blocks_and_not_the_trace() {
    for (records, live) in [(2_400_000, 5000), (1_600_000, 200_000)] {
        let memory = memory::of_report(records, live); // 96 MB, 64 MB
        assert!(memory.peak <= memory.bound, "{memory:?}");
    }
}

#[test]
fn records_that_are_packed_small_take_no_more_memory_than_others() {
    let memory = memory::of_smallest_records(100);
    assert!(memory.peak <= memory.bound, "{memory:?}");
}

#[test]
fn records_that_never_come_take_no_memory() {
    let memory = memory::of_lost_records(2_000_000);
    assert!(memory.peak <= memory.bound, "{memory:?}");
}

#[test]
fn processes_that_take_turns_take_no_more_memory_than_one() {
    let memory = memory::of_many_processes(50, 4_000_000);
    assert!(memory.peak <= memory.bound, "{memory:?}");
}

#[test]
fn parents_that_wait_for_children_hold_no_records() {
    // What is read ahead for one process is more than 20 MB.
    let few = memory::of_many_generations(1, 3_200_000);
    let many = memory::of_many_generations(6, 11_200_000);
    assert!(many.peak < few.peak + (40 << 20), "{few:?} {many:?}");
}

#[test]
fn processes_that_are_over_keep_no_blocks_in_memory() {
    // All that is told of single blocks would be 66 MB and more.
    for words in [
        &["report", "--from", "0s"][..],
        &["report", "--by", "thread"],
        &["blocks", "--live", "--size", "1..7"],
    ] {
        let memory = memory::of_successive_processes(words, 60, 20_000);
        assert!(memory.peak <= memory.bound, "{words:?}: {memory:?}");
    }
}
