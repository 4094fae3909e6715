//! What of a process a report shows where only some of its blocks are asked for, or sums of them by other things than sites.

use super::blocks;
use super::clock::Clock;
use crate::images::Image;
use crate::naming::Names;
use crate::replay::SiteRow;
use crate::report::format::seconds;
use crate::report::system::is_system_frame;
use crate::report::{Address, Block, Fault, Group, Moment};
use crate::sites::SiteId;
use crate::{Options, Selection};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

/// What live blocks are summed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The innermost function that is not the system's.
    Function,
    /// The module of the call.
    Module,
    /// The thread that they were handed to.
    Thread,
    /// Powers of two of their size.
    Size,
    /// The mark of the program that they were handed out after.
    Mark,
}

/// Live blocks that are asked for, by site, and in groups.
pub(crate) struct Focus {
    /// As [`Outcome::leaks`](crate::replay::Outcome::leaks), with these blocks only.
    pub(crate) leaks: Vec<SiteRow>,
    /// Most bytes first; those of marks as they come.
    pub(crate) groups: Vec<Group>,
    /// How many of these blocks may not fit.
    pub(crate) unsure: u64,
}

impl Focus {
    /// Whether single blocks have to be looked at.
    pub(crate) fn is_asked(options: &Options) -> bool {
        options.selection != Selection::default() || options.by.is_some()
    }

    /// What of the blocks of `image`, which must have kept its own, is asked for.
    ///
    /// # Errors
    ///
    /// The blocks cannot be read back.
    pub(crate) fn on(
        image: &Image,
        clock: Clock,
        names: &Names,
        options: &Options,
    ) -> io::Result<Self> {
        let outcome = &image.outcome;
        let mut by_site: BTreeMap<SiteId, SiteRow> = BTreeMap::new();
        let mut groups: BTreeMap<(usize, String), Group> = BTreeMap::new();
        if options.by == Some(By::Mark) {
            let cycles = 0..=outcome.marks.len();
            let empty = cycles.map(|cycle| (cycle, cycle_name(image, cycle, clock)));
            groups.extend(empty.map(|key| (key.clone(), Group::empty(key.1))));
        }
        let end = blocks::end(image, clock, options);
        let mut unsure = 0;
        for live in image.blocks.iter() {
            let live = live?;
            let block = blocks::shown(&live, clock, names);
            if !options.selection.takes(&block, end) {
                continue;
            }
            unsure += u64::from(options.selection.is_unsure_of(&block));
            let at = live.block.handed_out;
            let row = by_site.entry(at.site).or_insert(SiteRow {
                oldest: Some(at.clock), // blocks are in order of number
                ..SiteRow::of(at.site)
            });
            row.live_blocks += 1;
            row.live_bytes = row.live_bytes.saturating_add(block.size);
            if let Some(by) = options.by {
                let key = match by {
                    By::Mark => cycle_of(image, live.block.number, clock),
                    _ => (0, by.name(&block)),
                };
                let group = groups.entry(key);
                let group = group.or_insert_with_key(|(_, name)| Group::empty(name.clone()));
                group.blocks += 1;
                group.bytes = group.bytes.saturating_add(block.size);
            }
        }
        // In the order that they have in the whole report, unless there are more bytes of one now.
        let all = outcome.leaks();
        let mut leaks: Vec<SiteRow> = all
            .iter()
            .filter_map(|row| {
                let selected = by_site.get(&row.site)?;
                Some(SiteRow {
                    handed_out: row.handed_out,
                    ..*selected
                })
            })
            .collect();
        leaks.sort_by_key(|row| Reverse(row.live_bytes));
        let mut groups: Vec<Group> = groups.into_values().collect();
        if options.by != Some(By::Mark) {
            groups.sort_by_key(|group| Reverse(group.bytes));
        }
        Ok(Self {
            leaks,
            groups,
            unsure,
        })
    }
}

impl Group {
    fn empty(name: String) -> Self {
        Self {
            name,
            bytes: 0,
            blocks: 0,
        }
    }
}

