//! Images that the trace names and does not have: nobody must take its silence on them for good news.

use super::{add, counted, processes};
use crate::declare::Began;
use crate::findings::end::End;
use crate::images::Image;
use crate::replay::Forked;
use crate::report::Warning;
use rustc_hash::{FxHashMap, FxHashSet};

pub(super) fn add_to(warnings: &mut Vec<Warning>, images: &[Image]) {
    const WHY: &str = "in another file, without a call, or impossible to record (linked statically, set-user-ID, a trace that could not be written)";
    let mut known: FxHashMap<u64, (usize, usize)> = FxHashMap::default();
    for image in images {
        if let Some(pid) = image.pid {
            let (all, replaced) = known.entry(pid).or_default();
            *all += 1;
            *replaced += usize::from(End::of(image) == End::Exec);
        }
    }
    let replaced: Vec<_> = images
        .iter()
        .filter(|it| End::of(it) == End::Exec)
        .filter(|it| {
            it.pid
                .is_some_and(|pid| known.get(&pid).is_some_and(|(all, gone)| all == gone))
        })
        .collect();
    add(
        warnings,
        "image-missing",
        replaced.len() as u64,
        format!(
            "What {} became by exec is not among the inputs: {WHY}.",
            processes(&replaced)
        ),
    );
    let missing = children_unseen(images);
    add(
        warnings,
        "child-missing",
        missing,
        format!(
            "{} not among the inputs: {WHY}.",
            counted(missing, "forked child is", "forked children are")
        ),
    );
}

/// How many forked children are not among the images. One in a pid namespace of its own calls itself, and its parent, otherwise than
/// that one does: such a child of the same parent counts for one whose pid nobody has.
fn children_unseen(images: &[Image]) -> u64 {
    // Whether an image can be what a pid was at its fork, and not only what it became.
    let mut known: FxHashMap<u64, bool> = FxHashMap::default();
    for image in images {
        if let Some(pid) = image.pid {
            let began = image.declaration.as_ref().map(|it| it.began);
            *known.entry(pid).or_default() |= began != Some(Began::Exec);
        }
    }
    let is_known = |forked: &Forked| {
        let of_pid = known.get(&forked.pid);
        of_pid.is_some_and(|is_at_fork| *is_at_fork || forked.in_parents_memory)
    };
    let mut told = FxHashSet::default();
    let mut unseen: FxHashMap<u32, u64> = FxHashMap::default();
    let pids: FxHashMap<u32, Option<u64>> = images.iter().map(|it| (it.tag, it.pid)).collect();
    for image in images {
        let forked = image.outcome.forked.iter();
        let new = forked.filter(|forked| told.insert(forked.pid));
        let count = new.filter(|forked| !is_known(forked)).count() as u64;
        unseen.insert(image.tag, count);
    }
    for image in images {
        let Some((declared, fork)) = image
            .declaration
            .as_ref()
            .and_then(|it| Some((it, it.fork?)))
        else {
            continue;
        };
        let is_told = image.pid.is_some_and(|pid| told.contains(&pid));
        let is_elsewhere = declared.parent_pid != pids.get(&fork.parent).copied().flatten();
        if !is_told
            && is_elsewhere
            && let Some(count) = unseen.get_mut(&fork.parent)
        {
            *count = count.saturating_sub(1);
        }
    }
    unseen.values().sum()
}
