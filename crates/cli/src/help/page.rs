//! Documents as a terminal shows them: Markdown in, lines of at most its width out.
//!
//! # Problem
//! Documents have a line for each sentence and for each row of a table. A terminal breaks such lines in the midst of words.
//!
//! # Strategy
//! Sentences of a paragraph or list item are joined and wrapped. Tables ([`super::table`]) have their columns side by side where that can be read.
//! Commands and outputs ([`super::block`]) are to be pasted. Links between documents name the command that shows the other one.
//! Files that only the source has are named by their path in it, and the last line says so.

use crate::output::wrapped;

use super::{block, table};

/// Directories of the source. An installed command has none of them.
const SOURCE: [&str; 4] = ["crates/", "docs/", "extra/", "tests/"];

/// A document in lines of at most `width` columns. `topics`: documents that the manual has.
pub(super) fn shown(document: &str, topics: &[&str], width: usize) -> String {
    let mut page = Page {
        out: String::with_capacity(document.len()),
        topics,
        width,
        open: Open::None,
    };
    let mut fenced: Option<(&str, Vec<&str>)> = None;
    for line in document.lines() {
        let fence = line.trim_start().strip_prefix("```");
        match (fence, &mut fenced) {
            (Some(_), Some((language, lines))) => {
                for line in block::shown(language, lines, width) {
                    page.line(&line);
                }
                fenced = None;
            }
            (Some(language), None) => {
                page.close();
                fenced = Some((language, Vec::new()));
            }
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => page.take(line),
        }
    }
    page.close();
    if names_source(&page.out) {
        page.out.push('\n');
        page.open = Open::Text(String::new(), IN_SOURCE.to_owned());
        page.close();
    }
    page.out
}

/// The last line of a page that names files of the source.
const IN_SOURCE: &str =
    "Paths that begin with `crates/`, `docs/`, `extra/` or `tests/` are in the source of Trommel.";

/// Returns true if a text names a file of the source by its path.
fn names_source(text: &str) -> bool {
    text.split(|c: char| c.is_whitespace() || "`(".contains(c))
        .any(|word| SOURCE.iter().any(|dir| word.starts_with(dir)))
}

/// The part of a document that goes on in the next line.
enum Open {
    None,
    /// The start of its first line, and its text.
    Text(String, String),
    Table(Vec<Vec<String>>),
}

struct Page<'t> {
    out: String,
    topics: &'t [&'t str],
    width: usize,
    open: Open,
}

impl Page<'_> {
    fn take(&mut self, line: &str) {
        let text = line.trim();
        if text.is_empty() {
            self.close();
            // What is left out leaves no gap.
            if !self.out.ends_with("\n\n") {
                self.line("");
            }
        } else if text.starts_with('|') {
            self.row(text);
        } else if let Some((mark, words)) = item(line) {
            self.close();
            self.open = Open::Text(mark, self.plain(words));
        } else if text.starts_with('#') {
            self.close();
            let marks = text.chars().take_while(|c| *c == '#').count();
            let title = wrapped(&self.plain(text), 0, marks + 1, self.width);
            self.line(&title);
        } else if !is_only_tags(text) {
            let words = self.plain(text);
            match &mut self.open {
                Open::Text(_, open) => {
                    open.push(' ');
                    open.push_str(&words);
                }
                _ => {
                    self.close();
                    self.open = Open::Text(String::new(), words);
                }
            }
        }
    }

    fn row(&mut self, line: &str) {
        let cells = table::cells(line);
        let cells = cells.iter().map(|cell| self.plain(cell)).collect();
        match &mut self.open {
            Open::Table(rows) => rows.push(cells),
            _ => {
                self.close();
                self.open = Open::Table(vec![cells]);
            }
        }
    }

    fn close(&mut self) {
        match std::mem::replace(&mut self.open, Open::None) {
            Open::None => {}
            Open::Text(mark, text) => {
                let indent = mark.chars().count();
                let text = wrapped(&text, indent, indent, self.width);
                self.line(&(mark + &text));
            }
            Open::Table(rows) => {
                let text = table::shown(&rows, self.width);
                self.out.push_str(&text);
            }
        }
    }

    fn line(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    /// A text without marks of links, emphasis and anchors.
    fn plain(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        // What stands between backquotes is code, as it is.
        for (n, part) in text.split('`').enumerate() {
            if n > 0 {
                out.push('`');
            }
            match n % 2 {
                0 => out.push_str(&without_marks(part)),
                _ => out.push_str(&part.replace("\\|", "|")),
            }
        }
        self.without_links(&out)
    }

    /// A text whose links are words: the text of a link, and where it leads if that can be followed.
    fn without_links(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, words, to, after)) = link(rest) {
            out.push_str(before);
            let document = to.split('#').next().unwrap_or_default();
            let topic = document.strip_suffix(".md").unwrap_or_default();
            if self.topics.contains(&topic) {
                let alone = before.ends_with('(') && after.starts_with(')');
                match words == document {
                    true => out.push_str(&format!("`trommel help {topic}`")),
                    // Parentheses in parentheses are hard to read.
                    false if alone => out.push_str(&format!("{words}: `trommel help {topic}`")),
                    false => out.push_str(&format!("{words} (`trommel help {topic}`)")),
                }
            } else if to.starts_with("http") && to != words {
                out.push_str(&format!("{words} ({to})"));
            } else if words == document && !topic.is_empty() {
                out.push_str(&format!("docs/{words}"));
            } else {
                out.push_str(words);
            }
            rest = after;
        }
        out + rest
    }
}

