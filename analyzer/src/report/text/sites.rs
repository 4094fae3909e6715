//! The table of leaks: blocks never released, by allocation site.

use super::page::{Ink, Page};
use super::stack::{Call, Names, is_without_caller, split};
use crate::report::columns::{columns, cut_end, left, right};
use crate::report::format::{bytes, count, counted};
use crate::report::system::is_system;
use crate::report::{Leak, Process, Report, Warning};

/// Blocks never released, by site; the user's sites before those of the system.
///
/// Those that are asked for, that is: "no leaks" is said of all blocks of a whole trace only.
pub(super) fn leaks(page: &mut Page<'_>, report: &Report, process: &Process) {
    let is_whole = report.trace.lost_records == 0 && report.trace.damaged_bytes == 0;
    let ended = process.end == "normal";
    let name = match process.end {
        _ if report.until_ns.is_some() => "NOT RELEASED BY THEN",
        "normal" => "LEAKED",
        "unknown" => "LIVE WHEN THE LOG ENDS",
        _ => "LIVE WHEN THE TRACE ENDS",
    };
    page.blank();
    if process.leaks.is_empty() {
        let why = match super::header::events(&process.totals) {
            0 => "nothing is known: no call was recorded",
            _ if !report.filter.is_empty() => "nothing that fits the filter",
            _ if !is_whole => "none is known, but records are missing",
            _ if !is_sure(&report.warnings) => "none is known",
            _ if ended => "no leaks: every recorded block was released",
            _ => "nothing: no recorded block was live",
        };
        page.heading(Ink::Strong, name, why);
        return;
    }
    let sites = counted(process.leaks.len() as u64, "site");
    let live = process.leaks.iter().map(|leak| leak.bytes);
    let live = bytes(live.fold(0, u64::saturating_add));
    let part = if report.filter.is_empty() {
        ""
    } else {
        " that fit the filter"
    };
    let most = if is_whole { "" } else { "at most " };
    page.heading(Ink::Strong, name, &format!("{most}{sites}, {live}{part}"));
    if !ended && report.until_ns.is_none() {
        page.remark(match process.end {
            "unknown" => "these are leaks if the program ended here, which the log does not say",
            _ => "the end of the program was not recorded as normal, so these need not be leaks",
        });
    }
    if !report.filter.is_empty() {
        page.remark("calls are all of a call site, whether they fit the filter or not");
    }
    let (system, own): (Vec<_>, Vec<_>) = process
        .leaks
        .iter()
        .partition(|leak| is_system(leak, process.exe.as_deref()));
    let own_count = own.len();
    let ordered: Vec<&Leak> = own.into_iter().chain(system).collect();
    let (shown, rest) = page.cut(&ordered);
    let (own, system) = shown.split_at(own_count.min(shown.len()));
    let table = Table::new(page, process, shown);
    table.head(page);
    table.rows(page, own, 1);
    if !system.is_empty() {
        page.remark("in libraries of the system:");
    }
    table.rows(page, system, own.len() + 1);
    table.rest(page, rest, ordered.len());
    without_callers(page, own);
}

/// Says of rows that name lines of headers what that means.
fn without_callers(page: &mut Page<'_>, own: &[&Leak]) {
    if own.iter().any(|leak| is_without_caller(&leak.stack)) {
        page.remark(
            "lines in headers of a library: its function was not inlined, and who called that is not in the trace; \
             where the program is compiled with optimization, the caller's line mostly is",
        );
    }
}

/// Widths of the columns of a table of leaks, and the names in it.
struct Table<'r> {
    names: Names<'r>,
    wide: bool,
    number: usize,
    /// Of each leak when its oldest block was handed out, and their width.
    oldest: (Vec<String>, usize),
    calls: (usize, usize),
}

impl<'r> Table<'r> {
    fn new(page: &Page<'r>, process: &'r Process, leaks: &[&Leak]) -> Self {
        let names = Names::new(page, process.exe.as_deref());
        let number = leaks.len().to_string().len();
        let oldest = leaks
            .iter()
            .map(|leak| (leak.oldest_ns, leak.oldest_is_lower_bound));
        let oldest = page.moments(&oldest.collect::<Vec<_>>());
        let widths = oldest.iter().map(|moment| columns(moment));
        let width = widths.max().unwrap_or(0).max("oldest".len());
        let wide = page.is_wide();
        let stacks: Vec<Vec<Call>> = leaks.iter().map(|leak| names.calls(&leak.stack)).collect();
        let all: Vec<&Call> = stacks.iter().flatten().collect();
        let mut table = Self {
            names,
            wide,
            number,
            oldest: (oldest, width),
            calls: (0, 0),
        };
        // Callers stand two columns further to the right.
        let room = page.width().saturating_sub(table.indent() + 2);
        table.calls = split(&all, room);
        table
    }

