//! Any bytes as a log of glibc's mtrace, guided by coverage.
#![no_main]

use heapwire_fuzz::{Place, open_log};
use std::sync::LazyLock;

static PLACE: LazyLock<Place> = LazyLock::new(Place::new);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| open_log(bytes, &PLACE));
