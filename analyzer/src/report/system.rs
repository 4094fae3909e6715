//! Which calls are the system's: of its libraries, or of their code inside the program.

use super::Frame;

/// Where modules lie that the system brings.
const MODULES: [&str; 8] = [
    "/lib/",
    "/lib32/",
    "/lib64/",
    "/libx32/",
    "/usr/lib/",
    "/usr/lib32/",
    "/usr/lib64/",
    "/usr/libexec/",
];
/// Where source files lie whose code is compiled into the user's modules.
const SOURCES: [&str; 4] = ["/rustc/", HEADERS, "/usr/lib/", "/usr/src/"];
const HEADERS: &str = "/usr/include/";

/// Functions of libraries that allocate for whoever calls them. Where they are hooked, the record has their caller; a log
/// of glibc's mtrace has them.
const FOR_CALLERS: [&str; 9] = [
    "strdup",
    "strndup",
    "wcsdup",
    "asprintf",
    "vasprintf",
    "getline",
    "getdelim",
    "realpath",
    "getcwd",
];

/// Whether all of a stack is the system's: its modules, or its sources compiled into other modules.
///
/// Generic code is not, where nothing tells whom it works for: a program without optimization has its containers in
/// functions of their own, and what they hold is the program's.
#[must_use]
pub fn is_system(stack: &[Frame]) -> bool {
    stack.iter().all(is_system_frame)
        && stack
            .last()
            .is_some_and(|outermost| !is_generic(outermost) && !is_for_caller(outermost))
}

/// Whether the function allocates for its caller, who is not in the stack.
fn is_for_caller(frame: &Frame) -> bool {
    let name = frame.function.as_deref().unwrap_or_default();
    let plain = name.strip_prefix("__GI_").unwrap_or(name);
    FOR_CALLERS.contains(&plain.trim_start_matches('_'))
        || ["operator new", "_Znw", "_Zna"]
            .iter()
            .any(|operator| name.starts_with(operator))
}

pub(crate) fn is_system_frame(frame: &Frame) -> bool {
    is_in_module(frame) || SOURCES.iter().any(|folder| file(frame).starts_with(folder))
}

/// Whether the frame is inside Rust's libraries for allocation.
pub(super) fn is_allocation(frame: &Frame) -> bool {
    file(frame).starts_with("/rustc/")
        && ["/library/alloc/", "/library/core/"]
            .iter()
            .any(|part| file(frame).contains(part))
}

/// Whether the program has the function because it uses a template.
fn is_generic(frame: &Frame) -> bool {
    !is_in_module(frame) && (is_allocation(frame) || file(frame).starts_with(HEADERS))
}

fn is_in_module(frame: &Frame) -> bool {
    let module = frame.module.as_deref().unwrap_or_default();
    MODULES.iter().any(|folder| module.starts_with(folder))
}

fn file(frame: &Frame) -> &str {
    frame.file.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::is_system;
    use crate::report::Frame;
    use std::slice;

    fn frame(module: &str, file: &str) -> Frame {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Frame {
            address: "0x401136".into(),
            module: some(module),
            build_id: None,
            offset: None,
            function: None,
            file: some(file),
            line: None,
            column: None,
            inlined: false,
        }
    }

    #[test]
    fn libraries_and_their_runtime_are_the_systems() {
        let libc = frame("/usr/lib/libc.so.6", "");
        let pool = frame(
            "/lib/libstdc++.so.6",
            "/usr/include/c++/12/bits/new_allocator.h",
        );
        let runtime = frame(
            "/opt/gw",
            "/rustc/59807616/library/std/src/thread/current.rs",
        );
        let alloc = frame("/opt/gw", "/rustc/59807616/library/alloc/src/alloc.rs");
        for system in [&libc, &pool, &runtime] {
            assert!(is_system(slice::from_ref(system)), "{system:?}");
            assert!(is_system(&[alloc.clone(), system.clone()]));
        }
    }

    #[test]
    fn what_is_of_the_program_or_works_for_it_is_not() {
        let own = frame("/opt/gw", "/home/u/gw/src/main.rs");
        let alloc = frame("/opt/gw", "/rustc/59807616/library/alloc/src/alloc.rs");
        let template = frame("/opt/gw", "/usr/include/c++/12/bits/new_allocator.h");
        for program in [&own, &alloc, &template, &frame("", "")] {
            assert!(!is_system(slice::from_ref(program)), "{program:?}");
        }
        for function in [
            "operator new(unsigned long)",
            "_Znam",
            "__strdup",
            "__GI___strdup",
            "getline",
        ] {
            let works = Frame {
                function: Some(function.to_owned()),
                ..frame("/lib/libc.so.6", "")
            };
            assert!(!is_system(slice::from_ref(&works)), "{function}");
        }
        assert!(!is_system(&[alloc, own]));
        assert!(!is_system(&[]));
    }
}
