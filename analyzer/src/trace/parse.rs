//! Parsers of what has no fixed length: the text of declarations.

use nom::bytes::complete::{tag, take_while, take_while1};
use nom::combinator::{all_consuming, map_opt, opt};
use nom::multi::{fold_many0, many0};
use nom::sequence::{preceded, terminated};
use nom::{IResult, Parser};

/// One `key=value` of a declaration.
pub(crate) type Entry<'t> = (&'t [u8], &'t [u8]);

/// The entries of a declaration's text. What does not read as an entry is passed over up to the next zero byte.
pub(crate) fn entries(text: &[u8]) -> Vec<Entry<'_>> {
    let parsed: IResult<&[u8], Vec<Option<Entry<'_>>>> = many0(terminated_part).parse(text);
    // `many0` over a parser that only stops at the end of the text has nothing to fail on.
    parsed.map_or_else(
        |_| Vec::new(),
        |(_, entries)| entries.into_iter().flatten().collect(),
    )
}

/// One part of the text up to its zero byte, as an entry if it is one. Fails at the end of the text only.
fn terminated_part(text: &[u8]) -> IResult<&[u8], Option<Entry<'_>>> {
    let (rest, part) = nom::branch::alt((
        terminated(take_while(|byte| byte != 0), tag(&b"\0"[..])),
        take_while1(|byte| byte != 0),
    ))
    .parse(text)?;
    Ok((rest, entry(part).ok().map(|(_, entry)| entry)))
}

fn entry(part: &[u8]) -> IResult<&[u8], Entry<'_>> {
    let key =
        take_while1(|byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    (key, preceded(tag(&b"="[..]), take_while(|_| true))).parse(part)
}

/// A decimal number, all of `text`.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    digits(text, 10)
}

/// A hexadecimal number without prefix, all of `text`.
pub(crate) fn hexadecimal(text: &[u8]) -> Option<u64> {
    digits(text, 16)
}

fn digits(text: &[u8], radix: u32) -> Option<u64> {
    let digit = map_opt(nom::number::complete::u8, |byte| {
        char::from(byte).to_digit(radix)
    });
    let number = fold_many0(
        digit,
        || Some(0u64),
        |sum, digit| {
            sum?.checked_mul(u64::from(radix))?
                .checked_add(u64::from(digit))
        },
    );
    let parsed: IResult<&[u8], Option<u64>> = all_consuming(number).parse(text);
    parsed
        .ok()
        .filter(|_| !text.is_empty())
        .and_then(|(_, n)| n)
}

/// Bytes written as pairs of hexadecimal digits, all of `text`.
pub(crate) fn hex_bytes(text: &[u8]) -> Option<Vec<u8>> {
    fn nibble(text: &[u8]) -> IResult<&[u8], u32> {
        map_opt(nom::number::complete::u8, |byte| {
            char::from(byte).to_digit(16)
        })
        .parse(text)
    }
    let byte = map_opt((nibble, nibble), |(high, low)| {
        u8::try_from(high << 4 | low).ok()
    });
    let parsed: IResult<&[u8], Option<Vec<u8>>> =
        all_consuming(opt(nom::multi::many1(byte))).parse(text);
    parsed.ok().and_then(|(_, bytes)| bytes)
}

#[cfg(test)]
mod tests {
    use super::{decimal, entries, hex_bytes, hexadecimal};

    #[test]
    fn entries_are_read_and_nonsense_is_passed_over() {
        let text = b"exe=/bin/a=b\0arg=\0arg=-v\0NOT A KEY=1\0\0word=8";
        let expected: [(&[u8], &[u8]); 4] = [
            (b"exe", b"/bin/a=b"),
            (b"arg", b""),
            (b"arg", b"-v"),
            (b"word", b"8"),
        ];
        assert_eq!(entries(text), expected);
        assert!(entries(b"").is_empty());
        assert!(entries(b"\0\0").is_empty());
    }

    #[test]
    fn numbers_are_whole_or_none() {
        assert_eq!(decimal(b"183"), Some(183));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"18446744073709551616"), None);
        assert_eq!(decimal(b""), None);
        assert_eq!(decimal(b"12 "), None);
        assert_eq!(hexadecimal(b"deadBEEF"), Some(0xDEAD_BEEF));
        assert_eq!(hex_bytes(b"00ff1A"), Some(vec![0, 255, 26]));
        assert_eq!(hex_bytes(b"00f"), None);
        assert_eq!(hex_bytes(b""), None);
    }
}