/// The number and the name of the cycle in which the record of `number` was made.
fn cycle_of(image: &Image, number: u64, clock: Clock) -> (usize, String) {
    let marks = &image.outcome.marks;
    let cycle = marks.partition_point(|mark| mark.number < number);
    (cycle, cycle_name(image, cycle, clock))
}

/// What the time from a mark to the next is called; number 0 is before the first.
fn cycle_name(image: &Image, cycle: usize, clock: Clock) -> String {
    let marks = &image.outcome.marks;
    let Some(mark) = cycle.checked_sub(1).and_then(|at| marks.get(at)) else {
        return match marks.len() {
            0 => "no mark in the trace".to_owned(),
            _ => "before the first mark".to_owned(),
        };
    };
    let time = clock.time_ns(mark.clock).unwrap_or(0);
    let label = match mark.label.as_str() {
        "" => format!("mark {}", mark.id),
        label => format!("mark {} {label}", mark.id),
    };
    format!("{label}, at {}", seconds(time))
}

impl By {
    /// What it is called on a command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Module => "module",
            Self::Thread => "thread",
            Self::Size => "size",
            Self::Mark => "mark",
        }
    }

    /// The group that a block is in, which is said by what it is like.
    fn name(self, block: &Block) -> String {
        let stack = &block.stack;
        let call = stack.first();
        let module = || call.and_then(|frame| frame.module.clone());
        match self {
            Self::Function => {
                let own = stack.iter().find(|frame| !is_system_frame(frame));
                let function = own.or(call).and_then(|frame| frame.function.clone());
                function
                    .or_else(|| Some(format!("in {}", module()?)))
                    .unwrap_or_else(|| "unknown function".to_owned())
            }
            Self::Module => module().unwrap_or_else(|| "unknown module".to_owned()),
            Self::Thread => block.thread.map_or_else(
                || "unknown thread".to_owned(),
                |tid| format!("thread {tid}"),
            ),
            Self::Mark => String::new(), // its number says it
            Self::Size => match block.size {
                0 => "0 B".to_owned(),
                size => {
                    let least = 1u64 << size.ilog2();
                    format!("{least} to {} B", least + (least - 1))
                }
            },
        }
    }
}

impl Selection {
    /// Whether a wrong release is asked for: it itself, or the allocation of what it released.
    pub(crate) fn takes_fault(&self, fault: &Fault) -> bool {
        if self.sizes.is_some() && fault.size.is_none() {
            return false;
        }
        let release = Moment {
            thread: fault.thread,
            time_ns: fault.time_ns,
            time_is_lower_bound: fault.time_is_lower_bound,
            log_line: fault.log_line,
            stack: fault.stack.clone(),
        };
        let moments = [Some(&release), fault.allocation.as_ref()];
        moments.into_iter().flatten().any(|moment| {
            let block = Block {
                address: Address(0), // nothing is asked of it
                size: fault.size.unwrap_or(0),
                thread: moment.thread,
                time_ns: moment.time_ns,
                time_is_lower_bound: moment.time_is_lower_bound,
                latest_ns: None,
                log_line: moment.log_line,
                inherited: false,
                stack: moment.stack.clone(),
            };
            self.takes(&block, u64::MAX)
        })
    }

    /// What is asked for, in words; nothing where that is all.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let lists = [
            ("thread", self.threads.iter().map(u64::to_string).collect()),
            ("module", self.modules.clone()),
            ("function", self.functions.clone()),
        ];
        words.extend(self.from.map(|from| format!("from {}", seconds(from))));
        words.extend(self.to.map(|to| format!("before {}", seconds(to))));
        for (what, list) in lists {
            if !list.is_empty() {
                words.push(format!("{what} {}", list.join(" or ")));
            }
        }
        words.extend(self.site.as_ref().map(|site| format!("site {site}")));
        words.extend(self.sizes.map(|(least, most)| match most {
            u64::MAX => format!("size {least} B and more"),
            _ if least == most => format!("size {least} B"),
            _ => format!("size {least} to {most} B"),
        }));
        words.extend(
            self.min_age
                .map(|age| format!("at least {} old", seconds(age))),
        );
        words
    }
}
