//! A trace longer than the memory that its report may take. `benches/memory.rs` does the same at full length.

use heapwire_tests::memory;

#[test]
fn memory_follows_the_live_blocks_and_not_the_trace() {
    for (records, live) in [(2_400_000, 5000), (1_600_000, 200_000)] {
        let memory = memory::of_report(records, live); // 96 MB, 64 MB
        assert!(memory.peak <= memory.bound, "{memory:?}");
    }
}
