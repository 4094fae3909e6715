//! Expressions, as far as they stand in names of functions.

use super::types::one_letter;
use super::{List, Parser};

/// How many operands an operator has; 0 where it stands in names only.
pub(super) type Operands = u8;

/// The operator of a code of two letters.
pub(super) fn operator(code: &str) -> Option<(Operands, &'static str)> {
    Some(match code {
        "nw" => (0, "new"),
        "na" => (0, "new[]"),
        "dl" => (1, "delete"),
        "da" => (1, "delete[]"),
        "aw" => (1, "co_await"),
        "ps" => (1, "+"),
        "ng" => (1, "-"),
        "ad" => (1, "&"),
        "de" => (1, "*"),
        "co" => (1, "~"),
        "nt" => (1, "!"),
        "pp" => (1, "++"),
        "mm" => (1, "--"),
        "pl" => (2, "+"),
        "mi" => (2, "-"),
        "ml" => (2, "*"),
        "dv" => (2, "/"),
        "rm" => (2, "%"),
        "an" => (2, "&"),
        "or" => (2, "|"),
        "eo" => (2, "^"),
        "aS" => (2, "="),
        "pL" => (2, "+="),
        "mI" => (2, "-="),
        "mL" => (2, "*="),
        "dV" => (2, "/="),
        "rM" => (2, "%="),
        "aN" => (2, "&="),
        "oR" => (2, "|="),
        "eO" => (2, "^="),
        "ls" => (2, "<<"),
        "rs" => (2, ">>"),
        "lS" => (2, "<<="),
        "rS" => (2, ">>="),
        "eq" => (2, "=="),
        "ne" => (2, "!="),
        "lt" => (2, "<"),
        "gt" => (2, ">"),
        "le" => (2, "<="),
        "ge" => (2, ">="),
        "ss" => (2, "<=>"),
        "aa" => (2, "&&"),
        "oo" => (2, "||"),
        "cm" => (2, ","),
        "pm" => (2, "->*"),
        "pt" => (0, "->"),
        "cl" => (0, "()"),
        "ix" => (0, "[]"),
        "qu" => (0, "?"),
        _ => return None,
    })
}

