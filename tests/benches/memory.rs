//! What a report takes of memory on traces of 8 GB, and with ten million live blocks.
//!
//! `cargo bench -p heapwire-tests --bench memory`. The traces are made while they are read; a report that takes more than it may fails.
#![expect(clippy::print_stdout, reason = "the table is the result")]

use heapwire_tests::memory;

fn main() {
    println!("     records        live   peak MiB  allowed MiB");
    for (records, live) in [
        (2_000_000, 100_000),
        (200_000_000, 100_000),
        (60_000_000, 10_000_000),
    ] {
        let memory = memory::of_report(records, live);
        println!(
            "{records:>12} {live:>11} {:>10} {:>12}",
            memory.peak >> 20,
            memory.bound >> 20
        );
        assert!(memory.peak <= memory.bound);
    }
}
