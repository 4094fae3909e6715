//! Reads heap traces and says what leaked and what was freed wrongly.
//!
//! Bytes go one way: [`trace`](crate) to events, events to lifetimes and faults, these to a [`report::Report`], which the
//! renderers below `report` show.
#![deny(unsafe_code)]

pub mod address;
pub mod report;
pub mod symbols;
