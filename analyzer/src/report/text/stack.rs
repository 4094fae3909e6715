//! Frames as function and place, the user's before the system's.

use super::page::Page;
use crate::report::Frame;
use crate::report::columns::{columns, cut_end, cut_start, escape, left};
use crate::report::names::shortened;
use crate::report::system::{is_generic, is_system_frame};
use std::path::Path;

/// Parts of a path that are shown where the file is not below the base.
const SHOWN_PARTS: usize = 3;

/// A frame to be shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) function: String,
    pub(super) place: String,
}

/// How frames of one process are named.
pub(super) struct Names<'r> {
    base: Option<&'r Path>,
    exe: Option<&'r str>,
    depth: usize,
}

impl<'r> Names<'r> {
    pub(super) fn new(page: &Page<'r>, exe: Option<&'r str>) -> Self {
        Self {
            base: page.options.base.as_deref(),
            exe,
            depth: page.options.depth,
        }
    }

    /// The frames to show, innermost first. System frames before the first of the user are left out.
    pub(super) fn calls(&self, stack: &[Frame]) -> Vec<Call> {
        let shown = stack.iter().skip(leading_system_frames(stack));
        shown
            .take(self.depth)
            .map(|frame| Call {
                function: function(frame),
                place: self.place(frame),
            })
            .collect()
    }

    /// The frame to show where there is room for one.
    pub(super) fn call(&self, stack: &[Frame]) -> Call {
        match stack.get(leading_system_frames(stack)) {
            Some(frame) => Call {
                function: function(frame),
                place: self.place(frame),
            },
            None => Call {
                function: "unknown call site".to_owned(),
                place: String::new(),
            },
        }
    }

    /// The module of a stack's first shown frame, unless that is the executable or stands there already.
    pub(super) fn module(&self, stack: &[Frame]) -> Option<String> {
        let frame = stack.get(leading_system_frames(stack))?;
        frame.file.as_ref()?;
        let module = frame.module.as_deref()?;
        (Some(module) != self.exe).then(|| escape(file_name(module)).into_owned())
    }

    fn place(&self, frame: &Frame) -> String {
        match (&frame.file, frame.line) {
            (Some(file), Some(line)) => format!("{}:{line}", self.file(file)),
            (Some(file), None) => self.file(file),
            (None, _) if frame.function.is_some() => {
                let module = frame.module.as_deref().map(file_name);
                escape(module.unwrap_or_default()).into_owned()
            }
            (None, _) => String::new(),
        }
    }

    fn file(&self, file: &str) -> String {
        let below = self
            .base
            .and_then(|base| Path::new(file).strip_prefix(base).ok());
        let shown = below.and_then(Path::to_str).unwrap_or_else(|| {
            let cut = file.rmatch_indices('/').nth(SHOWN_PARTS - 1);
            cut.map_or(file, |(at, _)| &file[at + 1..])
        });
        escape(shown).into_owned()
    }
}

/// How many frames to pass over: those before the user's first. In a stack of system frames only, those of generic code; if there are no
/// others, all but the outermost, which tells most of what it is for.
fn leading_system_frames(stack: &[Frame]) -> usize {
    let first_of_user = stack.iter().position(|frame| !is_system_frame(frame));
    let first_caller = || stack.iter().position(|frame| !is_generic(frame));
    let outermost = stack.len().saturating_sub(1);
    first_of_user.or_else(first_caller).unwrap_or(outermost)
}

/// Whether all that is shown of a stack is generic code of a library: who called it is not known then.
pub(super) fn is_without_caller(stack: &[Frame]) -> bool {
    !stack.is_empty() && stack.iter().all(is_generic)
}

