//! Inputs whose times do not lie on one line.

use super::add;
use crate::images::Image;
use crate::report::Warning;
use crate::report::format::duration;
use crate::trace::Trace;

/// Nanoseconds that a wall clock may be set by while programs are recorded.
const SET: u64 = 60_000_000_000;

/// A trace has the time since its machine was started, and tells at a process's begin which wall clock belongs to that.
pub(super) fn add_to(warnings: &mut Vec<Warning>, trace: &Trace, images: &[Image]) {
    if trace.paths().count() < 2 {
        return; // a wall clock that was set meanwhile is no other machine
    }
    let declared = images.iter().filter_map(|image| image.declaration.as_ref());
    let starts: Vec<i128> = declared
        .filter(|it| it.wall_clock != 0)
        .map(|it| i128::from(it.wall_clock) - i128::from(it.clock))
        .collect();
    let (first, last) = (starts.iter().min(), starts.iter().max());
    let apart = first.zip(last).map_or(0, |(first, last)| last - first);
    let apart = u64::try_from(apart).unwrap_or(u64::MAX);
    add(
        warnings,
        "clocks-differ",
        (apart > SET).into(),
        format!(
            "The inputs may not count time from one moment: by their dates, their machines were started {} apart, or a clock was set meanwhile. \
             If so, times of one do not compare with those of another, and a time that is asked for counts from the lowest of all.",
            duration(apart)
        ),
    );
}
