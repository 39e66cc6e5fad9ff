//! Rules of crates and files: who may depend on whom, where `unsafe` may be, and module headers.
//!
//! **I37 (unsafe by file).** `unsafe` is denied by default, and opted into file by file with a reason.

use std::fs;
use std::path::Path;

use super::rooms::Rooms;
use super::{Tidy, shown, sources, subdirectories};

/// Lines of a file above which it is printed.
const LONG: usize = 600;

/// Checks the crates of the tree at `root`.
pub(crate) fn check(root: &Path, rooms: &Rooms, tidy: &mut Tidy) {
    let crates = subdirectories(&root.join("crates"));
    for folder in &crates {
        dependencies(root, folder, rooms, tidy);
    }
    // What is outside of the workspace may know every crate.
    let mut long = Vec::new();
    for folder in crates
        .into_iter()
        .chain(subdirectories(&root.join("extra")))
    {
        for path in sources(&folder) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let at = shown(root, &path);
            let lines = text.lines().count();
            if lines > LONG {
                long.push(format!("{lines:>6} {at}"));
            }
            if let Some(line) = unsafe_line(&text)
                && !opts_in(&text)
                && !inherits(&path)
            {
                tidy.wrong(format!(
                    "{at}:{line}: unsafe code, but the file does not opt in with a reason"
                ));
            }
            if !text.trim_start().starts_with("//!") && !at.contains("/tests/") {
                tidy.wrong(format!("{at}:1: no module header"));
            }
        }
    }
    long.sort();
    for line in long.iter().rev() {
        println!("long file: {line}");
    }
}

/// The first line of `text` with unsafe code.
fn unsafe_line(text: &str) -> Option<usize> {
    let opens = |rest: &str| {
        ["{", "fn", "impl", "extern"]
            .iter()
            .any(|w| rest.trim_start().starts_with(w))
    };
    let found = text.lines().position(|l| {
        let code = l.split("//").next().unwrap_or("");
        !code.contains('"') && code.split("unsafe ").skip(1).any(opens)
    });
    found.map(|at| at + 1)
}

/// True for a file that opts into unsafe code, on however many lines.
fn opts_in(text: &str) -> bool {
    let dense: String = text.split_whitespace().collect();
    ["allow(unsafe_code", "expect(unsafe_code"]
        .iter()
        .any(|attribute| dense.contains(attribute))
}

/// True for a file whose crate as a whole opts in, as the freestanding runtime does.
fn inherits(file: &Path) -> bool {
    file.ancestors()
        .take(6)
        .filter_map(|d| fs::read_to_string(d.join("Cargo.toml")).ok())
        .next()
        .is_some_and(|manifest| manifest.contains("unsafe_code = \"allow\""))
}

fn dependencies(root: &Path, folder: &Path, rooms: &Rooms, tidy: &mut Tidy) {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let manifest = folder.join("Cargo.toml");
    let at = shown(root, &manifest);
    let Some(place) = rooms.place("crates", &name) else {
        return tidy.wrong(format!(
            "{at}:1: crate {name} is not in the list of crates of {}",
            super::rooms::FILE
        ));
    };
    let text = fs::read_to_string(&manifest).unwrap_or_default();
    let mut checked = false;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            checked = ["[dependencies]", "[build-dependencies]"].contains(&line.trim());
        }
        let Some(rest) = line
            .trim_start()
            .strip_prefix("trommel-")
            .filter(|_| checked)
        else {
            continue;
        };
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let other = &rest[..end.unwrap_or(rest.len())];
        if rooms.place("crates", other).is_some_and(|p| p >= place) {
            tidy.wrong(format!(
                "{at}:{}: {name} depends on {other}, which comes after it",
                number + 1
            ));
        }
    }
}
