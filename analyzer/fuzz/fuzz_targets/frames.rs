//! Any bytes as frames, guided by coverage.
#![no_main]

use heapwire_fuzz::{Place, read_frames};
use std::sync::LazyLock;

static PLACE: LazyLock<Place> = LazyLock::new(Place::new);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| read_frames(bytes, &PLACE));
