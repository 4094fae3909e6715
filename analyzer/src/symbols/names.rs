//! From the names that compilers write to those that people read.

mod patience;

use rustc_hash::FxHashMap;
use std::fmt::{self, Write};

/// Bytes a name may have; longer ones end in an ellipsis.
const MAX_NAME: usize = 4096;

/// Levels of nesting that are followed. Templates nested 24 deep need 100; a level can take 6 KiB of stack, and
/// in a build for debugging 40.
const MAX_DEPTH: u32 = 320;

/// Letters that can stand in for others.
const STAND_INS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Whether a compiler made this name from a qualified one.
pub(super) fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || is_rust_v0(name)
}

/// Whether this can be a name in Rust's own mangling, unlike `_Rb_tree` of the C++ library.
fn is_rust_v0(name: &str) -> bool {
    let begin = name.strip_prefix("_R").and_then(|rest| rest.bytes().next());
    begin.is_some_and(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// Names as a reader knows them, by what the compiler made of them.
pub(super) struct Names(FxHashMap<String, String>);

impl Names {
    /// Makes all of `raw` readable; what cannot be demangled stays as it is.
    pub(super) fn of<'a>(raw: impl Iterator<Item = &'a str>, demangle: bool) -> Self {
        let mut raw: Vec<String> = raw.map(str::to_owned).collect();
        raw.sort_unstable();
        raw.dedup();
        let demangled = if demangle {
            demangled(&raw)
        } else {
            vec![None; raw.len()]
        };
        let readable = raw.into_iter().zip(demangled).map(|(raw, demangled)| {
            let readable = demangled.unwrap_or_else(|| bounded(&raw));
            (raw, readable)
        });
        Self(readable.collect())
    }

    /// The readable form of a name that was among those given.
    pub(super) fn readable(&self, raw: &str) -> String {
        self.0.get(raw).cloned().unwrap_or_else(|| bounded(raw))
    }
}

/// The text, cut where it is too long to be one name.
pub(super) fn bounded(text: &str) -> String {
    let mut bounded = Bounded::default();
    // An error means that it was cut, which is what is wanted.
    let _ = bounded.write_str(text);
    bounded.finish()
}

/// The demangled forms of those names that have one.
fn demangled(names: &[String]) -> Vec<Option<String>> {
    let is_rust = |name: &str| is_rust_v0(name) || has_rust_hash(name);
    let mut demangled: Vec<Option<String>> = names
        .iter()
        .map(|name| is_rust(name).then(|| rust(name)).flatten())
        .collect();
    let (places, names): (Vec<usize>, Vec<String>) = names
        .iter()
        .enumerate()
        .filter(|(_, name)| name.starts_with("_Z") && !is_rust(name))
        .map(|(place, name)| (place, name.clone()))
        .unzip();
    for (place, name) in places.into_iter().zip(patience::map(names, cpp)) {
        demangled[place] = name;
    }
    demangled
}

/// Whether this is a Rust name in C++'s clothes: it ends in `17h`, 16 hex digits, `E`.
fn has_rust_hash(name: &str) -> bool {
    let path = name.split_once(".llvm.").map_or(name, |(path, _)| path);
    let Some((_, hash)) = path
        .strip_suffix('E')
        .and_then(|path| path.split_at_checked(path.len().checked_sub(19)?))
    else {
        return false;
    };
    hash.strip_prefix("17h")
        .is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

fn rust(name: &str) -> Option<String> {
    let symbol = rustc_demangle::try_demangle(name).ok()?;
    let mut bounded = Bounded::default();
    match write!(bounded, "{symbol:#}") {
        Err(_) if !bounded.is_cut => None,
        _ => Some(bounded.finish()),
    }
}

fn cpp(name: &str) -> Option<String> {
    if name.is_ascii() {
        return thunk(name).or_else(|| ascii_cpp(name));
    }
    // The demangler knows ASCII only, though compilers write UTF-8. So each other letter is replaced by as many
    // bytes that occur nowhere else, for the lengths in the name to stay right, and put back afterwards.
    let mut letters: Vec<char> = name.chars().filter(|letter| !letter.is_ascii()).collect();
    letters.sort_unstable();
    letters.dedup();
    if name.contains('$') || letters.len() > STAND_INS.len() {
        return None;
    }
    let stand_ins: Vec<(char, String)> = letters
        .into_iter()
        .zip(STAND_INS)
        .map(|(letter, &end)| {
            let dollars = "$".repeat(letter.len_utf8() - 1);
            (letter, format!("{dollars}{}", char::from(end)))
        })
        .collect();
    let ascii = stand_ins
        .iter()
        .fold(name.to_owned(), |name, (letter, stand_in)| {
            name.replace(*letter, stand_in)
        });
    let demangled = cpp(&ascii)?;
    Some(
        stand_ins
            .iter()
            .fold(demangled, |name, (letter, stand_in)| {
                name.replace(stand_in, letter.encode_utf8(&mut [0; 4]))
            }),
    )
}

/// A thunk's name, as other tools show it; the demangler has its own way.
fn thunk(name: &str) -> Option<String> {
    let (kind, target) = if let Some(rest) = name.strip_prefix("_ZTh") {
        ("non-virtual thunk to", rest.split_once('_')?.1)
    } else {
        let (_, rest) = name.strip_prefix("_ZTv")?.split_once('_')?;
        ("virtual thunk to", rest.split_once('_')?.1)
    };
    let target = ascii_cpp(&format!("_Z{target}"))?;
    Some(format!("{kind} {target}"))
}

fn ascii_cpp(name: &str) -> Option<String> {
    let parse = cpp_demangle::ParseOptions::default().recursion_limit(MAX_DEPTH);
    let symbol = cpp_demangle::Symbol::new_with_options(name, &parse).ok()?;
    let options = cpp_demangle::DemangleOptions::new().recursion_limit(MAX_DEPTH);
    let mut bounded = Bounded::default();
    match symbol.structured_demangle(&mut bounded, &options) {
        Err(_) if !bounded.is_cut => None,
        _ => Some(bounded.finish()),
    }
}

/// Takes text until a name is long enough, then refuses more: a few bytes of a name can stand for gigabytes.
#[derive(Default)]
struct Bounded {
    text: String,
    is_cut: bool,
}

impl Bounded {
    fn finish(mut self) -> String {
        if self.is_cut {
            self.text.push('…');
        }
        self.text
    }
}

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.is_cut {
            return Err(fmt::Error);
        }
        let room = MAX_NAME - self.text.len();
        if part.len() <= room {
            self.text.push_str(part);
            return Ok(());
        }
        let end = (0..=room)
            .rev()
            .find(|end| part.is_char_boundary(*end))
            .unwrap_or(0);
        self.text.push_str(&part[..end]);
        self.is_cut = true;
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests;
