//! `heapwire check`: what of a report counts as found, for scripts that ask by exit status.

use super::reading::{self, Stopped, Terminal};
use crate::cli::Check;
use heapwire::report::format::{bytes, counted};
use heapwire::report::system::is_system;
use heapwire::report::{Leak, Process, Report};
use std::io::Write;

/// Exit status where something was found.
const FOUND: u8 = 1;
/// Exit status with `--strict` where nothing was found in a trace that is not complete.
const INCOMPLETE: u8 = 4;

/// Shows the report, says what counts of it, and gives the exit status.
pub(crate) fn check(
    asked: &Check,
    terminal: &Terminal,
    out: &mut dyn Write,
    say: &mut dyn Write,
) -> Result<u8, Stopped> {
    let report = reading::shown(&asked.report, terminal, out)?;
    let status = reading::answered(&report.warnings, say)?;
    if status != 0 {
        return Ok(status);
    }
    let found = Found::of(&report, asked.system);
    let status = if found.is_anything() {
        FOUND
    } else if asked.strict && !report.trace.complete {
        INCOMPLETE
    } else {
        0
    };
    for line in found.left_aside() {
        writeln!(say, "heapwire: {line}")?;
    }
    let verdict = found.verdict(report.trace.complete);
    writeln!(say, "heapwire: {verdict}: exit status {status}")?;
    Ok(status)
}

/// What a report comes to.
#[derive(Default)]
struct Found {
    errors: u64,
    /// Errors that lost records may explain.
    unsure: u64,
    leaked_blocks: u64,
    leaked_bytes: u64,
    /// Leaked blocks in libraries of the system, where those do not count.
    of_system: u64,
    /// Blocks that were live in processes that did not end by themselves.
    cut: u64,
    /// Leaks are what was not released up to a moment.
    is_cycle: bool,
    /// Records are missing, that may have released them.
    is_most: bool,
}

impl Found {
    fn of(report: &Report, counts_system: bool) -> Self {
        let is_cycle = report.until_ns.is_some();
        let mut found = Self {
            is_cycle,
            is_most: report.trace.lost_records > 0 || report.trace.damaged_bytes > 0,
            ..Self::default()
        };
        for process in &report.processes {
            let certain = process.errors.iter().filter(|error| error.certain).count() as u64;
            found.errors += certain;
            found.unsure += process.errors.len() as u64 - certain;
            let leaks = leaks(process, is_cycle);
            if leaks.is_empty() {
                found.cut = found.cut.saturating_add(process.totals.live_blocks);
            }
            for leak in leaks {
                if counts_system || !is_system(leak, process.exe.as_deref()) {
                    found.leaked_blocks = found.leaked_blocks.saturating_add(leak.blocks);
                    found.leaked_bytes = found.leaked_bytes.saturating_add(leak.bytes);
                } else {
                    found.of_system = found.of_system.saturating_add(leak.blocks);
                }
            }
        }
        found
    }

    fn is_anything(&self) -> bool {
        self.errors > 0 || self.leaked_blocks > 0
    }

    /// What does not count, a line each.
    fn left_aside(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.of_system > 0 {
            let blocks = self.leaks(self.of_system);
            lines.push(format!(
                "{blocks} in libraries of the system left aside (--system counts them)"
            ));
        }
        if self.cut > 0 {
            let blocks = counted(self.cut, "block");
            let (were, leaks) = match self.cut {
                1 => ("was", "a leak, so it is"),
                _ => ("were", "leaks, so they are"),
            };
            lines.push(format!(
                "{blocks} that {were} live where a process did not end by itself need not be {leaks} not counted"
            ));
        }
        if self.unsure > 0 {
            let errors = counted(self.unsure, "wrong release");
            let are = if self.unsure == 1 { "is" } else { "are" };
            lines.push(format!("{errors} left aside that {are} not certain"));
        }
        lines
    }

    fn leaks(&self, blocks: u64) -> String {
        if self.is_cycle {
            counted(blocks, "block") + " not released by then"
        } else {
            counted(blocks, "leaked block")
        }
    }

    fn verdict(&self, is_complete: bool) -> String {
        let errors = counted(self.errors, "wrong release");
        let blocks = self.leaks(self.leaked_blocks);
        let most = if self.is_most { "at most " } else { "" };
        let leaked = format!("{most}{blocks} ({})", bytes(self.leaked_bytes));
        match (self.errors, self.leaked_blocks) {
            (0, 0) if is_complete => "found nothing".to_owned(),
            (0, 0) => "found nothing, but the trace is not complete".to_owned(),
            (_, 0) => format!("found {errors}"),
            (0, _) => format!("found {leaked}"),
            _ => format!("found {errors} and {leaked}"),
        }
    }
}

/// What is live when a program did not end by its own will need not be a leak. A log of glibc's mtrace rarely says how it ended;
/// then it counts, as it does to mtrace(1).
///
/// What a cycle left behind is what was asked for, whatever came later.
fn leaks(process: &Process, is_cycle: bool) -> &[Leak] {
    if is_cycle || matches!(process.end, "normal" | "unknown") {
        &process.leaks
    } else {
        &[]
    }
}
