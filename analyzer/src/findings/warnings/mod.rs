//! What the reader of a report must know before trusting it, a sentence each.

mod armour;
mod clocks;
mod culled;
mod logs;
mod unseen;
mod versions;

use crate::findings::bypass::Bypass;
use crate::findings::end::End;
use crate::findings::summary::{is_lower_bound, saturating_sum};
use crate::images::{Image, Images, Start};
use crate::report::Warning;
use crate::trace::Trace;
use crate::{Options, Selection, Until, time};
use rustc_hash::FxHashSet;

/// The warnings of a trace and its process images, without those of modules.
pub(crate) fn of(trace: &Trace, found: &Images) -> Vec<Warning> {
    let mut warnings = Vec::new();
    logs::add_to(&mut warnings, trace, found);
    let images = &found.images[..];
    of_numbers(trace, images, &mut warnings);
    of_repair(trace, &mut warnings);
    of_condition(trace, &mut warnings);
    armour::add_to(&mut warnings, trace, images);
    versions::add_to(&mut warnings, &trace.condition, images);
    of_beginnings(images, &mut warnings);
    clocks::add_to(&mut warnings, trace, images);
    of_own_functions(images, &mut warnings);
    of_blocks(images, &mut warnings);
    of_places(images, &mut warnings);
    culled::add_to(&mut warnings, images);
    of_ends(trace, images, &mut warnings);
    unseen::add_to(&mut warnings, images);
    warnings
}

/// The warnings of a trace whose records were looked at one by one, of which at least `missing` are missing.
pub(crate) fn of_records(trace: &Trace, missing: u64) -> Vec<Warning> {
    let mut warnings = Vec::new();
    add(
        &mut warnings,
        "missing-records",
        missing,
        format!(
            "At least {} not in the trace.",
            counted(missing, "record is", "records are")
        ),
    );
    of_repair(trace, &mut warnings);
    of_condition(trace, &mut warnings);
    armour::add_to(&mut warnings, trace, &[]);
    versions::add_to(&mut warnings, &trace.condition, &[]);
    warnings
}

/// What [`of`] says where a part was asked for, of which `unsure` blocks may not fit.
pub(crate) fn of_part(
    trace: &Trace,
    images: &Images,
    selection: &Selection,
    options: &Options,
    unsure: u64,
) -> Vec<Warning> {
    let mut warnings = of(trace, images);
    if options.until.is_some() {
        // These were not looked at.
        const OF_ENDS: [&str; 4] = ["cut", "last-records", "image-missing", "child-missing"];
        warnings.retain(|warning| !OF_ENDS.contains(&warning.kind));
    }
    of_times(images, selection, options.until, &mut warnings);
    add(
        &mut warnings,
        "unsure-blocks",
        unsure,
        format!(
            "{} may not fit: only a lower bound is known of when {} handed out.",
            count(unsure, "block"),
            if unsure == 1 { "it was" } else { "they were" }
        ),
    );
    warnings
}

/// What is not known of times that were asked for.
fn of_times(
    images: &Images,
    selection: &Selection,
    until: Option<Until>,
    warnings: &mut Vec<Warning>,
) {
    let mut asks_for_times = selection.asks_for_times();
    if let Some(Until::Time(time)) = until {
        asks_for_times = true;
        let all_ended = images
            .end_clock
            .is_some_and(|end| time::since(images.begin_clock, end) <= time);
        let open = images.images.iter().map(|image| image.pauses.open);
        let open = if all_ended { 0 } else { saturating_sum(open) };
        add(
            warnings,
            "unsure-moment",
            open,
            format!(
                "{} taken for earlier than that moment, and may have been later: the threads had paused, and not read the \
                 clock again yet.",
                counted(open, "call is", "calls are")
            ),
        );
    }
    let sessions = images.images.iter().filter(|it| it.session.is_some());
    let sessions = sessions.count() as u64;
    add(
        warnings,
        "no-times",
        if asks_for_times { sessions } else { 0 },
        "A log of glibc's mtrace tells no times: none of its blocks fits where a time is asked for, and it is followed to its \
         end."
            .to_owned(),
    );
}

