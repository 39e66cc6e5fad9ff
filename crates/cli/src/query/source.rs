//! Files with queries, as they are read.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use trommel_query::{Assembly, Diagnostic, Position, Severity, assemble, image};

use crate::excerpt::{self, Excerpt};
use crate::output::{self, printable};

/// A file that was read, and what became of it.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) assembled: Result<Assembly, Vec<Diagnostic>>,
}

impl Source {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = text(path)?;
        Ok(Self {
            name: name(path),
            assembled: assemble(&text),
            text,
        })
    }

    /// Errors and warnings.
    pub(super) fn found(&self) -> &[Diagnostic] {
        match &self.assembled {
            Ok(assembly) => &assembly.warnings,
            Err(found) => found,
        }
    }

    /// Says what is wrong.
    pub(super) fn complain(&self) {
        complain(&self.name, &self.text, self.found());
    }
}

pub(super) fn complain(name: &str, text: &str, found: &[Diagnostic]) {
    let mut stderr = std::io::stderr();
    let columns = output::width(&stderr);
    for diagnostic in found {
        // When even stderr is gone there is nobody to tell.
        let _ = stderr.write_all(in_words(diagnostic, name, text, columns).as_bytes());
    }
    let errors = found.iter().filter(|d| d.severity == Severity::Error);
    match errors.count() {
        0 => {}
        1 => output::complain(&format!("{name}: 1 error")),
        errors => output::complain(&format!("{name}: {errors} errors")),
    }
}

/// The place of a mistake, its line with marks below it, and the fix, in so many columns. Each line is ended.
fn in_words(found: &Diagnostic, name: &str, text: &str, columns: usize) -> String {
    let from = Position::of(text, found.span.start);
    let to = Position::of(text, found.span.end);
    let line = text.split('\n').nth(from.line - 1).unwrap_or_default();
    let line = line.strip_suffix('\r').unwrap_or(line);
    let end = match to.line == from.line {
        true => to.column,
        false => usize::MAX,
    };
    let number = from.line.to_string();
    let margin = number.len();
    let marked = end.saturating_sub(from.column);
    // Between the number and the line stands a bar.
    let left = columns.saturating_sub(margin + 3);
    let Excerpt { shown, marks } = excerpt::around(line, from.column, marked, left);
    let severity = found.severity.name();
    let what = format!(
        "{name}:{}:{}: {severity}: {}",
        from.line, from.column, found.message
    );
    let what = output::wrapped(&printable(&what), 0, margin + 3, columns);
    let fix = format!("{:margin$} = fix: ", "");
    let remedy = output::wrapped(&printable(&found.fix), fix.len(), fix.len(), columns);
    format!(
        "{what}\n{number} | {shown}\n{:margin$} | {marks}\n{fix}{remedy}\n",
        ""
    )
}

pub(super) fn name(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => path.display().to_string(),
    }
}

/// The bytes of a file, or of standard input; of a file larger than `most`, one byte more.
pub(super) fn bytes(path: &Path, most: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = most as u64 + 1;
    check_readable(path)?;
    let read = match path.to_str() {
        Some("-") => std::io::stdin().take(limit).read_to_end(&mut bytes),
        _ => fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    };
    read.with_context(|| format!("{}: cannot be read", name(path)))?;
    Ok(bytes)
}

/// Refuses what is no file and no open descriptor: a pipe without a writer, or a terminal, would be waited for without end.
fn check_readable(path: &Path) -> Result<()> {
    // What the user's shell has opened has a writer. These are links into the file system of /proc.
    let is_open = ["/dev/fd", "/dev/stdin", "/proc"];
    if path == Path::new("-") || is_open.iter().any(|open| path.starts_with(open)) {
        return Ok(());
    }
    let kind = match fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        // The reader has the words for it.
        Err(_) => return Ok(()),
    };
    let what = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    bail!(
        "{}: is {what}, not a file; name a file, or `-` for standard input",
        name(path)
    )
}

pub(super) fn text(path: &Path) -> Result<String> {
    let bytes = bytes(path, trommel_query::MAX_TEXT)?;
    if bytes.starts_with(&image::MAGIC) {
        bail!(
            "{0}: is an assembled program; `trommel query disasm {0}` prints its queries",
            name(path)
        );
    }
    text_of(path, bytes)
}

/// The text of a file's bytes.
pub(super) fn text_of(path: &Path, bytes: Vec<u8>) -> Result<String> {
    // A character may be cut in two at the limit, which is then told by its own message.
    if bytes.len() > trommel_query::MAX_TEXT {
        bail!(
            "{}: is longer than {} bytes; divide it into several files",
            name(path),
            trommel_query::MAX_TEXT
        );
    }
    let marked = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let before = &error.as_bytes()[..valid];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        anyhow!(
            "{}:{line}: is not UTF-8 (at byte {valid}); write it in UTF-8",
            name(path)
        )
    })?;
    // Some editors begin a text with a byte-order mark, which says nothing of one in UTF-8.
    match marked.strip_prefix('\u{feff}') {
        Some(text) => Ok(text.to_owned()),
        None => Ok(marked),
    }
}

#[cfg(test)]
mod tests {
    use trommel_query::Span;
    use unicode_width::UnicodeWidthStr;

    use super::*;

    #[test]
    fn a_mistake_has_its_place_its_line_and_the_fix() {
        let text = "for opLOAD *\r\n\talways collect p\u{e9} op9;\n";
        let at = text.find("op9").expect("there");
        let (start, end) = (at, at + 3);
        let found = Diagnostic::error(Span { start, end }, "no field", "write op1");
        assert_eq!(
            in_words(&found, "q.rpa", text, usize::MAX),
            "q.rpa:2:20: error: no field\n\
             2 |  always collect p\u{e9} op9;\n\
             \x20 |                    ^^^\n\
             \x20 = fix: write op1\n"
        );
        let (start, end) = (text.len(), text.len());
        let found = Diagnostic::error(Span { start, end }, "ends", "go on");
        let shown = in_words(&found, "-", text, usize::MAX);
        assert!(
            shown.starts_with("-:3:1: error: ends\n3 | \n  | ^\n"),
            "{shown}"
        );
    }

    #[test]
    fn what_is_no_file_is_refused_and_not_waited_for() {
        let dir = std::env::temp_dir().join(format!("trommel-special-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).expect("a directory");
        let (fifo, socket) = (dir.join("fifo"), dir.join("socket"));
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).expect("a pipe");
        let _socket = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        for (path, what) in [
            (&*fifo, "a named pipe"),
            (&socket, "a socket"),
            (&dir, "a directory"),
            (Path::new("/dev/zero"), "a device"),
        ] {
            let error = bytes(path, 100).expect_err("no file").to_string();
            assert!(error.contains(what) && error.contains("`-`"), "{error}");
        }
        let error = bytes(&dir.join("none"), 100).expect_err("no file");
        assert!(error.to_string().contains("cannot be read"), "{error}");
        fs::remove_dir_all(dir).expect("clean");
    }

    /// Whatever the text and the terminal: no line is wider, and no word is lost.
    #[test]
    fn mistakes_fit_a_terminal() {
        let text = "for opLOAD * always collect no_field_that_there_is; ".repeat(40);
        let found = trommel_query::assemble(&text).expect_err("wrong");
        for columns in [40, 80, 120] {
            for one in &found {
                let shown = in_words(one, "q.rpa", &text, columns);
                assert!(shown.lines().all(|line| line.width() <= columns), "{shown}");
                let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(words.contains(&one.fix), "{shown}");
            }
        }
    }
}
