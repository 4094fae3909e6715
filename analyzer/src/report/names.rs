//! Names of functions in fewer columns: what tells least of them goes first, and they are cut where their parts end.

use super::columns::{columns, cut_middle, cut_start};
use std::borrow::Cow;

const CUT: char = '…';

/// The name in at most `width` columns. Without its parameters first, then without the type of its result, the inner and all arguments of
/// templates, and the scopes that it stands in.
pub(crate) fn shortened(name: &str, width: usize) -> Cow<'_, str> {
    if columns(name) <= width {
        return Cow::Borrowed(name);
    }
    let plain = without_parameters(name);
    let own = without_result(plain);
    for shorter in [plain, own] {
        if columns(shorter) <= width {
            return Cow::Borrowed(shorter);
        }
    }
    for kept in [1, 0] {
        let shorter = with_arguments(own, kept);
        if columns(&shorter) <= width {
            return Cow::Owned(shorter);
        }
    }
    let bare = with_arguments(own, 0);
    let inner = scopes(&bare).map(|at| format!("{CUT}{}", &bare[at..]));
    let fitting = inner.into_iter().find(|inner| columns(inner) <= width);
    Cow::Owned(match fitting {
        Some(inner) if 2 * columns(&inner) >= width => inner,
        Some(_) => cut_start(&bare, width).into_owned(),
        None => cut_middle(last_part(&bare), width).into_owned(),
    })
}

/// A character of a name, with the brackets that are open around it: of all kinds, and of templates' arguments.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    character: char,
    depth: usize,
    arguments: usize,
}

/// The places of a name. An opening bracket is inside of what it opens, as the closing one is.
fn places(name: &str) -> impl Iterator<Item = Place> + Clone {
    let mut open: Vec<char> = Vec::new();
    let mut arguments = 0;
    let mut literal = 0; // where a bracket is one no more
    name.char_indices().map(move |(at, character)| {
        if at >= literal && is_operator(name, at) {
            literal = at + OPERATOR.len() + symbols(&name[at + OPERATOR.len()..]);
        }
        let is_literal = at < literal || character == '>' && name[..at].ends_with('-');
        let (mut opens, mut closes) = (false, false);
        if !is_literal {
            opens = matches!(character, '(' | '<' | '{' | '[');
            closes = open.last().is_some_and(|last| closing(*last) == character);
        }
        if opens {
            open.push(character);
            arguments += usize::from(character == '<');
        }
        let place = Place {
            at,
            character,
            depth: open.len(),
            arguments,
        };
        if closes {
            open.pop();
            arguments -= usize::from(character == '>');
        }
        place
    })
}

const OPERATOR: &str = "operator";

/// Whether the word `operator` begins there.
fn is_operator(name: &str, at: usize) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    name[at..].starts_with(OPERATOR)
        && !name[..at].ends_with(is_word)
        && !name[at + OPERATOR.len()..].starts_with(is_word)
}

/// Bytes of the symbols that name an operator.
fn symbols(text: &str) -> usize {
    if text.starts_with("()") || text.starts_with("[]") {
        return 2;
    }
    let end = text.find(|c| !"<>=-+*/%^&|~!,".contains(c));
    end.unwrap_or(text.len()).min(3)
}

fn closing(open: char) -> char {
    match open {
        '(' => ')',
        '<' => '>',
        '{' => '}',
        _ => ']',
    }
}

/// The name up to its last parameters, if nothing but qualifiers comes after them.
fn without_parameters(name: &str) -> &str {
    let outer = places(name).filter(|place| place.depth == 1);
    let last = outer.filter(|place| place.character == '(').last();
    match last {
        Some(place) if place.at > 0 && scopes(&name[place.at..]).next().is_none() => {
            name[..place.at].trim_end()
        }
        _ => name,
    }
}

