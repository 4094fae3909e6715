//! The table of the processes of a report, a row each: where to look first.

use super::header::{end, listed, listed_blocks};
use super::page::{Ink, Page, command};
use super::population::Population;
use crate::report::Process;
use crate::report::columns::{columns, cut_end, left, right};
use crate::report::format::{bytes, count, counted};
use std::cmp::Reverse;

/// Cells of a row before the program: pid, parent, errors, bytes and blocks at the end, how it ended.
type Cells = [String; 6];

const TITLES: [&str; 6] = ["pid", "parent", "errors", "live at end", "blocks", "end"];
/// The last cell is text, all others are numbers.
const END: usize = TITLES.len() - 1;
/// Columns that the program has at least.
const LEAST: usize = 12;

/// Those with wrong releases first, then those that hold most bytes at their end; what an `exec` replaced holds nothing any more, so it
/// comes last of those with as many errors.
pub(super) fn in_order(processes: &[Process]) -> Vec<&Process> {
    let mut processes: Vec<&Process> = processes.iter().collect();
    processes.sort_by_key(|of| {
        (
            Reverse(of.errors.len()),
            is_replaced(of),
            Reverse(listed(of)),
        )
    });
    processes
}

/// The table of processes that are [in order](in_order).
pub(super) fn table(page: &mut Page<'_>, processes: &[&Process]) {
    if processes.is_empty() {
        return;
    }
    page.blank();
    let number = Population::of_processes(processes.iter().copied()).figure();
    let replaced = match processes.iter().any(|of| is_replaced(of)) {
        true => ", those replaced by exec after the others",
        false => "",
    };
    page.long_heading(
        Ink::Strong,
        "PROCESSES",
        &format!("{number}, most errors first, then most bytes live at the end{replaced}"),
    );
    let (shown, rest) = page.cut(processes);
    let rows: Vec<Cells> = shown.iter().map(|process| cells(process)).collect();
    let hidden: &[usize] = if page.is_wide() { &[] } else { &[1, 4] };
    let widths: [usize; 6] = std::array::from_fn(|at| {
        let cells = rows.iter().map(|row| columns(&row[at]));
        cells.chain([columns(TITLES[at])]).max().unwrap_or(0)
    });
    let head = line(&TITLES.map(str::to_owned), &widths, hidden);
    let room = page.width().saturating_sub(columns(&head) + 2).max(LEAST);
    let head = page.inked(Ink::Faint, &format!("{head}  program"));
    page.line(&head);
    for (row, process) in rows.iter().zip(shown) {
        let program = command(process);
        let program = cut_end(&program, room);
        let line = format!("{}  {program}", line(row, &widths, hidden));
        page.line(&cut_end(&line, page.width()));
    }
    if !rest.is_empty() {
        let number = count(rest.len() as u64);
        let how = how_to_see(page, rest, processes.len());
        page.remark(&format!("… {number} more {how}"));
    }
}

/// The line in place of the sections that `rest` would have, of `all`.
pub(super) fn left_out(page: &mut Page<'_>, rest: &[&Process], all: usize, noun: &str) {
    if rest.is_empty() {
        return;
    }
    let number = counted(rest.len() as u64, &format!("more {noun}"));
    let how = how_to_see(page, rest, all);
    page.blank();
    page.paragraph(&format!("… {number} {how}"));
}

/// What to ask for to see `rest` too, of `all`. A log tells no pids.
fn how_to_see(page: &Page<'_>, rest: &[&Process], all: usize) -> String {
    let has_pids = rest.iter().any(|of| of.pid.is_some());
    match page.options.takes_pid && has_pids {
        true => format!("(--top {all}, or --pid PID for one)"),
        false => format!("(--top {all})"),
    }
}

fn is_replaced(process: &Process) -> bool {
    process.end == "exec"
}

fn cells(process: &Process) -> Cells {
    let pid = |pid: Option<u64>| pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
    [
        pid(process.pid),
        pid(process.parent_pid),
        count(process.errors.len() as u64),
        bytes(listed(process)),
        count(listed_blocks(process)),
        end(process),
    ]
}

fn line(row: &Cells, widths: &[usize; 6], hidden: &[usize]) -> String {
    let cells = row.iter().zip(widths).enumerate();
    let shown = cells.filter(|(at, _)| !hidden.contains(at));
    let filled = shown.map(|(at, (cell, width))| match at {
        END => left(cell, *width),
        _ => right(cell, *width),
    });
    format!("  {}", filled.collect::<Vec<_>>().join("  "))
}
