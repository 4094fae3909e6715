//! What a recording came to, in a screen: shown when the program has ended.

use super::TextOptions;
use super::header::{events, kinds, live_sites};
use super::page::{Ink, Page};
use super::population::Population;
use super::stack::{Call, Names, rows};
use crate::report::columns::{columns, escape, left};
use crate::report::format::{bytes, count, counted, duration, percent};
use crate::report::system::is_system;
use crate::report::{Fault, FaultKind, Leak, Process, Report, Warning};

/// The kind of warning that says nothing of the trace itself; the full report has it.
const MISSING_SYMBOLS: &str = "module-missing-symbols";

/// Traces of children that are named.
const MOST_NAMED: usize = 3;

/// How the program ended, and what it left.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The program, as it was called.
    pub program: String,
    /// How it ended, such as `exited 0`.
    pub how: String,
    /// Nanoseconds that it ran.
    pub elapsed_ns: u64,
    /// Bytes of its traces.
    pub trace_bytes: u64,
    /// The traces, as one would name them on a command line.
    pub traces: Vec<String>,
}

/// The key figures over all processes, the first things to look at, and the commands that show the rest.
#[must_use]
pub fn render_summary(report: &Report, ended: &Ended, options: &TextOptions) -> String {
    let mut page = Page::new(options, report.trace.duration_ns);
    let all = &report.processes;
    let calls = sum(all, |of| events(&of.totals));
    page.paragraph(&format!(
        "heapwire: {} {} after {}, {}, {}",
        ended.program,
        ended.how,
        duration(ended.elapsed_ns),
        counted(calls, "event"),
        bytes(ended.trace_bytes)
    ));
    page.blank();
    figures(&mut page, report);
    pointers(&mut page, report);
    let of_trace = |warning: &&Warning| warning.kind != MISSING_SYMBOLS;
    for warning in report.warnings.iter().filter(of_trace) {
        page.item(&format!("warning: {}", warning.text));
    }
    page.blank();
    next(&mut page, ended);
    page.finish()
}

fn figures(page: &mut Page<'_>, report: &Report) {
    let all = &report.processes;
    if all.len() > 1 {
        let population = Population::of_processes(all);
        let note = match population.programs() {
            Some(programs) => format!("with {programs}; figures are of all"),
            None => "figures below are of all together".to_owned(),
        };
        page.figure(None, "processes", &count(population.processes), &note);
    }
    if let Some(highest) = all.iter().max_by_key(|of| of.totals.peak_bytes) {
        let at = page.moment(highest.peak.time_ns, highest.peak.time_is_lower_bound);
        let of = if all.len() > 1 {
            " (the largest of one process)"
        } else {
            ""
        };
        let note = if at.is_empty() {
            of.trim().to_owned()
        } else {
            format!("at {at}{of}")
        };
        page.figure(None, "peak", &bytes(highest.totals.peak_bytes), &note);
    }
    let (normal, cut): (Vec<_>, Vec<_>) = all
        .iter()
        .filter(|of| of.end != "exec")
        .partition(|of| of.end == "normal");
    for (label, processes) in [("leaked", normal), ("live at end", cut)] {
        if processes.is_empty() {
            continue;
        }
        let total =
            |of: fn(&Process) -> u64| processes.iter().map(|process| of(process)).sum::<u64>();
        let blocks = total(|of| of.totals.live_blocks);
        let ink = (blocks > 0).then_some(Ink::Strong);
        let live = bytes(total(|of| of.totals.live_bytes));
        let sites = live_sites(page, &processes);
        page.figure(ink, label, &live, &sites);
    }
    let allocations = sum(all, |of| of.totals.allocations);
    let share = percent(sum(all, |of| of.totals.temporary), allocations);
    page.figure(
        None,
        "temporary",
        &share,
        &format!("of {}", counted(allocations, "allocation")),
    );
    let errors: Vec<&Fault> = all.iter().flat_map(|of| &of.errors).collect();
    let ink = (!errors.is_empty()).then_some(Ink::Error);
    let releases = sum(all, |of| of.totals.releases);
    page.figure(
        ink,
        "errors",
        &count(errors.len() as u64),
        &kinds(&errors, releases),
    );
}