    /// Columns before the call sites.
    fn indent(&self) -> usize {
        if self.wide {
            2 + self.number + 2 + 9 + 2 + 7 + 2 + 7 + 2 + self.oldest.1 + 3
        } else {
            self.number + 1
        }
    }

    fn head(&self, page: &mut Page<'_>) {
        let figures = [right("bytes", 9), right("blocks", 7), right("calls", 7)].join("  ");
        let head = if self.wide {
            let oldest = left("oldest", self.oldest.1);
            format!(
                "  {}  {figures}  {oldest}   call site",
                right("#", self.number)
            )
        } else {
            right(&figures, page.width())
        };
        let head = page.inked(Ink::Faint, &head);
        page.line(&head);
    }

    fn rows(&self, page: &mut Page<'_>, leaks: &[&Leak], first: usize) {
        for (number, leak) in (first..).zip(leaks) {
            if self.wide {
                self.wide_row(page, number, leak);
            } else {
                self.narrow_row(page, number, leak);
            }
        }
    }

    fn wide_row(&self, page: &mut Page<'_>, number: usize, leak: &Leak) {
        let calls = self.names.calls(&leak.stack);
        let start = format!(
            "  {}  {}  {}   ",
            right(&number.to_string(), self.number),
            figures(leak),
            left(
                self.oldest.0.get(number - 1).map_or("", |moment| moment),
                self.oldest.1
            )
        );
        let (function, place) = self.calls;
        let mut calls = calls.iter();
        let site = calls
            .next()
            .map(|call| call.in_columns((function + 2, place)));
        page.line(&(start + &site.unwrap_or_else(|| "unknown call site".to_owned())));
        let indent = " ".repeat(self.indent() + 2);
        for call in calls {
            page.line(&format!("{indent}{}", call.in_columns(self.calls)));
        }
        if let Some(module) = self.names.module(&leak.stack) {
            let module = page.inked(Ink::Faint, &cut_end(&module, function + place));
            page.line(&format!("{indent}{module}"));
        }
    }

    fn narrow_row(&self, page: &mut Page<'_>, number: usize, leak: &Leak) {
        let figures = figures(leak);
        let start = format!("{} ", right(&number.to_string(), self.number));
        let site = self.names.call(&leak.stack);
        let room = page
            .width()
            .saturating_sub(columns(&start) + columns(&figures) + 1);
        let function = left(&cut_end(&site.function, room), room);
        page.line(&format!("{start}{function} {figures}"));
        let indent = " ".repeat(self.indent() + 2);
        let room = page.width().saturating_sub(columns(&indent));
        let module = self.names.module(&leak.stack).unwrap_or_default();
        let place = format!("{}  {module}", site.place);
        if !place.trim().is_empty() {
            page.line(&format!("{indent}{}", cut_end(place.trim(), room)));
        }
        for call in self.names.calls(&leak.stack).iter().skip(1) {
            page.line(&format!(
                "{indent}< {}",
                call.in_columns(split(&[call], room.saturating_sub(2)))
            ));
        }
    }

    fn rest(&self, page: &mut Page<'_>, rest: &[&Leak], all: usize) {
        if rest.is_empty() {
            return;
        }
        let sum = |of: fn(&Leak) -> u64| {
            rest.iter()
                .map(|leak| of(leak))
                .fold(0, u64::saturating_add)
        };
        let figures = format!(
            "{}  {}",
            right(&bytes(sum(|leak| leak.bytes)), 9),
            right(&count(sum(|leak| leak.blocks)), 7)
        );
        let more = format!("{} more  (--top {all})", count(rest.len() as u64));
        if self.wide {
            let before = left(
                &format!("  {}  {figures}", right("…", self.number)),
                self.indent(),
            );
            page.line(&format!("{before}{more}"));
        } else {
            page.line(&format!("  {figures}  {more}"));
        }
    }
}

fn figures(leak: &Leak) -> String {
    [
        right(&bytes(leak.bytes), 9),
        right(&count(leak.blocks), 7),
        right(&count(leak.allocations), 7),
    ]
    .join("  ")
}

/// Whether it is known of every call where in the order of events it was, and of each before a moment that was asked for that it was before.
pub(super) fn is_sure(warnings: &[Warning]) -> bool {
    let unsure = ["unsure-moment", "late-records"];
    !warnings.iter().any(|it| unsure.contains(&it.kind))
}
