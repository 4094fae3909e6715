//! What the script's language does with fields and numbers, as far as its output shows it.

/// The fields of a line: runs of bytes between blanks of any kind.
pub(super) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| is_blank(*byte))
        .filter(|field| !field.is_empty())
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0B
}

/// `hex`: digits up to the first other byte, after an optional `0x` or `x`; one `_` may stand before a digit.
/// What does not fit in 64 bits prints as the largest number that does.
pub(in crate::mtrace) fn hex(text: &[u8]) -> u64 {
    let digits = match text {
        [b'0', b'x' | b'X', rest @ ..] | [b'x' | b'X', rest @ ..] => rest,
        _ => text,
    };
    let mut value = 0u64;
    let mut at = 0;
    while let Some(byte) = digits.get(at) {
        let skips = *byte == b'_' && digits.get(at + 1).is_some_and(u8::is_ascii_hexdigit);
        at += usize::from(skips);
        let Some(digit) = digits
            .get(at)
            .and_then(|byte| char::from(*byte).to_digit(16))
        else {
            break;
        };
        value = match value.checked_mul(16) {
            Some(shifted) => shifted | u64::from(digit),
            None => return u64::MAX,
        };
        at += 1;
    }
    value
}

/// `%#018x`, `%#010x`: zero has no `0x`.
pub(super) fn padded(value: u64, width: usize) -> String {
    match value {
        0 => "0".repeat(width),
        _ => format!("{value:#0width$x}"),
    }
}

/// `%#8x`.
pub(super) fn right(value: u64) -> String {
    match value {
        0 => "       0".to_owned(),
        _ => format!("{value:#8x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{fields, hex, padded, right};

    #[test]
    fn numbers_end_at_the_first_other_byte() {
        for (text, value) in [
            ("0x10", 0x10),
            ("10", 0x10),
            ("X1f", 0x1F),
            ("0xABCDzz", 0xABCD),
            ("0x", 0),
            ("(nil)", 0),
            ("0x1_0", 0x10),
            ("0x1__0", 1),
            ("0xffffffffffffffff", u64::MAX),
            ("0x10000000000000000", u64::MAX),
            ("", 0),
        ] {
            assert_eq!(hex(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn zero_has_no_prefix() {
        assert_eq!(padded(0, 18), "000000000000000000");
        assert_eq!(padded(0x10, 18), "0x0000000000000010");
        assert_eq!(padded(u64::MAX, 10), "0xffffffffffffffff");
        assert_eq!(right(0), "       0");
        assert_eq!(right(0x20), "    0x20");
    }

    #[test]
    fn blanks_of_any_kind_part_fields() {
        let found: Vec<_> = fields(b" \t@ ./app:[0x1]\x0b+\r\n").collect();
        assert_eq!(found, [&b"@"[..], b"./app:[0x1]", b"+"]);
        assert_eq!(fields(b"\0\0@ x").next(), Some(&b"\0\0@"[..]));
    }
}
