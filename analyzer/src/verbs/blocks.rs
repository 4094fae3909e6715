//! The verbs about single blocks, about time, and about two traces.

use super::reading::{self, Stopped, Terminal, print};
use crate::cli::{self, At, Blocks, Diff, Timeline};
use heapwire::report::Process;
use heapwire::report::text::{
    program, render_blocks, render_difference, render_history, render_remark,
};
use heapwire::{Options, Per, Selection, Until};
use std::io::Write;

/// Titles of the figures in a row of a timeline.
const FIGURES: &str = "    time s  live bytes  live blocks  ";
/// Columns of a pid: the kernel's highest have as many figures.
const PID: usize = 7;
/// Columns that a program has at least.
const LEAST: usize = 12;

/// `heapwire blocks`: gives the exit status.
pub(crate) fn blocks(
    asked: &Blocks,
    terminal: &Terminal,
    out: &mut dyn Write,
    say: &mut dyn Write,
) -> Result<u8, Stopped> {
    let options = Options {
        until: match (asked.until, asked.at) {
            (Some(time), _) | (None, Some(At::Time(time))) => Some(Until::Time(time)),
            (None, Some(At::Peak)) => Some(Until::Peak),
            (None, Some(At::End) | None) => None,
        },
        pids: asked.inputs.pid.clone(),
        ..reading::options(Some(&asked.reporting))
    };
    let text_options = terminal.options_for(&asked.reporting);
    let selection = Selection {
        site: asked.site.clone(),
        min_age: asked.min_age,
        of_running: matches!(asked.at, Some(At::Time(_))),
        ..asked.filters.selection()
    };
    if let Some(address) = asked.ptr {
        let history = heapwire::history(&asked.inputs.traces, address, &selection, &options)?;
        print(out, asked.reporting.format, &history, || {
            render_history(&history, &text_options)
        })?;
        return Ok(0);
    }
    let live = heapwire::live_blocks(&asked.inputs.traces, &selection, &options)?;
    print(out, asked.reporting.format, &live, || {
        render_blocks(&live, &text_options)
    })?;
    reading::answered(&live.warnings, say)
}

/// `heapwire timeline`: gives the exit status.
pub(crate) fn timeline(
    asked: &Timeline,
    terminal: &Terminal,
    out: &mut dyn Write,
    say: &mut dyn Write,
) -> Result<u8, Stopped> {
    let like = asked.like.selection();
    let options = Options {
        step: asked.step,
        charted: (like != Selection::default()).then_some(like),
        unsure_steps: true,
        pids: asked.inputs.pid.clone(),
        symbols: reading::places(&asked.places),
        ..Options::default()
    };
    let report = heapwire::analyze(&asked.inputs.traces, &options)?;
    if asked.csv {
        writeln!(out, "pid,time_ns,live_bytes,live_blocks,unsure")?;
    } else {
        let whose = whose("pid", "program", report.processes.len());
        writeln!(out, "{FIGURES}{whose}")?;
    }
    let room = terminal
        .options()
        .width
        .saturating_sub(FIGURES.len() + PID + 2);
    let mut shown = Shown::default();
    for process in &report.processes {
        let pid = process.pid.map_or_else(String::new, |pid| pid.to_string());
        let whose = if asked.csv {
            pid
        } else {
            let program = program(process, room.max(LEAST));
            whose(&pid, &program, report.processes.len())
        };
        rows(process, &whose, asked, out, &mut shown)?;
    }
    if shown.unsure && !asked.csv {
        let remark = render_remark(
            "~ calls may have been made in another one of the steps marked so that follow each other: the threads had paused, \
             and not read the clock again yet",
            &terminal.options(),
        );
        write!(out, "\n{remark}")?;
    }
    out.flush()?;
    if !shown.any && reading::no_records(&report.warnings).is_none() {
        let why = match report.trace.kind {
            "mtrace" => "a log of glibc's mtrace tells no times",
            _ => "nothing that was asked for was live",
        };
        writeln!(say, "heapwire: no step to show: {why}")?;
    }
    let steps = report.processes.iter().map(|it| it.timeline.step_ns);
    if let (Some(asked), Some(shown)) = (asked.step, steps.max())
        && shown > asked
    {
        writeln!(
            say,
            "heapwire: steps of {shown} ns, as shorter ones would make too many rows"
        )?;
    }
    reading::warn(&report.warnings, say)?;
    reading::answered(&report.warnings, say)
}

/// What was shown of timelines.
#[derive(Default)]
struct Shown {
    any: bool,
    unsure: bool,
}

/// What a row of text ends with. Of `several` processes the programs tell who is who.
fn whose(pid: &str, program: &str, several: usize) -> String {
    match several {
        0 | 1 => pid.to_owned(),
        _ => format!("{pid:<PID$}  {program}"),
    }
}

fn rows(
    process: &Process,
    whose: &str,
    asked: &Timeline,
    out: &mut dyn Write,
    shown: &mut Shown,
) -> Result<(), Stopped> {
    let timeline = &process.timeline;
    let columns = timeline.bytes.iter().zip(&timeline.blocks);
    for (column, (bytes, blocks)) in (0u64..).zip(columns) {
        let time = column.saturating_mul(timeline.step_ns);
        if asked.from.is_some_and(|from| time < from) || asked.to.is_some_and(|to| time >= to) {
            continue;
        }
        let unsure = timeline.unsure.binary_search(&column).is_ok();
        shown.any = true;
        shown.unsure |= unsure;
        if asked.csv {
            let unsure = u8::from(unsure);
            writeln!(out, "{whose},{time},{bytes},{blocks},{unsure}")?;
        } else {
            let seconds = format!("{}.{:03}", time / 1_000_000_000, time / 1_000_000 % 1000);
            let mark = if unsure { '~' } else { ' ' };
            writeln!(
                out,
                "{seconds:>10}{mark} {bytes:>10}  {blocks:>11}  {whose}"
            )?;
        }
    }
    Ok(())
}

/// `heapwire diff`: gives the exit status.
pub(crate) fn diff(
    asked: &Diff,
    terminal: &Terminal,
    out: &mut dyn Write,
    say: &mut dyn Write,
) -> Result<u8, Stopped> {
    let selection = asked.filters.selection();
    let options = Options {
        all_sites: true,
        selection: selection.clone(),
        ..reading::options(Some(&asked.reporting))
    };
    let report =
        |path: &std::path::PathBuf| heapwire::analyze(std::slice::from_ref(path), &options);
    let (old, new) = (report(&asked.old)?, report(&asked.new)?);
    let per = asked.per.map(|per| match per {
        cli::Per::Allocations => Per::Allocations,
        cli::Per::Seconds => Per::Second,
    });
    let difference = heapwire::difference(&old, &new, &selection, per);
    print(out, asked.reporting.format, &difference, || {
        render_difference(&difference, &terminal.options_for(&asked.reporting))
    })?;
    match reading::answered(&old.warnings, say)? {
        0 => reading::answered(&new.warnings, say),
        status => Ok(status),
    }
}
