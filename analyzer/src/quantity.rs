//! Times, sizes and addresses as people write them on a command line.

/// Nanoseconds: `90s`, `1.5m`, `250ms`; a number alone means seconds.
pub(crate) fn duration(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 6] = [
        ("ns", 1),
        ("us", 1000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let wrong = || "expected a time such as 90s, 1.5m or 250ms".to_owned();
    scaled(text, &UNITS, 1_000_000_000).ok_or_else(wrong)
}

/// Bytes: `4096`, `64K`, `1.5M`; no range.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    size(text).ok_or_else(|| "expected a size such as 64K or 1.5M".to_owned())
}

/// Bytes: `4096`, `64K`, `1.5M`.
fn size(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 4] = [("B", 1), ("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];
    scaled(text, &UNITS, 1)
}

/// Lowest and highest size: `64`, `1K..64K`, `1M..`, `..100`.
pub(crate) fn sizes(text: &str) -> Result<(u64, u64), String> {
    let range = match text.split_once("..") {
        None => size(text).map(|size| (size, size)),
        Some((least, most)) => {
            let or = |text: &str, open: u64| {
                if text.is_empty() {
                    Some(open)
                } else {
                    size(text)
                }
            };
            or(least, 0).zip(or(most, u64::MAX))
        }
    };
    range
        .filter(|(least, most)| least <= most)
        .ok_or_else(|| "expected a size or a range such as 1K..64K".to_owned())
}

/// An address: `0x55d0c2a0`, with or without the prefix.
pub(crate) fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| "expected an address such as 0x55d0c2a0".to_owned())
}

/// A number with one of `units`, or without: then `plain` is meant. Up to nine digits behind the point count.
fn scaled(text: &str, units: &[(&str, u64)], plain: u64) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = match unit {
        "" => plain,
        _ => units.iter().find(|(name, _)| *name == unit)?.1,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u64 = whole.parse().ok()?;
    let digits = u32::try_from(part.len())
        .ok()
        .filter(|length| *length <= 9)?;
    let part: u64 = part.parse().ok()?;
    let below = u128::from(part) * u128::from(unit) / u128::from(10u64.pow(digits));
    let all = u128::from(whole) * u128::from(unit) + below;
    u64::try_from(all).ok()
}

#[cfg(test)]
mod tests {
    use super::{address, duration, sizes};

    #[test]
    fn quantities_have_units() {
        assert_eq!(duration("90"), Ok(90_000_000_000));
        assert_eq!(duration("1.5m"), Ok(90_000_000_000));
        assert_eq!(duration("250ms"), Ok(250_000_000));
        assert_eq!(duration("7ns"), Ok(7));
        for wrong in ["", "s", "1.", ".5", "-1", "1x", "99999999999h", "1..2"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(sizes("64"), Ok((64, 64)));
        assert_eq!(sizes("1K..1.5K"), Ok((1024, 1536)));
        assert_eq!(sizes("1M.."), Ok((1 << 20, u64::MAX)));
        assert_eq!(sizes("..100"), Ok((0, 100)));
        assert!(sizes("9..3").is_err() && sizes("x").is_err());
        assert_eq!(address("0x1f"), Ok(31));
        assert_eq!(address("1f"), Ok(31));
        assert!(address("0xg").is_err());
    }
}