/// The name behind the type that stands before it.
fn without_result(name: &str) -> &str {
    let operator = places(name).find(|place| place.depth == 0 && is_operator(name, place.at));
    let end = operator.map_or(name.len(), |place| place.at);
    let spaces = places(name).filter(|place| place.depth == 0 && place.character == ' ');
    let begin = spaces
        .map(|place| place.at + 1)
        .filter(|begin| *begin < end && !name[*begin..].starts_with('['))
        .last();
    &name[begin.unwrap_or(0)..]
}

/// The name with so many levels of templates' arguments, and a sign for those inside.
fn with_arguments(name: &str, levels: usize) -> String {
    let mut short = String::with_capacity(name.len());
    let mut before = 0;
    for place in places(name) {
        if place.arguments <= levels {
            short.push(place.character);
        } else if before <= levels {
            short.push('<');
            short.push(CUT);
            short.push('>');
        }
        before = place.arguments;
    }
    short
}

/// Where the parts of a name begin, but for the first.
fn scopes(name: &str) -> impl Iterator<Item = usize> {
    let outer = places(name).filter(|place| place.depth == 0);
    outer
        .filter(|place| name[place.at..].starts_with("::"))
        .map(|place| place.at + 2)
}

fn last_part(name: &str) -> &str {
    &name[scopes(name).last().unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::shortened;
    use crate::report::columns::columns;

    #[test]
    fn what_tells_least_goes_first() {
        let name =
            "void std::vector<std::pair<int, Foo>, std::allocator<int> >::push<int>(int&&) const";
        for (width, short) in [
            (
                78,
                "void std::vector<std::pair<int, Foo>, std::allocator<int> >::push<int>",
            ),
            (
                68,
                "std::vector<std::pair<int, Foo>, std::allocator<int> >::push<int>",
            ),
            (
                60,
                "std::vector<std::pair<…>, std::allocator<…> >::push<int>",
            ),
            (40, "std::vector<…>::push<…>"),
            (20, "…vector<…>::push<…>"),
            (16, "…push<…>"),
            (6, "p…h<…>"),
        ] {
            assert_eq!(shortened(name, width), short, "{width}");
        }
    }

    #[test]
    fn parts_stay_whole_where_they_can() {
        for (name, width, short) in [
            (
                "leak_string[abi:cxx11](char const*)",
                30,
                "leak_string[abi:cxx11]",
            ),
            ("Foo::operator()(int) const", 20, "Foo::operator()"),
            (
                "std::ostream& std::operator<< <char>(std::ostream&, char)",
                30,
                "std::operator<< <char>",
            ),
            (
                "gw::Pool::operator unsigned long() const",
                36,
                "gw::Pool::operator unsigned long",
            ),
            (
                "(anonymous namespace)::grow(unsigned long)",
                30,
                "(anonymous namespace)::grow",
            ),
            (
                "main::{lambda(int)#1}::operator()(int) const",
                40,
                "main::{lambda(int)#1}::operator()",
            ),
            (
                "std::sys::thread_local::guard::key::enable::set_current_info",
                25,
                "…enable::set_current_info",
            ),
            (
                "<alloc::vec::Vec<T> as core::Extend>::extend",
                20,
                "<…>::extend",
            ),
            (
                "core::ops::function::FnOnce::call_once{{vtable.shim}}",
                30,
                "…call_once{{vtable.shim}}",
            ),
            ("call<fn(i32) -> u8>::run", 16, "call<…>::run"),
            ("reallocate_all_of_it", 10, "rea…_of_it"),
            ("foo [clone .constprop.0]", 20, "foo [c….constprop.0]"),
        ] {
            let found = shortened(name, width);
            assert!(columns(&found) <= width, "{found}");
            assert_eq!(found, short, "{name}");
        }
    }

    #[test]
    fn any_name_fits() {
        for name in [
            "><)(}{][::::",
            "((((((((((((",
            "a<b<c<d<e<f<g",
            "operator",
            "operator<<<<<<<<<<<<<",
            "::大大大大::小小(大)",
            "x -> y > z) <",
            "void operator new[](unsigned long)",
            "",
        ] {
            for width in 1..30 {
                assert!(columns(&shortened(name, width)) <= width, "{name} {width}");
            }
        }
    }
}
