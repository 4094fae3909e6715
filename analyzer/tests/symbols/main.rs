//! Symbols, looked up in files that compilers and binutils make while the tests run.
//!
//! They need gcc, g++, binutils and xz. What needs more says that it is skipped where that is not installed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "what was skipped or compared is said")]

mod damage;
mod formats;
mod languages;
mod linked;
mod made;
mod names;
mod reference;
mod rust;
mod separate;
mod split;
mod sysroot;
mod targets;
mod templates;
