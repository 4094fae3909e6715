//! The atomics of the lanes: core's, or loom's where the model checker runs.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64};

pub(crate) use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