/// The first link of a text: what is before it, its words, where it leads, and what is after it.
fn link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let middle = text.find("](")?;
    // Brackets in the words of a link are in pairs.
    let mut depth = 0_usize;
    let start = text[..middle].char_indices().rev().find(|(_, c)| {
        match c {
            ']' => depth += 1,
            '[' if depth == 0 => return true,
            '[' => depth -= 1,
            _ => {}
        }
        false
    });
    let (start, _) = start?;
    let to = &text[middle + 2..];
    let end = to.find(')')?;
    let before = &text[..start];
    let before = before.strip_suffix('!').unwrap_or(before);
    Some((before, &text[start + 1..middle], &to[..end], &to[end + 1..]))
}

/// The mark of a list item, as it is shown, and the item's words.
fn item(line: &str) -> Option<(String, &str)> {
    let text = line.trim_start();
    let indent = &line[..line.len() - text.len()];
    let (mark, words) = text.split_once(' ')?;
    let number = mark.strip_suffix('.').filter(|n| !n.is_empty());
    let is =
        ["*", "-"].contains(&mark) || number.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    is.then(|| (format!("{indent}{mark} "), words.trim_start()))
}

/// Text that is no code, without marks of emphasis, of addresses and of anchors.
fn without_marks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(before);
        match after.split_once('>') {
            Some((inner, after)) if inner.starts_with("http") => {
                out.push_str(inner);
                rest = after;
            }
            Some((inner, after)) if inner.starts_with(['a', '/']) => rest = after,
            _ => {
                out.push('<');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out.replace("**", "").replace("\\|", "|")
}

fn is_only_tags(text: &str) -> bool {
    text.starts_with('<') && text.ends_with('>') && !text.starts_with("<http")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_joined_and_wrapped_and_commands_stay() {
        let document = "# A title\n\nOne sentence, see [b.md](b.md).\nAnother **one**.\n\n\
            * An item of\n  two lines\n\n```console\n$ a command that is longer\n$ b\nits output, which is longer than all other lines\n```\n";
        let wanted = "# A title\n\nOne sentence, see `trommel\nhelp b`. Another one.\n\n\
            * An item of two lines\n\n    $ a command that is \\\n        longer\n    $ b\n    its output, which is longer than all other lines\n";
        assert_eq!(shown(document, &["b"], 26), wanted);
    }

    #[test]
    fn a_page_that_names_files_of_the_source_says_so() {
        for document in ["See `crates/x.rs`.", "See [design/x.md](design/x.md)."] {
            assert!(shown(document, &[], 200).ends_with(&format!("\n\n{IN_SOURCE}\n")));
        }
        for document in [
            "See `a/crates/x`.",
            "Tests/s are few.",
            "See [design](design/x.md).",
        ] {
            assert!(!shown(document, &[], 200).contains(IN_SOURCE));
        }
    }

    #[test]
    fn links_name_what_can_be_followed() {
        let page = Page {
            out: String::new(),
            topics: &["b"],
            width: 80,
            open: Open::None,
        };
        for (text, wanted) in [
            ("[b.md](b.md#x)", "`trommel help b`"),
            ("[the *b*](b.md), so", "the *b* (`trommel help b`), so"),
            ("so ([why](b.md#x)).", "so (why: `trommel help b`)."),
            ("[design](design/x.md)", "design"),
            ("[design/x.md](design/x.md), so", "docs/design/x.md, so"),
            ("[x](https://x.y) [z](z.md)", "x (https://x.y) z"),
            (
                "<https://x.y> and `a<b>|[c](d.md)`",
                "https://x.y and `a<b>|c`",
            ),
            ("a[1] < b](c", "a[1] < b](c"),
            ("<a id=\"x\"></a>## y", "## y"),
        ] {
            assert_eq!(page.plain(text), wanted);
        }
    }
}
