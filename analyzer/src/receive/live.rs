//! About how many bytes are live, without an order: frames of several threads come one before the other, and so do their records.

use heapwire_format::{Op, Record};
use rustc_hash::FxHashMap;

/// Blocks that are followed.
const MOST: usize = 4 << 20;

/// By stream and address.
type Blocks = FxHashMap<(u32, u64), u64>;

#[derive(Default)]
pub(super) struct Live {
    blocks: Blocks,
    /// Blocks that a `realloc` has at this moment, which may fail.
    in_flight: Blocks,
    bytes: u64,
    is_given_up: bool,
}

impl Live {
    pub(super) fn bytes(&self) -> Option<u64> {
        (!self.is_given_up).then_some(self.bytes)
    }

    pub(super) fn add(&mut self, stream: u32, record: &Record) {
        let key = (stream, record.ptr);
        match record.op {
            Op::ALLOCATED | Op::REALLOC_NEW => self.insert(key, record.size),
            Op::RELEASED => _ = self.remove(key),
            Op::REALLOC_OLD => {
                if let Some(size) = self.remove(key) {
                    if self.in_flight.len() >= MOST {
                        self.in_flight.clear();
                    }
                    self.in_flight.insert(key, size);
                }
            }
            Op::REALLOC_FAILED => {
                if let Some(size) = self.in_flight.remove(&key) {
                    self.insert(key, size);
                }
            }
            _ => {}
        }
    }

    fn insert(&mut self, key: (u32, u64), size: u64) {
        if self.blocks.len() >= MOST {
            self.is_given_up = true;
            self.blocks = Blocks::default();
        }
        if !self.is_given_up {
            let before = self.blocks.insert(key, size).unwrap_or(0);
            self.bytes = self.bytes.saturating_add(size).saturating_sub(before);
        }
    }

    fn remove(&mut self, key: (u32, u64)) -> Option<u64> {
        let size = self.blocks.remove(&key)?;
        self.bytes = self.bytes.saturating_sub(size);
        Some(size)
    }
}
