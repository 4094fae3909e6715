//! Wrong releases: what was wrong, and the calls that show it.

use super::page::{Ink, Page};
use super::stack::{Call, Names, split};
use crate::report::columns::{columns, escape, left};
use crate::report::format::{bytes, count, counted};
use crate::report::{Doubt, Fault, FaultKind, Moment, Process, Stack};
use std::collections::BTreeMap;

/// One call of a fault: what it did, when, and where.
struct Step<'f> {
    what: &'static str,
    when: String,
    thread: String,
    stack: &'f Stack,
}

/// The errors of a process; equal ones are shown once.
pub(super) fn errors(page: &mut Page<'_>, process: &Process) {
    let groups = grouped(&process.errors);
    let (shown, rest) = page.cut(&groups);
    for (fault, times) in shown {
        error(page, process, fault, *times);
    }
    if !rest.is_empty() {
        let left_out: u64 = rest.iter().map(|(_, times)| times).sum();
        page.blank();
        page.remark(&format!(
            "… {} more at {} (--top {})",
            counted(left_out, "error"),
            counted(rest.len() as u64, "place"),
            groups.len()
        ));
    }
}

/// Faults of the same kind at the same call sites, in the order of their first.
fn grouped(faults: &[Fault]) -> Vec<(&Fault, u64)> {
    let mut places = BTreeMap::new();
    let mut groups: Vec<(&Fault, u64)> = Vec::new();
    for fault in faults {
        let key = (
            fault.kind,
            fault.certain,
            addresses(&fault.stack),
            fault.first_release.as_ref().map(call),
            fault.allocation.as_ref().map(call),
        );
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, times)) => *times += 1,
            None => groups.push((fault, 1)),
        }
    }
    groups
}

fn call(moment: &Moment) -> Vec<&str> {
    addresses(&moment.stack)
}

fn addresses(stack: &Stack) -> Vec<&str> {
    stack.iter().map(|frame| &*frame.address).collect()
}

fn error(page: &mut Page<'_>, process: &Process, fault: &Fault, times: u64) {
    page.blank();
    let (ink, name) = if fault.certain {
        (Ink::Error, "ERROR")
    } else {
        (Ink::Warning, "POSSIBLE ERROR")
    };
    page.long_heading(ink, name, &title(fault, times));
    if let Some(inside) = fault.inside {
        let of = bytes(inside.size);
        page.item(&format!(
            "{} inside a live block of {of}",
            bytes(inside.offset)
        ));
    } else if fault.kind == FaultKind::InvalidFree && fault.allocation.is_none() {
        page.item("no block was handed out at this address");
    }
    if fault.first_release_may_be_later {
        page.remark(
            "blocks were left out: one may have been handed out at this address and released since, so that its first \
             release is at or after the one below",
        );
    }
    if let Some(doubt) = fault.doubt {
        page.remark(why(doubt, fault));
    }
    steps(page, process, &taken(page, fault));
}

/// What could explain a fault away.
fn why(doubt: Doubt, fault: &Fault) -> &'static str {
    match (doubt, fault.kind) {
        (Doubt::CulledBlocks, _) => {
            "blocks were left out, and this may be one of them that is released a second time"
        }
        (Doubt::MissingRecords, _) => "records are missing that could explain this",
        (Doubt::NamelessCall, _) => {
            "a call without a name may be in an operator of the program, which would explain this"
        }
        (Doubt::UnseenAllocations, _) if fault.log_line.is_some() => {
            "calls are missing, as an address was handed out twice, and they could explain this"
        }
        (Doubt::UnseenAllocations, FaultKind::InvalidFree) => {
            "the program went on: the block may have been handed out past the recorder"
        }
        (Doubt::UnseenAllocations, _) => {
            "the program has blocks from past the recorder, and this may be one of them"
        }
    }
}

