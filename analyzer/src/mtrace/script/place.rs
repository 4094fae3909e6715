//! The caller in a line as the script takes it apart, with the patterns that it has for it.

/// What the script makes of the text after `@`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mtrace) enum Place<'l> {
    /// `…[0x…]:function`; all that it keeps of the name is the last byte.
    Function { last: Option<u8>, pc: &'l [u8] },
    /// `file:…[0x…]`
    File { file: &'l [u8], pc: &'l [u8] },
    /// `…[0x…]`
    Address { pc: &'l [u8] },
    /// Anything else is shown as it is.
    Text(&'l [u8]),
}

impl<'l> Place<'l> {
    pub(in crate::mtrace) fn of(text: &'l [u8]) -> Self {
        if let Some((pc, name)) = before_function(text) {
            return Self::Function {
                last: name.last().copied(),
                pc,
            };
        }
        let Some((before, pc)) = at_end(text) else {
            return Self::Text(text);
        };
        match before.iter().rposition(|byte| *byte == b':') {
            Some(colon) => Self::File {
                file: &before[..colon],
                pc,
            },
            None => Self::Address { pc },
        }
    }
}

/// The last `[0x…]:`, and what follows it.
fn before_function(text: &[u8]) -> Option<(&[u8], &[u8])> {
    openings(text).find_map(|open| {
        let inside = &text[open + 1..];
        let close = inside.iter().position(|byte| *byte == b']')?;
        let name = inside[close + 1..].strip_prefix(b":")?;
        Some((&inside[..close], name))
    })
}

/// The last `[0x…]` that ends the text, and what is before it.
fn at_end(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let body = text.strip_suffix(b"]")?;
    openings(body).find_map(|open| {
        let pc = &body[open + 1..];
        (!pc.contains(&b']')).then_some((&body[..open], pc))
    })
}

/// Where `[0x` stands, the last first.
fn openings(text: &[u8]) -> impl Iterator<Item = usize> + '_ {
    (0..text.len())
        .rev()
        .filter(|at| text[*at..].starts_with(b"[0x"))
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn callers_are_taken_apart() {
        let file = |file: &'static str, pc: &'static str| Place::File {
            file: file.as_bytes(),
            pc: pc.as_bytes(),
        };
        let cases = [
            ("./app:[0x1249]", file("./app", "0x1249")),
            ("./a:b:(f+1f)[0x12]", file("./a:b", "0x12")),
            ("[0x12][0x34]", Place::Address { pc: b"0x34" }),
            ("[0x12]", Place::Address { pc: b"0x12" }),
            (
                "[0x12]:main",
                Place::Function {
                    last: Some(b'n'),
                    pc: b"0x12",
                },
            ),
            (
                "x[0x12]:",
                Place::Function {
                    last: None,
                    pc: b"0x12",
                },
            ),
            ("foo.c:42", Place::Text(b"foo.c:42")),
            ("./app:[1249]", Place::Text(b"./app:[1249]")),
            ("[0x12]]", Place::Text(b"[0x12]]")),
            ("", Place::Text(b"")),
        ];
        for (text, place) in cases {
            assert_eq!(Place::of(text.as_bytes()), place, "{text}");
        }
    }
}
