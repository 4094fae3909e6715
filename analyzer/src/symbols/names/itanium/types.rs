//! Types, with what C writes around a name: pointers to functions and arrays.

use super::{List, Parser, Type};

impl<'n> Parser<'n> {
    /// A type; nothing for an empty pack.
    pub(super) fn a_type(&mut self) -> Option<Type> {
        self.deeper(|it| it.type_here(true))
    }

    /// The type that a conversion leads to. Arguments behind it belong to the conversion.
    pub(super) fn conversion_type(&mut self, is_of_encoding: bool) -> Option<Type> {
        let later = std::mem::replace(&mut self.allows_later, is_of_encoding);
        let to = self.deeper(|it| it.type_here(false));
        self.allows_later = later;
        to
    }

    fn type_here(&mut self, takes_arguments: bool) -> Option<Type> {
        let begin = self.rest;
        let parameters = self.parameters;
        let what = match (self.peek()?, self.peek_second()) {
            (b'r' | b'V' | b'K', _) => self.qualified(takes_arguments)?,
            (b'P', _) => self.pointer("*", takes_arguments)?,
            (b'R', _) => self.pointer("&", takes_arguments)?,
            (b'O', _) => self.pointer("&&", takes_arguments)?,
            (b'C', _) => self.suffixed(" _Complex")?,
            (b'G', _) => self.suffixed(" _Imaginary")?,
            (b'F', _) | (b'D', Some(b'o' | b'O' | b'w')) => self.function("")?,
            (b'A', _) => self.array()?,
            (b'M', _) => self.member_pointer()?,
            (b'U', Some(b'l' | b't')) => Type::named(self.name(None)?),
            (b'U', _) => self.vendor_qualified()?,
            (b'T', Some(b's' | b'u' | b'e')) => {
                self.rest = &self.rest[2..];
                Type::named(self.name(None)?)
            }
            (b'T', _) => {
                let what = self.parameter()?;
                if takes_arguments && self.peek() == Some(b'I') {
                    self.remember(what.clone(), None)?;
                    self.with_own_arguments(&what)?
                } else {
                    what
                }
            }
            (b'D', Some(b't' | b'T')) => Type::named(self.decltype()?),
            (b'D', Some(b'p')) => return self.expansion(),
            (b'D', Some(b'v')) => self.vector()?,
            (b'S', second) if second != Some(b't') => {
                // These are templates: arguments behind them cannot be those of a conversion.
                let is_template = matches!(second, Some(b'a' | b'b'));
                let what = self.substitution()?;
                if !((takes_arguments || is_template) && self.peek() == Some(b'I')) {
                    return Some(what);
                }
                self.with_own_arguments(&what)?
            }
            (b'N' | b'Z' | b'S' | b'0'..=b'9', _) => Type::named(self.name(None)?),
            (b'u', _) => {
                self.rest = &self.rest[1..];
                let name = self.source_name()?;
                if self.peek() == Some(b'I') {
                    let arguments = self.arguments(false)?;
                    Type::named(format!("{name}<{arguments}>"))
                } else {
                    Type::named(name)
                }
            }
            _ => return self.builtin(),
        };
        let what = self.cut(what)?;
        let again = (self.parameters > parameters).then_some(begin);
        self.remember(what.clone(), again)?;
        Some(what)
    }

    fn with_own_arguments(&mut self, what: &Type) -> Option<Type> {
        let arguments = self.arguments(false)?;
        let end = if arguments.ends_with('>') { " " } else { "" };
        Some(Type::named(format!("{}<{arguments}{end}>", what.text())))
    }

