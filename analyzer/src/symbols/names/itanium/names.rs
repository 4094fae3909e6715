//! Names: nested, local, of operators, constructors and lambdas, with their template arguments.

use super::expressions::operator;
use super::{Argument, LATER, List, NameState, Parser, Type};

impl<'n> Parser<'n> {
    /// A name. `state` is given for that of an encoding, whose template arguments parameters refer to.
    pub(super) fn name(&mut self, state: Option<&mut NameState>) -> Option<String> {
        self.deeper(|it| it.name_here(state))
    }

    fn name_here(&mut self, mut state: Option<&mut NameState>) -> Option<String> {
        if self.eat("N") {
            return self.nested(state);
        }
        if self.eat("Z") {
            return self.local(state);
        }
        let is_substitution = self.peek() == Some(b'S') && self.peek_second() != Some(b't');
        let mut name = if is_substitution {
            self.substitution()?.text()
        } else {
            let scope = if self.eat("St") { "std::" } else { "" };
            let last = self.unqualified(state.as_deref_mut())?;
            format!("{scope}{last}")
        };
        if self.peek() == Some(b'I') {
            if !is_substitution {
                self.remember(Type::named(name.clone()), None)?;
            }
            let arguments = self.arguments(state.is_some())?;
            name = with_arguments(&name, &arguments);
            if let Some(state) = state {
                state.ends_with_arguments = true;
            }
        } else if is_substitution {
            return None; // it would be a type
        }
        self.piece(name)
    }

    /// Behind `N`, up to its `E`.
    fn nested(&mut self, mut state: Option<&mut NameState>) -> Option<String> {
        self.function_qualifiers(state.as_deref_mut());
        let mut name = String::new();
        // The name of the class, for its constructors.
        let mut class = String::new();
        let mut has_remembered = false;
        while !self.eat("E") {
            self.step()?;
            let mut ends_with_arguments = false;
            self.eat("L");
            match (self.peek()?, self.peek_second()) {
                (b'T', _) if name.is_empty() => name = self.parameter()?.text(),
                (b'I', _) if !name.is_empty() => {
                    let arguments = self.arguments(state.is_some())?;
                    name = with_arguments(&name, &arguments);
                    ends_with_arguments = true;
                }
                (b'D', Some(b't' | b'T')) if name.is_empty() => name = self.decltype()?,
                (b'S', Some(b't')) if name.is_empty() => {
                    self.rest = &self.rest[2..];
                    "std".clone_into(&mut name);
                    continue;
                }
                (b'S', second) if name.is_empty() && second != Some(b't') => {
                    name = self.substitution()?.text();
                    class = last_name(&name).to_owned();
                    continue;
                }
                (b'C' | b'D', _) if !name.is_empty() && self.is_constructor() => {
                    self.constructor(&mut name, &class, state.as_deref_mut())?;
                }
                _ => {
                    let last = self.unqualified(state.as_deref_mut())?;
                    if !name.is_empty() {
                        name.push_str("::");
                    }
                    name.push_str(&last);
                    class = last;
                }
            }
            if let Some(state) = state.as_deref_mut() {
                state.ends_with_arguments = ends_with_arguments;
            }
            name = self.piece(name)?;
            self.remember(Type::named(name.clone()), None)?;
            has_remembered = true;
        }
        // The whole is a substitution only as a type, which adds it again.
        if has_remembered && self.rereads == 0 {
            self.substitutions.pop();
        }
        (!name.is_empty()).then_some(name)
    }

    /// What stands in front of the name of a member function.
    fn function_qualifiers(&mut self, state: Option<&mut NameState>) {
        self.eat("H"); // an explicit object parameter: not shown
        let qualifiers = self.qualifiers();
        let reference = if self.eat("O") {
            " &&"
        } else if self.eat("R") {
            " &"
        } else {
            ""
        };
        if let Some(state) = state {
            state.qualifiers = qualifiers;
            state.reference = reference;
        }
    }

    fn is_constructor(&self) -> bool {
        let after_class = self.peek_second();
        match self.peek() {
            Some(b'C') => matches!(after_class, Some(b'1'..=b'5' | b'I')),
            _ => matches!(after_class, Some(b'0'..=b'5')),
        }
    }

    fn constructor(
        &mut self,
        name: &mut String,
        class: &str,
        state: Option<&mut NameState>,
    ) -> Option<()> {
        let is_destructor = self.eat("D");
        let mut inherits = false;
        if !is_destructor {
            self.rest = self.rest.strip_prefix('C')?;
            inherits = self.eat("I");
        }
        self.rest = self.rest.get(1..)?;
        let inherited = if inherits {
            Some(self.a_type()?.text())
        } else {
            None
        };
        let class = inherited.as_deref().map_or(class, last_name);
        let class = class.split("[abi:").next()?;
        name.push_str(if is_destructor { "::~" } else { "::" });
        name.push_str(class);
        let tags = self.tags()?;
        name.push_str(&tags);
        if let Some(state) = state {
            state.is_special = true;
        }
        Some(())
    }

