//! What is to be known of a trace of a newer version.

use super::{add, counted};
use crate::findings::summary::saturating_sum;
use crate::images::Image;
use crate::report::Warning;
use crate::trace::Condition;

pub(super) fn add_to(warnings: &mut Vec<Warning>, condition: &Condition, images: &[Image]) {
    let ops = saturating_sum(images.iter().map(|image| image.outcome.counts.unknown_ops));
    add(
        warnings,
        "unknown-ops",
        ops,
        format!(
            "{} of kinds that this heapwire does not know: a newer one reads this trace in full.",
            counted(ops, "record is", "records are")
        ),
    );
    add(
        warnings,
        "unknown-frames",
        condition.unknown_frames,
        format!(
            "{} of kinds that this heapwire does not know: a newer one reads this trace in full.",
            counted(condition.unknown_frames, "frame is", "frames are")
        ),
    );
    if let Some(minor) = condition.newer_minor {
        let text = format!(
            "The trace is of format version {}.{minor}, newer than this heapwire's {}.{}.",
            heapwire_format::MAJOR,
            heapwire_format::MAJOR,
            heapwire_format::MINOR
        );
        add(warnings, "newer-minor", 1, text);
    }
    if let Some(major) = condition.newer_major {
        let text =
            format!("Frames of format version {major} were refused; a newer heapwire reads them.");
        add(warnings, "newer-major", 1, text);
    }
}
