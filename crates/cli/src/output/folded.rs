//! Lines of facts, folded at the words: a terminal breaks a line in the midst of a word.
//!
//! # Strategy
//! Tables fit their terminal. The lines above them begin with `#` and hold sentences and commands of any length. One that is wider than the
//! terminal goes on below its text, after another `#`. A command to be pasted (`# next`) stays in one line, which the terminal wraps.
//! Other lines, and those to files and pipes, pass unchanged.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::words;

/// A writer to a terminal of so many columns.
pub(crate) struct Folded<W> {
    to: W,
    /// No terminal: none are too many.
    columns: usize,
    /// Bytes so far of a line that begins with `#`.
    line: Vec<u8>,
    /// Within a line that passes unchanged.
    passing: bool,
}

/// A line that is longer than this passes unchanged.
const LONG: usize = 4096;
/// Column at which the text of a fact begins, after its name.
const TEXT: usize = 14;

impl<W: Write> Folded<W> {
    pub(crate) const fn new(to: W, columns: usize) -> Self {
        Self {
            to,
            columns,
            line: Vec::new(),
            passing: false,
        }
    }

    /// Takes a line, or the part of it that there is.
    fn take(&mut self, part: &[u8]) -> io::Result<()> {
        let ends = part.last() == Some(&b'\n');
        let begins = self.line.is_empty() && !self.passing;
        if self.passing || (begins && part.first() != Some(&b'#')) {
            self.passing = !ends;
            return self.to.write_all(part);
        }
        self.line.extend_from_slice(part);
        if ends || self.line.len() > LONG {
            self.passing = !ends;
            let line = std::mem::take(&mut self.line);
            let folded = str::from_utf8(&line).map(|line| folded(line, self.columns));
            return match folded {
                Ok(folded) => self.to.write_all(folded.as_bytes()),
                Err(_) => self.to.write_all(&line),
            };
        }
        Ok(())
    }
}

impl<W: Write> Write for Folded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.columns == usize::MAX {
            return self.to.write(bytes);
        }
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            self.take(part)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        self.passing |= !line.is_empty();
        self.to.write_all(&line)?;
        self.to.flush()
    }
}

/// Columns of a word, without the codes of its colours.
fn columns_of(word: &str) -> usize {
    let mut columns = 0;
    for (n, part) in word.split("\x1b[").enumerate() {
        let text = match n {
            0 => part,
            _ => part.split_once('m').map_or("", |(_, text)| text),
        };
        columns += UnicodeWidthStr::width(text);
    }
    columns
}

/// A text of several lines, of which those that are too wide go on below, a little further right.
pub(crate) fn fitted(text: &str, columns: usize) -> String {
    let fit = |line: &str| {
        if columns_of(line) <= columns {
            return line.to_owned();
        }
        let indent = line.len() - line.trim_start().len() + 2;
        filled(line, columns, "", indent)
    };
    let lines: Vec<String> = text.split('\n').map(fit).collect();
    lines.join("\n")
}

/// A line in lines of at most so many columns, if it is one of facts.
pub(crate) fn folded(line: &str, columns: usize) -> String {
    if !line.starts_with('#') {
        return line.to_owned();
    }
    if line.starts_with("# next") || line.len() > LONG || columns_of(line.trim_end()) <= columns {
        return line.to_owned();
    }
    let is_fact = line.is_char_boundary(TEXT)
        && !line.starts_with("#  ")
        && line[..TEXT].ends_with(' ')
        && !line[..TEXT].contains('\x1b')
        && !line[TEXT..].starts_with(' ');
    let indent = if is_fact { TEXT } else { 4 };
    filled(line, columns, "#", indent)
}

/// Words of a line in lines of at most so many columns. Further ones begin with `mark`, and have their words from column `indent` on.
fn filled(line: &str, columns: usize, mark: &str, indent: usize) -> String {
    let mut out = String::with_capacity(line.len() + 64);
    let mut column = 0;
    for (n, word) in words(line).into_iter().enumerate() {
        let wide = columns_of(word.trim_end_matches('\n'));
        let fits = column + 1 + wide <= columns || column <= indent;
        match (n, fits) {
            (0, _) => {}
            (_, true) => {
                out.push(' ');
                column += 1;
            }
            (_, false) => {
                out.push('\n');
                out.push_str(mark);
                out.push_str(&" ".repeat(indent - mark.len()));
                column = indent;
            }
        }
        out.push_str(word);
        column += wide;
    }
    out
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{Folded, columns_of, fitted};

    #[test]
    fn lines_of_a_text_fit() {
        let text = "error: one two three\n\n  tip: \x1b[1mfour\x1b[0m five six\nshort\n";
        let wanted = "error: one\n  two three\n\n  tip: \x1b[1mfour\x1b[0m\n    five six\nshort\n";
        assert_eq!(fitted(text, 12), wanted);
        assert_eq!(fitted(text, usize::MAX), text);
    }

    fn written(text: &str, columns: usize, at_once: usize) -> String {
        let mut out = Vec::new();
        let mut to = Folded::new(&mut out, columns);
        for part in text.as_bytes().chunks(at_once) {
            to.write_all(part).expect("a vector");
        }
        to.flush().expect("a vector");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn a_fact_goes_on_below_its_text() {
        let line = "# cost        1.5 s wall, 2.9 s CPU of the program\n";
        let wanted =
            "# cost        1.5 s wall,\n#             2.9 s CPU of\n#             the program\n";
        for at_once in [1, 7, 1000] {
            assert_eq!(written(line, 28, at_once), wanted, "{at_once}");
            assert_eq!(written(line, 80, at_once), line);
            assert_eq!(written(line, usize::MAX, at_once), line);
        }
    }

    #[test]
    fn colours_take_no_columns_and_other_lines_pass() {
        let title = "# \x1b[1mperl -e 'a b c'\x1b[0m\n";
        assert_eq!(written(title, 17, 3), title);
        assert_eq!(columns_of(title.trim_end()), 17);
        assert_eq!(
            written(title, 12, 3),
            "# \x1b[1mperl -e 'a\n#   b c'\x1b[0m\n"
        );
        for line in [
            "  a row that is too wide\n",
            "# next        a b c d e f g h\n",
            "{\"a b c d e\": 1}",
        ] {
            assert_eq!(written(line, 8, 2), line);
        }
    }

    #[test]
    fn a_word_that_fits_nowhere_stays_whole() {
        let line = "# file        /a/very/long/path/to/something here\n";
        let wanted = "# file        /a/very/long/path/to/something\n#             here\n";
        assert_eq!(written(line, 20, 9), wanted);
    }

    #[test]
    fn nothing_is_lost_or_added_but_breaks() {
        let line = format!("# {}\n", "word ".repeat(200).trim_end());
        let folded = written(&line, 40, 11);
        assert!(folded.lines().all(|l| l.len() <= 40));
        let words = |text: &str| {
            text.replace("\n#", " ")
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&folded), words(&line));
    }
}
