//! C++ names by the Itanium ABI, spelled as binutils spell them.
//!
//! One pass from left to right that never tries two ways, so that a name costs time by its length, with limits on depth,
//! steps and text for hostile ones. Pieces that are longer than a name may be are cut, and so is whatever they are part of:
//! what comes first stays right.

mod expressions;
mod names;
mod types;

use super::MAX_NAME;
use std::fmt::Write;

/// Levels of types, names and expressions in each other.
const MAX_DEPTH: usize = 256;

/// Productions and copies that one name may take. Names of several kilobytes were seen to take some thousands.
const MAX_STEPS: usize = 100_000;

/// Bytes of all pieces of one name together.
const MAX_TEXT: usize = 8 << 20;

/// Bytes of a piece that are kept: more than of a name.
const MAX_PIECE: usize = MAX_NAME + 256;

/// Marks a template argument that comes later in the name than its use; no name has these characters.
const LATER: (char, char) = ('\u{1}', '\u{2}');

/// The name as in the source; `None` if it is none of C++.
pub(super) fn demangle(name: &str) -> Option<String> {
    if name.bytes().any(|byte| byte < b' ') {
        return None;
    }
    let mangled = name.strip_prefix("_Z")?;
    let (mangled, version) = mangled.split_at(mangled.find('@').unwrap_or(mangled.len()));
    let mut parser = Parser {
        rest: mangled,
        ..Parser::default()
    };
    let mut text = parser.encoding(true)?;
    parser.clones(&mut text)?;
    text.push_str(version);
    Some(text)
}

/// A type in two halves, around the name that is declared with it.
#[derive(Clone, Debug, Default)]
struct Type {
    before: String,
    after: String,
    /// It is a function or an array, around which pointers to it need brackets.
    needs_brackets: bool,
    is_function: bool,
}

impl Type {
    fn named(name: impl Into<String>) -> Self {
        Self {
            before: name.into(),
            ..Self::default()
        }
    }

    fn text(&self) -> String {
        format!("{}{}", self.before, self.after)
    }
}

/// What stands for a template parameter.
#[derive(Clone, Debug)]
enum Argument {
    One(Type),
    Pack(Vec<Type>),
}

/// Something that a later `S_` refers to.
#[derive(Clone, Debug)]
struct Substitution<'n> {
    what: Type,
    /// Where it stands, if template parameters are in it, which mean something else elsewhere.
    again: Option<&'n str>,
    /// Whose parameters these were.
    context: (usize, bool),
}

/// What an encoding must know of its name.
#[derive(Clone, Copy, Debug, Default)]
struct NameState {
    ends_with_arguments: bool,
    /// A constructor, destructor or conversion: no return type stands in the name.
    is_special: bool,
    /// Of the function itself: `const`, `volatile`, `&` and so on.
    qualifiers: &'static str,
    reference: &'static str,
}

#[derive(Debug, Default)]
struct Parser<'n> {
    rest: &'n str,
    substitutions: Vec<Substitution<'n>>,
    arguments: Vec<Argument>,
    /// The element of packs that is being written.
    element: Option<usize>,
    /// Elements of the pack that was met last in an expansion.
    pack_length: Option<usize>,
    /// Template parameters met so far.
    parameters: usize,
    /// The encoding that is being read, and how many there were.
    encoding: usize,
    encodings: usize,
    /// Text is read again: it has made its substitutions.
    rereads: usize,
    in_lambda: usize,
    /// Template arguments of the name come after their use in a conversion.
    allows_later: bool,
    depth: usize,
    steps: usize,
    text: usize,
}

impl<'n> Parser<'n> {
    fn peek(&self) -> Option<u8> {
        self.rest.bytes().next()
    }

    fn peek_second(&self) -> Option<u8> {
        self.rest.as_bytes().get(1).copied()
    }

