//! What names say of a release by another family than that of the allocation.
//!
//! A program may bring operators of its own, or have those of the library linked in. Then the recorder sees the
//! `malloc` and `free` in them, or one of these and one operator, though the program did nothing wrong.

use crate::report::Frame;
use heapwire_format::Family;

/// What a mismatch is, once the calls have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fault,
    /// The call of `malloc` or `free` has no name: an operator may have made it.
    Unsure,
    NoFault,
}

/// A call of a block's life: its family and its stack.
pub(crate) type Side<'a> = (Family, &'a [Frame]);

/// Judges a block that was allocated and released so.
pub(crate) fn verdict(allocation: Side<'_>, release: Side<'_>) -> Verdict {
    if is_in(allocation.1, &["operator new", "_Znw", "_Zna"])
        || is_in(release.1, &["operator delete", "_Zdl", "_Zda"])
    {
        return Verdict::NoFault;
    }
    let is_nameless = |(family, stack): Side<'_>| {
        matches!(family, Family::Malloc | Family::Aligned)
            && stack.first().is_none_or(|frame| frame.function.is_none())
    };
    if is_nameless(allocation) || is_nameless(release) {
        return Verdict::Unsure;
    }
    Verdict::Fault
}

/// Whether the call is in a function whose name begins so: in the innermost, or one that this was merged into.
fn is_in(stack: &[Frame], names: &[&str]) -> bool {
    let outermost = stack.iter().position(|frame| !frame.inlined);
    let at_call = &stack[..outermost.map_or(stack.len(), |last| last + 1)];
    at_call
        .iter()
        .filter_map(|frame| frame.function.as_deref())
        .any(|function| names.iter().any(|name| function.starts_with(name)))
}

#[cfg(test)]
mod tests {
    use super::{Verdict, verdict};
    use crate::report::Frame;
    use heapwire_format::Family;

    fn stack(functions: &[(&str, bool)]) -> Vec<Frame> {
        let frame = |&(function, inlined): &(&str, bool)| Frame {
            address: "0x401136".into(),
            module: Some("/opt/app".into()),
            build_id: None,
            offset: None,
            function: Some(function.to_owned()).filter(|name| !name.is_empty()),
            file: None,
            line: None,
            column: None,
            inlined,
        };
        functions.iter().map(frame).collect()
    }

    fn of(allocation: (Family, &[(&str, bool)]), release: (Family, &[(&str, bool)])) -> Verdict {
        verdict(
            (allocation.0, &stack(allocation.1)),
            (release.0, &stack(release.1)),
        )
    }

    const MAIN: &[(&str, bool)] = &[("main", false)];
    const NONE: &[(&str, bool)] = &[("", false)];

    #[test]
    fn a_call_inside_an_operator_is_no_fault() {
        for name in [
            "operator new(unsigned long)",
            "operator new[](unsigned long)",
            "_Znwm",
        ] {
            let inside = [(name, false), ("main", false)];
            let merged = [("allocate", true), (name, true), ("main", false)];
            let caller = [("grow", false), (name, false)];
            let new = |stack| of((Family::Malloc, stack), (Family::New, MAIN));
            assert_eq!(new(&inside), Verdict::NoFault);
            assert_eq!(new(&merged), Verdict::NoFault);
            assert_eq!(new(&caller), Verdict::Fault);
        }
        for name in [
            "operator delete(void*)",
            "operator delete[](void*)",
            "_ZdaPv",
        ] {
            let release = of((Family::New, MAIN), (Family::Malloc, &[(name, false)]));
            assert_eq!(release, Verdict::NoFault);
        }
    }

    #[test]
    fn a_malloc_or_free_without_a_name_may_be_in_an_operator() {
        let (malloc, new, array) = (Family::Malloc, Family::New, Family::NewArray);
        assert_eq!(of((malloc, NONE), (new, MAIN)), Verdict::Unsure);
        assert_eq!(of((new, MAIN), (malloc, NONE)), Verdict::Unsure);
        assert_eq!(of((malloc, MAIN), (new, NONE)), Verdict::Fault);
        assert_eq!(of((new, NONE), (malloc, MAIN)), Verdict::Fault);
        assert_eq!(of((new, NONE), (array, NONE)), Verdict::Fault);
    }
}
