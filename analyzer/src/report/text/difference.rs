//! What changed between two reports.

use super::TextOptions;
use super::page::{Ink, Page};
use super::stack::Names;
use crate::report::columns::{columns, left, right};
use crate::report::format::{bytes, count};
use crate::report::{Difference, FaultKind, SiteSums};

/// What sums of traces of different length are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normal {
    /// A million allocations.
    Allocations,
    /// A second.
    Seconds,
}

/// Sums, then sites that changed.
#[must_use]
pub fn render_difference(
    difference: &Difference,
    normal: Option<Normal>,
    options: &TextOptions,
) -> String {
    let mut page = Page::new(options, difference.new_duration_ns);
    let (about, scale) = scales(difference, normal);
    page.heading(Ink::Strong, "CHANGE", about);
    if !difference.filter.is_empty() {
        let filter = difference.filter.join(", ");
        page.paragraph(&format!("FILTERED: only blocks with {filter} are compared"));
    }
    let rows: [Row; 5] = [
        ("live at end", |sums| sums.live_bytes, bytes),
        ("live blocks", |sums| sums.live_blocks, count),
        ("peak", |sums| sums.peak_bytes, bytes),
        ("allocations", |sums| sums.allocations, count),
        ("temporary", |sums| sums.temporary, count),
    ];
    let known = if difference.live_only { 2 } else { rows.len() };
    for (label, value, show) in rows.into_iter().take(known) {
        let (old, new) = (
            scale.0.apply(value(&difference.old)),
            scale.1.apply(value(&difference.new)),
        );
        page.figure(
            None,
            label,
            &format!("{} → {}", show(old), show(new)),
            &signed(old, new, show),
        );
    }
    page.blank();
    errors(&mut page, difference);
    if difference.sites.is_empty() {
        page.remark(if difference.filter.is_empty() {
            "no site changed"
        } else {
            "no site that fits the filter changed"
        });
        return page.finish();
    }
    page.heading(
        Ink::Strong,
        "SITES",
        "live bytes old, new, change; most growth first",
    );
    sites(&mut page, difference, scale);
    page.finish()
}

/// A label, the sum that it is of, and how it is shown.
type Row = (&'static str, fn(&SiteSums) -> u64, fn(u64) -> String);

/// What both sides are divided by, in words and for each.
fn scales(difference: &Difference, normal: Option<Normal>) -> (&'static str, (Scale, Scale)) {
    let both = |old, new, unit| (Scale::of(old, unit), Scale::of(new, unit));
    match normal {
        None => ("", (Scale::ONE, Scale::ONE)),
        Some(Normal::Allocations) => {
            let (old, new) = (difference.old.allocations, difference.new.allocations);
            ("per million allocations", both(old, new, 1_000_000))
        }
        Some(Normal::Seconds) => {
            let (old, new) = (difference.old_duration_ns, difference.new_duration_ns);
            ("per second", both(old, new, 1_000_000_000))
        }
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

fn sites(page: &mut Page<'_>, difference: &Difference, scale: (Scale, Scale)) {
    let (shown, rest) = page.cut(&difference.sites);
    let names = Names::new(page, None);
    for change in shown {
        let old = scale.0.apply(change.old.live_bytes);
        let new = scale.1.apply(change.new.live_bytes);
        let call = names.call(&change.stack);
        let head = format!(
            "  {} {} {}  ",
            right(&bytes(old), 10),
            right(&bytes(new), 10),
            right(&signed(old, new, bytes), 11)
        );
        let widths = super::stack::split(&[&call], page.width().saturating_sub(36));
        page.line(&format!("{head}{}", call.in_columns(widths)));
    }
    more(page, rest.len(), difference.sites.len());
}

/// A number that sums are divided by.
#[derive(Clone, Copy)]
struct Scale {
    whole: u64,
    unit: u64,
}

impl Scale {
    const ONE: Self = Self { whole: 1, unit: 1 };

    fn of(whole: u64, unit: u64) -> Self {
        Self { whole, unit }
    }

    fn apply(self, value: u64) -> u64 {
        let scaled = u128::from(value) * u128::from(self.unit) / u128::from(self.whole.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

fn signed(old: u64, new: u64, show: fn(u64) -> String) -> String {
    match new.cmp(&old) {
        std::cmp::Ordering::Less => format!("-{}", show(old - new)),
        std::cmp::Ordering::Equal => "0".to_owned(),
        std::cmp::Ordering::Greater => format!("+{}", show(new - old)),
    }
}
