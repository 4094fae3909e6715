//! Any bytes as records of frames, guided by coverage.
#![no_main]

use heapwire_fuzz::{Place, read_records};
use std::sync::LazyLock;

static PLACE: LazyLock<Place> = LazyLock::new(Place::new);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| read_records(bytes, &PLACE));