    /// `const` and `volatile`, if any stand here.
    pub(super) fn qualifiers(&mut self) -> &'static str {
        let is_restrict = self.eat("r");
        let is_volatile = self.eat("V");
        let is_const = self.eat("K");
        match (is_const, is_volatile, is_restrict) {
            (false, false, false) => "",
            (true, false, false) => " const",
            (false, true, false) => " volatile",
            (true, true, false) => " const volatile",
            (false, false, true) => " __restrict",
            (true, false, true) => " const __restrict",
            (false, true, true) => " volatile __restrict",
            (true, true, true) => " const volatile __restrict",
        }
    }

    fn qualified(&mut self, takes_arguments: bool) -> Option<Type> {
        let qualifiers = self.qualifiers();
        if self.peek() == Some(b'F') {
            return self.function(qualifiers);
        }
        let mut what = self.deeper(|it| it.type_here(takes_arguments))?;
        if what.is_function {
            what.after.push_str(qualifiers);
        } else if !what.before.ends_with(qualifiers) && !what.before.ends_with('&') {
            what.before.push_str(qualifiers);
        }
        Some(what)
    }

    fn pointer(&mut self, mark: &str, takes_arguments: bool) -> Option<Type> {
        self.rest = &self.rest[1..];
        let to = self.deeper(|it| it.type_here(takes_arguments))?;
        if to.before.is_empty() && to.after.is_empty() {
            return Some(to); // of an empty pack
        }
        Some(pointer_to(to, mark))
    }

    fn suffixed(&mut self, suffix: &str) -> Option<Type> {
        self.rest = &self.rest[1..];
        let mut what = self.a_type()?;
        what.before.push_str(suffix);
        Some(what)
    }

    fn vendor_qualified(&mut self) -> Option<Type> {
        self.rest = &self.rest[1..];
        let qualifier = self.source_name()?;
        if self.peek() == Some(b'I') {
            self.arguments(false)?;
        }
        let mut what = self.a_type()?;
        what.before.push(' ');
        what.before.push_str(&qualifier);
        Some(what)
    }

    fn function(&mut self, qualifiers: &str) -> Option<Type> {
        let mut exceptions = String::new();
        if self.eat("Do") {
            exceptions.push_str(" noexcept");
        } else if self.eat("DO") {
            let condition = self.expression()?;
            self.eat("E").then_some(())?;
            exceptions = format!(" noexcept({condition})");
        } else if self.eat("Dw") {
            let mut list = List::default();
            while !self.eat("E") {
                list.add(&self.a_type()?.text());
            }
            exceptions = format!(" throw({})", list.text);
        }
        self.eat("Dx");
        self.rest = self.rest.strip_prefix('F')?;
        self.eat("Y");
        let returned = self.a_type()?;
        let parameters = self.parameter_list()?;
        let reference = if self.eat("R") {
            " &"
        } else if self.eat("O") {
            " &&"
        } else {
            ""
        };
        self.eat("E").then_some(())?;
        Some(Type {
            before: format!("{} ", returned.before),
            after: format!(
                "({parameters}){qualifiers}{reference}{exceptions}{}",
                returned.after
            ),
            needs_brackets: true,
            is_function: true,
        })
    }

    fn array(&mut self) -> Option<Type> {
        self.rest = &self.rest[1..];
        let size = match self.peek()? {
            b'0'..=b'9' => self.number()?.to_string(),
            b'_' => String::new(),
            _ => self.expression()?,
        };
        self.eat("_").then_some(())?;
        let element = self.a_type()?;
        // Of arrays in arrays, the outer one comes first.
        let (space, after) = match element.after.strip_prefix(" [") {
            Some(inner) => (" ", format!("[{inner}")),
            None => (" ", element.after.clone()),
        };
        Some(Type {
            before: element.before,
            after: format!("{space}[{size}]{after}"),
            needs_brackets: true,
            is_function: false,
        })
    }

    fn member_pointer(&mut self) -> Option<Type> {
        self.rest = &self.rest[1..];
        let class = self.a_type()?.text();
        let member = self.a_type()?;
        if member.is_function {
            return Some(Type {
                before: format!("{}({class}::*", member.before),
                after: format!("){}", member.after),
                ..Type::default()
            });
        }
        Some(Type {
            before: format!("{} {class}::*", member.before),
            ..member
        })
    }

    fn vector(&mut self) -> Option<Type> {
        self.rest = self.rest.strip_prefix("Dv")?;
        let size = match self.peek()? {
            b'0'..=b'9' => self.number()?.to_string(),
            _ => self.expression()?,
        };
        self.eat("_").then_some(())?;
        let mut of = self.a_type()?;
        of.before = format!("{} __vector({size})", of.before);
        Some(of)
    }

    /// `Dp`: the type once for each element of the pack in it, with commas.
    fn expansion(&mut self) -> Option<Type> {
        self.rest = self.rest.strip_prefix("Dp")?;
        let text = self.expanded(|it| Some(it.a_type()?.text()))?;
        let what = Type::named(text);
        self.remember(what.clone(), None)?;
        Some(what)
    }

    /// What `read` reads, once for each element of the pack in it, with commas.
    pub(super) fn expanded(
        &mut self,
        read: impl Fn(&mut Self) -> Option<String>,
    ) -> Option<String> {
        let pattern = self.rest;
        let (element, length) = (self.element.take(), self.pack_length.take());
        self.element = Some(0);
        let first = read(self)?;
        let mut list = List::default();
        match self.pack_length {
            None => list.add(&format!("{first}...")),
            Some(0) => {}
            Some(count) => {
                list.add(&first);
                let end = self.rest;
                self.rereads += 1;
                for index in 1..count {
                    self.element = Some(index);
                    self.rest = pattern;
                    list.add(&read(self)?);
                }
                self.rereads -= 1;
                self.rest = end;
            }
        }
        (self.element, self.pack_length) = (element, length);
        self.piece(list.text)
    }

    /// `Dt` or `DT` up to `E`.
    pub(super) fn decltype(&mut self) -> Option<String> {
        self.rest = self.rest.get(2..)?;
        let of = self.expression()?;
        self.eat("E").then_some(())?;
        self.piece(format!("decltype ({of})"))
    }

    fn builtin(&mut self) -> Option<Type> {
        let (length, name) = match self.peek()? {
            b'D' => (2, two_letters(self.peek_second()?)?),
            letter => (1, one_letter(letter)?),
        };
        self.rest = &self.rest[length..];
        if name == "_Float" {
            let bits = self.number()?;
            self.eat("_");
            return Some(Type::named(format!("_Float{bits}")));
        }
        Some(Type::named(name))
    }
}

