//! The text that names a caller: `FILE:(SYMBOL+OFFSET)[ADDRESS]`, with parts left out.

use super::hexadecimal::hexadecimal;
use nom::bytes::complete::tag;
use nom::combinator::{all_consuming, opt};
use nom::sequence::preceded;
use nom::{IResult, Parser};

/// A caller as its text has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller<'l> {
    /// The module, or the source file and line where there is no address.
    pub(crate) file: Option<&'l [u8]>,
    pub(crate) symbol: Option<Symbol<'l>>,
    /// A run-time address, or one that counts from where the module begins.
    pub(crate) address: Option<u64>,
}

/// A symbol below an address, and how far below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol<'l> {
    pub(crate) name: &'l [u8],
    pub(crate) offset: u64,
    /// The offset has a `0x`, as it had before glibc 2.34.
    pub(crate) is_prefixed: bool,
}

impl<'l> Caller<'l> {
    /// Reads the text of a caller; `None` where it is none.
    pub(crate) fn of(text: &'l [u8]) -> Option<Self> {
        let text = text.trim_ascii();
        if let Some((before, address)) = bracketed(text) {
            let (file, symbol) = file_and_symbol(before)?;
            return Some(Self {
                file,
                symbol,
                address: Some(address),
            });
        }
        if let Some(address) = bare(text) {
            return Some(Self {
                address: Some(address),
                ..Self::default()
            });
        }
        is_source_line(text).then_some(Self {
            file: Some(text),
            ..Self::default()
        })
    }
}

/// `…[0x…]` or `…[0x…]:function`
fn bracketed(text: &[u8]) -> Option<(&[u8], u64)> {
    let close = memchr::memrchr(b']', text)?;
    let after = &text[close + 1..];
    let is_function = after.first() == Some(&b':') && !after.contains(&b' ');
    if !after.is_empty() && !is_function {
        return None;
    }
    let open = memchr::memrchr(b'[', &text[..close])?;
    Some((&text[..open], bare(&text[open + 1..close])?))
}

/// `0x…` and nothing else.
fn bare(text: &[u8]) -> Option<u64> {
    let parsed = all_consuming(preceded(prefix, hexadecimal)).parse(text);
    parsed.ok().map(|(_, address)| address)
}

fn prefix(text: &[u8]) -> IResult<&[u8], &[u8]> {
    tag(&b"0x"[..]).parse(text)
}

type FileAndSymbol<'l> = (Option<&'l [u8]>, Option<Symbol<'l>>);

/// `FILE:`, `FILE:(SYMBOL+OFFSET)`, `(SYMBOL+OFFSET)` or nothing.
fn file_and_symbol(text: &[u8]) -> Option<FileAndSymbol<'_>> {
    if text.is_empty() {
        return Some((None, None));
    }
    if let Some(file) = text.strip_suffix(b":") {
        return is_path(file).then_some((Some(file), None));
    }
    let inside = text.strip_suffix(b")")?;
    let (file, inside) = match memchr::memmem::rfind(inside, b":(") {
        Some(at) => (Some(&inside[..at]), &inside[at + 2..]),
        None => (None, inside.strip_prefix(b"(")?),
    };
    let sign = inside
        .iter()
        .rposition(|byte| matches!(byte, b'+' | b'-'))?;
    let (_, (digits, offset)) = all_consuming((opt(prefix), hexadecimal))
        .parse(&inside[sign + 1..])
        .ok()?;
    let symbol = Symbol {
        name: &inside[..sign],
        offset: match inside[sign] {
            b'-' => offset.wrapping_neg(),
            _ => offset,
        },
        is_prefixed: digits.is_some(),
    };
    (file.is_none_or(is_path) && !symbol.name.is_empty()).then_some((file, Some(symbol)))
}

/// Whether a file can have this name, and no part of another record is in it.
fn is_path(text: &[u8]) -> bool {
    let holds = |part: &[u8]| memchr::memmem::find(text, part).is_some();
    !text.is_empty() && !holds(b"\0") && !holds(b"] ") && !holds(b"@ ") && !holds(b"[0x")
}

/// `FILE:LINE`
fn is_source_line(text: &[u8]) -> bool {
    let Some(colon) = text.iter().rposition(|byte| *byte == b':') else {
        return false;
    };
    let (file, line) = (&text[..colon], &text[colon + 1..]);
    let is_number = !line.is_empty() && line.iter().all(u8::is_ascii_digit);
    is_number && is_path(file) && !file.contains(&b' ')
}

/// The caller at the end of what stands before a sign, and whether that has the rest of another record before it;
/// `None` where the text shows that the sign is not that of a record.
pub(super) fn before_sign(text: &[u8]) -> Option<(Option<&[u8]>, bool)> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Some((None, false));
    }
    if let Some(at) = memchr::memmem::rfind(text, b"@ ") {
        let (before, caller) = (&text[..at], text[at + 2..].trim_ascii());
        if Caller::of(caller).is_some() {
            return Some((Some(caller), is_rest(before)));
        }
    }
    // The blank after `@` is left out by some, the `@` by others.
    let last = memchr::memrchr(b' ', text).map_or(0, |blank| blank + 1);
    for start in [0, last] {
        let caller = &text[start..];
        let caller = caller.strip_prefix(b"@").unwrap_or(caller);
        if Caller::of(caller).is_some_and(|caller| caller.address.is_some()) {
            return Some((Some(caller), is_rest(&text[..start])));
        }
    }
    if is_stamp(text) {
        return Some((None, false));
    }
    let word = &text[last..];
    let is_end_of_caller = word.ends_with(b"]") && !word.contains(&b'[');
    (is_end_of_caller || word.starts_with(b"@")).then_some((None, true)) // the record is whole, its caller is not
}

/// Whether the text is of a record that was cut off.
fn is_rest(text: &[u8]) -> bool {
    memchr::memmem::find(text, b"[0x").is_some()
        || memchr::memmem::find(text, b"@ ").is_some()
        || text.contains(&0)
}

/// Whether the text is a time, a pid or the like: digits and signs, and no bracket without the other.
fn is_stamp(text: &[u8]) -> bool {
    let is_of_stamp = |byte: &u8| {
        byte.is_ascii_digit() || byte.is_ascii_whitespace() || b"[](){}<>:.,-+/#TZ|".contains(byte)
    };
    let number_of = |bracket: u8| text.iter().filter(|byte| **byte == bracket).count();
    text.iter().all(is_of_stamp)
        && text.iter().any(u8::is_ascii_digit)
        && number_of(b'[') == number_of(b']')
}