/// Adds a warning, unless there is nothing to count.
fn add(warnings: &mut Vec<Warning>, kind: &'static str, count: u64, text: String) {
    if count > 0 {
        warnings.push(Warning { kind, count, text });
    }
}

fn of_numbers(trace: &Trace, all: &[Image], warnings: &mut Vec<Warning>) {
    // What is missing in a log are lines that it has.
    let images: Vec<&Image> = all.iter().filter(|it| it.session.is_none()).collect();
    let missing = saturating_sum(images.iter().map(|image| image.outcome.missing));
    let lost = saturating_sum(
        images
            .iter()
            .map(|image| image.lost.min(image.outcome.missing)),
    );
    let void = saturating_sum(images.iter().map(|image| {
        let rest = image.outcome.missing - image.lost.min(image.outcome.missing);
        image.void.min(rest)
    }));
    let on_the_way = missing.saturating_sub(lost).saturating_sub(void);
    let is_lower = is_lower_bound(trace, all);
    let consequence = "leaks are an upper bound, and errors near the gap are not certain";
    add(
        warnings,
        "lost-records",
        lost,
        format!(
            "The recorder could not write {}{}: {consequence}.",
            if is_lower { "at least " } else { "" },
            count(lost, "record")
        ),
    );
    add(
        warnings,
        "lost-on-the-way",
        on_the_way,
        format!(
            "{}{} made but not in the trace: {consequence}. A process that was forked in what is missing may be missing as a whole.",
            if is_lower { "At least " } else { "" },
            counted(on_the_way, "record was", "records were")
        ),
    );
    add(
        warnings,
        "unfinished-calls",
        void,
        format!(
            "{} left unfinished by the program and made no record: {consequence}.",
            counted(void, "call was", "calls were")
        ),
    );
}

fn of_condition(trace: &Trace, warnings: &mut Vec<Warning>) {
    for (path, why) in trace.broken() {
        let text = format!("Only the beginning of {} is there: {why}.", path.display());
        add(warnings, "packed-input-broken", 1, text);
    }
    let condition = &trace.condition;
    for (path, translation) in trace.taken_back() {
        let path = path.display();
        add(
            warnings,
            "translated",
            1,
            format!("{path} {translation}; that was taken back, and nothing is lost by it."),
        );
    }
    let place = condition
        .first_damage
        .map_or_else(String::new, |(input, offset)| {
            let path = trace.paths().nth(input as usize);
            let path = path.map_or_else(String::new, |path| format!(" of {}", path.display()));
            format!(", the first at byte {offset}{path}")
        });
    add(
        warnings,
        "damaged-frames",
        condition.damaged_frames,
        format!(
            "{} damaged, {} in all{place}: their records count as lost.",
            counted(condition.damaged_frames, "frame is", "frames are"),
            count(condition.damaged_bytes, "byte"),
        ),
    );
    add(
        warnings,
        "ends-inside-frame",
        condition.cut_inputs,
        format!(
            "{} inside a frame, so the last records are missing.",
            counted(condition.cut_inputs, "input ends", "inputs end")
        ),
    );
    add(
        warnings,
        "foreign-bytes",
        condition.foreign_bytes,
        format!(
            "{} between frames do not belong to the trace and were passed over.",
            count(condition.foreign_bytes, "byte")
        ),
    );
}

/// What a repair of the trace has left out.
fn of_repair(trace: &Trace, warnings: &mut Vec<Warning>) {
    add(
        warnings,
        "left-out",
        trace.left_out,
        format!(
            "{} left out when the trace was repaired, of which nobody knows whose they were or how many records they held: leaks are an \
             upper bound, and all of a process may be missing.",
            counted(trace.left_out, "frame was", "frames were")
        ),
    );
    let bytes = match (trace.left_out, trace.left_out_copies) {
        (0, 0) => trace.left_out_bytes,
        _ => 0, // which are of these
    };
    add(
        warnings,
        "left-out",
        bytes,
        format!(
            "{} in no frame, and left out when the trace was repaired.",
            counted(bytes, "byte was", "bytes were")
        ),
    );
    add(
        warnings,
        "left-out",
        trace.left_out_copies,
        format!(
            "{} left out when the trace was repaired, since another of the same number came first: which of them was written is \
             not known.",
            counted(trace.left_out_copies, "record was", "records were")
        ),
    );
}

