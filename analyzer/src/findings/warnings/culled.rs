//! What is to be known of blocks that were left out on purpose.

use super::{add, count, counted};
use crate::findings::summary::saturating_sum;
use crate::images::Image;
use crate::report::Warning;

pub(super) fn add_to(warnings: &mut Vec<Warning>, images: &[Image]) {
    let culled = saturating_sum(images.iter().map(|it| it.outcome.counts.culled));
    let above = images.iter().map(|it| it.outcome.counts.culled_peak).max();
    add(
        warnings,
        "culled",
        culled,
        format!(
            "{} left out as they came, as HEAPWIRE_CULL asks for: they are in the sums, but in no list and not among temporary ones; the peak may be {} higher; a second release of one of them is a possible invalid free.",
            counted(
                culled,
                "block that was released at once was",
                "blocks that were released at once were"
            ),
            count(above.unwrap_or(0), "byte"),
        ),
    );
    let unseen = saturating_sum(images.iter().map(|it| it.outcome.counts.culled_unseen));
    add(
        warnings,
        "culled-unseen",
        unseen,
        format!(
            "{} left out as they came, as HEAPWIRE_CULL asks for, of frames that are missing: they are not in the sums.",
            counted(unseen, "more record was", "more records were")
        ),
    );
}
