//! The head of a report: what was read, and the key figures of a process.

use super::page::{Ink, Page, command};
use super::population::Population;
use crate::report::columns::{columns, cut_end, cut_middle, escape, left};
use crate::report::format::{bytes, count, counted, percent};
use crate::report::system::is_system;
use crate::report::{Fault, FaultKind, Process, Report, Totals, TraceSummary, format};

/// The head of a report on one process.
pub(super) fn of_one(page: &mut Page<'_>, report: &Report, process: &Process) {
    let version = concat!("heapwire ", env!("CARGO_PKG_VERSION"));
    let source = source(page, &report.trace);
    let mut who: Vec<String> = process
        .pid
        .map(|pid| format!("pid {pid}"))
        .into_iter()
        .collect();
    who.extend(
        process
            .machine
            .as_deref()
            .map(|machine| escape(machine).into_owned()),
    );
    let mut what = vec![
        lasted(&report.trace),
        counted(events(&process.totals), "event"),
        end(process),
    ];
    what.extend(wholeness(&report.trace));
    let modules = process.modules;
    let symbols = format!(
        "symbols for {} of {} modules",
        modules.resolved, modules.used
    );
    if page.is_wide() {
        what.push(symbols);
        let first = [vec![version.to_owned(), source, command(process)], who].concat();
        fill(page, &first, " · ");
        fill(page, &what, " · ");
    } else {
        spread(page, version, &source);
        spread(page, &command(process), &who.join(", "));
        fill(page, &what, ", ");
        page.line(&symbols);
    }
    part(page, report);
}

/// What of the trace is not looked at.
fn part(page: &mut Page<'_>, report: &Report) {
    if let Some(until) = report.until_ns {
        let until = format::exact_moment(until, report.trace.duration_ns);
        page.paragraph(&format!("UP TO {until}: what came later is not looked at"));
    }
    if !report.pids.is_empty() {
        let pids: Vec<String> = report.pids.iter().map(u64::to_string).collect();
        let pids = pids.join(", ");
        page.paragraph(&format!(
            "ONLY PROCESS {pids}: what is said of the trace and in warnings is of all"
        ));
    }
    if !report.filter.is_empty() {
        let filter = report.filter.join(", ");
        page.paragraph(&format!("FILTERED: only what fits is listed: {filter}"));
    }
}

/// The head of a report on several processes, or on none.
pub(super) fn of_many(page: &mut Page<'_>, report: &Report) {
    let version = concat!("heapwire ", env!("CARGO_PKG_VERSION")).to_owned();
    let source = source(page, &report.trace);
    fill(
        page,
        &[version, source],
        if page.is_wide() { " · " } else { ", " },
    );
    let all = &report.processes;
    let sum = |of: fn(&Process) -> u64| all.iter().map(of).fold(0, u64::saturating_add);
    let mut what = vec![
        Population::of_processes(all).to_string(),
        lasted(&report.trace),
        counted(sum(|of| events(&of.totals)), "event"),
        counted(sum(|of| of.errors.len() as u64), "error"),
    ];
    let then = report.until_ns.map(|_| sum(listed));
    what.extend(then.map(|then| format!("{} live then", bytes(then))));
    let leaked = sum(|of| if of.end == "normal" { listed(of) } else { 0 });
    if leaked > 0 && then.is_none() {
        what.push(format!("{} leaked", bytes(leaked)));
    }
    let live = sum(|of| match of.end {
        "normal" | "exec" => 0, // leaked, or gone with the old image
        _ => listed(of),
    });
    if live > 0 && then.is_none() {
        what.push(format!(
            "{} live at the end of those cut short",
            bytes(live)
        ));
    }
    what.extend(wholeness(&report.trace));
    fill(page, &what, if page.is_wide() { " · " } else { ", " });
    part(page, report);
    match (all.is_empty(), report.filter.is_empty()) {
        (true, _) => {}
        (false, true) => sums(page, report),
        (false, false) => {
            page.blank();
            live_part(page, all, ", in all processes");
        }
    }
}