    fn eat(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Whose template parameters stand here: those of which encoding, or of a lambda.
    fn context(&self) -> (usize, bool) {
        (self.encoding, self.in_lambda > 0)
    }

    /// Counts a step; `None` once there were too many.
    fn step(&mut self) -> Option<()> {
        self.steps += 1;
        (self.steps <= MAX_STEPS).then_some(())
    }

    /// Reads by `read`, one level deeper.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.step()?;
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Counts and cuts a piece of text.
    fn piece(&mut self, mut text: String) -> Option<String> {
        self.text += text.len();
        if self.text > MAX_TEXT {
            return None;
        }
        if text.len() > MAX_PIECE {
            let end = (0..=MAX_PIECE)
                .rev()
                .find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or(0));
        }
        Some(text)
    }

    fn cut(&mut self, what: Type) -> Option<Type> {
        Some(Type {
            before: self.piece(what.before)?,
            after: self.piece(what.after)?,
            ..what
        })
    }

    fn remember(&mut self, what: Type, again: Option<&'n str>) -> Option<()> {
        if self.rereads == 0 {
            let what = self.cut(what)?;
            self.substitutions.push(Substitution {
                what,
                again,
                context: self.context(),
            });
        }
        Some(())
    }

    /// A decimal number.
    fn number(&mut self) -> Option<usize> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        number.parse().ok()
    }

    /// `_` is 0, `0_` is 1 and so on, in this base.
    fn sequence(&mut self, radix: u32) -> Option<usize> {
        if self.eat("_") {
            return Some(0);
        }
        let (digits, rest) = self.rest.split_once('_')?;
        let is_lower = digits.bytes().any(|digit| digit.is_ascii_lowercase());
        let number = usize::from_str_radix(digits, radix).ok()?;
        self.rest = rest;
        (!is_lower).then_some(())?;
        number.checked_add(1)
    }

    /// A function or a variable, with the return type if `with_return` and the name has one.
    fn encoding(&mut self, with_return: bool) -> Option<String> {
        self.deeper(|it| it.encoding_here(with_return))
    }

    fn encoding_here(&mut self, with_return: bool) -> Option<String> {
        if let Some(special) = self.special() {
            return special;
        }
        let outer = std::mem::take(&mut self.arguments);
        let outer_encoding = self.encoding;
        self.encodings += 1;
        self.encoding = self.encodings;
        let outer_later = std::mem::replace(&mut self.allows_later, true);
        let mut state = NameState::default();
        let name = self.name(Some(&mut state));
        self.allows_later = outer_later;
        let name = self.with_later(&name?)?;
        let text = if matches!(self.peek(), None | Some(b'E' | b'.')) {
            name
        } else {
            let returned = if state.ends_with_arguments && !state.is_special {
                Some(self.a_type()?)
            } else {
                None
            };
            let parameters = self.parameter_list()?;
            let function = format!(
                "{name}({parameters}){}{}",
                state.qualifiers, state.reference
            );
            match returned.filter(|_| with_return) {
                Some(returned) if returned.after.is_empty() => {
                    format!("{} {function}", returned.before)
                }
                Some(returned) => format!("{}{function}{}", returned.before, returned.after),
                None => function,
            }
        };
        self.arguments = outer;
        self.encoding = outer_encoding;
        self.piece(text)
    }

    /// Puts template arguments in that came after their use.
    fn with_later(&mut self, text: &str) -> Option<String> {
        if !text.contains(LATER.0) {
            return Some(text.to_owned());
        }
        let mut filled = String::new();
        let mut parts = text.split(LATER.0);
        filled.push_str(parts.next()?);
        for part in parts {
            let (number, rest) = part.split_once(LATER.1)?;
            let argument = self.arguments.get(number.parse::<usize>().ok()?)?;
            filled.push_str(&written(argument));
            filled.push_str(rest);
        }
        self.piece(filled)
    }

    /// The types of parameters up to the end of a function.
    fn parameter_list(&mut self) -> Option<String> {
        if self.rest == "v" || self.rest.starts_with("vE") || self.rest.starts_with("v.") {
            self.rest = &self.rest[1..];
            return Some(String::new());
        }
        let mut list = List::default();
        while !self.is_at_end_of_parameters() {
            let parameter = self.a_type()?;
            list.add(&parameter.text());
        }
        self.piece(list.text)
    }

    /// Whether no further parameter stands here, but perhaps the reference of a member function.
    fn is_at_end_of_parameters(&self) -> bool {
        match self.peek() {
            None | Some(b'E' | b'.') => true,
            Some(b'R' | b'O') => self.peek_second() == Some(b'E'),
            _ => false,
        }
    }

    /// Tables, thunks and the like; `None` where it is none of these.
    fn special(&mut self) -> Option<Option<String>> {
        const OF_TYPES: [(&str, &str); 4] = [
            ("TV", "vtable for"),
            ("TT", "VTT for"),
            ("TI", "typeinfo for"),
            ("TS", "typeinfo name for"),
        ];
        const OF_NAMES: [(&str, &str); 3] = [
            ("GV", "guard variable for"),
            ("TW", "TLS wrapper function for"),
            ("TH", "TLS init function for"),
        ];
        for (code, words) in OF_TYPES {
            if self.eat(code) {
                let of = self.a_type().map(|of| format!("{words} {}", of.text()));
                return Some(of);
            }
        }
        for (code, words) in OF_NAMES {
            if self.eat(code) {
                return Some(self.name(None).map(|of| format!("{words} {of}")));
            }
        }
        if self.eat("TC") {
            return Some(self.table_in_construction());
        }
        if self.eat("Tc") {
            return Some(self.thunk(2, "covariant return thunk to"));
        }
        if self.rest.starts_with("Th") || self.rest.starts_with("Tv") {
            let words = if self.peek_second() == Some(b'h') {
                "non-virtual thunk to"
            } else {
                "virtual thunk to"
            };
            self.rest = &self.rest[1..];
            return Some(self.thunk(1, words));
        }
        if self.eat("GR") {
            return Some(self.temporary());
        }
        if self.eat("GTt") || self.eat("GTn") {
            let of = self.encoding(true);
            return Some(of.map(|of| format!("transaction clone for {of}")));
        }
        None
    }

    fn table_in_construction(&mut self) -> Option<String> {
        let whole = self.a_type()?.text();
        self.offset()?;
        let part = self.a_type()?.text();
        Some(format!("construction vtable for {part}-in-{whole}"))
    }

    fn thunk(&mut self, offsets: usize, words: &str) -> Option<String> {
        for _ in 0..offsets {
            if self.eat("h") {
                self.offset()?;
            } else if self.eat("v") {
                self.offset()?;
                self.offset()?;
            } else {
                return None;
            }
        }
        Some(format!("{words} {}", self.encoding(true)?))
    }

    fn offset(&mut self) -> Option<()> {
        self.eat("n");
        self.number()?;
        self.eat("_").then_some(())
    }

    fn temporary(&mut self) -> Option<String> {
        let name = self.name(None)?;
        let number = if self.rest.is_empty() {
            0
        } else {
            self.sequence(36)?
        };
        Some(format!("reference temporary #{number} for {name}"))
    }

    /// What compilers append for parts and copies of a function.
    fn clones(&mut self, text: &mut String) -> Option<()> {
        while !self.rest.is_empty() {
            let suffix = self.rest.strip_prefix('.')?;
            let is_word = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            let mut end = suffix.bytes().take_while(|byte| is_word(*byte)).count();
            if end == 0 {
                end = suffix.bytes().take_while(u8::is_ascii_digit).count();
            }
            if end == 0 {
                return None;
            }
            // Numbers belong to the word before.
            while let Some(numbered) = suffix[end..].strip_prefix('.') {
                let digits = numbered.bytes().take_while(u8::is_ascii_digit).count();
                if digits == 0 {
                    break;
                }
                end += 1 + digits;
            }
            write!(text, " [clone .{}]", &suffix[..end]).ok()?;
            self.rest = &suffix[end..];
        }
        Some(())
    }
}

/// A list with commas; what is empty is an empty pack and left out.
#[derive(Default)]
struct List {
    text: String,
}

impl List {
    fn add(&mut self, text: &str) {
        if text.is_empty() || self.text.len() > MAX_PIECE {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str(", ");
        }
        self.text.push_str(text);
    }
}

fn written(argument: &Argument) -> String {
    match argument {
        Argument::One(one) => one.text(),
        Argument::Pack(elements) => {
            let mut list = List::default();
            for element in elements {
                list.add(&element.text());
            }
            list.text
        }
    }
}
