//! Calls that a seed chooses, in a sound trace, guided by coverage.
#![no_main]

use heapwire_fuzz::mutate::Random;
use heapwire_fuzz::{Place, replay, seeds};
use std::sync::LazyLock;

static PLACE: LazyLock<Place> = LazyLock::new(Place::new);

libfuzzer_sys::fuzz_target!(|seed: u64| replay(&seeds::calls(&mut Random::new(seed)), &PLACE));
