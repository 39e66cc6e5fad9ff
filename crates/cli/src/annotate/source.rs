//! Lines of source files.
//!
//! Paths come from debug information: a file may be gone, be another one by now, or be no file at all. What cannot be read has
//! no text; what is newer than the program is named.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// No source file that anybody reads is larger.
const MOST_BYTES: u64 = 32 << 20;

/// Source files, read once.
pub(super) struct Sources {
    /// Time at which the program was built.
    made: Option<SystemTime>,
    files: HashMap<String, Option<Vec<String>>>,
    newer: Vec<String>,
}

impl Sources {
    /// For the program at `module`.
    pub(super) fn new(module: &Path) -> Self {
        Self {
            made: modified(module),
            files: HashMap::new(),
            newer: Vec::new(),
        }
    }

    /// The text of a line, counted from 1.
    pub(super) fn line(&mut self, file: &str, line: u32) -> Option<String> {
        if !self.files.contains_key(file) {
            let lines = read(Path::new(file));
            if lines.is_some() && modified(Path::new(file)) > self.made && self.made.is_some() {
                self.newer.push(file.to_owned());
            }
            self.files.insert(file.to_owned(), lines);
        }
        let lines = self.files.get(file)?.as_ref()?;
        let number = usize::try_from(line).ok()?.checked_sub(1)?;
        lines.get(number).map(|text| text.trim().replace('\t', " "))
    }

    /// Files that were changed since the program was made.
    pub(super) fn newer(&self) -> &[String] {
        &self.newer
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

fn read(path: &Path) -> Option<Vec<String>> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(text.lines().map(str::to_owned).collect())
}
