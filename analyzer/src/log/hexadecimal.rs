//! Hexadecimal numbers of a log: half of the work on one is done here.

use nom::IResult;

/// The value of each byte as a digit; what is none has [`NO_DIGIT`].
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0u8;
    while value < 16 {
        digits[b"0123456789abcdef"[value as usize] as usize] = value;
        digits[b"0123456789ABCDEF"[value as usize] as usize] = value;
        value += 1;
    }
    digits
};
const NO_DIGIT: u8 = 0xFF;

/// A number that fits in 64 bits.
pub(super) fn hexadecimal(text: &[u8]) -> IResult<&[u8], u64> {
    let mut number = 0u64;
    let mut lost = 0;
    let mut digits = 0;
    for byte in text {
        let digit = DIGITS[usize::from(*byte)];
        if digit == NO_DIGIT {
            break;
        }
        lost |= number >> 60;
        number = number << 4 | u64::from(digit);
        digits += 1;
    }
    if digits == 0 || lost != 0 {
        return fail(text);
    }
    Ok((&text[digits..], number))
}

/// No number.
pub(super) fn fail<T>(text: &[u8]) -> IResult<&[u8], T> {
    let kind = nom::error::ErrorKind::HexDigit;
    Err(nom::Err::Error(nom::error::Error::new(text, kind)))
}
