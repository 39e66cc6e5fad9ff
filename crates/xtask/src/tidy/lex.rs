//! Words and signs of a Rust file, without comments, strings and tests.
//!
//! A full parser is not needed: imports are sequences of words and `::`, and these stand out once
//! comments and literals are gone. Macros are read like other code, as their paths are imports too.

/// A token, as far as imports are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// A name or a keyword.
    Word(&'a str),
    /// `::`
    Path,
    /// Any other character of punctuation.
    Sign(char),
    /// A string, a character, a number or a lifetime.
    Literal,
}

/// A token and the line that it begins on, from 1.
pub(crate) type At<'a> = (usize, Token<'a>);

/// Tokens of `text`, without those of its tests.
pub(crate) fn code(text: &str) -> Vec<At<'_>> {
    without_tests(&tokens(text))
}

fn tokens(text: &str) -> Vec<At<'_>> {
    let mut out = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < text.len() {
        let rest = &text[at..];
        let first = rest.chars().next().unwrap_or(' ');
        let (length, token) = match first {
            _ if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), None),
            _ if rest.starts_with("/*") => (block_comment(rest), None),
            '"' => (string(rest), Some(Token::Literal)),
            'r' | 'b' | 'c' if literal_prefix(rest).is_some() => {
                let prefix = literal_prefix(rest).unwrap_or(0);
                (prefix + string(&rest[prefix..]), Some(Token::Literal))
            }
            '\'' => (quote(rest), Some(Token::Literal)),
            _ if rest.starts_with("::") => (2, Some(Token::Path)),
            c if c.is_alphanumeric() || c == '_' => {
                let end = rest
                    .find(|c: char| !c.is_alphanumeric() && c != '_')
                    .unwrap_or(rest.len());
                let number = c.is_ascii_digit();
                let word = &rest[..end];
                (
                    end,
                    Some(if number {
                        Token::Literal
                    } else {
                        Token::Word(word)
                    }),
                )
            }
            c if c.is_whitespace() => (c.len_utf8(), None),
            c => (c.len_utf8(), Some(Token::Sign(c))),
        };
        out.extend(token.map(|t| (line, t)));
        line += rest[..length].matches('\n').count();
        at += length;
    }
    out
}

/// Length of a block comment, which may hold others.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Length of `b`, `c`, `r`, `br` or `cr` where a string or a byte follows.
fn literal_prefix(text: &str) -> Option<usize> {
    let letters = text.bytes().take_while(|b| b"bcr".contains(b)).count();
    let raw = text[..letters].ends_with('r');
    let after = text[letters..].trim_start_matches('#');
    let hashes = text.len() - letters - after.len();
    let quoted = after.starts_with('"') && (raw || hashes == 0);
    let byte = letters == 1 && text.starts_with("b'");
    (letters <= 2 && (quoted || byte)).then_some(letters)
}

/// Length of a string that begins with `"`, with `#`, or with the quote of a byte.
fn string(text: &str) -> usize {
    if text.starts_with('\'') {
        return quote(text);
    }
    let hashes = text.bytes().take_while(|b| *b == b'#').count();
    if hashes > 0 {
        let end = format!("\"{}", "#".repeat(hashes));
        let open = hashes + 1;
        return text[open..]
            .find(&end)
            .map_or(text.len(), |p| open + p + end.len());
    }
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of a character, or of the quote of a lifetime.
fn quote(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => text[3..].find('\'').map_or(text.len(), |p| 3 + p + 1),
        Some(_) => match chars.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

/// Drops each item after `#[cfg(test)]`, and everything after `#![cfg(test)]`.
fn without_tests<'a>(all: &[At<'a>]) -> Vec<At<'a>> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < all.len() {
        match attribute(&all[at..]) {
            Some((_, Test::File)) => return out,
            Some((length, Test::Item)) => {
                at += length;
                at += item(&all[at..]);
            }
            Some((length, Test::No)) => at += length,
            None => {
                out.push(all[at]);
                at += 1;
            }
        }
    }
    out
}

/// Kinds of attributes: of a test, or of anything else.
enum Test {
    No,
    Item,
    File,
}

/// Length and kind of the attribute that begins here.
fn attribute(tokens: &[At<'_>]) -> Option<(usize, Test)> {
    if tokens.first()?.1 != Token::Sign('#') {
        return None;
    }
    let inner = tokens.get(1)?.1 == Token::Sign('!');
    let open = 1 + usize::from(inner);
    if tokens.get(open)?.1 != Token::Sign('[') {
        return None;
    }
    let length = open + group(&tokens[open..]);
    let words: Vec<Token<'_>> = tokens[open + 1..length].iter().map(|t| t.1).collect();
    let only_tests =
        words.starts_with(&[Token::Word("cfg"), Token::Sign('('), Token::Word("test")])
            || words.starts_with(&[
                Token::Word("cfg"),
                Token::Sign('('),
                Token::Word("all"),
                Token::Sign('('),
                Token::Word("test"),
            ]);
    let kind = match (only_tests, inner) {
        (false, _) => Test::No,
        (true, false) => Test::Item,
        (true, true) => Test::File,
    };
    Some((length, kind))
}

/// Number of tokens of the bracketed group that begins here.
pub(crate) fn group(tokens: &[At<'_>]) -> usize {
    let mut depth = 0;
    for (at, (_, token)) in tokens.iter().enumerate() {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth <= 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Number of tokens of the item, field or arm that begins here.
fn item(tokens: &[At<'_>]) -> usize {
    let mut at = 0;
    while let Some((length, _)) = attribute(&tokens[at..]) {
        at += length;
    }
    let begins = |words: &[&str]| {
        tokens[at..]
            .iter()
            .take(6)
            .any(|t| matches!(t.1, Token::Word(w) if words.contains(&w)))
    };
    let function = begins(&["fn"]);
    let braced = function
        || begins(&[
            "struct",
            "enum",
            "union",
            "impl",
            "mod",
            "trait",
            "macro_rules",
        ]);
    let ended = !function && begins(&["use", "const", "static", "let", "type"]);
    while let Some((_, token)) = tokens.get(at) {
        match token {
            Token::Sign(';') => return at + 1,
            Token::Sign(',') if !braced && !ended => return at + 1,
            Token::Sign(')' | ']' | '}') => return at,
            Token::Sign('{') if !ended => return at + group(&tokens[at..]),
            Token::Sign('(' | '[' | '{') => at += group(&tokens[at..]),
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        code(text)
            .iter()
            .filter_map(|(_, t)| match t {
                Token::Word(w) => Some(*w),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn comments_and_literals_hold_no_words() {
        let text =
            "a /* b /* c */ d */ \"e \\\" f\" r#\"g \" h\"# b'i' 'j' '\\'' 'k: b\"l\" m // n\no";
        assert_eq!(words(text), ["a", "k", "m", "o"]);
    }

    #[test]
    fn tests_are_left_out() {
        let text = "a #[cfg(test)] mod tests { b } #[cfg(test)] use c::{d, e}; \
                    #[cfg(all(test, unix))] fn f<I, J>() -> [u8; 4] { g } #[cfg(not(test))] h";
        assert_eq!(words(text), ["a", "h"]);
        assert_eq!(words("a #![cfg(test)] b"), ["a"]);
    }

    #[test]
    fn lines_are_counted() {
        let lines: Vec<usize> = code("a\n/*\n*/ b \"\n\" c").iter().map(|t| t.0).collect();
        assert_eq!(lines, [1, 3, 3, 4]);
    }
}
