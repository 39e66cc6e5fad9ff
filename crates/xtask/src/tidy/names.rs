//! Names of source files in comments and documents: each names a file of the tree.
//!
//! # Problem
//! A comment that names a file outlives the file's name. No compiler reads it, and a reader who follows it finds nothing.
//!
//! # The rule
//! A span between backticks that ends in `.rs`, or begins with a folder of the root and a slash, is a name. A name is right
//! if some file's or folder's path in the tree ends with it, by whole components. So `lex.rs` and `tidy/lex.rs` both name this
//! module's neighbour. Spans with other characters than those of paths are patterns or commands, and no names.
//! Blocks of code, and files that a document tells its reader to write, are no names either: those stand in blocks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{Tidy, files, shown};

/// Folders and documents in which names are looked for.
const PLACES: [&str; 4] = ["crates", "docs", "examples", "extra"];

/// Folders of the root whose paths are names, whatever their ending.
const FOLDERS: [&str; 6] = ["crates", "docs", "examples", "extra", "include", "tests"];

/// Checks the comments and documents of the tree at `root`.
pub(crate) fn check(root: &Path, tidy: &mut Tidy) {
    let endings = paths(root);
    let mut texts = files(root, &["md"]);
    texts.retain(|path| path.parent() == Some(root));
    for place in PLACES {
        texts.extend(files(&root.join(place), &["rs", "md"]));
    }
    for path in texts {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let is_code = path.extension().is_some_and(|e| e == "rs");
        for (line, name) in names(&text, is_code) {
            if !endings.contains(name.trim_end_matches('/')) {
                let at = shown(root, &path);
                tidy.wrong(format!(
                    "{at}:{line}: `{name}` names no file of the tree: mend the name"
                ));
            }
        }
    }
}

/// All endings, by whole components, of the paths of the tree's files and folders.
fn paths(root: &Path) -> BTreeSet<String> {
    let mut endings = BTreeSet::new();
    for path in entries(root) {
        let parts: Vec<String> = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        for first in 0..parts.len() {
            endings.insert(parts[first..].join("/"));
        }
    }
    endings
}

/// Files and folders below `dir`, without what is built and hidden.
fn entries(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut list = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name == "target" || name == ".git" {
            continue;
        }
        let path = entry.path();
        if path.is_dir() {
            list.extend(entries(&path));
        }
        list.push(path);
    }
    list
}

/// Names of files in the comments of a source, or in a document, with their lines.
fn names(text: &str, is_code: bool) -> Vec<(usize, &str)> {
    let mut out = Vec::new();
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        let line = match is_code {
            true => comment(line),
            false => line,
        };
        let bare = line.trim_start_matches(['/', '!']).trim_start();
        if bare.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let spans = line.split('`').skip(1).step_by(2);
            out.extend(spans.filter(|s| is_name(s)).map(|s| (number + 1, s)));
        }
    }
    out
}

/// The comment of a line of code: nothing, if it has none.
fn comment(line: &str) -> &str {
    match line.trim_start().starts_with("//") {
        true => line,
        false => line.find(" // ").map_or("", |at| &line[at..]),
    }
}

/// True if a span is the name of a file.
fn is_name(span: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let below = |folder: &str| {
        let rest = span.strip_prefix(folder);
        rest.is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
    };
    span.chars().all(plain)
        && (span.ends_with(".rs") && span != ".rs" || FOLDERS.iter().any(|f| below(f)))
}