fn of_beginnings(images: &[Image], warnings: &mut Vec<Warning>) {
    let headless: Vec<_> = images
        .iter()
        .filter(|it| it.start == Start::Missing)
        .collect();
    add(
        warnings,
        "start-missing",
        headless.len() as u64,
        format!(
            "The start of {} is not in the trace: releases of unknown blocks count as releases of earlier blocks.",
            processes(&headless)
        ),
    );
    let late: Vec<_> = images.iter().filter(|it| it.start == Start::Late).collect();
    add(
        warnings,
        "started-late",
        late.len() as u64,
        format!(
            "Recording of {} began after the program: blocks handed out before are not known.",
            processes(&late)
        ),
    );
    let orphans: Vec<_> = images.iter().filter(|it| it.lacks_parent).collect();
    add(
        warnings,
        "parent-missing",
        orphans.len() as u64,
        format!(
            "The parent of {} is not among the inputs: what was inherited is not known.",
            processes(&orphans)
        ),
    );
}

/// Functions of the allocator that a process image has itself, though its `malloc` is the recorder's.
fn of_own_functions(images: &[Image], warnings: &mut Vec<Warning>) {
    let declared = images.iter().filter_map(|it| it.declaration.as_ref());
    for function in declared.filter_map(|it| it.own_function.as_deref()) {
        add(
            warnings,
            "own-functions",
            1,
            format!(
                "The program, or a library before the recorder, defines {function} itself: calls of it that do not go on to the next {function} are not seen, and what they release seems to be leaked.",
            ),
        );
    }
}

fn of_blocks(images: &[Image], warnings: &mut Vec<Warning>) {
    let in_flight = saturating_sum(images.iter().map(|it| it.outcome.in_flight));
    add(
        warnings,
        "in-flight",
        in_flight,
        format!(
            "{} under way when the trace, or what was asked for of it, ended: whether the old block is still live is not known, so it is listed as live.",
            counted(in_flight, "realloc was", "reallocs were")
        ),
    );
    let unseen = saturating_sum(images.iter().map(|it| it.outcome.counts.unseen_releases));
    add(
        warnings,
        "unseen-releases",
        unseen,
        format!(
            "{} handed out again without a release in between; the earlier block counts as released.",
            counted(unseen, "address was", "addresses were")
        ),
    );
    let past = saturating_sum(images.iter().map(|it| Bypass::of(it).releases));
    add(
        warnings,
        "unseen-allocations",
        past,
        format!(
            "{} released without having been handed out where it could be seen, and the program went on: it also calls the allocator past the recorder (RTLD_DEEPBIND, __libc_malloc, functions of the allocator's own).",
            counted(past, "block was", "blocks were")
        ),
    );
    let more = saturating_sum(images.iter().map(|it| it.outcome.more_faults));
    add(
        warnings,
        "more-errors",
        more,
        format!(
            "{} of the same kind beyond those that are listed.",
            counted(more, "wrong release is", "wrong releases are")
        ),
    );
}

/// Records that are not where they were expected.
fn of_places(images: &[Image], warnings: &mut Vec<Warning>) {
    let copies = saturating_sum(images.iter().map(|it| it.differing_copies));
    add(
        warnings,
        "copies-differ",
        copies,
        format!(
            "{} twice with different contents; the first copy was taken.",
            counted(copies, "record is there", "records are there")
        ),
    );
    let late_copies = saturating_sum(images.iter().map(|it| it.late_copies));
    add(
        warnings,
        "copies-late",
        late_copies,
        format!(
            "{} twice, too far apart to be compared; the first copy was taken.",
            counted(late_copies, "record is there", "records are there")
        ),
    );
    let late = saturating_sum(images.iter().map(|it| it.late));
    add(
        warnings,
        "late-records",
        late,
        format!(
            "{} far from the place in the trace where the order of events has it: taken as it came.",
            counted(late, "record is", "records are")
        ),
    );
}

