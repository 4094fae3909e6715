//! The history of an address, a line a call.

use super::TextOptions;
use super::page::{Ink, Page};
use super::stack::{Names, rows};
use crate::report::columns::{aligned, escape, right};
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
    let heads = heads(&page, &history.events);
    let calls: Vec<_> = history
        .events
        .iter()
        .map(|it| names.call(&it.stack))
        .collect();
    rows(&mut page, &heads, &calls);
    page.finish()
}

fn heads(page: &Page<'_>, events: &[HistoryEvent]) -> Vec<String> {
    let moments = events
        .iter()
        .map(|event| (Some(event.time_ns), event.time_is_lower_bound));
    let moments = page.exact_moments(&moments.collect::<Vec<_>>());
    let heads = events.iter().zip(moments);
    let heads: Vec<_> = heads
        .map(|(event, moment)| {
            let thread = event.thread.map(|thread| format!("thread {thread}"));
            let size = event.size.map_or_else(String::new, bytes);
            [
                event.event.to_owned(),
                escape(&event.address).into_owned(),
                right(&size, 9),
                moment,
                thread.unwrap_or_default(),
            ]
        })
        .collect();
    aligned(&heads)
}
