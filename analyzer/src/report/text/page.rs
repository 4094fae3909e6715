//! The lines of a report as they come, with their width and colours.

use super::{TextOptions, WIDE};
use crate::report::Process;
use crate::report::columns::{columns, cut_end, escape, left, right, wrap};
use crate::report::format;
use std::cell::Cell;

/// What a piece of text is, which decides its colour.
#[derive(Clone, Copy)]
pub(super) enum Ink {
    /// A heading or a figure to look at.
    Strong,
    /// A wrong release.
    Error,
    /// Something that limits what the report can say.
    Warning,
    /// What helps to read on, and can be passed over.
    Faint,
}

impl Ink {
    const fn code(self) -> &'static str {
        match self {
            Self::Strong => "1",
            Self::Error => "1;31",
            Self::Warning => "33",
            Self::Faint => "2",
        }
    }
}

/// A report that is being written.
pub(super) struct Page<'o> {
    text: String,
    pub(super) options: &'o TextOptions,
    /// Nanoseconds that the recording lasted; decides how moments are written.
    duration_ns: u64,
    /// A moment was written that is a lower bound.
    shows_bounds: Cell<bool>,
}

/// What stands before a moment that is a lower bound.
const AT_LEAST: &str = "≥ ";

/// What is said below a report that shows them.
const BOUNDS: &str =
    "≥ then or later: a busy thread had paused, and had not read the clock again yet";

impl<'o> Page<'o> {
    pub(super) fn new(options: &'o TextOptions, duration_ns: u64) -> Self {
        Self {
            text: String::new(),
            options,
            duration_ns,
            shows_bounds: Cell::new(false),
        }
    }

    pub(super) fn finish(mut self) -> String {
        if self.shows_bounds.get() {
            self.blank();
            self.remark(BOUNDS);
        }
        self.text
    }

    pub(super) fn width(&self) -> usize {
        self.options.width.max(20)
    }

    pub(super) fn is_wide(&self) -> bool {
        self.width() >= WIDE
    }

    /// Rows and rest of a list that may be too long.
    pub(super) fn cut<'l, T>(&self, list: &'l [T]) -> (&'l [T], &'l [T]) {
        list.split_at(self.options.top.min(list.len()))
    }

    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// A section's first line: its name, then what it is about.
    pub(super) fn heading(&mut self, ink: Ink, name: &str, about: &str) {
        let room = self.width().saturating_sub(columns(name) + 2);
        let name = self.inked(ink, name);
        self.line(&format!("{name}  {}", cut_end(about, room)));
    }

    /// The same, where all of what it is about has to be read.
    pub(super) fn long_heading(&mut self, ink: Ink, name: &str, about: &str) {
        let indent = columns(name) + 2;
        let room = self.width().saturating_sub(indent);
        let mut lines = wrap(about, room).into_iter();
        self.heading(ink, name, &lines.next().unwrap_or_default());
        for line in lines {
            self.line(&format!("{}{}", " ".repeat(indent), cut_end(&line, room)));
        }
    }

    /// A paragraph below a heading.
    pub(super) fn item(&mut self, text: &str) {
        for line in wrap(&escape(text), self.width() - 2) {
            self.line(&format!("  {line}"));
        }
    }

    /// A paragraph of its own.
    pub(super) fn paragraph(&mut self, text: &str) {
        for line in wrap(&escape(text), self.width()) {
            self.line(&line);
        }
    }

    /// A remark below a heading.
    pub(super) fn remark(&mut self, text: &str) {
        for line in wrap(&escape(text), self.width() - 2) {
            let line = self.inked(Ink::Faint, &line);
            self.line(&format!("  {line}"));
        }
    }

    /// A key figure: label, value, and what to know about it.
    pub(super) fn figure(&mut self, ink: Option<Ink>, label: &str, value: &str, note: &str) {
        let (indent, label, gap) = if self.is_wide() {
            (2, left(label, 14), 3)
        } else {
            (0, left(label, 12), 2)
        };
        let value = right(value, 9);
        let used = indent + columns(&label) + columns(&value) + gap;
        let note = cut_end(note, self.width().saturating_sub(used)).into_owned();
        let value = ink.map_or_else(|| value.clone(), |ink| self.inked(ink, &value));
        let (indent, gap) = (" ".repeat(indent), " ".repeat(gap));
        self.line(&format!("{indent}{label}{value}{gap}{note}"));
    }

    pub(super) fn inked(&self, ink: Ink, text: &str) -> String {
        if self.options.color && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", ink.code())
        } else {
            text.to_owned()
        }
    }

    pub(super) fn moment(&self, ns: Option<u64>, is_lower_bound: bool) -> String {
        self.bounded(ns, is_lower_bound, format::moment)
    }

    pub(super) fn exact_moment(&self, ns: Option<u64>, is_lower_bound: bool) -> String {
        self.bounded(ns, is_lower_bound, format::exact_moment)
    }

    /// Moments of a column, the figures below each other whether they are lower bounds or not.
    pub(super) fn moments(&self, moments: &[(Option<u64>, bool)]) -> Vec<String> {
        Self::column(moments, |ns, is_lower_bound| {
            self.moment(ns, is_lower_bound)
        })
    }

    /// The same, as [`exact_moment`](Self::exact_moment) has them.
    pub(super) fn exact_moments(&self, moments: &[(Option<u64>, bool)]) -> Vec<String> {
        Self::column(moments, |ns, is_lower_bound| {
            self.exact_moment(ns, is_lower_bound)
        })
    }

    fn column(
        moments: &[(Option<u64>, bool)],
        show: impl Fn(Option<u64>, bool) -> String,
    ) -> Vec<String> {
        let has_bounds = moments.iter().any(|(_, is_lower_bound)| *is_lower_bound);
        let shown = moments.iter().map(|(ns, is_lower_bound)| {
            let moment = show(*ns, *is_lower_bound);
            match has_bounds && !is_lower_bound && ns.is_some() {
                true => format!("{}{moment}", " ".repeat(columns(AT_LEAST))),
                false => moment,
            }
        });
        shown.collect()
    }

    fn bounded(
        &self,
        ns: Option<u64>,
        is_lower_bound: bool,
        format: fn(u64, u64) -> String,
    ) -> String {
        let sign = if is_lower_bound { AT_LEAST } else { "" };
        ns.map_or_else(String::new, |ns| {
            self.shows_bounds
                .set(self.shows_bounds.get() || is_lower_bound);
            format!("{sign}{}", format(ns, self.duration_ns))
        })
    }
}

/// What a process runs, in words.
pub(super) fn command(process: &Process) -> String {
    let known = command_line(process.command.as_deref(), process.exe.as_deref());
    known.unwrap_or_else(|| "unknown program".to_owned())
}

/// A command line, as one would type it, or in its place the executable.
pub(super) fn command_line(command: Option<&[String]>, exe: Option<&str>) -> Option<String> {
    let command = command.filter(|words| !words.is_empty());
    let command = command.map(|words| words.join(" "));
    Some(escape(command.as_deref().or(exe)?).into_owned())
}
