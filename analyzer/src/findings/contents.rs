//! What is in an input, and whether all of it is there.

use super::end::End;
use super::summary::summary;
use super::warnings;
use crate::images::{Image, Images};
use crate::log::{self, Batch, Reader};
use crate::replay::Wanted;
use crate::report::{Contents, Defect, ProcessContents, State, Tally, Warning, Wholeness};
use crate::sites::SiteTable;
use crate::trace::{Census, Damage, Input, Survey, Trace, TraceError, op_name};
use crate::{Options, replayed};
use heapwire_format::{FrameKind, Record};
use std::collections::BTreeMap;
use std::path::Path;

/// Events of a log that are read at once.
const LOG_BATCH: usize = 1 << 14;
/// Kinds of warning about what the trace itself says that it does not have.
const MISSING: [&str; 13] = [
    "lost-records",
    "lost-on-the-way",
    "missing-frames",
    "left-out",
    "unfinished-calls",
    "start-missing",
    "started-late",
    "cut",
    "last-records",
    "end-unknown",
    "unknown-ops",
    "unknown-frames",
    "newer-minor",
];

/// An input that was looked at twice: frame by frame, and as what it tells.
struct Looked {
    /// `None` of a log.
    census: Option<Census>,
    trace: Trace,
    images: Images,
    sites: SiteTable,
}

impl Looked {
    /// The input, given twice.
    fn of(input: Input, again: Input) -> Result<Self, TraceError> {
        let survey = Survey::of(input)?;
        let census = survey.map(|survey| survey.walk(|_, _| Ok::<_, TraceError>(())));
        let census = census.transpose()?;
        let mut trace = Trace::of(vec![again])?;
        let (images, sites) = replayed(&mut trace, Wanted::None, &Options::default())?;
        Ok(Self {
            census,
            trace,
            images,
            sites,
        })
    }
}

/// Says what is in the input at `path`.
pub(crate) fn of(path: &Path) -> Result<Contents, TraceError> {
    let (input, again) = Input::open_twice(path)?;
    let looked = Looked::of(input, again)?;
    let summary = summary(&looked.trace, &looked.images);
    let mut modules: Vec<String> = looked
        .sites
        .module_ids()
        .filter_map(|id| Some(looked.sites.module(id).shown_path()?.into_owned()))
        .collect();
    modules.sort_unstable();
    modules.dedup();
    let processes = looked.images.images.iter().map(process).collect();
    let census = looked.census;
    let of_log = |trace: &Trace| trace.text(0).len() as u64;
    let records = match &census {
        Some(census) => census.records.clone(),
        None => ops_of_log(&looked.trace),
    };
    Ok(Contents {
        schema: 1,
        file: path.display().to_string(),
        kind: summary.kind,
        versions: census.iter().flat_map(versions).collect(),
        file_bytes: path
            .metadata()
            .ok()
            .filter(std::fs::Metadata::is_file)
            .map(|found| found.len()),
        bytes: census
            .as_ref()
            .map_or_else(|| of_log(&looked.trace), |it| it.bytes),
        packed: looked.trace.is_packed(),
        start_unix_ns: summary.start_unix_ns,
        duration_ns: summary.duration_ns,
        processes,
        frames: census.iter().flat_map(frames).collect(),
        records: records
            .into_iter()
            .map(|(op, count)| Tally {
                kind: op_name(op),
                count,
                bytes: if census.is_some() {
                    count.saturating_mul(Record::SIZE as u64)
                } else {
                    0
                },
            })
            .collect(),
        modules,
    })
}

fn process(image: &Image) -> ProcessContents {
    ProcessContents {
        pid: image.pid,
        command: image.command(),
        end: End::of(image).name(),
        exit_status: End::status(image),
        signal: End::of(image).signal(),
        calls: image.outcome.counts.calls(),
    }
}

fn versions(census: &Census) -> impl Iterator<Item = String> + '_ {
    let versions = census.versions.iter();
    versions.map(|(major, minor)| format!("{major}.{minor}"))
}

fn frames(census: &Census) -> impl Iterator<Item = Tally> + '_ {
    let frames = census.frames.iter();
    frames.map(|(kind, (count, bytes))| Tally {
        kind: match FrameKind(*kind) {
            FrameKind::RECORDS => "records".to_owned(),
            FrameKind::PACKED => "packed".to_owned(),
            FrameKind::LANES => "lanes".to_owned(),
            FrameKind::BLOB => "blob".to_owned(),
            FrameKind::PADDING => "padding".to_owned(),
            FrameKind::INDEX => "index".to_owned(),
            FrameKind::SHORT => "short".to_owned(),
            FrameKind(other) => format!("kind {other}"),
        },
        count: *count,
        bytes: *bytes,
    })
}

/// What the lines of a log stand for.
fn ops_of_log(trace: &Trace) -> BTreeMap<u8, u64> {
    let mut ops = BTreeMap::new();
    for input in &trace.logs {
        for mut reader in Reader::all(trace.text(*input), *input) {
            while reader.next_session() {
                let mut batch = Batch::default();
                loop {
                    batch.events.clear();
                    reader.fill(&mut batch, LOG_BATCH);
                    if batch.events.is_empty() {
                        break;
                    }
                    for event in &batch.events {
                        *ops.entry(event.record.op.0).or_default() += 1;
                    }
                }
            }
        }
    }
    ops
}

