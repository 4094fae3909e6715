//! What the end-to-end tests share: they build the command, run samples under it and read what it says.
//!
//! Nothing here knows the crates under test. Traces are written from SPEC.md by literal offsets, so that a wrong
//! definition in the format crate cannot hide behind itself.

pub mod armour;
pub mod build;
pub mod expect;
pub mod memory;
pub mod packed;
pub mod raw;
pub mod run;
pub mod scratch;
pub mod trace;