impl Parser<'_> {
    /// An expression; `None` for what is not known.
    pub(super) fn expression(&mut self) -> Option<String> {
        let text = self.deeper(Self::expression_here)?;
        self.piece(text)
    }

    fn expression_here(&mut self) -> Option<String> {
        match self.peek()? {
            b'L' => return self.literal(),
            b'T' => return Some(self.parameter()?.text()),
            b'f' if matches!(self.rest.as_bytes().get(1), Some(b'p' | b'L')) => {
                return self.function_parameter();
            }
            b'0'..=b'9' => return self.unresolved_last(),
            _ => {}
        }
        let code = self.rest.get(..2)?.to_owned();
        self.rest = &self.rest[2..];
        match code.as_str() {
            "sr" => self.unresolved(),
            "on" | "gs" => self.unresolved_last(),
            "st" => Some(format!("sizeof ({})", self.a_type()?.text())),
            "at" => Some(format!("alignof ({})", self.a_type()?.text())),
            "ti" => Some(format!("typeid ({})", self.a_type()?.text())),
            "sz" => Some(format!("sizeof ({})", self.expression()?)),
            "az" => Some(format!("alignof ({})", self.expression()?)),
            "te" => Some(format!("typeid ({})", self.expression()?)),
            "nx" => Some(format!("noexcept ({})", self.expression()?)),
            "sZ" => {
                let written = self.expression()?;
                let length = self.pack_length.take();
                Some(length.map_or(format!("sizeof...({written})"), |length| length.to_string()))
            }
            "sp" => self.expanded(Self::expression),
            _ => self.compound(&code),
        }
    }

    /// Calls, casts, members and choices; else an operator.
    fn compound(&mut self, code: &str) -> Option<String> {
        match code {
            "cl" => {
                let called = self.operand()?;
                let list = self.expressions()?;
                Some(format!("{called}({list})"))
            }
            "cv" => {
                let to = self.a_type()?.text();
                let of = if self.eat("_") {
                    self.expressions()?
                } else {
                    self.expression()?
                };
                Some(format!("({to})({of})"))
            }
            "tl" => {
                let of = self.a_type()?.text();
                let list = self.expressions()?;
                Some(format!("{of}{{{list}}}"))
            }
            "il" => Some(format!("{{{}}}", self.expressions()?)),
            "sc" | "dc" | "rc" | "cc" => {
                let word = match code {
                    "sc" => "static_cast",
                    "dc" => "dynamic_cast",
                    "rc" => "reinterpret_cast",
                    _ => "const_cast",
                };
                let to = self.a_type()?.text();
                Some(format!("{word}<{to}>({})", self.expression()?))
            }
            "dt" => {
                let of = self.operand()?;
                Some(format!("{of}.{}", self.expression()?))
            }
            "pt" => {
                let of = self.operand()?;
                Some(format!("{of}->{}", self.expression()?))
            }
            "ix" => {
                let of = self.operand()?;
                Some(format!("{of}[{}]", self.expression()?))
            }
            "qu" => {
                let (condition, yes) = (self.operand()?, self.operand()?);
                Some(format!("{condition}?{yes} : {}", self.operand()?))
            }
            _ => self.operation(code),
        }
    }

    fn operation(&mut self, code: &str) -> Option<String> {
        match operator(code)? {
            (1, sign) => {
                if matches!(code, "pp" | "mm") && !self.eat("_") {
                    return Some(format!("{}{sign}", self.operand()?));
                }
                Some(format!("{sign}{}", self.operand()?))
            }
            (2, sign) => {
                let left = self.operand()?;
                let right = self.operand()?;
                // A bare `>` would end the arguments around it.
                Some(if sign == ">" {
                    format!("({left}{sign}{right})")
                } else {
                    format!("{left}{sign}{right}")
                })
            }
            _ => None,
        }
    }

    /// An expression in brackets, unless it is a name.
    fn operand(&mut self) -> Option<String> {
        let is_parameter = self.rest.starts_with("fp") || self.rest.starts_with("fL");
        let is_name = self.rest.starts_with("sr") || self.peek()?.is_ascii_digit();
        let text = self.expression()?;
        let is_simple = is_parameter || (is_name && !text.ends_with('>'));
        Some(if is_simple { text } else { format!("({text})") })
    }

    /// Expressions up to `E`.
    fn expressions(&mut self) -> Option<String> {
        let mut list = List::default();
        while !self.eat("E") {
            list.add(&self.expression()?);
        }
        self.piece(list.text)
    }

    /// Behind `sr`: a name in a type that depends on arguments.
    fn unresolved(&mut self) -> Option<String> {
        let mut scope;
        if self.peek()?.is_ascii_digit() {
            scope = self.unresolved_part()?;
            while !self.eat("E") {
                self.step()?;
                let next = self.unresolved_part()?;
                scope = self.piece(format!("{scope}::{next}"))?;
            }
        } else {
            scope = self.a_type()?.text();
        }
        Some(format!("{scope}::{}", self.unresolved_last()?))
    }

    fn unresolved_part(&mut self) -> Option<String> {
        let mut name = self.source_name()?;
        if self.peek() == Some(b'I') {
            let arguments = self.arguments(false)?;
            let end = if arguments.ends_with('>') { " " } else { "" };
            name = format!("{name}<{arguments}{end}>");
        }
        self.piece(name)
    }

    fn unresolved_last(&mut self) -> Option<String> {
        if self.peek()?.is_ascii_digit() {
            return self.unresolved_part();
        }
        if self.eat("dn") {
            let of = if self.peek()?.is_ascii_digit() {
                self.source_name()?
            } else {
                self.a_type()?.text()
            };
            return Some(format!("~{of}"));
        }
        self.eat("on");
        let name = self.unqualified(None)?;
        if self.peek() == Some(b'I') {
            let arguments = self.arguments(false)?;
            return Some(format!("{name}<{arguments}>"));
        }
        Some(name)
    }

    /// `fp_`, `fp0_`, `fL0p_` and so on.
    fn function_parameter(&mut self) -> Option<String> {
        if self.eat("fL") {
            self.number()?;
            self.eat("p").then_some(())?;
        } else {
            self.rest = self.rest.strip_prefix("fp")?;
        }
        if self.eat("T") {
            return Some("this".to_owned());
        }
        self.qualifiers();
        let number = self.sequence(10)?;
        Some(format!("{{parm#{}}}", number + 1))
    }

    /// From `L` to `E`.
    pub(super) fn literal(&mut self) -> Option<String> {
        self.rest = self.rest.strip_prefix('L')?;
        if self.eat("_Z") || self.peek() == Some(b'Z') {
            self.eat("Z");
            let of = self.deeper(|it| it.encoding(false))?;
            return self.eat("E").then_some(of);
        }
        let kind = self.peek()?;
        let is_plain = one_letter(kind).is_some() && kind != b'v';
        let of = self.a_type()?.text();
        let (value, rest) = self.rest.split_once('E')?;
        self.rest = rest;
        let (sign, digits) = match value.strip_prefix('n') {
            Some(digits) => ("-", digits),
            None => ("", value),
        };
        self.piece(match kind {
            b'i' => format!("{sign}{digits}"),
            b'j' => format!("{sign}{digits}u"),
            b'l' => format!("{sign}{digits}l"),
            b'm' => format!("{sign}{digits}ul"),
            b'x' => format!("{sign}{digits}ll"),
            b'y' => format!("{sign}{digits}ull"),
            b'b' if digits == "0" => "false".to_owned(),
            b'b' if digits == "1" => "true".to_owned(),
            b'f' | b'd' | b'e' | b'g' if is_plain => format!("({of})[{digits}]"),
            _ => format!("({of}){sign}{digits}"),
        })
    }
}
