//! What control records mean to a replay: modules, stacks, ends, and whatever makes the account less than whole.

use super::events::Events;
use crate::declare;
use crate::event::Event;
use crate::sites::SiteTable;
use heapwire_format::{IN_PARENTS_MEMORY, Op, Record, TEXT_CHUNK};

/// A child that a process forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forked {
    pub(crate) pid: u64,
    /// It had no stream of its own before an `execve`.
    pub(crate) in_parents_memory: bool,
}

/// A module or a mark whose text has not all come yet.
pub(super) struct Declaring {
    record: Record,
    number: u64,
    /// Number of the text record to come.
    next: u64,
    /// Text records still to come.
    left: u64,
    text: Vec<u8>,
}

impl Events {
    #[inline(never)]
    pub(super) fn control_event(&mut self, event: &Event, sites: &mut SiteTable) {
        let record = &event.record;
        match record.op {
            Op::MODULE_LOADED => self.begin_declaring(event, sites),
            Op::MARK => {
                self.marks.add(event);
                self.begin_declaring(event, sites);
            }
            Op::MODULE_UNLOADED => self.code.unload(record.ptr, event.number),
            Op::STACK_NODE => self.code.add_stack_node(record, event.number, sites),
            Op::FORK => self.forked.push(Forked {
                pid: record.ptr,
                in_parents_memory: record.size == IN_PARENTS_MEMORY,
            }),
            Op::EXEC => self.ending.is_exec = true,
            Op::FAULT => {
                const ABORT: u64 = 6;
                self.ending.fault = Some(record.size & 0xFFFF_FFFF);
                if record.size == ABORT {
                    // Without the code that it has where the libc finds something wrong: the program's own decision.
                    self.threads.went_on(event.tid, event.number);
                }
            }
            Op::END => {
                let status = (record.size != u64::MAX).then_some(record.size);
                self.ending.end = Some(status.or(self.ending.end.flatten()));
            }
            // Calls between the two made no records.
            Op::PAUSE | Op::RESUME => self.numbers.doubt(event.number),
            Op::CULLED => {
                self.numbers.cull(event.number, record.base, record.ptr);
                self.has_culled = true;
                let counts = &mut self.counts;
                counts.culled = counts.culled.saturating_add(record.ptr);
                counts.culled_peak = counts.culled_peak.max(record.pc);
                counts.allocations = counts.allocations.saturating_add(record.ptr);
                counts.releases = counts.releases.saturating_add(record.ptr);
                counts.allocated_bytes = counts.allocated_bytes.saturating_add(record.size);
            }
            op if op.name().is_some() || op.is_ignorable() => {}
            _ => {
                self.counts.unknown_ops += 1;
                self.numbers.doubt(event.number);
            }
        }
    }

    /// Begins a declaration, whose text follows.
    fn begin_declaring(&mut self, event: &Event, sites: &mut SiteTable) {
        let declaring = Declaring {
            record: event.record,
            number: event.number,
            next: event.number.saturating_add(1),
            left: event.record.base.div_ceil(TEXT_CHUNK as u64),
            text: Vec::new(),
        };
        if declaring.left == 0 {
            self.declared(&declaring, sites);
        } else {
            self.declaring = Some(declaring);
        }
    }

    /// Takes `event` as the next text of the open declaration, if it is. Else the declaration ends without a text.
    #[inline(never)]
    pub(super) fn continue_text(&mut self, event: &Event, sites: &mut SiteTable) -> bool {
        let Some(mut declaring) = self.declaring.take() else {
            return false;
        };
        if event.record.op != Op::TEXT || event.number != declaring.next {
            declaring.text.clear();
            self.declared(&declaring, sites);
            return false;
        }
        let (bytes, used) = event.record.text();
        declaring.text.extend_from_slice(&bytes[..used]);
        declaring.next = declaring.next.saturating_add(1);
        declaring.left -= 1;
        if declaring.left == 0 {
            self.declared(&declaring, sites);
        } else {
            self.declaring = Some(declaring);
        }
        true
    }

    fn declared(&mut self, declaring: &Declaring, sites: &mut SiteTable) {
        let Declaring { record, text, .. } = declaring;
        if record.op == Op::MARK {
            self.marks.label(declaring.number, text);
        } else {
            let (module, repeated) = declare::module(record, text, self.code.machine());
            let since = repeated.unwrap_or(declaring.number);
            self.code.load(module, since, sites);
        }
    }

    /// Ends an open declaration without a text.
    pub(super) fn end_declaring(&mut self, sites: &mut SiteTable) {
        if let Some(mut declaring) = self.declaring.take() {
            declaring.text.clear();
            self.declared(&declaring, sites);
        }
    }

    /// Takes note that all numbers below `taken` were taken, of which `culled` were left out on purpose.
    pub(super) fn end_numbers(&mut self, taken: u64, culled: u32) {
        self.numbers.note_taken(taken);
        self.counts.culled_unseen = self.numbers.note_culled(culled.into());
    }
}
