//! Pairs what is in two lists, in order.

/// Pairs all of the shorter list with as many of the longer one, in order, so that as many pairs as can be are the same; and
/// what is left.
pub(super) fn paired<T>(
    old: Vec<T>,
    new: Vec<T>,
    is_same: impl Fn(&T, &T) -> bool,
) -> (Vec<(T, T)>, [Vec<T>; 2]) {
    let is_swapped = old.len() > new.len();
    let (few, many) = if is_swapped { (new, old) } else { (old, new) };
    let chosen = chosen(&few, &many, is_same);
    let mut few = few.into_iter();
    let (mut pairs, mut left) = (Vec::new(), Vec::new());
    for (side, is_chosen) in many.into_iter().zip(chosen) {
        match is_chosen.then(|| few.next()).flatten() {
            Some(other) if is_swapped => pairs.push((side, other)),
            Some(other) => pairs.push((other, side)),
            None => left.push(side),
        }
    }
    let left = if is_swapped {
        [left, Vec::new()]
    } else {
        [Vec::new(), left]
    };
    (pairs, left)
}

/// Which of `many` go with those of `few`: the first ones, unless with others more are the same.
fn chosen<T>(few: &[T], many: &[T], is_same: impl Fn(&T, &T) -> bool) -> Vec<bool> {
    const LARGE: usize = 1 << 20;
    let spare = many.len() - few.len();
    if spare == 0 || few.len().saturating_mul(spare + 1) > LARGE {
        return (0..many.len()).map(|at| at < few.len()).collect();
    }
    // Of the pairs from the one at `few[at]` on, the most that are the same where `skipped` of `many` were left out before.
    let width = spare + 1;
    let mut best = vec![0u32; (few.len() + 1) * width];
    let same = |at: usize, skipped: usize| u32::from(is_same(&few[at], &many[at + skipped]));
    for at in (0..few.len()).rev() {
        for skipped in (0..width).rev() {
            let taken = same(at, skipped) + best[(at + 1) * width + skipped];
            let later = if skipped < spare {
                best[at * width + skipped + 1]
            } else {
                0
            };
            best[at * width + skipped] = taken.max(later);
        }
    }
    let (mut at, mut skipped) = (0, 0);
    let choose = |_| {
        let takes = at < few.len()
            && best[at * width + skipped] == same(at, skipped) + best[(at + 1) * width + skipped];
        if takes {
            at += 1;
        } else {
            skipped += 1;
        }
        takes
    };
    (0..many.len()).map(choose).collect()
}
