//! Any bytes as a module's file, guided by coverage.
#![no_main]

use heapwire_fuzz::{Place, resolve};
use std::sync::LazyLock;

static PLACE: LazyLock<Place> = LazyLock::new(Place::new);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let addresses: Vec<u64> = (0x40_1000..0x40_2000).step_by(13).collect();
    resolve(bytes, &addresses, &PLACE);
});
