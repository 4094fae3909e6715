//! Tables of allocation sites: what leaked, who held the peak, who allocates for a moment only.

use super::page::{Ink, Page};
use super::stack::{Call, Names, is_system, split};
use crate::report::columns::{columns, cut_end, left, right};
use crate::report::format::{bytes, count, counted, percent};
use crate::report::{Leak, Process};

/// From this width on, two tables stand side by side.
const SIDE_BY_SIDE: usize = 100;
/// Columns between them.
const BETWEEN: usize = 4;
/// Share of the allocations of a process below which its temporary ones are not worth a table.
const FEW: u64 = 1000;

/// Blocks never released, by site; the user's sites before those of the system.
pub(super) fn leaks(page: &mut Page<'_>, process: &Process) {
    let ended = process.end == "normal";
    let name = if ended {
        "LEAKED"
    } else {
        "LIVE WHEN THE TRACE ENDS"
    };
    page.blank();
    if process.leaks.is_empty() {
        let why = match super::header::events(&process.totals) {
            0 => "nothing is known: no call was recorded",
            _ if ended => "no leaks: every recorded block was released",
            _ => "nothing: no recorded block was live",
        };
        page.heading(Ink::Strong, name, why);
        return;
    }
    let sites = counted(process.leaks.len() as u64, "site");
    let about = format!("{sites}, {}", bytes(process.totals.live_bytes));
    page.heading(Ink::Strong, name, &about);
    if !ended {
        page.remark(
            "the end of the program was not recorded as normal, so these need not be leaks",
        );
    }
    let (system, own): (Vec<_>, Vec<_>) = process
        .leaks
        .iter()
        .partition(|leak| is_system(&leak.stack));
    let divided = !system.is_empty() && !own.is_empty();
    let own_count = own.len();
    let ordered: Vec<&Leak> = own.into_iter().chain(system).collect();
    let (shown, rest) = page.cut(&ordered);
    let (own, system) = shown.split_at(own_count.min(shown.len()));
    let table = Table::new(page, process, shown);
    table.head(page);
    table.rows(page, own, 1);
    if divided && !system.is_empty() {
        page.remark("in modules of the system (/lib, /usr/lib):");
    }
    table.rows(page, system, own.len() + 1);
    table.rest(page, rest, ordered.len());
}

/// Widths of the columns of a table of leaks, and the names in it.
struct Table<'r> {
    names: Names<'r>,
    wide: bool,
    number: usize,
    oldest: usize,
    calls: (usize, usize),
}

impl<'r> Table<'r> {
    fn new(page: &Page<'r>, process: &'r Process, leaks: &[&Leak]) -> Self {
        let names = Names::new(page, process.exe.as_deref());
        let number = leaks.len().to_string().len();
        let oldest = leaks
            .iter()
            .map(|leak| columns(&page.moment(leak.oldest_ns)));
        let oldest = oldest.max().unwrap_or(0).max("oldest".len());
        let wide = page.is_wide();
        let stacks: Vec<Vec<Call>> = leaks.iter().map(|leak| names.calls(&leak.stack)).collect();
        let all: Vec<&Call> = stacks.iter().flatten().collect();
        let mut table = Self {
            names,
            wide,
            number,
            oldest,
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
            2 + self.number + 2 + 9 + 2 + 7 + 2 + 7 + 2 + self.oldest + 3
        } else {
            self.number + 1
        }
    }