/// The key figures of all processes together.
fn sums(page: &mut Page<'_>, report: &Report) {
    let totals = &report.totals;
    let when = match report.until_ns {
        Some(_) => "live then",
        None => "live at end",
    };
    page.blank();
    let blocks = counted(totals.live_blocks, "block");
    let note = format!("{blocks}, in all processes");
    page.figure(None, when, &bytes(totals.live_bytes), &note);
    let releases = counted(totals.releases, "release");
    let note = format!("{} in all, {releases}", bytes(totals.allocated_bytes));
    page.figure(None, "allocations", &count(totals.allocations), &note);
    let share = percent(totals.temporary, totals.allocations);
    let note = format!("{} of these", count(totals.temporary));
    page.figure(None, "temporary", &share, &note);
}

/// Bytes of the live blocks that are listed.
pub(super) fn listed(process: &Process) -> u64 {
    let bytes = process.leaks.iter().map(|leak| leak.bytes);
    bytes.fold(0, u64::saturating_add)
}

/// Live blocks that are listed.
pub(super) fn listed_blocks(process: &Process) -> u64 {
    let blocks = process.leaks.iter().map(|leak| leak.blocks);
    blocks.fold(0, u64::saturating_add)
}

/// How long the recording lasted; what the trace is, where it does not say that.
fn lasted(trace: &TraceSummary) -> String {
    match trace.kind {
        "mtrace" => "log of glibc's mtrace".to_owned(),
        _ => format::duration(trace.duration_ns),
    }
}

/// The line between the processes of a report.
pub(super) fn between(page: &mut Page<'_>, process: &Process) {
    let mut who = vec![String::new()];
    who.extend(process.pid.map(|pid| format!("pid {pid}")));
    who.extend(process.parent_pid.map(|pid| format!("parent {pid}")));
    who.push(end(process));
    // The rest of the line tells processes of one command apart.
    let room = page
        .width()
        .saturating_sub(columns("PROCESS  ") + columns(&who.join(" · ")));
    who[0] = cut_end(&command(process), room.max(12)).into_owned();
    page.blank();
    page.heading(Ink::Strong, "PROCESS", &who.join(" · "));
}

/// Processes that need no section, a line each.
pub(super) fn quiet(page: &mut Page<'_>, processes: &[&Process], noun: &str, report: &Report) {
    if processes.is_empty() {
        return;
    }
    page.blank();
    page.heading(
        Ink::Strong,
        "NO FINDINGS",
        &format!("in {}", counted(processes.len() as u64, noun)),
    );
    let (shown, rest) = page.cut(processes);
    for process in shown {
        let pid = process
            .pid
            .map_or_else(String::new, |pid| format!("pid {pid}"));
        let result = match report.until_ns {
            // It may have begun later.
            Some(_) if events(&process.totals) == 0 => "no call was recorded by then".to_owned(),
            _ => {
                let is_part = !report.filter.is_empty();
                format!("{}, {}", end(process), outcome(process, is_part))
            }
        };
        let room = page.width().saturating_sub(2 + 12 + columns(&result) + 2);
        let command = cut_end(&command(process), room.max(12)).into_owned();
        let line = format!("  {}{command}  {result}", left(&pid, 12));
        page.line(&cut_end(&line, page.width()));
    }
    if !rest.is_empty() {
        page.remark(&format!(
            "… {} more (--top {})",
            count(rest.len() as u64),
            processes.len()
        ));
    }
}

fn outcome(process: &Process, is_part: bool) -> String {
    let totals = &process.totals;
    if events(totals) == 0 {
        "no call was recorded".to_owned()
    } else if is_part {
        let blocks = count(listed_blocks(process));
        let all = counted(totals.live_blocks, "live block");
        format!("{blocks} of {all} fit") // an image that an exec replaced may have some
    } else if totals.live_blocks > 0 {
        let live = counted(totals.live_blocks, "block");
        format!("{} live then, peak {}", live, bytes(totals.peak_bytes))
    } else {
        let allocations = counted(totals.allocations, "allocation");
        format!(
            "{allocations}, all released, peak {}",
            bytes(totals.peak_bytes)
        )
    }
}

