//! What is in an input, and whether all of it is there.

use super::TextOptions;
use super::page::{Ink, Page, command_line};
use super::population::Population;
use crate::report::columns::{columns, cut_end, cut_middle, cut_start, escape, left, right};
use crate::report::format::{bytes, count, counted, date, duration};
use crate::report::{Contents, Defect, ProcessContents, State, Tally, Wholeness};

/// Key figures, then processes, frames, records and modules.
#[must_use]
pub fn render_contents(contents: &Contents, options: &TextOptions) -> String {
    let mut page = Page::new(options, contents.duration_ns);
    page.heading(Ink::Strong, "CONTENTS", &escape(&contents.file));
    figures(&mut page, contents);
    processes(&mut page, contents);
    tallies(&mut page, "FRAMES", &contents.frames);
    tallies(&mut page, "RECORDS", &contents.records);
    modules(&mut page, contents);
    page.finish()
}

fn figures(page: &mut Page<'_>, contents: &Contents) {
    let kind = match contents.kind {
        "mtrace" => "log of glibc's mtrace".to_owned(),
        _ => format!("heapwire trace, format {}", contents.versions.join(", ")),
    };
    page.item(&kind);
    let packed = if contents.packed {
        "compressed"
    } else {
        "not compressed"
    };
    let size = match contents.file_bytes {
        Some(file) if contents.packed => {
            format!("{packed}, {} of {}", bytes(file), bytes(contents.bytes))
        }
        _ => format!("{packed}, {}", bytes(contents.bytes)),
    };
    page.item(&size);
    if let Some(start) = contents.start_unix_ns {
        page.item(&format!(
            "begins {}, lasts {}",
            date(start),
            duration(contents.duration_ns)
        ));
    }
}

fn processes(page: &mut Page<'_>, contents: &Contents) {
    page.blank();
    let images = contents.processes.iter().map(|of| (of.pid, of.end));
    let number = Population::of(images).figure();
    page.heading(Ink::Strong, "PROCESSES", &number);
    let (shown, rest) = page.cut(&contents.processes);
    for process in shown {
        let pid = process
            .pid
            .map_or_else(|| "pid unknown".to_owned(), |pid| format!("pid {pid}"));
        let result = format!(
            "{}, {}",
            counted(process.calls, "call"),
            end(contents, process)
        );
        let room = page.width().saturating_sub(columns(&result) + 18);
        let command = command_line(process.command.as_deref(), None);
        let command = command.as_deref().unwrap_or("unknown program");
        let command = cut_end(command, room.max(12)).into_owned();
        page.line(&format!("  {}{command}  {result}", left(&pid, 14)));
    }
    more(page, rest.len(), contents.processes.len());
}

fn end(contents: &Contents, process: &ProcessContents) -> String {
    let end = (process.end, process.exit_status, process.signal);
    super::header::ended(end, contents.kind == "mtrace")
}

fn tallies(page: &mut Page<'_>, name: &str, tallies: &[Tally]) {
    if tallies.is_empty() {
        return;
    }
    page.blank();
    let all = tallies
        .iter()
        .map(|of| of.count)
        .fold(0, u64::saturating_add);
    page.heading(Ink::Strong, name, &count(all));
    for tally in tallies {
        let size = if tally.bytes > 0 {
            bytes(tally.bytes)
        } else {
            String::new()
        };
        page.line(&format!(
            "  {}{}  {}",
            left(&tally.kind, 20),
            right(&count(tally.count), 14),
            right(&size, 10)
        ));
    }
}

fn modules(page: &mut Page<'_>, contents: &Contents) {
    page.blank();
    let number = count(contents.modules.len() as u64);
    page.heading(Ink::Strong, "MODULES", &number);
    let (shown, rest) = page.cut(&contents.modules);
    for path in shown {
        let room = page.width().saturating_sub(2);
        page.line(&format!("  {}", cut_start(&escape(path), room)));
    }
    more(page, rest.len(), contents.modules.len());
}

fn more(page: &mut Page<'_>, rest: usize, all: usize) {
    if rest > 0 {
        page.remark(&format!("… {} more (--top {all})", count(rest as u64)));
    }
}

/// What it comes to, then each kind of damage and loss in a line.
#[must_use]
pub fn render_wholeness(wholeness: &Wholeness, options: &TextOptions) -> String {
    let mut page = Page::new(options, 0);
    let (ink, state) = match wholeness.state {
        State::Whole => (Ink::Strong, "WHOLE"),
        State::Incomplete => (Ink::Warning, "INCOMPLETE"),
        State::Damaged => (Ink::Error, "DAMAGED"),
    };
    let about = match wholeness.state {
        State::Whole => "nothing is damaged, nothing is missing",
        State::Incomplete => "nothing is damaged, but something is missing",
        State::Damaged => "not all of it is as it was written",
    };
    let room = page
        .width()
        .saturating_sub(columns(state) + 4 + columns(about));
    let file = cut_middle(&escape(&wholeness.file), room.max(8)).into_owned();
    page.heading(ink, state, &format!("{file}: {about}"));
    for defect in &wholeness.damage {
        page.item(&line(wholeness, defect));
    }
    for defect in &wholeness.missing {
        page.item(&defect.text);
    }
    for defect in &wholeness.remarks {
        page.remark(&line(wholeness, defect));
    }
    page.finish()
}

fn line(wholeness: &Wholeness, defect: &Defect) -> String {
    let is_log = wholeness
        .damage
        .iter()
        .chain(&wholeness.remarks)
        .any(|it| ["damaged-lines", "foreign-lines", "cut-line"].contains(&it.kind));
    let unit = if is_log { "line" } else { "byte" };
    let first = defect.first.map_or_else(String::new, |first| {
        format!(", the first at {unit} {first}")
    });
    format!("{}: {}, {}{first}", defect.kind, defect.count, defect.text)
}
