//! Words, numbers and signs of a text; comments beside them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::ast::{Form, Number};
use crate::diagnostic::{Diagnostic, Span};

/// A token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    pub(crate) span: Span,
    pub(crate) kind: Kind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A keyword, a mnemonic or a label.
    Word,
    /// The value and its form.
    Number(i128, Form),
    /// A name in quotation marks, without them.
    Text(String),
    /// One of [`SIGNS`].
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// Longer signs before those that they begin with.
const SIGNS: [&str; 16] = [
    "<>", "<=", ">=", "..", "<", ">", "=", ";", ":", ",", "*", "@", ".", "-", "#", "%",
];

/// Operators of other languages, and their form here.
const FOREIGN: [(&str, &str); 9] = [
    ("!=", "write <>"),
    ("==", "write ="),
    ("&&", "write `and`"),
    ("||", "write a clause for each of the two conditions"),
    ("//", "a comment starts with #"),
    ("/*", "a comment starts with # and ends with its line"),
    (
        "!",
        "write the opposite relation: <> for =, >= for <, bclr for bset of one bit",
    ),
    ("{", "a clause ends with `;`, and needs no braces"),
    ("'", "write names in quotation marks: \"libz.so.1\""),
];

/// A comment, without its `#`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Comment {
    pub(crate) start: usize,
    pub(crate) text: String,
}

/// The tokens of a text, the last of them [`Kind::End`], and its comments.
pub(crate) fn lex(text: &str) -> Result<(Vec<Token>, Vec<Comment>), Diagnostic> {
    let mut tokens = Vec::new();
    let mut comments = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let span = |length| Span {
            start: at,
            end: at + length,
        };
        if first.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        if first == '#' {
            let line = rest.split('\n').next().unwrap_or(rest);
            comments.push(Comment {
                start: at,
                text: line[1..].trim_end().to_string(),
            });
            at += line.len();
            continue;
        }
        let (length, kind) = if is_letter(first) {
            let length = rest.find(|c| !is_letter(c) && !c.is_ascii_digit());
            (length.unwrap_or(rest.len()), Kind::Word)
        } else if first.is_ascii_digit() {
            number(rest, at)?
        } else if first == '"' {
            name(rest, at)?
        } else if let Some((foreign, fix)) = FOREIGN.into_iter().find(|(f, _)| rest.starts_with(f))
        {
            let message = format!("`{foreign}` is not of this language");
            return Err(Diagnostic::error(span(foreign.len()), message, fix));
        } else if let Some(sign) = SIGNS.into_iter().find(|s| rest.starts_with(s)) {
            (sign.len(), Kind::Sign(sign))
        } else {
            return Err(Diagnostic::error(
                span(first.len_utf8()),
                format!("a query does not contain {first:?}"),
                "remove it; names of modules and functions stand in quotation marks",
            ));
        };
        tokens.push(Token {
            span: span(length),
            kind,
        });
        at += length;
    }
    tokens.push(Token {
        span: Span { start: at, end: at },
        kind: Kind::End,
    });
    Ok((tokens, comments))
}

const fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn number(rest: &str, at: usize) -> Result<(usize, Kind), Diagnostic> {
    let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let word = &rest[..length.unwrap_or(rest.len())];
    let (digits, radix, form) = match word {
        _ if word.starts_with("0x") || word.starts_with("0X") => (&word[2..], 16, Form::Hex),
        _ if word.ends_with('k') => (&word[..word.len() - 1], 10, Form::Thousands),
        _ if word.ends_with('M') => (&word[..word.len() - 1], 10, Form::Millions),
        _ => (word, 10, Form::Decimal),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        let span = Span {
            start: at,
            end: at + word.len(),
        };
        return Err(Diagnostic::error(
            span,
            format!("`{word}` is no number"),
            "write it in decimal, with k or M after it for thousands and millions, or in \
             hexadecimal as 0x1f",
        ));
    }
    let unit = match form {
        Form::Thousands => 1000,
        Form::Millions => 1_000_000,
        Form::Decimal | Form::Hex => 1,
    };
    let value = u64::from_str_radix(digits, radix).ok();
    let Some(value) = value.and_then(|v| v.checked_mul(unit)) else {
        let span = Span {
            start: at,
            end: at + word.len(),
        };
        let fix = "numbers have 64 bits at most";
        return Err(Diagnostic::error(
            span,
            format!("`{word}` is too large"),
            fix,
        ));
    };
    Ok((word.len(), Kind::Number(value.into(), form)))
}

fn name(rest: &str, at: usize) -> Result<(usize, Kind), Diagnostic> {
    let mut out = String::new();
    let mut characters = rest.char_indices().skip(1);
    while let Some((offset, c)) = characters.next() {
        match c {
            '"' if !out.is_empty() => return Ok((offset + 1, Kind::Text(out))),
            '"' => {
                let span = Span {
                    start: at,
                    end: at + 2,
                };
                let fix = "write the name of a module or function between the quotation marks";
                return Err(Diagnostic::error(span, "an empty name", fix));
            }
            '\\' => match characters.next() {
                Some((_, c @ ('"' | '\\'))) => out.push(c),
                _ => {
                    let span = Span {
                        start: at + offset,
                        end: at + offset + 1,
                    };
                    let fix = "in a name, write \\\\ for a backslash and \\\" for a quotation mark";
                    return Err(Diagnostic::error(span, "a lone backslash", fix));
                }
            },
            c if c.is_control() => break,
            c => out.push(c),
        }
    }
    let span = Span {
        start: at,
        end: at + 1,
    };
    let fix = "end it with a quotation mark on the same line";
    Err(Diagnostic::error(span, "a name that does not end", fix))
}

impl Number {
    /// The number as it is written: its form kept, its digits normal.
    pub fn text(&self) -> String {
        match self.form {
            Form::Decimal => format!("{}", self.value),
            Form::Hex if self.value < 0 => format!("-{:#x}", -self.value),
            Form::Hex => format!("{:#x}", self.value),
            Form::Thousands => format!("{}k", self.value / 1000),
            Form::Millions => format!("{}M", self.value / 1_000_000),
        }
    }
}
