//! The history of an address, a line a call.

use super::TextOptions;
use super::page::{Ink, Page};
use super::stack::{Names, rows};
use crate::report::columns::{escape, left, right};
use crate::report::format::{bytes, counted};
use crate::report::{History, HistoryEvent};

/// All events, in order.
#[must_use]
pub fn render_history(history: &History, options: &TextOptions) -> String {
    let last = history.events.last().map_or(0, |event| event.time_ns);
    let mut page = Page::new(options, last);
    let about = match history.events.len() {
        0 => "no recorded call handed out or released a block there".to_owned(),
        number => counted(number as u64, "call"),
    };
    page.heading(Ink::Strong, &escape(&history.address), &about);
    let names = Names::new(&page, None);
    let heads: Vec<String> = history.events.iter().map(|it| head(&page, it)).collect();
    let calls: Vec<_> = history
        .events
        .iter()
        .map(|it| names.call(&it.stack))
        .collect();
    rows(&mut page, &heads, &calls);
    page.finish()
}

fn head(page: &Page<'_>, event: &HistoryEvent) -> String {
    let size = event.size.map_or_else(String::new, bytes);
    let mut parts = vec![
        format!("  {}", left(event.event, 17)),
        escape(&event.address).into_owned(),
        right(&size, 9),
        page.exact_moment(Some(event.time_ns), event.time_is_lower_bound),
    ];
    parts.extend(event.thread.map(|thread| format!("thread {thread}")));
    parts.join("  ")
}