/// The key figures.
pub(super) fn figures(page: &mut Page<'_>, report: &Report, process: &Process) {
    let totals = &process.totals;
    page.blank();
    let at = page.moment(process.peak.time_ns, process.peak.time_is_lower_bound);
    let blocks = counted(totals.peak_blocks, "block");
    let note = if at.is_empty() {
        blocks
    } else {
        format!("at {at}, {blocks}")
    };
    page.figure(None, "peak", &bytes(totals.peak_bytes), &note);
    live(page, report, process);
    if totals.inherited_blocks > 0 {
        let note = format!(
            "{} of the parent, not released here",
            counted(totals.inherited_blocks, "block")
        );
        page.figure(None, "inherited", &bytes(totals.inherited_bytes), &note);
    }
    if totals.earlier_releases > 0 {
        let note = match report.trace.complete {
            true => "releases of blocks older than the recording",
            false => {
                "releases of blocks older than the recording, or handed out in what is missing"
            }
        };
        page.figure(None, "earlier", &count(totals.earlier_releases), note);
    }
    let note = format!(
        "{} of {}",
        count(totals.temporary),
        counted(totals.allocations, "allocation")
    );
    let share = percent(totals.temporary, totals.allocations);
    page.figure(None, "temporary", &share, &note);
    if totals.failed > 0 {
        page.figure(
            None,
            "failed",
            &count(totals.failed),
            "calls that returned no memory",
        );
    }
    let number = count(process.errors.len() as u64);
    let ink = (!process.errors.is_empty()).then_some(Ink::Error);
    let errors: Vec<&Fault> = process.errors.iter().collect();
    page.figure(ink, "errors", &number, &kinds(&errors, totals.releases));
}

/// The key figures of what fits a filter.
pub(super) fn figures_of_part(page: &mut Page<'_>, process: &Process) {
    page.blank();
    live_part(page, std::slice::from_ref(process), "");
    let errors: Vec<&Fault> = process.errors.iter().collect();
    let note = match errors.len() {
        0 => "none that fits".to_owned(),
        _ => kinds(&errors, process.totals.releases),
    };
    page.figure(None, "errors", &count(errors.len() as u64), &note);
}

/// Of the live blocks of these, what fits a filter.
fn live_part(page: &mut Page<'_>, processes: &[Process], of_whom: &str) {
    let sum = |of: fn(&Process) -> u64| processes.iter().map(of).fold(0, u64::saturating_add);
    let all = counted(sum(|of| of.totals.live_blocks), "live block");
    let note = format!("{} of {all}{of_whom}", count(sum(listed_blocks)));
    page.figure(None, "live, fitting", &bytes(sum(listed)), &note);
}

fn live(page: &mut Page<'_>, report: &Report, process: &Process) {
    let totals = &process.totals;
    let sites = live_sites(page, &[process]);
    let ink = (totals.live_blocks > 0).then_some(Ink::Strong);
    let value = bytes(totals.live_bytes);
    if report.until_ns.is_some() {
        page.figure(ink, "live then", &value, &sites);
    } else if process.end == "normal" {
        let note = match (events(totals), totals.live_blocks) {
            (0, _) => "nothing is known: no call was recorded".to_owned(),
            (_, 0) => "every recorded block was released".to_owned(),
            _ => sites,
        };
        page.figure(ink, "leaked", &value, &note);
    } else {
        page.figure(ink, "live at end", &value, &sites);
    }
}

/// The errors by kind, such as `1 double free, 2 invalid frees`.
pub(super) fn kinds(errors: &[&Fault], releases: u64) -> String {
    if errors.is_empty() {
        return format!("none among {}", counted(releases, "release"));
    }
    let kinds = [
        (FaultKind::DoubleFree, "double free"),
        (FaultKind::InvalidFree, "invalid free"),
        (FaultKind::MismatchedFree, "mismatched free"),
    ];
    let number = |kind| errors.iter().filter(|error| error.kind == kind).count();
    let found = kinds.map(|(kind, name)| (number(kind) as u64, name));
    let found = found.into_iter().filter(|(number, _)| *number > 0);
    let found: Vec<String> = found.map(|(number, name)| counted(number, name)).collect();
    match (&found[..], errors.len()) {
        ([only], number) => only
            .trim_start_matches(&count(number as u64))
            .trim()
            .to_owned(),
        (several, _) => several.join(", "),
    }
}

