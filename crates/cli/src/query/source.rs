//! Files with queries, as they are read.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use trommel_query::{Assembly, Diagnostic, Severity, assemble, image};

use crate::output::{self, printable_lines};

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
    for diagnostic in found {
        // When even stderr is gone there is nobody to tell.
        let _ = write!(
            stderr,
            "{}",
            printable_lines(&diagnostic.render(name, text))
        );
    }
    let errors = found.iter().filter(|d| d.severity == Severity::Error);
    match errors.count() {
        0 => {}
        1 => output::complain(&format!("{name}: 1 error")),
        errors => output::complain(&format!("{name}: {errors} errors")),
    }
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
    let read = match path.to_str() {
        Some("-") => std::io::stdin().take(limit).read_to_end(&mut bytes),
        _ => fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    };
    read.with_context(|| format!("{}: cannot be read", name(path)))?;
    Ok(bytes)
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
