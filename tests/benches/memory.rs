//! What a report takes of memory on traces of 200 million records, with ten million live blocks, with losses and of many processes.
//!
//! `cargo bench -p heapwire-tests --bench memory`. The traces are made while they are read; a report that takes more than it may fails.
#![expect(clippy::print_stdout, reason = "the table is the result")]

use heapwire_tests::memory::{self, Memory};

fn main() {
    println!("                                                  peak MiB  allowed MiB");
    for (records, live) in [
        (2_000_000, 100_000),
        (200_000_000, 100_000),
        (60_000_000, 10_000_000),
    ] {
        let memory = memory::of_report(records, live);
        show(&format!("{records} records, {live} live blocks"), memory);
    }
    show(
        "200000000 records that take a byte each",
        memory::of_smallest_records(3052),
    );
    show(
        "20000000 records, every second one lost",
        memory::of_lost_records(20_000_000),
    );
    show(
        "20000000 records of 50 processes that take turns",
        memory::of_many_processes(50, 20_000_000),
    );
    // A process that waits for its child takes a little more than its blocks.
    print(
        "20000000 records of 8 generations that take turns",
        memory::of_many_generations(7, 20_000_000),
    );
}

fn show(what: &str, memory: Memory) {
    print(what, memory);
    assert!(memory.peak <= memory.bound);
}

fn print(what: &str, memory: Memory) {
    let (peak, bound) = (memory.peak >> 20, memory.bound >> 20);
    println!("{what:<49} {peak:>8} {bound:>12}");
}
