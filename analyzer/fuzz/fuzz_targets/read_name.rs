//! Any bytes as the name of a function, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| heapwire_fuzz::read_name(bytes));
