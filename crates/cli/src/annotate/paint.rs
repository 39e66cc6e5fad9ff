//! Lines in colours, no wider than the terminal.

use std::io::{self, Write};

use unicode_width::UnicodeWidthChar;

use crate::report::table::Style;

/// The look of a piece of text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Paint {
    Plain,
    /// Titles.
    Strong,
    /// Most of the time goes here.
    Hot,
    /// Some of it does.
    Warm,
    /// Not executed.
    Faint,
    /// Source code.
    Source,
}

impl Paint {
    /// The escape sequence that begins it.
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "\x1b[1m",
            Self::Hot => "\x1b[1;31m",
            Self::Warm => "\x1b[33m",
            Self::Faint => "\x1b[2m",
            Self::Source => "\x1b[36m",
        }
    }
}

/// Writes lines up to a width.
pub(super) struct Canvas<W> {
    pub(super) out: W,
    width: usize,
    colours: bool,
}

impl<W: Write> Canvas<W> {
    pub(super) const fn new(out: W, style: Style) -> Self {
        Self {
            out,
            width: style.width,
            colours: style.coloured(),
        }
    }

    /// A line without colours.
    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        self.painted(&[(Paint::Plain, text)])
    }

    /// A line of several pieces. One that is too long ends in `…`.
    pub(super) fn painted(&mut self, pieces: &[(Paint, &str)]) -> io::Result<()> {
        let all: String = pieces.iter().map(|(_, text)| *text).collect();
        let shown = cut(all.trim_end(), self.width);
        // Bytes of the line that are shown as they are.
        let mut room = shown.len();
        for (paint, text) in pieces {
            let text = &text[..text.len().min(room)];
            room -= text.len();
            match (self.colours && *paint != Paint::Plain, text) {
                (_, "") => {}
                (true, text) => write!(self.out, "{}{text}\x1b[0m", paint.code())?,
                (false, text) => write!(self.out, "{text}")?,
            }
        }
        let is_cut = shown.len() < all.trim_end().len();
        writeln!(self.out, "{}", if is_cut { "…" } else { "" })
    }
}

/// The start of a text that fits, with room for `…` where it is not all.
fn cut(text: &str, width: usize) -> &str {
    let of = |c: char| c.width().unwrap_or(0);
    if text.chars().map(of).sum::<usize>() <= width {
        return text;
    }
    let mut columns = 0;
    let end = text.char_indices().find(|(_, c)| {
        columns += of(*c);
        columns >= width
    });
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(width: usize, colours: bool, pieces: &[(Paint, &str)]) -> String {
        let mut style = Style::new(colours);
        style.width = width;
        let mut canvas = Canvas::new(Vec::new(), style);
        canvas.painted(pieces).expect("memory");
        String::from_utf8(canvas.out).expect("UTF-8")
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let text = [(Paint::Plain, "0123456789 ä  ")];
        assert_eq!(written(usize::MAX, false, &text), "0123456789 ä\n");
        assert_eq!(written(12, false, &text), "0123456789 ä\n");
        assert_eq!(written(5, false, &text), "0123…\n");
        let wide = [(Paint::Plain, "表計算")];
        assert_eq!(written(6, false, &wide), "表計算\n");
        assert_eq!(written(4, false, &wide), "表…\n");
    }

    #[test]
    fn colours_take_no_room_and_end_where_their_text_ends() {
        let pieces = [(Paint::Hot, "0123456789"), (Paint::Plain, " rest")];
        assert_eq!(written(5, false, &pieces), "0123…\n");
        assert_eq!(written(5, true, &pieces), "\x1b[1;31m0123\x1b[0m…\n");
        assert_eq!(
            written(80, true, &pieces),
            "\x1b[1;31m0123456789\x1b[0m rest\n"
        );
    }
}
