//! Text that people are shown, whatever is in it.
//!
//! # Problem
//! Names of functions, files and programs come from the program that is looked at. They may hold any bytes. A terminal obeys some of them, a line
//! ends at others, and some change the order in which text is read.
//!
//! # Strategy
//! [`printable`] writes such a character as an escape of Rust's: `\n`, `\u{1b}`. All other text stays as it is. [`in_json`] writes it as
//! an escape of JSON's, which means the same character.
//!
//! # Invariants
//! The results have no control characters, no ends of lines, and none that set the direction of text. That of `printable` is its own result.

use std::borrow::Cow;
use std::fmt::Write;

/// A text in which nothing ends a line, or is obeyed by a terminal.
///
/// What is bytes is made text before, with [`String::from_utf8_lossy`].
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.is_ascii() && !text.bytes().any(|byte| byte.is_ascii_control()) {
        return Cow::Borrowed(text);
    }
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_obeyed(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// A text as JSON has it between quotes.
pub fn in_json(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if is_obeyed(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Memory does not refuse text.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Returns true of control characters, of ends of lines, and of what sets the direction of text.
pub fn is_obeyed(c: char) -> bool {
    let sets_direction = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || sets_direction || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_obeyed_is_escaped_and_all_else_stays() {
        for (text, wanted) in [
            ("ns::f<int>(char const*)", "ns::f<int>(char const*)"),
            ("größe_計算\\n", "größe_計算\\n"),
            ("a\x1b[31mb\r\n\t\x07", "a\\u{1b}[31mb\\r\\n\\t\\u{7}"),
            ("\x7f\u{9b}31m", "\\u{7f}\\u{9b}31m"),
            ("\u{202e}fdp.\u{2066}", "\\u{202e}fdp.\\u{2066}"),
            ("a\u{2028}b", "a\\u{2028}b"),
        ] {
            assert_eq!(printable(text), wanted);
        }
    }

    proptest! {
        #[test]
        fn nothing_obeyed_is_left(text: String) {
            let once = printable(&text).into_owned();
            prop_assert!(!once.contains(is_obeyed));
            prop_assert_eq!(printable(&once), &*once);
        }

        #[test]
        fn json_means_the_same_text(text: String) {
            let inside = in_json(&text);
            prop_assert!(!inside.contains(is_obeyed));
            let read: String = serde_json::from_str(&format!("\"{inside}\"")).expect("JSON");
            prop_assert_eq!(read, text);
        }
    }
}