fn title(fault: &Fault, times: u64) -> String {
    let kind = match fault.kind {
        FaultKind::DoubleFree => "double free",
        FaultKind::InvalidFree => "invalid free",
        FaultKind::MismatchedFree => "mismatched free",
    };
    let mut title = format!("{kind} of {}", escape(&fault.address));
    if let Some(size) = fault.size {
        title.push_str(&format!(" ({})", bytes(size)));
    }
    if let Some(families) = fault.families {
        title.push_str(&format!(
            ": {} by {}",
            families.allocated, families.released
        ));
    } else if fault.by_realloc {
        title.push_str(" by realloc");
    }
    if times > 1 {
        title.push_str(&format!(", and {} more like it", count(times - 1)));
    }
    title
}

fn taken<'f>(page: &Page<'_>, fault: &'f Fault) -> Vec<Step<'f>> {
    let again = fault.kind == FaultKind::DoubleFree;
    let (first, allocation) = (&fault.first_release, &fault.allocation);
    let others = [("first freed", first), ("allocated", allocation)];
    let others = others
        .into_iter()
        .filter_map(|(what, moment)| Some((what, moment.as_ref()?)));
    let others: Vec<(&str, &Moment)> = others.collect();
    let moments = others
        .iter()
        .map(|(_, moment)| (moment.time_ns, moment.time_is_lower_bound));
    let moments = std::iter::once((fault.time_ns, fault.time_is_lower_bound)).chain(moments);
    let mut moments = page.exact_moments(&moments.collect::<Vec<_>>()).into_iter();
    let mut steps = vec![Step {
        what: if again { "freed again" } else { "freed" },
        when: when(fault.log_line, moments.next()),
        thread: thread(fault.thread),
        stack: &fault.stack,
    }];
    let others = others.into_iter().zip(moments);
    steps.extend(others.map(|((what, moment), shown)| Step {
        what,
        when: when(moment.log_line, Some(shown)),
        thread: thread(moment.thread),
        stack: &moment.stack,
    }));
    steps
}

/// The line of a call where a log has it, else its moment.
fn when(log_line: Option<u64>, moment: Option<String>) -> String {
    match log_line {
        Some(line) => format!("log line {}", count(line)),
        None => moment.unwrap_or_default(),
    }
}

fn thread(tid: Option<u64>) -> String {
    tid.map_or_else(String::new, |tid| format!("thread {tid}"))
}

fn steps(page: &mut Page<'_>, process: &Process, steps: &[Step<'_>]) {
    let names = Names::new(page, process.exe.as_deref());
    let stacks: Vec<Vec<Call>> = steps.iter().map(|step| names.calls(step.stack)).collect();
    let when = steps
        .iter()
        .map(|step| columns(&step.when))
        .max()
        .unwrap_or(0);
    let thread = steps
        .iter()
        .map(|step| columns(&step.thread))
        .max()
        .unwrap_or(0);
    let wide = page.is_wide();
    let heads = steps.iter().map(|step| {
        let head = format!(
            "{}  {}  {}",
            left(step.what, 11),
            left(&step.when, when),
            left(&step.thread, thread)
        );
        if wide {
            format!("  {head}   ")
        } else {
            format!(" {}", head.trim_end())
        }
    });
    let heads: Vec<String> = heads.collect();
    let indent = if wide {
        heads.iter().map(|head| columns(head)).max().unwrap_or(0)
    } else {
        3
    };
    let all: Vec<&Call> = stacks.iter().flatten().collect();
    let widths = split(&all, page.width().saturating_sub(indent));
    for (head, calls) in heads.iter().zip(&stacks) {
        let mut calls = calls.iter().map(|call| call.in_columns(widths));
        if wide {
            page.line(&format!(
                "{}{}",
                left(head, indent),
                calls.next().unwrap_or_default()
            ));
        } else {
            page.line(head);
        }
        for call in calls {
            page.line(&format!("{}{call}", " ".repeat(indent)));
        }
    }
}