fn function(frame: &Frame) -> String {
    let name = match (&frame.function, &frame.module, &frame.offset) {
        (Some(function), _, _) => function.clone(),
        (None, Some(module), Some(offset)) => format!("{}+{offset}", file_name(module)),
        (None, Some(module), None) => format!("{} at {}", file_name(module), frame.address),
        (None, None, _) => frame.address.clone(),
    };
    escape(&name).into_owned()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Columns below which a call has a line of its own.
const LEAST: usize = 24;

/// Writes a row for each head and the call that it is about, the calls below each other.
pub(super) fn rows(page: &mut Page<'_>, heads: &[String], calls: &[Call]) {
    let head = heads.iter().map(|head| columns(head)).max().unwrap_or(0);
    let beside = page.width().saturating_sub(2 + head + 2);
    let is_beside = beside >= LEAST;
    let room = match is_beside {
        true => beside,
        false => page.width().saturating_sub(4),
    };
    let widths = split(&calls.iter().collect::<Vec<_>>(), room);
    for (text, call) in heads.iter().zip(calls) {
        let call = call.in_columns(widths);
        if is_beside {
            page.line(&format!("  {}  {call}", left(text, head)));
        } else {
            page.line(&cut_end(&format!("  {text}"), page.width()));
            page.line(&format!("    {call}"));
        }
    }
}

/// Widths of the function and the place column for calls in `room` columns.
pub(super) fn split(calls: &[&Call], room: usize) -> (usize, usize) {
    let widest = |of: fn(&Call) -> &str| {
        calls
            .iter()
            .map(|call| columns(of(call)))
            .max()
            .unwrap_or(0)
    };
    let function = widest(|call| &call.function);
    let place = widest(|call| &call.place);
    let room = room.saturating_sub(2);
    if function + place <= room {
        return (function, place);
    }
    // Each side has half of the room, and what the other leaves.
    let place = place.min(room.saturating_sub(function).max(room / 2));
    (function.min(room - place), place)
}

impl Call {
    /// Function and place in columns of their own.
    pub(super) fn in_columns(&self, (function, place): (usize, usize)) -> String {
        let name = left(&shortened(&self.function, function), function);
        format!("{name}  {}", cut_start(&self.place, place))
            .trim_end()
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{Call, Names, split};
    use crate::report::Frame;
    use std::path::Path;

    fn frame(module: &str, function: &str, file: &str) -> Frame {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Frame {
            address: "0x401136".into(),
            module: some(module),
            build_id: None,
            offset: Some("0x1136".into()),
            function: some(function),
            file: some(file),
            line: Some(7).filter(|_| !file.is_empty()),
            column: None,
            inlined: false,
        }
    }

    fn names() -> Names<'static> {
        Names {
            base: Some(Path::new("/home/u/gw")),
            exe: Some("/opt/gw"),
            depth: 2,
        }
    }

    #[test]
    fn the_users_frame_comes_first() {
        let stack = [
            frame(
                "/opt/gw",
                "alloc::alloc::alloc",
                "/rustc/59807616/library/alloc/src/alloc.rs",
            ),
            frame("/usr/lib/libx.so.1", "x_new", ""),
            frame("/opt/gw", "read", "/home/u/gw/src/read.rs"),
            frame("/opt/gw", "main", "/home/u/gw/src/main.rs"),
            frame("/opt/gw", "start", ""),
        ];
        let calls = names().calls(&stack);
        assert_eq!(calls.len(), 2);
        assert_eq!(
            (&*calls[0].function, &*calls[0].place),
            ("read", "src/read.rs:7")
        );
        assert_eq!(names().calls(&stack[..2])[0].function, "x_new");
        assert_eq!(
            names().calls(&stack[..1])[0].function,
            "alloc::alloc::alloc"
        );
    }

    #[test]
    fn what_is_unknown_is_named_by_what_is_known() {
        let call = |frame: Frame| names().call(&[frame]);
        assert_eq!(
            call(frame("/lib/libc.so.6", "", "")).function,
            "libc.so.6+0x1136"
        );
        assert_eq!(call(frame("", "", "")).function, "0x401136");
        assert_eq!(
            call(frame("/lib/libc.so.6", "qsort", "")).place,
            "libc.so.6"
        );
        assert_eq!(
            call(frame("/opt/gw", "f", "/a/b/c/d/e.c")).place,
            "c/d/e.c:7"
        );
        assert_eq!(call(frame("/opt/gw", "f", "/e.c")).place, "/e.c:7");
        assert_eq!(names().call(&[]).function, "unknown call site");
        let generic = ["allocate", "_M_allocate", "std::vector<int>::resize"];
        let stack = generic.map(|name| frame("/opt/gw", name, "/usr/include/c++/12/x.h"));
        assert_eq!(names().call(&stack).function, "std::vector<int>::resize");
    }

    #[test]
    fn a_module_of_unknown_place_is_named_with_the_address() {
        let call = names().call(&[Frame {
            offset: None,
            ..frame("./gw", "", "")
        }]);
        assert_eq!(call.function, "gw at 0x401136");
    }

    #[test]
    fn only_other_modules_than_the_executable_are_named() {
        let module = |name: &str, file: &str| names().module(&[frame(name, "f", file)]);
        assert_eq!(module("/opt/gw", "/a.c"), None);
        assert_eq!(module("/opt/plug.so", "/a.c").as_deref(), Some("plug.so"));
        assert_eq!(module("/opt/plug.so", ""), None);
    }

    #[test]
    fn columns_share_the_room() {
        let call = |function: usize, place: usize| Call {
            function: "f".repeat(function),
            place: "p".repeat(place),
        };
        assert_eq!(split(&[&call(5, 5), &call(3, 9)], 30), (5, 9));
        assert_eq!(split(&[&call(50, 9)], 30), (19, 9));
        assert_eq!(split(&[&call(5, 50)], 30), (5, 23));
        assert_eq!(split(&[&call(50, 50)], 30), (14, 14));
        assert_eq!(split(&[], 0), (0, 0));
    }
}