fn of_ends(trace: &Trace, images: &[Image], warnings: &mut Vec<Warning>) {
    let cut: Vec<_> = images.iter().filter(|it| End::of(it) == End::Cut).collect();
    add(
        warnings,
        "cut",
        cut.len() as u64,
        format!(
            "No end of {} is in the trace: {}. Blocks are live when the trace ends, not leaked.",
            processes(&cut),
            why_cut(trace, &cut)
        ),
    );
    let unsure: Vec<_> = images.iter().filter(|it| End::may_lack_last(it)).collect();
    add(
        warnings,
        "last-records",
        unsure.len() as u64,
        format!(
            "What {} recorded last may be missing: no record tells of the end, and not all that was in memory then is in the trace.",
            processes(&unsure)
        ),
    );
}

/// What may be the reason that no end of these images is there. Lanes hold what a process recorded of it, whatever ended it.
fn why_cut(trace: &Trace, cut: &[&Image]) -> String {
    let (it, it_ran) = match cut {
        [_] => ("it", "it was still running"),
        _ => ("them", "they were still running"),
    };
    let condition = &trace.condition;
    let is_whole = condition.damaged_bytes == 0 && condition.cut_inputs == 0;
    if is_whole && cut.iter().all(|image| image.has_lanes) {
        format!("{it_ran}, or a signal ended {it}, of which only who waited for {it} was told")
    } else {
        format!("{it_ran}, a signal ended {it}, or the rest of the trace is missing")
    }
}

/// Why there is nothing to report, as far as the trace says.
pub(crate) fn no_records(trace: &Trace, images: &[&Image]) -> Warning {
    let names: Vec<_> = images
        .iter()
        .copied()
        .filter(|it| it.declaration.is_some())
        .collect();
    let missing = saturating_sum(images.iter().map(|it| it.outcome.missing));
    let text = if images.iter().any(|it| it.is_stopped) {
        "No call was recorded up to that moment.".to_owned()
    } else if images.iter().all(|it| it.session.is_some()) && !images.is_empty() {
        "No call is in the log: the program made none between mtrace() and muntrace(), or the log was cut short."
            .to_owned()
    } else if missing > 0 || trace.condition.damaged_bytes > 0 {
        "No call was recorded in what is left of the trace.".to_owned()
    } else if names.is_empty() {
        "No call was recorded: no process got as far as to declare itself.".to_owned()
    } else if let Some(definers) = definers(&names) {
        format!(
            "No call was recorded of {}: the recorder was loaded, but no allocation passed through it, as {definers} malloc itself.",
            processes(&names)
        )
    } else if names.iter().all(|it| End::of(it) == End::Cut) {
        format!(
            "No call of {} is in the trace, which has no end of it: it made none so far, or what it recorded was not written yet.",
            processes(&names)
        )
    } else {
        format!(
            "No call was recorded of {}: it made none, or its calls do not go through the dynamic linker (linked statically, or an allocator of its own).",
            processes(&names)
        )
    };
    Warning {
        kind: "no-records",
        count: 1,
        text,
    }
}

/// Who defines `malloc` in the place of the recorder's, if that is so in all of `images`.
fn definers(images: &[&Image]) -> Option<String> {
    let own: Option<FxHashSet<&str>> = images
        .iter()
        .map(|it| it.declaration.as_ref()?.own_malloc.as_deref())
        .collect();
    let own = own?;
    match own.iter().next() {
        Some(path) if own.len() == 1 && !path.is_empty() => Some(format!("{path} defines")),
        Some(_) if own.len() == 1 => Some("the program defines".to_owned()),
        Some(_) => Some("the programs define".to_owned()),
        None => None,
    }
}

/// The processes by pid, as far as that is short and they are known.
fn processes(images: &[&Image]) -> String {
    const NAMED: usize = 3;
    let pids: Option<Vec<String>> = images
        .iter()
        .map(|image| image.pid.map(|pid| pid.to_string()))
        .collect();
    match (pids.as_deref(), images.len()) {
        (Some([pid]), _) => format!("process {pid}"),
        (Some(pids), count) if count > NAMED => {
            let named = pids[..NAMED].join(", ");
            format!("processes {named} and {} more", count - NAMED)
        }
        (Some(pids), _) => format!("processes {}", pids.join(", ")),
        (None, 1) => "a process".to_owned(),
        (None, count) => format!("{count} processes"),
    }
}

fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