/// The largest leak and the first error, a line each.
fn pointers(page: &mut Page<'_>, report: &Report) {
    let mut lines = Vec::new();
    let leaks = report.processes.iter().filter(|of| of.end != "exec");
    let largest = leaks
        .flat_map(|of| of.leaks.iter().map(move |leak| (of, leak)))
        .max_by_key(|(of, leak)| (!is_system(leak, of.exe.as_deref()), leak.bytes));
    if let Some((process, leak)) = largest {
        lines.push(leak_line(page, process, leak));
    }
    let errors = report
        .processes
        .iter()
        .filter_map(|of| Some((of, of.errors.first()?)));
    lines.extend(
        errors
            .take(1)
            .map(|(process, fault)| error_line(page, process, fault)),
    );
    if lines.is_empty() {
        return;
    }
    page.blank();
    let width = lines.iter().map(|(what, ..)| columns(what)).max();
    let head = |(what, which, _): &Pointer| format!("{}   {which}", left(what, width.unwrap_or(0)));
    let heads: Vec<String> = lines.iter().map(head).collect();
    let calls: Vec<Call> = lines.into_iter().map(|(.., call)| call).collect();
    rows(page, &heads, &calls);
}

/// What is pointed to, which one it is, and the call that it is about.
type Pointer = (&'static str, String, Call);

fn leak_line(page: &Page<'_>, process: &Process, leak: &Leak) -> Pointer {
    let what = if process.end == "normal" {
        "largest leak"
    } else {
        "most live at end"
    };
    let mut which = format!("{} in {}", bytes(leak.bytes), counted(leak.blocks, "block"));
    if is_system(leak, process.exe.as_deref()) {
        which.push_str(", in a library of the system");
    }
    let call = Names::new(page, process.exe.as_deref()).call(&leak.stack);
    (what, which, call)
}

fn error_line(page: &Page<'_>, process: &Process, fault: &Fault) -> Pointer {
    let what = match fault.kind {
        FaultKind::DoubleFree => "double free",
        FaultKind::InvalidFree => "invalid free",
        FaultKind::MismatchedFree => "mismatched free",
    };
    let size = fault
        .size
        .map_or_else(String::new, |size| format!(" ({})", bytes(size)));
    let which = format!("{}{size}", escape(&fault.address));
    let call = Names::new(page, process.exe.as_deref()).call(&fault.stack);
    (what, which, call)
}

fn next(page: &mut Page<'_>, ended: &Ended) {
    let Some((own, others)) = ended.traces.split_first() else {
        return;
    };
    let own = quoted(own);
    let lines = [
        (format!("heapwire report {own}"), "full text report"),
        (
            format!("heapwire blocks {own} --live"),
            "every block never released",
        ),
        (
            format!("heapwire report {own} --format json"),
            "for programs",
        ),
    ];
    let width = lines
        .iter()
        .map(|(line, _)| columns(line))
        .max()
        .unwrap_or(0);
    for (at, (line, what)) in lines.iter().enumerate() {
        let start = if at == 0 { "next:  " } else { "       " };
        page.line(&format!("{start}{}   {what}", left(line, width)));
    }
    if !others.is_empty() {
        let list = others.iter().take(MOST_NAMED).map(|trace| quoted(trace));
        let list = list.collect::<Vec<_>>().join(" ");
        let more = if others.len() > MOST_NAMED {
            " …"
        } else {
            ""
        };
        let number = counted(others.len() as u64, "trace");
        page.line(&format!(
            "       and {number} of its children: {list}{more}"
        ));
    }
}

/// The name as a shell takes it for one word.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "._-/%+=:,@".contains(c);
    let name = escape(name);
    if !name.is_empty() && name.chars().all(plain) {
        return name.into_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

fn sum(processes: &[Process], of: fn(&Process) -> u64) -> u64 {
    processes.iter().map(of).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn names_are_one_word_for_a_shell() {
        assert_eq!(quoted("gatewayd.4711.hwt"), "gatewayd.4711.hwt");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("a'$(b)"), r"'a'\''$(b)'");
    }
}