    /// Behind `Z`: something in a function.
    fn local(&mut self, state: Option<&mut NameState>) -> Option<String> {
        let function = self.encoding(false)?;
        if !self.eat("E") {
            return None;
        }
        if self.eat("s") {
            self.discriminator()?;
            return Some(format!("{function}::string literal"));
        }
        let mut place = String::new();
        if self.eat("d") {
            let number = self.sequence(10)?;
            place = format!("{{default arg#{}}}::", number + 1);
        }
        let entity = self.name(state)?;
        self.discriminator()?;
        self.piece(format!("{function}::{place}{entity}"))
    }

    /// Tells entities of the same name in one function apart; not shown.
    fn discriminator(&mut self) -> Option<()> {
        if self.eat("__") {
            self.number()?;
            return self.eat("_").then_some(());
        }
        if self.peek() == Some(b'_') && self.peek_second().is_some_and(|it| it.is_ascii_digit()) {
            self.rest = &self.rest[2..];
        }
        Some(())
    }

    /// A name without its scope.
    pub(super) fn unqualified(&mut self, state: Option<&mut NameState>) -> Option<String> {
        self.eat("F"); // a friend
        self.eat("L"); // of this file
        let mut name = match (self.peek()?, self.peek_second()) {
            (b'0'..=b'9', _) => self.source_name()?,
            (b'U', Some(b'l')) => self.lambda()?,
            (b'U', Some(b't')) => {
                self.rest = &self.rest[2..];
                let number = self.sequence(10)?;
                format!("{{unnamed type#{}}}", number + 1)
            }
            (b'D', Some(b'C')) => self.bindings()?,
            _ => self.operator_name(state)?,
        };
        name.push_str(&self.tags()?);
        self.piece(name)
    }

    /// A length and so many bytes.
    pub(super) fn source_name(&mut self) -> Option<String> {
        let length = self.number()?;
        let name = self.rest.get(..length).filter(|name| !name.is_empty())?;
        self.rest = &self.rest[length..];
        let is_anonymous = name.starts_with("_GLOBAL_")
            && name.as_bytes().get(9) == Some(&b'N')
            && matches!(name.as_bytes()[8], b'_' | b'.' | b'$');
        Some(if is_anonymous {
            "(anonymous namespace)".to_owned()
        } else {
            name.to_owned()
        })
    }

    fn tags(&mut self) -> Option<String> {
        let mut tags = String::new();
        while self.eat("B") {
            let tag = self.source_name()?;
            tags.push_str(&format!("[abi:{tag}]"));
        }
        self.piece(tags)
    }

    fn lambda(&mut self) -> Option<String> {
        self.rest = self.rest.strip_prefix("Ul")?;
        self.in_lambda += 1;
        let parameters = self.parameter_list();
        self.in_lambda -= 1;
        let parameters = parameters?;
        if !self.eat("E") {
            return None;
        }
        let number = self.sequence(10)?;
        self.piece(format!("{{lambda({parameters})#{}}}", number + 1))
    }

    fn bindings(&mut self) -> Option<String> {
        self.rest = self.rest.strip_prefix("DC")?;
        let mut list = List::default();
        while !self.eat("E") {
            list.add(&self.source_name()?);
        }
        self.piece(format!("[{}]", list.text))
    }

    fn operator_name(&mut self, state: Option<&mut NameState>) -> Option<String> {
        if self.eat("cv") {
            let is_of_encoding = state.is_some();
            if let Some(state) = state {
                state.is_special = true;
            }
            let to = self.conversion_type(is_of_encoding)?;
            return self.piece(format!("operator {}", to.text()));
        }
        if self.eat("li") {
            let name = self.source_name()?;
            return self.piece(format!("operator\"\" {name}"));
        }
        let (_, words) = operator(self.rest.get(..2)?)?;
        self.rest = &self.rest[2..];
        let space = if words.starts_with(|first: char| first.is_ascii_alphabetic()) {
            " "
        } else {
            ""
        };
        Some(format!("operator{space}{words}"))
    }

    /// From `I` to `E`. Those of the name of an encoding are what parameters refer to.
    pub(super) fn arguments(&mut self, of_encoding: bool) -> Option<String> {
        self.rest = self.rest.strip_prefix('I')?;
        if of_encoding {
            self.arguments.clear();
        }
        let mut list = List::default();
        while !self.eat("E") {
            let argument = self.argument()?;
            list.add(&super::written(&argument));
            if of_encoding {
                self.arguments.push(argument);
            }
        }
        self.piece(list.text)
    }

