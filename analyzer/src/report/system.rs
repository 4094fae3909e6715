//! Which calls are the system's: of its libraries, or of their code inside the program.

use super::{Frame, Leak};

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

/// Begins of names that only libraries of the system have, for programs that are linked statically, as those in Rust are with Rust's own. Where
/// there are lines, the files say it.
const LINKED: [&str; 10] = [
    "std::sys::",
    "std::rt::",
    "_dl_",
    "_IO_",
    "_nl_",
    "__libc_",
    "__gconv",
    "__new_exitfn",
    "__cxa_",
    "_GLOBAL__sub_I_eh_alloc",
];

/// Where Rust's libraries have what allocates for all others.
const ALLOCATION: [&str; 4] = [
    "/library/alloc/",
    "/library/core/",
    "/library/std/src/alloc.rs",
    "/library/std/src/sys/alloc/",
];

/// Functions of libraries that allocate for whoever calls them. The recorder has their callers, so what is told of them in its
/// traces they did for libraries; a log of glibc's mtrace has nothing else.
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

/// Classes of the C++ library that hold memory for whoever has one. The library has functions of theirs for common types, which programs call.
const CONTAINERS: [&str; 17] = [
    "basic_string",
    "string",
    "wstring",
    "basic_stringbuf",
    "vector",
    "_Vector_base",
    "deque",
    "_Deque_base",
    "list",
    "map",
    "multimap",
    "set",
    "multiset",
    "unordered_map",
    "unordered_set",
    "_Rb_tree",
    "_Hashtable",
];

/// Whether all of a stack is the system's: its modules, or its sources compiled into other modules.
///
/// Generic code is not, where nothing tells whom it works for: a program without optimization has its containers in
/// functions of their own, and what they hold is the program's. The executable, of the path `exe`, is the program's wherever it lies.
#[must_use]
pub fn is_system(leak: &Leak, exe: Option<&str>) -> bool {
    let is_of_log = leak.oldest_line.is_some();
    let is_own_module = |frame: &Frame| exe.is_some() && frame.module.as_deref() == exe;
    let is_systems = |frame| match is_own_module(frame) {
        true => is_linked(frame),
        false => is_system_frame(frame),
    };
    leak.stack.iter().all(is_systems)
        && leak.stack.last().is_some_and(|outermost| {
            let is_anybodys = is_of_log && is_for_caller(outermost);
            !is_generic(outermost)
                && !is_operator(outermost)
                && !is_of_container(outermost)
                && !is_anybodys
        })
}

/// Whether the function allocates for its caller, who is not in the stack.
fn is_for_caller(frame: &Frame) -> bool {
    let name = function(frame);
    let plain = name.strip_prefix("__GI_").unwrap_or(name);
    FOR_CALLERS.contains(&plain.trim_start_matches('_'))
}

/// Whether it is an `operator new`, whose caller is not in the stack.
fn is_operator(frame: &Frame) -> bool {
    ["operator new", "_Znw", "_Zna"]
        .iter()
        .any(|operator| function(frame).starts_with(operator))
}

/// Whether it is a function of a container in the C++ library, whose caller is not in the stack.
fn is_of_container(frame: &Frame) -> bool {
    let module = frame.module.as_deref().unwrap_or_default();
    let file = module.rsplit('/').next().unwrap_or_default();
    let is_library = ["libstdc++.so", "libc++.so"]
        .iter()
        .any(|library| file.starts_with(library));
    is_library && class(function(frame)).is_some_and(|class| CONTAINERS.contains(&class))
}

