//! Any bytes as a trace, guided by coverage.
#![no_main]

use heapwire_fuzz::{Place, open_trace};
use std::sync::LazyLock;

static PLACE: LazyLock<Place> = LazyLock::new(Place::new);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| open_trace(bytes, &PLACE));