    fn argument(&mut self) -> Option<Argument> {
        self.step()?;
        match self.peek()? {
            b'X' => {
                self.rest = &self.rest[1..];
                let text = self.expression()?;
                self.eat("E").then_some(())?;
                Some(Argument::One(Type::named(text)))
            }
            b'L' => Some(Argument::One(Type::named(self.literal()?))),
            b'J' | b'I' => {
                self.rest = &self.rest[1..];
                self.deeper(|it| {
                    let mut elements = Vec::new();
                    while !it.eat("E") {
                        match it.argument()? {
                            Argument::One(one) => elements.push(one),
                            Argument::Pack(more) => elements.extend(more),
                        }
                    }
                    Some(Argument::Pack(elements))
                })
            }
            _ => Some(Argument::One(self.a_type()?)),
        }
    }

    /// `T_`, `T0_` and so on.
    pub(super) fn parameter(&mut self) -> Option<Type> {
        self.rest = self.rest.strip_prefix('T')?;
        if self.eat("L") {
            // A level of its own: only lambdas have these here.
            self.sequence(10)?;
        }
        let number = self.sequence(10)?;
        self.parameters += 1;
        if self.in_lambda > 0 {
            return Some(Type::named(format!("auto:{}", number + 1)));
        }
        self.step()?;
        match self.arguments.get(number) {
            Some(Argument::One(one)) => {
                let one = one.clone();
                self.cut(one)
            }
            Some(Argument::Pack(elements)) => {
                let length = elements.len();
                let what = match self.element {
                    Some(element) => elements.get(element).cloned().unwrap_or_default(),
                    None => Type::named(super::written(&Argument::Pack(elements.clone()))),
                };
                self.pack_length = Some(length);
                self.cut(what)
            }
            None if self.allows_later => {
                Some(Type::named(format!("{}{number}{}", LATER.0, LATER.1)))
            }
            None => None,
        }
    }

    /// `S_`, `S0_`, or one that stands for a name of the library.
    pub(super) fn substitution(&mut self) -> Option<Type> {
        self.step()?;
        self.rest = self.rest.strip_prefix('S')?;
        let short = match self.peek()? {
            b'a' => Some(("std::allocator", "std::allocator")),
            b'b' => Some(("std::basic_string", "std::basic_string")),
            b's' => Some((
                "std::string",
                "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
            )),
            b'i' => Some((
                "std::istream",
                "std::basic_istream<char, std::char_traits<char> >",
            )),
            b'o' => Some((
                "std::ostream",
                "std::basic_ostream<char, std::char_traits<char> >",
            )),
            b'd' => Some((
                "std::iostream",
                "std::basic_iostream<char, std::char_traits<char> >",
            )),
            _ => None,
        };
        if let Some((short, long)) = short {
            self.rest = &self.rest[1..];
            let is_constructor = matches!(self.peek(), Some(b'C' | b'D'));
            let name = if is_constructor { long } else { short };
            let tags = self.tags()?;
            let what = Type::named(format!("{name}{tags}"));
            if !tags.is_empty() {
                self.remember(what.clone(), None)?;
            }
            return Some(what);
        }
        let number = self.sequence(36)?;
        let found = self.substitutions.get(number)?.clone();
        let means_another = self.element.is_some() || found.context != self.context();
        let what = match found.again.filter(|_| means_another) {
            Some(text) => self.reread(text)?,
            None => found.what,
        };
        if found.again.is_some() {
            self.parameters += 1;
        }
        self.cut(what)
    }

    /// Reads a type once more, for another element of a pack.
    fn reread(&mut self, text: &'n str) -> Option<Type> {
        let rest = std::mem::replace(&mut self.rest, text);
        self.rereads += 1;
        let what = self.a_type();
        self.rereads -= 1;
        self.rest = rest;
        what
    }
}

fn with_arguments(name: &str, arguments: &str) -> String {
    // `operator<` and what ends in `<` would run into the bracket.
    let space = if name.ends_with('<') { " " } else { "" };
    let end = if arguments.ends_with('>') { " " } else { "" };
    format!("{name}{space}<{arguments}{end}>")
}

/// The last part of a name, without its arguments.
fn last_name(name: &str) -> &str {
    let mut depth = 0usize;
    let mut begin = 0;
    let mut end = name.len();
    let bytes = name.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' => {
                if depth == 0 {
                    end = at;
                }
                depth += 1;
            }
            b'>' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && at > 0 && bytes[at - 1] == b':' => {
                begin = at + 1;
                end = name.len();
            }
            _ => {}
        }
    }
    name.get(begin..end).unwrap_or(name)
}
