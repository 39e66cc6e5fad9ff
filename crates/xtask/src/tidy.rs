//! Architecture rules that need no judgement: who may depend on whom, where `unsafe` may be, and a
//! report of long files.
//!
//! **I37 (unsafe by file).** `unsafe` is denied by default, and opted into file by file with a reason.

use std::fs;
use std::path::{Path, PathBuf};

use trommel_conformance::exec::workspace;

/// The rooms in the order of `ARCHITECTURE.md`: a crate knows those before it, never those after.
const ORDER: [&str; 17] = [
    "aware",
    "tuple",
    "compress",
    "query",
    "queue",
    "profile",
    "symbol",
    "code",
    "runtime",
    "host",
    "store",
    "export",
    "model",
    "lab",
    "cli",
    "conformance",
    "xtask",
];

pub(crate) fn run() -> Result<(), String> {
    let mut wrong = Vec::new();
    let mut long = Vec::new();
    let rooms = subdirectories(&workspace().join("crates"));
    for room in &rooms {
        let name = room.file_name().unwrap_or_default().to_string_lossy();
        dependencies(&name, room, &mut wrong);
    }
    // What is outside of the workspace may know every room.
    for room in (rooms.into_iter()).chain(subdirectories(&workspace().join("extra"))) {
        for file in sources(&room) {
            let text = fs::read_to_string(&file).unwrap_or_default();
            let shown = file
                .strip_prefix(workspace())
                .unwrap_or(&file)
                .display()
                .to_string();
            let lines = text.lines().count();
            if lines > 600 {
                long.push(format!("{lines:>6} {shown}"));
            }
            let uses = text.lines().any(|l| {
                let code = l.split("//").next().unwrap_or("");
                let opens = |rest: &str| {
                    ["{", "fn", "impl", "extern"]
                        .iter()
                        .any(|w| rest.trim_start().starts_with(w))
                };
                !code.contains('"') && code.split("unsafe ").skip(1).any(opens)
            });
            if uses
                && !text.contains("allow(unsafe_code")
                && !text.contains("expect(unsafe_code")
                && !inherits(&file)
            {
                wrong.push(format!(
                    "{shown}: unsafe code, but the file does not opt in with a reason"
                ));
            }
            if !text.trim_start().starts_with("//!") && !shown.contains("/tests/") {
                wrong.push(format!("{shown}: no module header"));
            }
        }
    }
    long.sort();
    for line in long.iter().rev() {
        println!("long file: {line}");
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("tidy:\n  {}", wrong.join("\n  ")))
    }
}

/// Whether the crate as a whole opted in (the freestanding runtime does).
fn inherits(file: &Path) -> bool {
    file.ancestors()
        .take(6)
        .filter_map(|d| fs::read_to_string(d.join("Cargo.toml")).ok())
        .next()
        .is_some_and(|manifest| manifest.contains("unsafe_code = \"allow\""))
}

fn dependencies(name: &str, room: &Path, wrong: &mut Vec<String>) {
    let Some(place) = ORDER.iter().position(|r| *r == name) else {
        return wrong.push(format!("crates/{name}: not in tidy's list of rooms"));
    };
    let manifest = fs::read_to_string(room.join("Cargo.toml")).unwrap_or_default();
    let body = manifest
        .split("\n[")
        .filter(|s| s.starts_with("dependencies]") || s.starts_with("build-dependencies]"));
    for line in body.flat_map(str::lines) {
        let Some(rest) = line.trim_start().strip_prefix("trommel-") else {
            continue;
        };
        let other: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        if ORDER
            .iter()
            .position(|r| *r == other)
            .is_some_and(|p| p >= place)
        {
            wrong.push(format!(
                "crates/{name} depends on {other}, which comes after it"
            ));
        }
    }
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.is_dir())
        .collect();
    list.sort();
    list
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}
