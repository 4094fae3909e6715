//! The warnings that only logs give cause for.

use super::{add, counted};
use crate::findings::end::End;
use crate::findings::summary::saturating_sum;
use crate::images::Images;
use crate::images::Log;
use crate::report::Warning;
use crate::trace::Trace;

pub(super) fn add_to(warnings: &mut Vec<Warning>, trace: &Trace, found: &Images) {
    if found.logs.is_empty() {
        return;
    }
    for log in &found.logs {
        of_lines(warnings, trace, log);
    }
    of_sessions(warnings, found);
}

fn of_lines(warnings: &mut Vec<Warning>, trace: &Trace, log: &Log) {
    let condition = &log.condition;
    let path = trace.paths().nth(log.index.0 as usize);
    let path = path.map_or_else(String::new, |path| path.display().to_string());
    let damaged = condition.damaged_lines;
    add(
        warnings,
        "damaged-lines",
        damaged,
        format!(
            "{} of {path} cannot be read, the first is line {}: what they said is lost, so leaks are an upper bound.",
            counted(damaged, "record", "records"),
            condition.first_damaged.unwrap_or(0)
        ),
    );
    add(
        warnings,
        "cut-line",
        condition.is_cut.into(),
        format!("The last line of {path} is cut short and was left out."),
    );
    add(
        warnings,
        "foreign-lines",
        condition.foreign_lines,
        format!(
            "{} not of the log and passed over, the first is line {} of {path}.",
            counted(condition.foreign_lines, "line is", "lines are"),
            condition.first_foreign.unwrap_or(0)
        ),
    );
}

fn of_sessions(warnings: &mut Vec<Warning>, found: &Images) {
    let sessions = || found.images.iter().filter(|it| it.session.is_some());
    let late = saturating_sum(sessions().map(|it| it.outcome.counts.late_releases));
    add(
        warnings,
        "late-releases",
        late,
        format!(
            "{} logged after the address was handed out again, as glibc does where threads run: no errors.",
            counted(late, "release was", "releases were")
        ),
    );
    let mixed = sessions()
        .filter(|it| it.session.is_some_and(|session| session.is_mixed))
        .count() as u64;
    add(
        warnings,
        "mixed-sessions",
        mixed,
        format!(
            "{} in the middle of a line: two processes wrote to the same log, so blocks may count for the wrong one, and no error is certain.",
            counted(mixed, "session begins", "sessions begin")
        ),
    );
    let open = sessions().filter(|it| End::of(it) == End::Unknown).count() as u64;
    add(
        warnings,
        "end-unknown",
        open,
        format!(
            "{} not end with `= End`: the program did not call muntrace(), or the log was cut short. Blocks are live where the log ends.",
            counted(open, "session does", "sessions do")
        ),
    );
}
