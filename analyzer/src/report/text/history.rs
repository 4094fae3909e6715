//! The history of an address, a line a call.

use super::TextOptions;
use super::page::{Ink, Page};
use super::stack::{Names, rows};
use crate::report::columns::{aligned, escape, right};
use crate::report::format::{bytes, count, counted};
use crate::report::{History, HistoryEvent};

/// All events, in order.
#[must_use]
pub fn render_history(history: &History, options: &TextOptions) -> String {
    let last = history.events.iter().filter_map(|event| event.time_ns);
    let last = last.max().unwrap_or(0);
    let mut page = Page::new(options, last);
    let about = match history.events.len() {
        0 if !history.filter.is_empty() => "no call there fits the filter".to_owned(),
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
    super::warnings(&mut page, &history.warnings);
    page.finish()
}

fn heads(page: &Page<'_>, events: &[HistoryEvent]) -> Vec<String> {
    let moments = events
        .iter()
        .map(|event| (event.time_ns, event.time_is_lower_bound));
    let moments = page.exact_moments(&moments.collect::<Vec<_>>());
    let are_of_several = events.iter().any(|event| event.pid != events[0].pid);
    let heads = events.iter().zip(moments);
    let heads: Vec<_> = heads
        .map(|(event, moment)| {
            let thread = event.thread.map(|thread| format!("thread {thread}"));
            let pid = event.pid.filter(|_| are_of_several);
            let size = event.size.map_or_else(String::new, bytes);
            [
                event.event.to_owned(),
                escape(&event.address).into_owned(),
                right(&size, 9),
                event
                    .log_line
                    .map_or(moment, |line| format!("log line {}", count(line))),
                pid.map_or_else(String::new, |pid| format!("pid {pid}")),
                thread.unwrap_or_default(),
            ]
        })
        .collect();
    aligned(&heads)
}
