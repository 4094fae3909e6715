//! Symbols, looked up in files that compilers and binutils make while the tests run.
//!
//! They need gcc, g++, binutils and xz, and skip what dwz and llvm-dwp make where these are not installed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod formats;
mod made;
mod names;
mod separate;
mod split;
mod sysroot;
