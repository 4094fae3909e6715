//! What a report says of when.

use heapwire_tests::build::Sample;
use heapwire_tests::run::{on, record, report};
use heapwire_tests::scratch::Scratch;

/// What `samples/c/pause.c` sleeps, in nanoseconds.
const PAUSE: u64 = 200_000_000;

#[test]
fn a_call_after_a_pause_claims_no_time_that_nobody_read() {
    let scratch = Scratch::new("pause");
    let sample = Sample::build("c/pause.c", &scratch);
    let recording = record(&sample.program, &[], &scratch);
    let seen = report(&recording.trace);
    let whole = seen["trace"]["duration_ns"].as_u64().unwrap();
    assert!(whole >= PAUSE, "the end was seen from outside: {whole}");
    // A busy machine may have had the clock read anew just after the pause.
    let error = &seen["processes"][0]["errors"][0];
    let time = error["time_ns"].as_u64().unwrap();
    assert_eq!(
        error["time_is_lower_bound"] == true,
        time < PAUSE,
        "{error:#}"
    );
    let text = on(&["report"], &recording.trace).stdout;
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with("freed "))
        .unwrap();
    assert_eq!(line.contains("≥"), time < PAUSE, "{line}");
}
