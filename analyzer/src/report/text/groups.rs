//! The table of blocks never released, by something other than their sites.

use super::page::{Ink, Page};
use crate::report::columns::{cut_end, escape, right};
use crate::report::format::{bytes, count};
use crate::report::{Group, Process};

/// The groups of `process`, which are made by `by`.
pub(super) fn groups(page: &mut Page<'_>, process: &Process, by: &str) {
    page.blank();
    let number = count(process.groups.len() as u64);
    page.heading(
        Ink::Strong,
        "LIVE BLOCKS",
        &format!("by {by}, {number} in all"),
    );
    let head = format!("  {}  {}  {by}", right("bytes", 9), right("blocks", 7));
    let head = page.inked(Ink::Faint, &head);
    page.line(&head);
    let (shown, rest) = page.cut(&process.groups);
    for group in shown {
        let name = escape(&group.name);
        let name = cut_end(&name, page.width().saturating_sub(22));
        page.line(&format!("{}  {name}", figures(group.bytes, group.blocks)));
    }
    if !rest.is_empty() {
        let sum = |of: fn(&Group) -> u64| rest.iter().map(of).fold(0, u64::saturating_add);
        page.line(&format!(
            "{}  {} more  (--top {})",
            figures(sum(|group| group.bytes), sum(|group| group.blocks)),
            count(rest.len() as u64),
            process.groups.len()
        ));
    }
}

fn figures(size: u64, blocks: u64) -> String {
    format!("  {}  {}", right(&bytes(size), 9), right(&count(blocks), 7))
}
