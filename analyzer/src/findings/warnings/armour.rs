//! What is to be known of frames that came as printable lines.

use super::{add, counted};
use crate::findings::summary::saturating_sum;
use crate::images::Image;
use crate::report::Warning;
use crate::trace::Trace;
use std::ops::Range;

/// Gaps that are named.
const NAMED: usize = 8;

pub(super) fn add_to(warnings: &mut Vec<Warning>, trace: &Trace, images: &[Image]) {
    let found: Vec<_> = trace.armour().collect();
    let missing: Vec<_> = found.iter().flat_map(|it| it.arrived.missing()).collect();
    let count = saturating_sum(
        missing
            .iter()
            .map(|(_, gap)| u64::from(gap.end - gap.start)),
    );
    let damaged = saturating_sum(found.iter().map(|it| it.damaged));
    let lines = counted(damaged, "line of the trace was", "lines of the trace were");
    let torn = trace.condition.damaged_frames;
    let text = match (count, torn) {
        // Echoes leave parts of lines behind.
        (0, 0) => format!("{lines} changed on the way; no frame is known to be missing for that."),
        _ => format!(
            "{lines} changed on the way, and what {} carried of frames is lost unless it came again.",
            if damaged == 1 { "it" } else { "they" },
        ),
    };
    add(warnings, "changed-lines", damaged, text);
    let mut names: Vec<_> = missing
        .iter()
        .take(NAMED)
        .map(|(stream, gap)| name(*stream, gap, images))
        .collect();
    if missing.len() > NAMED {
        names.push(format!("{} more gaps", missing.len() - NAMED));
    }
    add(
        warnings,
        "missing-frames",
        count,
        format!(
            "{} not arrive whole: {}.",
            counted(count, "frame did", "frames did"),
            names.join(", "),
        ),
    );
}

fn name(stream: u32, gap: &Range<u32>, images: &[Image]) -> String {
    let numbers = match gap.end - gap.start {
        1 => format!("number {}", gap.start),
        _ => format!("numbers {} to {}", gap.start, gap.end - 1),
    };
    let image = images.iter().find(|image| image.tag == stream);
    match image.and_then(|image| image.pid) {
        Some(pid) => format!("{numbers} of process {pid}"),
        None => format!("{numbers} of stream {stream:08x}"),
    }
}