/// Live blocks and where they come from, the system's own apart where there is room.
pub(super) fn live_sites<'p>(page: &Page<'_>, processes: &[&'p Process]) -> String {
    let sum = |all: &mut dyn Iterator<Item = u64>| all.fold(0, u64::saturating_add);
    let leaks = || processes.iter().flat_map(|of| &of.leaks);
    let system_of = |of: &&'p Process| {
        let exe = of.exe.as_deref();
        of.leaks.iter().filter(move |leak| is_system(leak, exe))
    };
    let system = || processes.iter().flat_map(system_of);
    let blocks = sum(&mut processes.iter().map(|of| of.totals.live_blocks));
    let sites = format!(
        "{} from {}",
        counted(blocks, "block"),
        counted(leaks().count() as u64, "call site")
    );
    let of_system = sum(&mut system().map(|leak| leak.blocks));
    if of_system == 0 || !page.is_wide() {
        return sites;
    }
    let part = if of_system == blocks {
        "all".to_owned()
    } else {
        bytes(sum(&mut system().map(|leak| leak.bytes)))
    };
    format!("{sites}, {part} in libraries of the system")
}

/// Recorded calls.
pub(super) fn events(totals: &Totals) -> u64 {
    totals.allocations + totals.releases + totals.reallocations + totals.failed
}

/// How the process ended, in two or three words.
pub(super) fn end(process: &Process) -> String {
    ended(
        (process.end, process.exit_status, process.signal),
        process.is_session,
    )
}

/// What an end comes to, with its exit status and its signal.
pub(super) fn ended(end: (&str, Option<u64>, Option<u64>), is_session: bool) -> String {
    match end {
        ("normal", Some(status), _) => format!("exited {status}"),
        // The program may have gone on after it had ended the recording.
        ("normal", None, _) if is_session => "end of the log seen".to_owned(),
        ("normal", None, _) => "exited".to_owned(), // its status is not known
        ("signal", _, Some(signal)) => format!("killed by {}", format::signal(signal)),
        ("signal", _, None) => "killed by a signal".to_owned(),
        ("exec", ..) => "replaced by exec".to_owned(),
        _ => "end not seen".to_owned(),
    }
}

fn wholeness(trace: &TraceSummary) -> Vec<String> {
    let complete = if trace.complete {
        "trace complete"
    } else {
        "trace incomplete"
    };
    let mut parts = vec![complete.to_owned(), lost(trace)];
    if trace.damaged_bytes > 0 {
        parts.push(format!("{} damaged", bytes(trace.damaged_bytes)));
    }
    parts
}

fn lost(trace: &TraceSummary) -> String {
    let number = count(trace.lost_records);
    match (trace.lost_is_lower_bound, trace.lost_records) {
        (false, _) => format!("{number} lost"),
        (true, 0) => "none known to be lost".to_owned(),
        (true, _) => format!("at least {number} lost"),
    }
}

fn source(page: &Page<'_>, trace: &TraceSummary) -> String {
    match (&page.options.source, &trace.files[..]) {
        (Some(source), _) => escape(source).into_owned(),
        (None, [file]) => escape(file).into_owned(),
        (None, files) => format!("{} traces", files.len()),
    }
}

/// Parts in a row, on as many lines as they need.
fn fill(page: &mut Page<'_>, parts: &[String], between: &str) {
    let width = page.width();
    let mut line = String::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let part = cut_middle(part, width);
        if !line.is_empty() && columns(&line) + columns(between) + columns(&part) > width {
            page.line(&line);
            line.clear();
        }
        if !line.is_empty() {
            line.push_str(between);
        }
        line.push_str(&part);
    }
    page.line(&line);
}

/// One text on the left, one on the right; below each other where they do not fit.
fn spread(page: &mut Page<'_>, on_left: &str, on_right: &str) {
    let width = page.width();
    let room = width
        .checked_sub(columns(on_right))
        .filter(|room| columns(on_left) < *room);
    match room {
        Some(room) => page.line(&format!("{}{on_right}", left(on_left, room))),
        None => {
            page.line(&cut_end(on_left, width));
            page.line(&cut_middle(on_right, width));
        }
    }
}
