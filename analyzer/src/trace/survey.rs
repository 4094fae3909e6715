//! One input, frame by frame, as it lies there: what it holds, and each kind of damage by itself.

use super::frames::{Found, Frames};
use super::judge::{Content, Judged};
use super::source::Slot;
use super::unpack::Broken;
use super::{Condition, Input, Opened, Source, TraceError, Translation, armour};
use heapwire_format::Op;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// How often something is wrong, and where first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) count: u64,
    /// Offset in the input, as it was unpacked.
    pub(crate) first: Option<u64>,
}

impl Damage {
    fn add(&mut self, offset: u64) {
        self.count += 1;
        self.first.get_or_insert(offset);
    }
}

/// What an input holds.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// Bytes of the input, as it was unpacked.
    pub(crate) bytes: u64,
    /// Major and minor versions of whole frames.
    pub(crate) versions: BTreeSet<(u8, u8)>,
    /// Whole frames and their bytes, by number of the kind.
    pub(crate) frames: BTreeMap<u8, (u64, u64)>,
    /// Records, by op.
    pub(crate) records: BTreeMap<u8, u64>,
    /// Frames whose payload has another sum.
    pub(crate) wrong_sums: Damage,
    /// Frames and lanes with slots that no writer leaves.
    pub(crate) impossible: Damage,
    /// Frames that end in a part of a record.
    pub(crate) partial: Damage,
    /// Frames whose lanes contradict themselves.
    pub(crate) broken_lanes: Damage,
    /// What lies between whole frames.
    pub(crate) condition: Condition,
    pub(crate) broken: Option<Broken>,
    pub(crate) taken_back: Option<Translation>,
    /// What was found of armour, if frames came as lines.
    pub(crate) armour: Option<armour::Found>,
}

/// An input that can be looked at frame by frame.
pub(crate) struct Survey {
    input: Input,
    frames: Frames,
    /// What was found when the input was recognised.
    found: Vec<Found>,
}

impl Survey {
    /// Looks at `input` from its beginning. `None`: it is a log of glibc's mtrace.
    ///
    /// # Errors
    ///
    /// The input cannot be read or holds no whole frame.
    pub(crate) fn of(mut input: Input) -> Result<Option<Self>, TraceError> {
        Ok(match Opened::of(&mut input, 0)? {
            Opened::Trace(frames, found) => Some(Self {
                input,
                frames: *frames,
                found,
            }),
            Opened::Log(_) => None,
        })
    }

    /// Gives `each` what is found, in order, with what is to be thought of it.
    ///
    /// # Errors
    ///
    /// The input can no longer be read, or `each` fails.
    pub(crate) fn walk<E: From<TraceError>>(
        mut self,
        mut each: impl FnMut(&Found, &Judged) -> Result<(), E>,
    ) -> Result<Census, E> {
        let mut census = Census::default();
        let mut found = self.found;
        loop {
            let judged: Vec<_> = found
                .par_iter()
                .map(|found| Judged::of(found.clone()))
                .collect();
            for (found, judged) in found.iter().zip(&judged) {
                census.add(found, judged);
                each(found, judged)?;
            }
            found.clear();
            let goes_on = self.frames.next_block(&mut found);
            if !goes_on.map_err(|error| TraceError::open(self.input.path(), error))? {
                break;
            }
        }
        census.bytes = self.frames.position();
        census.condition = self.frames.condition().clone();
        census.broken = self.input.broken();
        census.taken_back = self.input.taken_back();
        census.armour = self.input.armour();
        Ok(census)
    }
}

impl Census {
    fn add(&mut self, found: &Found, judged: &Judged) {
        let Found::Whole(frame) = found else {
            return;
        };
        let header = &frame.header;
        self.versions.insert(header.version);
        let (frames, bytes) = self.frames.entry(header.kind.0).or_default();
        *frames += 1;
        *bytes += header.frame_length();
        match &judged.content {
            Content::Torn | Content::Unknown | Content::Skipped => {}
            Content::Damaged => self.wrong_sums.add(frame.offset),
            Content::Records(source, beyond) => {
                if *beyond > 0 {
                    self.partial.add(frame.offset);
                }
                self.add_source(source);
            }
            Content::Lanes(lanes, _, is_broken) => {
                if *is_broken {
                    self.broken_lanes.add(frame.offset);
                }
                for lane in lanes {
                    self.add_source(lane);
                }
            }
        }
    }

    fn add_source(&mut self, source: &Source) {
        if source.impossible > 0 {
            self.impossible.add(source.place.frame.1);
        }
        for (_, record) in believed(source) {
            *self.records.entry(record[0]).or_default() += 1;
        }
    }
}

/// The records of a source that are to be believed, with their numbers, as they lie in the input.
pub(crate) fn believed(source: &Source) -> impl Iterator<Item = (u64, &Slot)> {
    let slots = if source.is_kept() {
        source.slots()
    } else {
        &[]
    };
    let believed = slots.iter().enumerate();
    believed.filter_map(|(index, slot)| Some((source.number(index)?, slot)))
}

/// The name of an op, or its number.
pub(crate) fn op_name(op: u8) -> String {
    Op(op)
        .name()
        .map_or_else(|| format!("{op:#04x}"), str::to_owned)
}