/// The class in the namespace `std` that a function belongs to, whether the name is demangled or not.
fn class(function: &str) -> Option<&str> {
    if let Some(mangled) = function.strip_prefix("_ZN") {
        let mangled = mangled.strip_prefix('K').unwrap_or(mangled);
        // The C++ ABI abbreviates the strings of before C++11.
        if mangled.starts_with("Ss") || mangled.starts_with("Sb") {
            return Some("basic_string");
        }
        let mut rest = mangled.strip_prefix("St")?;
        for inline in ["7__cxx11", "3__1"] {
            rest = rest.strip_prefix(inline).unwrap_or(rest);
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let length: usize = rest[..digits].parse().ok()?;
        return rest.get(digits..digits.checked_add(length)?);
    }
    // Function templates have the type of their result before their name.
    let name = function.strip_prefix("void ").unwrap_or(function);
    let mut name = name.strip_prefix("std::")?;
    for inline in ["__cxx11::", "__1::"] {
        name = name.strip_prefix(inline).unwrap_or(name);
    }
    name.split(['<', ':']).next()
}

pub(crate) fn is_system_frame(frame: &Frame) -> bool {
    is_in_module(frame) || is_linked(frame)
}

/// Whether it is the system's code, in whatever module.
fn is_linked(frame: &Frame) -> bool {
    SOURCES.iter().any(|folder| file(frame).starts_with(folder))
        || frame.file.is_none()
            && LINKED
                .iter()
                .any(|begin| function(frame).starts_with(begin))
}

/// Whether the frame is inside Rust's libraries for allocation.
fn is_allocation(frame: &Frame) -> bool {
    file(frame).starts_with("/rustc/") && ALLOCATION.iter().any(|part| file(frame).contains(part))
}

/// Whether the program has the function because it uses a template.
pub(super) fn is_generic(frame: &Frame) -> bool {
    !is_in_module(frame) && (is_allocation(frame) || file(frame).starts_with(HEADERS))
}

fn is_in_module(frame: &Frame) -> bool {
    let module = frame.module.as_deref().unwrap_or_default();
    MODULES.iter().any(|folder| module.starts_with(folder))
}

fn function(frame: &Frame) -> &str {
    frame.function.as_deref().unwrap_or_default()
}

fn file(frame: &Frame) -> &str {
    frame.file.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::report::{Frame, Leak};

    fn is_system(leak: &Leak) -> bool {
        super::is_system(leak, Some("/opt/gw"))
    }

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

    fn of(stack: &[&Frame], is_of_log: bool) -> Leak {
        Leak {
            bytes: 1,
            blocks: 1,
            allocations: 1,
            oldest_ns: (!is_of_log).then_some(0),
            oldest_is_lower_bound: false,
            oldest_line: is_of_log.then_some(7),
            stack: stack.iter().copied().cloned().collect(),
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
        let linked = Frame {
            function: Some("_dl_new_object".to_owned()),
            ..frame("/opt/gw", "")
        };
        let rust = Frame {
            function: Some("std::sys::pal::unix::thread_info::set_current_info".to_owned()),
            ..frame("/opt/gw", "")
        };
        let alloc = frame("/opt/gw", "/rustc/59807616/library/alloc/src/alloc.rs");
        for system in [&libc, &pool, &runtime, &linked, &rust] {
            assert!(is_system(&of(&[system], false)), "{system:?}");
            assert!(is_system(&of(&[&alloc, system], false)));
        }
    }

    #[test]
    fn what_is_of_the_program_or_works_for_it_is_not() {
        let own = frame("/opt/gw", "/home/u/gw/src/main.rs");
        let alloc = frame("/opt/gw", "/rustc/59807616/library/alloc/src/alloc.rs");
        let aligned = frame(
            "/opt/gw",
            "/rustc/59807616/library/std/src/sys/alloc/unix.rs",
        );
        let template = frame("/opt/gw", "/usr/include/c++/12/bits/new_allocator.h");
        let alike = Frame {
            function: Some("_dl_my_own".to_owned()),
            ..own.clone()
        };
        for program in [&own, &alloc, &aligned, &template, &alike, &frame("", "")] {
            assert!(!is_system(&of(&[program], false)), "{program:?}");
        }
        assert!(!is_system(&of(&[&alloc, &own], false)));
        assert!(!is_system(&of(&[], false)));
    }

    #[test]
    fn the_program_is_no_library_wherever_it_is_installed() {
        let own = frame("/usr/libexec/gwd", "");
        let runtime = frame("/usr/libexec/gwd", "/rustc/59807616/library/std/src/rt.rs");
        let library = frame("/usr/lib/libz.so.1", "");
        for (stack, is_the_systems) in [
            (vec![&own], false),
            (vec![&runtime], true),
            (vec![&library], true),
            (vec![&library, &own], false),
        ] {
            let leak = of(&stack, false);
            assert_eq!(
                super::is_system(&leak, Some("/usr/libexec/gwd")),
                is_the_systems
            );
            assert!(super::is_system(&leak, Some("/usr/bin/other")));
        }
    }

    #[test]
    fn what_containers_in_the_cxx_library_hold_is_whose_they_are() {
        for (function, is_the_systems) in [
            (
                "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create(unsigned long&, unsigned long)",
                false,
            ),
            (
                "std::string::_Rep::_S_create(unsigned long, unsigned long, std::allocator<char> const&)",
                false,
            ),
            (
                "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)",
                false,
            ),
            (
                "std::__1::basic_string<char>::__grow_by(unsigned long)",
                false,
            ),
            (
                "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_mutateEmmPKcm",
                false,
            ),
            ("_ZNSs4_Rep9_S_createEmmRKSaIcE", false),
            ("_ZNSt3__112basic_stringIcE7reserveEm", false),
            (
                "std::locale::_Impl::_Impl(char const*, unsigned long)",
                true,
            ),
            ("std::messages<char>::messages(__locale_struct*)", true),
            ("_ZNSt6locale5_ImplC2EPKcm", true),
            ("_ZNSt99999999999999999999x", true),
            ("_ZNSt9x", true),
            ("", true),
        ] {
            let frame = |module: &str| Frame {
                function: Some(function.to_owned()),
                ..frame(module, "")
            };
            let found = |module: &str| is_system(&of(&[&frame(module)], false));
            assert_eq!(
                found("/lib/libstdc++.so.6.0.30"),
                is_the_systems,
                "{function}"
            );
            assert!(found("/usr/lib/libicuuc.so.72"), "a library has its own");
        }
    }

    #[test]
    fn functions_that_allocate_for_their_callers_do_it_for_libraries_unless_a_log_names_them() {
        for (function, is_for_libraries) in [
            ("operator new(unsigned long)", false),
            ("_Znam", false),
            ("__strdup", true),
            ("__GI___strdup", true),
            ("getline", true),
        ] {
            let works = Frame {
                function: Some(function.to_owned()),
                ..frame("/lib/libc.so.6", "")
            };
            let found = [false, true].map(|is_of_log| is_system(&of(&[&works], is_of_log)));
            assert_eq!(found, [is_for_libraries, false], "{function}");
        }
    }
}