    fn head(&self, page: &mut Page<'_>) {
        let figures = [right("bytes", 9), right("blocks", 7), right("calls", 7)].join("  ");
        let head = if self.wide {
            let oldest = left("oldest", self.oldest);
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
            left(&page.moment(leak.oldest_ns), self.oldest)
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
        page.line(&format!("{indent}{}", cut_end(place.trim(), room)));
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

/// Who held memory at the peak, and whose blocks live for a moment only.
pub(super) fn peak_and_temporaries(page: &mut Page<'_>, process: &Process) {
    if super::header::events(&process.totals) == 0 {
        return;
    }
    page.blank();
    let beside = page.width() >= SIDE_BY_SIDE;
    let width = if beside {
        (page.width() - BETWEEN) / 2
    } else {
        page.width()
    };
    let peak = peak(page, process, width);
    let temporary = temporaries(page, process, width);
    if !beside {
        block(page, &peak);
        page.blank();
        block(page, &temporary);
        return;
    }
    for row in 0..peak.len().max(temporary.len()) {
        let cell = |rows: &[String]| left(rows.get(row).map_or("", String::as_str), width);
        let (first, second) = (cell(&peak), cell(&temporary));
        if row == 0 {
            let headings = [first, second].map(|cell| page.inked(Ink::Strong, &cell));
            page.line(&headings.join(&" ".repeat(BETWEEN)));
        } else {
            page.line(&format!("{first}{}{second}", " ".repeat(BETWEEN)));
        }
    }
}

fn block(page: &mut Page<'_>, rows: &[String]) {
    if let Some((heading, rows)) = rows.split_first() {
        let heading = page.inked(Ink::Strong, heading);
        page.line(&heading);
        for row in rows {
            page.line(row);
        }
    }
}

fn peak(page: &Page<'_>, process: &Process, width: usize) -> Vec<String> {
    let sites = &process.peak.sites;
    let (shown, rest) = page.cut(sites);
    let at = page.moment(process.peak.time_ns);
    let at = if at.is_empty() {
        String::new()
    } else {
        format!("at {at}, ")
    };
    let heading = format!("PEAK  {at}{}", top(shown.len(), sites.len()));
    let whole = process.totals.peak_bytes;
    let rows = shown.iter().map(|site| {
        let share = share(site.bytes, whole);
        (
            format!("{}  {share}", right(&bytes(site.bytes), 9)),
            &*site.stack,
        )
    });
    table(
        page,
        process,
        width,
        (heading, rows.collect()),
        rest.len(),
        sites.len(),
    )
}

fn temporaries(page: &Page<'_>, process: &Process, width: usize) -> Vec<String> {
    let all = &process.temporaries;
    let least = process.totals.allocations / FEW;
    let many = all.iter().take_while(|site| site.temporary > least).count();
    let (worth, _) = all.split_at(many.min(all.len()));
    let (shown, rest) = page.cut(worth);
    if shown.is_empty() {
        let why = "TEMPORARY  none: no site releases at once";
        return vec![cut_end(why, width).into_owned()];
    }
    let heading = format!("TEMPORARY  {}", top(shown.len(), worth.len()));
    let rows = shown.iter().map(|site| {
        let share = share(site.temporary, site.allocations);
        (
            format!("{}  {share}", right(&count(site.temporary), 9)),
            &*site.stack,
        )
    });
    table(
        page,
        process,
        width,
        (heading, rows.collect()),
        rest.len(),
        worth.len(),
    )
}

type Rows<'r> = Vec<(String, &'r [crate::report::Frame])>;

fn table(
    page: &Page<'_>,
    process: &Process,
    width: usize,
    (heading, rows): (String, Rows<'_>),
    rest: usize,
    all: usize,
) -> Vec<String> {
    let names = Names::new(page, process.exe.as_deref());
    let calls: Vec<Call> = rows.iter().map(|(_, stack)| names.call(stack)).collect();
    let indent = 2
        + rows
            .iter()
            .map(|(figures, _)| columns(figures))
            .max()
            .unwrap_or(0)
        + 2;
    let widths = split(
        &calls.iter().collect::<Vec<_>>(),
        width.saturating_sub(indent),
    );
    let mut lines = vec![cut_end(&heading, width).into_owned()];
    for ((figures, _), call) in rows.iter().zip(&calls) {
        lines.push(format!(
            "{}{}",
            left(&format!("  {figures}"), indent),
            call.in_columns(widths)
        ));
    }
    if rest > 0 {
        lines.push(format!("  … {} more (--top {all})", count(rest as u64)));
    }
    lines
}

fn top(shown: usize, all: usize) -> String {
    if shown < all {
        format!("top {shown} of {}", counted(all as u64, "site"))
    } else {
        counted(all as u64, "site")
    }
}

/// A share in whole percent, in a column of its own.
fn share(part: u64, whole: u64) -> String {
    let text = percent(part, whole);
    let (whole_part, _) = text.split_once('.').unwrap_or((&text, ""));
    right(&format!("{whole_part} %"), 5)
}
