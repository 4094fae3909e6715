//! The list of single live blocks.

use super::TextOptions;
use super::page::{Ink, Page, command_line};
use super::stack::{Call, Names, rows};
use crate::report::blocks::BlockSums;
use crate::report::columns::{aligned, columns, cut_end, right};
use crate::report::format::{bytes, count, counted, exact_moment};
use crate::report::{Block, LiveAt, LiveBlocks, ProcessBlocks};

/// Columns that the program has at least in a heading.
const LEAST: usize = 12;

/// The blocks of each process, in order of number.
#[must_use]
pub fn render_blocks(live: &LiveBlocks, options: &TextOptions) -> String {
    let last = live
        .processes
        .iter()
        .map(|process| process.blocks.sums.last_ns);
    let last = last.max().flatten();
    let mut page = Page::new(options, last.unwrap_or(0));
    let state = match (live.at, live.until_ns) {
        (LiveAt::Peak, _) => "live at the peak".to_owned(),
        (LiveAt::Time, Some(time)) => format!("live at {}", exact_moment(time, time)),
        _ => "never released".to_owned(),
    };
    let none = match super::sites::is_sure(&live.warnings) {
        _ if !live.filter.is_empty() => "no live block fits the filter",
        true => "no recorded block is live",
        false => "no block is known to be live",
    };
    let (ended, running): (Vec<_>, Vec<_>) = live.processes.iter().partition(|of| of.ended);
    for process in running {
        let state = match live.at {
            LiveAt::End if process.is_replaced => "live when exec replaced it",
            LiveAt::End if process.is_cut => "live when the trace ends",
            _ => &state,
        };
        list(&mut page, process, state, none);
    }
    if !ended.is_empty() {
        let number = counted(ended.len() as u64, "program");
        page.remark(&format!(
            "{number} had ended by then; --live lists what was never released"
        ));
    }
    super::warnings(&mut page, &live.warnings);
    page.finish()
}

fn list(page: &mut Page<'_>, process: &ProcessBlocks, state: &str, none: &str) {
    let blocks = &process.blocks;
    let about = match blocks.len() {
        0 => none.to_owned(),
        _ => sums(&blocks.sums, state),
    };
    heading(page, process, about);
    let shown: Vec<Block> = blocks.iter().take(page.options.top).collect();
    let rest = blocks.len() - shown.len();
    let names = Names::new(page, None);
    let calls: Vec<Call> = shown.iter().map(|block| names.call(&block.stack)).collect();
    rows(page, &heads(page, &shown), &calls);
    if rest > 0 {
        page.remark(&format!(
            "… {} more (--top {})",
            count(rest as u64),
            blocks.len()
        ));
    }
}

/// The process, what is said of its blocks, and what it runs.
fn heading(page: &mut Page<'_>, process: &ProcessBlocks, mut about: String) {
    let who = process
        .pid
        .map_or_else(|| "process".to_owned(), |pid| format!("pid {pid}"));
    if let Some(command) = command_line(process.command.as_deref(), process.exe.as_deref()) {
        about.push_str(" · ");
        let used = columns(&who) + 2 + columns(&about);
        let room = page.width().saturating_sub(used).max(LEAST);
        about.push_str(&cut_end(&command, room));
    }
    page.long_heading(Ink::Strong, &who, &about);
}

/// How many there are, and how many of them are not the process's own to a report.
fn sums(sums: &BlockSums, state: &str) -> String {
    let (all, inherited) = (sums.number as u64, sums.inherited as u64);
    let text = format!("{} {state}, {}", counted(all, "block"), bytes(sums.bytes));
    match (inherited, all) {
        (0, _) => text,
        (1, 1) => format!("{text}; its parent's"),
        _ if inherited == all => format!("{text}; all of them its parent's"),
        _ => {
            let (number, size) = (count(inherited), bytes(sums.inherited_bytes));
            format!("{text}; {number} of them its parent's, {size}")
        }
    }
}

fn heads(page: &Page<'_>, blocks: &[Block]) -> Vec<String> {
    let moments = blocks
        .iter()
        .map(|block| (block.time_ns, block.time_is_lower_bound));
    let moments = page.exact_moments(&moments.collect::<Vec<_>>());
    let heads = blocks.iter().zip(moments);
    let heads: Vec<_> = heads
        .map(|(block, moment)| {
            let thread = block.thread.map(|thread| format!("thread {thread}"));
            let inherited = if block.inherited { "inherited" } else { "" };
            [
                block.address.to_string(),
                right(&bytes(block.size), 9),
                moment,
                thread.unwrap_or_default(),
                inherited.to_owned(),
            ]
        })
        .collect();
    aligned(&heads)
}
