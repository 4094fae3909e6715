//! Text in a buffer of fixed size; what does not fit is cut.
#![forbid(unsafe_code)]

/// See the module.
pub(crate) struct Text<'b> {
    room: &'b mut [u8],
    used: usize,
}

impl<'b> Text<'b> {
    pub(crate) fn new(room: &'b mut [u8]) -> Self {
        Self { room, used: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.room.get(..self.used).unwrap_or_default()
    }

    /// Bytes that still fit.
    pub(crate) fn left(&self) -> usize {
        self.room.len().saturating_sub(self.used)
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let free = self.room.get_mut(self.used..).unwrap_or_default();
        for (to, from) in free.iter_mut().zip(bytes) {
            *to = *from;
            self.used = self.used.wrapping_add(1);
        }
    }

    pub(crate) fn push_decimal(&mut self, mut value: u64) {
        let mut digits = [0; 20];
        let mut first = digits.len();
        loop {
            first = first.wrapping_sub(1);
            let rest;
            (value, rest) = tenth(value);
            if let Some(digit) = digits.get_mut(first) {
                *digit = digit_of(rest);
            }
            if value == 0 {
                break;
            }
        }
        self.push(digits.get(first..).unwrap_or_default());
    }

    /// A number in hexadecimal digits, as few as it takes.
    pub(crate) fn push_number(&mut self, value: u64) {
        let mut shift = 60u32.saturating_sub(value.leading_zeros() & !3);
        loop {
            self.push(&[digit_of(value.wrapping_shr(shift) & 15)]);
            let Some(next) = shift.checked_sub(4) else {
                return;
            };
            shift = next;
        }
    }

    pub(crate) fn push_hex(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.push(&[
                digit_of(u64::from(byte >> 4)),
                digit_of(u64::from(byte & 15)),
            ]);
        }
    }

    /// An entry `key=value` with its end, or nothing if it does not fit whole.
    pub(crate) fn entry(&mut self, key: &[u8], value: &[u8]) -> bool {
        let needed = key.len().saturating_add(value.len()).saturating_add(2);
        if needed > self.left() {
            return false;
        }
        self.push(key);
        self.push(b"=");
        self.push(value);
        self.push(b"\0");
        true
    }

    pub(crate) fn number_entry(&mut self, key: &[u8], value: u64) {
        let mut room = [0; 20];
        let mut digits = Text::new(&mut room);
        digits.push_decimal(value);
        self.entry(key, digits.bytes());
    }
}

/// Takes what comes before the first `at` off `rest`, and that with it; all, where there is none.
#[inline(never)]
pub(crate) fn cut<'t>(rest: &mut &'t [u8], at: u8) -> &'t [u8] {
    let end = rest.iter().take_while(|byte| **byte != at).count();
    let before = rest.get(..end).unwrap_or_default();
    *rest = rest.get(end.wrapping_add(1)..).unwrap_or_default();
    before
}

/// The number with these digits; `None` where there are none, or others as well, or too many.
#[inline(never)]
pub(crate) fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let mut value = None;
    for digit in digits {
        let digit = char::from(*digit).to_digit(radix)?;
        let shifted = value.unwrap_or(0u64).checked_mul(u64::from(radix))?;
        value = Some(shifted.checked_add(u64::from(digit))?);
    }
    value
}

/// A tenth, and what is left over: bit by bit, as many machines divide 64 bits by a long function only.
fn tenth(mut value: u64) -> (u64, u64) {
    let mut rest = 0u64;
    for _ in 0..u64::BITS {
        rest = rest << 1 | value >> 63;
        value <<= 1;
        if let Some(less) = rest.checked_sub(10) {
            rest = less;
            value |= 1;
        }
    }
    (value, rest)
}

fn digit_of(value: u64) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "callers pass 0 to 15")]
    let value = value as u8;
    if value < 10 {
        b'0'.wrapping_add(value)
    } else {
        b'a'.wrapping_sub(10).wrapping_add(value)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Text, cut, number};

    #[test]
    fn what_is_cut_is_there_once() {
        let mut rest = &b"a==b"[..];
        let parts = [(); 5].map(|()| cut(&mut rest, b'='));
        assert_eq!(parts, [&b"a"[..], b"", b"b", b"", b""]);
    }

    #[test]
    fn only_digits_are_a_number() {
        assert_eq!(number(b"ff", 16), Some(255));
        assert_eq!(number(b"00", 10), Some(0));
        assert_eq!(number(b"18446744073709551615", 10), Some(u64::MAX));
        for text in [&b""[..], b"-1", b"1a", b"18446744073709551616"] {
            assert_eq!(number(text, 10), None);
        }
    }

    #[test]
    fn numbers_and_entries_read_as_they_should() {
        let mut room = [0; 64];
        let mut text = Text::new(&mut room);
        text.push_decimal(0);
        text.push_decimal(u64::MAX);
        text.push_hex(&[0x0A, 0xF1]);
        assert_eq!(text.bytes(), b"0184467440737095516150af1");
        text.clear();
        text.number_entry(b"n", 12);
        assert_eq!(text.bytes(), b"n=12\0");
        text.clear();
        for value in [0, 0xF, 0x10, 0x1F2, u64::MAX] {
            text.push_number(value);
            text.push(b" ");
        }
        assert_eq!(text.bytes(), b"0 f 10 1f2 ffffffffffffffff ");
    }

    #[test]
    fn what_does_not_fit_is_cut_and_an_entry_is_left_out() {
        let mut room = [0; 4];
        let mut text = Text::new(&mut room);
        assert!(!text.entry(b"ab", b"c"));
        assert_eq!(text.bytes(), b"");
        text.push(b"abcdef");
        assert_eq!(text.bytes(), b"abcd");
    }
}
