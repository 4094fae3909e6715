//! Two short tables of sites: who held memory at the peak, and whose blocks live for a moment only.

use super::page::{Ink, Page};
use super::stack::{Call, Names, split};
use crate::report::columns::{columns, cut_end, left, right};
use crate::report::format::{bytes, count, counted, percent};
use crate::report::{Frame, Process};

/// Columns between two tables side by side.
const BETWEEN: usize = 4;
/// A site is worth a row if more than one of so many allocations of the process is a temporary one of it.
const FEW: u64 = 1000;

/// Both tables, side by side where nothing has to be cut for it.
pub(super) fn peak_and_temporaries(page: &mut Page<'_>, process: &Process) {
    if super::header::events(&process.totals) == 0 {
        return;
    }
    page.blank();
    let peak = peak(page, process);
    let temporary = temporaries(page, process);
    let widest = |rows: &[String]| rows.iter().map(|row| columns(row)).max().unwrap_or(0);
    let width = widest(&peak);
    if width + BETWEEN + widest(&temporary) > page.width() {
        block(page, &peak);
        page.blank();
        block(page, &temporary);
        return;
    }
    let between = " ".repeat(BETWEEN);
    for row in 0..peak.len().max(temporary.len()) {
        let cell = |rows: &[String]| rows.get(row).cloned().unwrap_or_default();
        let mut cells = [left(&cell(&peak), width), cell(&temporary)];
        if row == 0 {
            cells = cells.map(|cell| page.inked(Ink::Strong, &cell));
        }
        page.line(&cells.join(&between));
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

fn peak(page: &Page<'_>, process: &Process) -> Vec<String> {
    let sites = &process.peak.sites;
    let (shown, rest) = page.cut(sites);
    let at = page.moment(process.peak.time_ns, process.peak.time_is_lower_bound);
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
        (heading, rows.collect()),
        rest.len(),
        sites.len(),
    )
}

fn temporaries(page: &Page<'_>, process: &Process) -> Vec<String> {
    let all = &process.temporaries;
    let least = process.totals.allocations / FEW;
    let many = all.iter().take_while(|site| site.temporary > least).count();
    let (worth, _) = all.split_at(many.min(all.len()));
    let (shown, rest) = page.cut(worth);
    if shown.is_empty() {
        let why = match all.first() {
            Some(most) => format!("TEMPORARY  few: at most {} a site", count(most.temporary)),
            None => "TEMPORARY  none: no site releases at once".to_owned(),
        };
        return vec![cut_end(&why, page.width()).into_owned()];
    }
    let heading = format!("TEMPORARY  {}", top(shown.len(), all.len()));
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
        (heading, rows.collect()),
        rest.len(),
        worth.len(),
    )
}

type Rows<'r> = Vec<(String, &'r [Frame])>;

fn table(
    page: &Page<'_>,
    process: &Process,
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
        page.width().saturating_sub(indent),
    );
    let mut lines = vec![cut_end(&heading, page.width()).into_owned()];
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
