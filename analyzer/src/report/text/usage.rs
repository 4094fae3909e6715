//! How a process used its heap in all: by size, lifetime, thread and module.

use super::page::{Ink, Page};
use crate::report::Process;
use crate::report::columns::{cut_start, escape, right};
use crate::report::format::{bytes, count, counted, duration};
use crate::report::usage::Class;

/// Columns of the longest bar.
const BAR: u64 = 40;
/// Columns of what a row is about, where that is short.
const LABEL: usize = 12;

/// The tables of one process. Lifetimes are in time where that is known, else in records.
pub(super) fn usage(page: &mut Page<'_>, process: &Process) {
    let usage = &process.usage;
    classes(page, "SIZES", "of all blocks", &usage.sizes, bytes);
    if usage.lifetimes_ns.is_empty() {
        let lifetimes = &usage.lifetimes_records;
        classes(
            page,
            "LIFETIMES",
            "of released blocks, in calls",
            lifetimes,
            count,
        );
    } else {
        let lifetimes = &usage.lifetimes_ns;
        classes(page, "LIFETIMES", "of released blocks", lifetimes, exact);
        if usage.lifetimes_unknown > 0 {
            page.remark(&format!(
                "{} not in the table: when one of their calls came in a pause is not known",
                counted(usage.lifetimes_unknown, "released block")
            ));
        }
    }
    let threads = usage.threads.iter().map(|of| {
        let figures = [of.allocations, of.bytes, of.live_blocks, of.live_bytes];
        (format!("thread {}", of.thread), figures)
    });
    table(page, "THREADS", &threads.collect::<Vec<_>>());
    let modules = usage.modules.iter().map(|of| {
        let figures = [
            of.sums.allocations(),
            of.bytes,
            of.sums.live_blocks,
            of.sums.live_bytes,
        ];
        let path = of.module.as_deref().unwrap_or("outside of known modules");
        (escape(path).into_owned(), figures)
    });
    table(page, "MODULES", &modules.collect::<Vec<_>>());
}

/// Below a millisecond every unit tells.
fn exact(ns: u64) -> String {
    match ns {
        0..1000 => format!("{ns} ns"),
        1000..1_000_000 => format!("{} us", ns / 1000),
        _ => duration(ns),
    }
}

fn classes(
    page: &mut Page<'_>,
    name: &str,
    about: &str,
    classes: &[Class],
    show: fn(u64) -> String,
) {
    let Some(most) = classes.iter().map(|class| class.blocks).max() else {
        return;
    };
    page.blank();
    page.heading(Ink::Strong, name, about);
    for class in classes {
        let length = u128::from(class.blocks) * u128::from(BAR) / u128::from(most.max(1));
        let room = page.width().saturating_sub(LABEL + 24);
        let length = usize::try_from(length).unwrap_or(0).min(room);
        page.line(&format!(
            "  {} and up  {}  {}",
            right(&show(class.from), LABEL),
            right(&count(class.blocks), 11),
            "█".repeat(length)
        ));
    }
}

/// Rows of a name, the blocks and bytes handed out, and those that are live.
fn table(page: &mut Page<'_>, name: &str, rows: &[(String, [u64; 4])]) {
    if rows.is_empty() {
        return;
    }
    page.blank();
    page.heading(Ink::Strong, name, &count(rows.len() as u64));
    let head = ["blocks", "bytes", "live blocks", "live bytes"].map(|word| right(word, 11));
    let head = page.inked(Ink::Faint, &format!("  {}", head.join("  ")));
    page.line(&head);
    let (shown, rest) = page.cut(rows);
    for (label, [blocks, size, live_blocks, live_bytes]) in shown {
        let figures = [
            count(*blocks),
            bytes(*size),
            count(*live_blocks),
            bytes(*live_bytes),
        ];
        let figures = figures.map(|figure| right(&figure, 11)).join("  ");
        if page.is_wide() {
            let room = page.width().saturating_sub(4 * 13 + 3).max(LABEL);
            page.line(&format!("  {figures}  {}", cut_start(label, room)));
        } else {
            page.line(&format!("  {figures}"));
            page.line(&format!("    {}", cut_start(label, page.width() - 4)));
        }
    }
    if !rest.is_empty() {
        page.remark(&format!(
            "… {} more (--top {})",
            count(rest.len() as u64),
            rows.len()
        ));
    }
}
