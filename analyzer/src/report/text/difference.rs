//! What changed between two reports.

use super::TextOptions;
use super::page::{Ink, Page};
use super::stack::Names;
use crate::report::columns::{aligned, columns, escape, left, right};
use crate::report::format::{bytes, count, counted};
use crate::report::{Difference, FaultKind, SiteChange, SiteSums, Warning};

/// Sums, then sites that changed.
#[must_use]
pub fn render_difference(difference: &Difference, options: &TextOptions) -> String {
    let mut page = Page::new(options, difference.new_duration_ns);
    let about = difference
        .per
        .map_or_else(String::new, |per| format!("per {per}"));
    page.heading(Ink::Strong, "CHANGE", &about);
    for (side, files) in [
        ("old", &difference.old_files),
        ("new", &difference.new_files),
    ] {
        page.item(&format!("{side}: {}", escape(&files.join(", "))));
    }
    if !difference.filter.is_empty() {
        let filter = difference.filter.join(", ");
        page.paragraph(&format!("FILTERED: only what fits is compared: {filter}"));
    }
    sums(&mut page, difference);
    page.blank();
    errors(&mut page, difference);
    sites(&mut page, difference);
    warnings(&mut page, difference);
    page.finish()
}

/// What is said of both traces is said once.
fn warnings(page: &mut Page<'_>, difference: &Difference) {
    let (old, new) = (&difference.old_warnings, &difference.new_warnings);
    let of = |side: &'static str, of: &Warning| Warning {
        text: format!("{side}: {}", of.text),
        ..of.clone()
    };
    let both = old.iter().filter(|it| new.contains(it)).cloned();
    let only_old = old.iter().filter(|it| !new.contains(it));
    let only_new = new.iter().filter(|it| !old.contains(it));
    let sides = only_old.map(|it| of("old", it));
    let sides = sides.chain(only_new.map(|it| of("new", it)));
    super::warnings(page, &sides.chain(both).collect::<Vec<_>>());
}

/// A label, the sum that it is of, and how it is shown.
type Row = (&'static str, fn(&SiteSums) -> u64, fn(u64) -> String);

fn sums(page: &mut Page<'_>, difference: &Difference) {
    const LIVE: [Row; 2] = [
        ("live at end", |sums| sums.live_bytes, bytes),
        ("live blocks", |sums| sums.live_blocks, count),
    ];
    const PEAK: Row = ("peak", SiteSums::peak_bytes, bytes);
    const CALLS: Row = ("allocations", SiteSums::allocations, count);
    const TEMPORARY: Row = ("temporary", SiteSums::temporary, count);
    let mut rows = LIVE.to_vec();
    if let Some(whole) = difference.new.whole {
        // A peak is not of a second, nor of an allocation.
        rows.extend(difference.per.is_none().then_some(PEAK));
        rows.extend(whole.allocations.map(|_| CALLS));
        rows.push(TEMPORARY);
    }
    let rows = rows.into_iter().map(|(label, value, show)| {
        let (old, new) = (value(&difference.old), value(&difference.new));
        let [old_text, new_text] = [old, new].map(|value| right(&show(value), 10));
        [
            label.to_owned(),
            format!("{old_text} → {new_text}"),
            right(&signed(old, new, show), 11),
        ]
    });
    for row in aligned(&rows.collect::<Vec<_>>()) {
        page.line(&format!("  {row}"));
    }
    let several = difference.old_processes.max(difference.new_processes) > 1;
    if several && difference.new.whole.is_some() && difference.per.is_none() {
        page.remark("peaks of processes are added up, though each has its own moment");
    }
}

fn errors(page: &mut Page<'_>, difference: &Difference) {
    if difference.errors.is_empty() {
        return;
    }
    page.heading(
        Ink::Error,
        "ERRORS",
        "old, new, kind; those that are new first",
    );
    let (shown, rest) = page.cut(&difference.errors);
    let names = Names::new(page, None);
    for change in shown {
        let call = names.call(&change.stack);
        let head = format!(
            "  {} {}  {}  ",
            right(&count(change.old), 6),
            right(&count(change.new), 6),
            left(kind(change.kind), 15)
        );
        let room = page.width().saturating_sub(columns(&head));
        let widths = super::stack::split(&[&call], room);
        page.line(&format!("{head}{}", call.in_columns(widths)));
    }
    more(page, rest.len(), difference.errors.len());
    page.blank();
}

fn kind(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::DoubleFree => "double free",
        FaultKind::InvalidFree => "invalid free",
        FaultKind::MismatchedFree => "mismatched free",
    }
}

fn more(page: &mut Page<'_>, rest: usize, all: usize) {
    if rest > 0 {
        page.remark(&format!("… {} more (--top {all})", count(rest as u64)));
    }
}

fn sites(page: &mut Page<'_>, difference: &Difference) {
    let is_shown = |change: &&SiteChange| {
        let of = |sums: &SiteSums| (sums.live_bytes, sums.live_blocks, sums.allocations());
        of(&change.old) != of(&change.new)
    };
    let changed: Vec<_> = difference.sites.iter().filter(is_shown).collect();
    if difference.sites.is_empty() {
        page.remark(if difference.filter.is_empty() {
            "no site changed"
        } else {
            "no site that fits the filter changed"
        });
        return;
    }
    page.heading(
        Ink::Strong,
        "SITES",
        "that changed, most growth of live bytes first",
    );
    let shows_calls = page.is_wide() && !difference.live_only;
    let calls_head = if shows_calls {
        right("handed out", 13)
    } else {
        String::new()
    };
    let head = ["live old", "live new"]
        .map(|word| right(word, 10))
        .join(" ");
    let head = format!("  {head} {}{calls_head}  call site", right("change", 11));
    let head = page.inked(Ink::Faint, &head);
    page.line(&head);
    let (shown, rest) = page.cut(&changed);
    let names = Names::new(page, None);
    for change in shown {
        let (old, new) = (&change.old, &change.new);
        let call = names.call(&change.stack);
        let calls = match shows_calls {
            true => right(&signed(old.allocations(), new.allocations(), count), 13),
            false => String::new(),
        };
        let head = format!(
            "  {} {} {}{calls}  ",
            right(&bytes(old.live_bytes), 10),
            right(&bytes(new.live_bytes), 10),
            right(&signed(old.live_bytes, new.live_bytes, bytes), 11),
        );
        let room = page.width().saturating_sub(columns(&head));
        let widths = super::stack::split(&[&call], room);
        page.line(&format!("{head}{}", call.in_columns(widths)));
    }
    more(page, rest.len(), changed.len());
    let others = difference.sites.len() - changed.len();
    if others > 0 {
        page.remark(&format!(
            "{} more changed at the peak or in temporary blocks only (--format json)",
            counted(others as u64, "site")
        ));
    }
}

fn signed(old: u64, new: u64, show: fn(u64) -> String) -> String {
    match new.cmp(&old) {
        std::cmp::Ordering::Less => format!("-{}", show(old - new)),
        std::cmp::Ordering::Equal => "0".to_owned(),
        std::cmp::Ordering::Greater => format!("+{}", show(new - old)),
    }
}
