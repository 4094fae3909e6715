//! From the names that compilers write to those that people read.

mod itanium;

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::{self, Write};
use std::sync::Arc;

/// Bytes a name may have; longer ones end in an ellipsis.
const MAX_NAME: usize = 4096;

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
pub(super) struct Names<'a>(FxHashMap<&'a str, Arc<str>>);

impl<'a> Names<'a> {
    /// Makes all of `raw` readable; what cannot be demangled stays as it is.
    pub(super) fn of(raw: impl Iterator<Item = &'a str>, demangle: bool) -> Self {
        let raw: FxHashSet<&str> = raw.collect();
        let readable = raw.into_par_iter().map(|raw| {
            let demangled = demangle.then(|| demangled(raw)).flatten();
            let readable = demangled.unwrap_or_else(|| bounded(raw));
            (raw, Arc::from(readable))
        });
        Self(readable.collect())
    }

    /// The readable form of a name that was among those given.
    pub(super) fn readable(&self, raw: &str) -> Arc<str> {
        let known = self.0.get(raw).map(Arc::clone);
        known.unwrap_or_else(|| Arc::from(bounded(raw)))
    }
}

/// The text, cut where it is too long to be one name.
pub(super) fn bounded(text: &str) -> String {
    let mut bounded = Bounded::default();
    // An error means that it was cut, which is what is wanted.
    let _ = bounded.write_str(text);
    bounded.finish()
}

/// The demangled form, if the name has one.
fn demangled(name: &str) -> Option<String> {
    if is_rust_v0(name) || has_rust_hash(name) {
        rust(name)
    } else {
        itanium::demangle(name).map(|name| bounded(&name))
    }
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