/// A pointer or reference; references to references are what the language makes of them.
fn pointer_to(mut to: Type, mark: &str) -> Type {
    if to.needs_brackets {
        to.before = if to.is_function {
            format!("{}({mark}", to.before)
        } else {
            format!("{} ({mark}", to.before)
        };
        to.after = format!("){}", to.after);
        (to.needs_brackets, to.is_function) = (false, false);
        return to;
    }
    let is_reference = mark != "*";
    if is_reference && to.before.ends_with("&&") {
        if mark == "&" {
            to.before.pop();
        }
    } else if !(is_reference && to.before.ends_with('&')) {
        to.before.push_str(mark);
    }
    to
}

/// Names of types that are one letter.
pub(super) fn one_letter(letter: u8) -> Option<&'static str> {
    Some(match letter {
        b'v' => "void",
        b'w' => "wchar_t",
        b'b' => "bool",
        b'c' => "char",
        b'a' => "signed char",
        b'h' => "unsigned char",
        b's' => "short",
        b't' => "unsigned short",
        b'i' => "int",
        b'j' => "unsigned int",
        b'l' => "long",
        b'm' => "unsigned long",
        b'x' => "long long",
        b'y' => "unsigned long long",
        b'n' => "__int128",
        b'o' => "unsigned __int128",
        b'f' => "float",
        b'd' => "double",
        b'e' => "long double",
        b'g' => "__float128",
        b'z' => "...",
        _ => return None,
    })
}

/// Names of types that are `D` and a letter.
fn two_letters(second: u8) -> Option<&'static str> {
    Some(match second {
        b'd' => "decimal64",
        b'e' => "decimal128",
        b'f' => "decimal32",
        b'h' => "half",
        b'F' => "_Float",
        b'i' => "char32_t",
        b's' => "char16_t",
        b'u' => "char8_t",
        b'a' => "auto",
        b'c' => "decltype(auto)",
        b'n' => "decltype(nullptr)",
        _ => return None,
    })
}
