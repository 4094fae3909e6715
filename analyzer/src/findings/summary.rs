//! What a report says of the trace as a whole: how much there is, and how much is missing.

use super::end::End;
use crate::images::{Image, Images, Start};
use crate::trace::Trace;
use crate::{log, report, time};

/// Sums up the trace that `images` were replayed from.
pub(crate) fn summary(trace: &Trace, images: &Images) -> report::TraceSummary {
    let condition = &trace.condition;
    let of_logs = |of: fn(&log::Condition) -> u64| {
        saturating_sum(images.logs.iter().map(|log| of(&log.condition)))
    };
    let damaged_bytes = condition
        .damaged_bytes
        .saturating_add(of_logs(|it| it.damaged_bytes));
    let foreign_bytes = condition
        .foreign_bytes
        .saturating_add(saturating_sum(trace.armour().map(|it| it.text)))
        .saturating_add(of_logs(|it| it.foreign_bytes));
    let outcomes = || images.images.iter().map(|image| &image.outcome);
    let lost_records = saturating_sum(outcomes().map(|it| it.missing));
    let is_whole = lost_records == 0
        && damaged_bytes == 0
        && trace.left_out == 0
        && trace.left_out_copies == 0
        && trace.broken().next().is_none()
        && condition.damaged_frames == 0
        && condition.unknown_frames == 0
        && images.images.iter().all(|image| {
            image.start == Start::Seen
                && !is_cut(image)
                && image.outcome.counts.unknown_ops == 0
                && image.differing_copies == 0
        });
    let timed = images.images.iter().filter(|it| it.session.is_none());
    let seen = trace.observed.iter().map(|observed| observed.clock);
    let last = timed.map(|it| it.outcome.last_clock).chain(seen).max();
    report::TraceSummary {
        kind: if trace.streams.is_empty() && !trace.logs.is_empty() {
            "mtrace"
        } else {
            "hwt"
        },
        files: trace
            .paths()
            .map(|path| path.display().to_string())
            .collect(),
        complete: is_whole && !images.images.is_empty(),
        records: outcomes().map(|it| it.counts.records).sum(),
        lost_records,
        lost_is_lower_bound: is_lower_bound(trace, &images.images)
            || of_logs(|it| it.damaged_bytes) > 0,
        lost_by_recorder: saturating_sum(
            images
                .images
                .iter()
                .map(|image| image.lost.min(image.outcome.missing)),
        ),
        damaged_bytes,
        foreign_bytes,
        start_unix_ns: images.begin_wall,
        duration_ns: last.map_or(0, |last| time::since(images.begin_clock, last)),
    }
}

/// Whether more records may be lost than there are numbers missing: from where on or how far the numbers went is not known.
pub(crate) fn is_lower_bound(trace: &Trace, images: &[Image]) -> bool {
    trace.condition.damaged_bytes > 0 && !trace.accounts_for_damage()
        || trace.left_out > 0
        || images
            .iter()
            .any(|image| !image.knows_first || is_cut(image))
}

/// Whether its end is missing, unless nobody asked for that.
fn is_cut(image: &Image) -> bool {
    let lacks_end = matches!(End::of(image), End::Cut | End::Unknown);
    !image.is_stopped && (lacks_end || End::may_lack_last(image))
}

/// The sum of counts that a hostile trace can make any size.
pub(crate) fn saturating_sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}
