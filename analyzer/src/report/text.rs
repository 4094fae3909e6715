//! The report as text for a terminal: what matters first, every list cut to what one reads.
//!
//! Names come from the trace and are escaped before they are shown.

mod blocks;
mod chart;
mod contents;
mod difference;
mod faults;
mod groups;
mod header;
mod history;
mod modules;
mod page;
mod population;
mod processes;
mod shares;
mod sites;
mod stack;
mod summary;
mod usage;

pub use blocks::render_blocks;
pub use contents::{render_contents, render_wholeness};
pub use difference::render_difference;
pub use history::render_history;
pub use modules::render_modules;
pub use summary::{Ended, render_summary};

use super::columns::cut_end;
use super::{Process, Report, Warning};
use page::{Ink, Page};
use population::Population;
use std::path::PathBuf;

/// Below this the layout is the narrow one.
const WIDE: usize = 80;

/// How a text report is laid out.
#[derive(Clone, Debug)]
pub struct TextOptions {
    /// Columns.
    pub width: usize,
    /// Whether to colour.
    pub color: bool,
    /// Rows of each table, and processes that have a section.
    pub top: usize,
    /// Frames of each stack.
    pub depth: usize,
    /// What the header names in place of the input files; nothing, if it is empty.
    pub source: Option<String>,
    /// Whether to show sizes, lifetimes, threads and modules.
    pub usage: bool,
    /// Source files below this folder are shown relative to it.
    pub base: Option<PathBuf>,
    /// Whether the command can be told by `--pid` to show one process alone.
    pub takes_pid: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            width: 100,
            color: false,
            top: 10,
            depth: 4,
            source: None,
            usage: false,
            base: None,
            takes_pid: true,
        }
    }
}

/// The whole report.
#[must_use]
pub fn render(report: &Report, options: &TextOptions) -> String {
    let mut page = Page::new(options, report.trace.duration_ns);
    match &report.processes[..] {
        [process] => {
            header::of_one(&mut page, report, process);
            body(&mut page, report, process);
        }
        processes => {
            header::of_many(&mut page, report);
            let processes = processes::in_order(processes);
            processes::table(&mut page, &processes);
            sections(&mut page, report, &processes);
        }
    }
    warnings(&mut page, &report.warnings);
    page.finish()
}

/// What a process runs, in at most so many columns.
#[must_use]
pub fn program(process: &Process, width: usize) -> String {
    cut_end(&page::command(process), width).into_owned()
}

/// A remark in lines that are as wide as asked for.
#[must_use]
pub fn render_remark(text: &str, options: &TextOptions) -> String {
    let mut page = Page::new(options, 0);
    page.remark(text);
    page.finish()
}

fn body(page: &mut Page<'_>, report: &Report, process: &Process) {
    let is_part = !report.filter.is_empty();
    if is_part {
        header::figures_of_part(page, process);
    } else {
        header::figures(page, report, process);
        chart::timeline(page, process);
    }
    faults::errors(page, process);
    match report.by {
        Some(by) if !process.groups.is_empty() => groups::groups(page, process, by),
        _ => sites::leaks(page, report, process),
    }
    if !is_part {
        shares::peak_and_temporaries(page, process);
    }
    if page.options.usage {
        usage::usage(page, process);
    }
}

/// A section for each process with something to act upon, as far as they are asked for; a line for each of the others.
fn sections(page: &mut Page<'_>, report: &Report, processes: &[&Process]) {
    let is_shown = |of: &&Process| has_findings(of) || page.options.usage;
    let (found, quiet): (Vec<_>, Vec<_>) = processes.iter().copied().partition(is_shown);
    let (shown, rest) = page.cut(&found);
    for process in shown {
        header::between(page, process);
        body(page, report, process);
    }
    let noun = Population::of_processes(&report.processes).noun();
    processes::left_out(page, rest, found.len(), noun);
    header::quiet(page, &quiet, noun, report);
}

/// Whether there is something to act upon. What was live at an `exec` went with the old image.
fn has_findings(process: &Process) -> bool {
    !process.errors.is_empty() || (process.end != "exec" && !process.leaks.is_empty())
}

fn warnings(page: &mut Page<'_>, warnings: &[Warning]) {
    if warnings.is_empty() {
        return;
    }
    page.blank();
    page.heading(Ink::Warning, "WARNINGS", "");
    for warning in warnings {
        page.item(&warning.text);
    }
}

#[cfg(test)]
mod tests;
