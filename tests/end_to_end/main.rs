//! Runs the built command on real programs and on made-up traces, and looks at what it says and leaves behind.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accounts;
mod armour;
mod artifact;
mod bad_input;
mod check;
mod cli;
mod compatibility;
mod counted;
mod daemons;
mod damage;
mod determinism;
mod drop_in;
mod filters;
#[cfg(target_arch = "x86_64")]
mod keep;
mod lanes;
mod lines;
mod linked;
mod logs;
mod memory;
mod newer;
mod packed;
mod piped;
mod places;
mod processes;
mod progress;
mod receive;
mod samples;
mod symbols;
mod times;
mod transfers;
mod transparency;
mod truth;
mod twins;
mod verbs;
mod whole;