/// Says whether all of the input at `path` is there.
pub(crate) fn wholeness(path: &Path) -> Result<Wholeness, TraceError> {
    let (input, again) = Input::open_twice(path)?;
    wholeness_of(path, input, again)
}

/// The same of an input that is given twice.
pub(crate) fn wholeness_of(
    path: &Path,
    input: Input,
    again: Input,
) -> Result<Wholeness, TraceError> {
    let looked = Looked::of(input, again)?;
    let mut damage = Vec::new();
    let mut remarks = Vec::new();
    if let Some(census) = &looked.census {
        of_census(census, &mut damage, &mut remarks);
    }
    for log in &looked.images.logs {
        of_log(&log.condition, &mut damage, &mut remarks);
    }
    let copies = looked.images.images.iter().map(|it| it.differing_copies);
    add(
        &mut damage,
        "copies-differ",
        Damage {
            count: copies.fold(0, u64::saturating_add),
            first: None,
        },
        "records are there twice, with different contents",
    );
    let told = |warning: Warning| Defect {
        kind: warning.kind,
        count: warning.count,
        first: None,
        text: warning.text,
    };
    let mut calls = looked
        .images
        .images
        .iter()
        .map(|it| it.outcome.counts.calls());
    if calls.all(|calls| calls == 0) {
        remarks.push(told(warnings::no_records(
            &looked.trace,
            &looked.images.shown(&[]),
        )));
    }
    let warned = warnings::of(&looked.trace, &looked.images).into_iter();
    let missing: Vec<_> = warned
        .filter(|warning| MISSING.contains(&warning.kind))
        .map(told)
        .collect();
    Ok(Wholeness {
        schema: 1,
        file: path.display().to_string(),
        state: if !damage.is_empty() {
            State::Damaged
        } else if !missing.is_empty() {
            State::Incomplete
        } else {
            State::Whole
        },
        damage,
        missing,
        remarks,
    })
}

fn add(defects: &mut Vec<Defect>, kind: &'static str, found: Damage, text: impl Into<String>) {
    if found.count > 0 {
        defects.push(Defect {
            kind,
            count: found.count,
            first: found.first,
            text: text.into(),
        });
    }
}

fn of_census(census: &Census, damage: &mut Vec<Defect>, remarks: &mut Vec<Defect>) {
    let condition = &census.condition;
    let at = |count, first| Damage { count, first };
    let first_damage = condition.first_damage.map(|(_, offset)| offset);
    if let Some(translation) = census.taken_back {
        let text = format!("the whole input {translation}; that can be taken back");
        add(damage, "translated", at(1, Some(0)), text);
    }
    if let Some(broken) = census.broken {
        let text = format!("only the beginning of the input is there: {broken}");
        add(
            damage,
            "packed-input-broken",
            at(1, Some(census.bytes)),
            text,
        );
    }
    add(
        damage,
        "damaged-frames",
        at(condition.damaged_frames, first_damage),
        format!(
            "frames are torn or have a wrong header, {} bytes in all",
            condition.damaged_bytes
        ),
    );
    add(
        damage,
        "ends-inside-frame",
        at(condition.cut_inputs, condition.first_cut),
        "the input ends inside a frame",
    );
    of_payloads(census, damage);
    if let Some(major) = condition.newer_major {
        let text = format!("frames of format version {major} cannot be read by this heapwire");
        add(damage, "newer-major", at(1, first_damage), text);
    }
    if let Some(armour) = &census.armour {
        let of = |count| at(count, None);
        let text = "lines carried the frames";
        add(remarks, "lines", of(armour.lines), text);
        let text = "lines came more than once";
        add(remarks, "repeated-lines", of(armour.repeated), text);
        let text = "lines had text in their midst";
        add(remarks, "mended-lines", of(armour.mended), text);
        let text = "bytes between lines are text; `heapwire split` gives it back";
        add(remarks, "text-bytes", of(armour.text), text);
    }
    add(
        remarks,
        "foreign-bytes",
        at(condition.foreign_bytes, condition.first_foreign),
        "bytes between frames are not of the trace",
    );
}

fn of_payloads(census: &Census, damage: &mut Vec<Defect>) {
    add(
        damage,
        "wrong-sums",
        census.wrong_sums,
        "frames have a payload that is not what was summed",
    );
    add(
        damage,
        "impossible-records",
        census.impossible,
        "frames or lanes have a record that no writer makes",
    );
    add(
        damage,
        "partial-records",
        census.partial,
        "frames end in a part of a record",
    );
    add(
        damage,
        "broken-lanes",
        census.broken_lanes,
        "frames have lanes that contradict themselves",
    );
}

fn of_log(condition: &log::Condition, damage: &mut Vec<Defect>, remarks: &mut Vec<Defect>) {
    let at = |count, first| Damage { count, first };
    add(
        damage,
        "damaged-lines",
        at(condition.damaged_lines, condition.first_damaged),
        "lines cannot be read",
    );
    add(
        damage,
        "cut-line",
        at(condition.is_cut.into(), None),
        "the last line is cut short",
    );
    add(
        remarks,
        "foreign-lines",
        at(condition.foreign_lines, condition.first_foreign),
        "lines are not of the log",
    );
}
