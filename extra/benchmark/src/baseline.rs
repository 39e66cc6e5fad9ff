//! Counts that are kept, to compare with.
//!
//! A baseline is a file in the form of `--json`. It is in the target directory, in a directory for each program of benchmarks, unless it is
//! named as a file.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::counted::Counts;

/// Name of the baseline that each run without another one leaves for the next.
pub(crate) const LAST: &str = "last";

/// Version of the form.
pub(crate) const SCHEMA: &str = "trommel.benchmark/1";

/// Counts by the benchmark's name.
pub(crate) type Baseline = BTreeMap<String, Counts>;

/// Returns the name of this program, without the hash that cargo adds.
pub(crate) fn program_name(program: &Path) -> String {
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    let hash = |text: &str| text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    match name.rsplit_once('-') {
        Some((name, rest)) if hash(rest) => name.to_owned(),
        _ => name.into_owned(),
    }
}

/// The file of a baseline. `program` is the path of this program.
pub(crate) fn file(program: &Path, name: &str) -> PathBuf {
    if name.contains('/') {
        return PathBuf::from(name);
    }
    let is_target = |dir: &&Path| dir.join("CACHEDIR.TAG").is_file();
    let target = program.ancestors().skip(1).find(is_target);
    let target = target.unwrap_or(Path::new("target"));
    let folder = target.join("trommel-benchmark").join(program_name(program));
    folder.join(format!("{name}.json"))
}

/// Reads a baseline; `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<Baseline>, String> {
    let shown = path.display();
    let text = match fs::read(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|e| format!("{shown}: {e}"))?,
    };
    let baseline = serde_json::from_slice(&text).ok().as_ref().and_then(parse);
    let wrong = || format!("{shown}: not what --save-baseline or --json writes; save it again");
    baseline.ok_or_else(wrong).map(Some)
}

fn parse(document: &Value) -> Option<Baseline> {
    if document["schema"] != SCHEMA {
        return None;
    }
    let entry = |entry: &Value| {
        let counts = Counts {
            instructions: entry["instructions"].as_u64()?,
            calls: entry["calls"].as_u64()?,
        };
        Some((entry["name"].as_str()?.to_owned(), counts))
    };
    document["benchmarks"]
        .as_array()?
        .iter()
        .map(entry)
        .collect()
}

/// Writes counts to a baseline. Benchmarks that did not run keep the counts that they had.
pub(crate) fn save(path: &Path, counted: &[(&str, Counts)]) -> Result<(), String> {
    // What cannot be read is replaced.
    let mut all = read(path).ok().flatten().unwrap_or_default();
    all.extend(
        counted
            .iter()
            .map(|(name, counts)| ((*name).to_owned(), *counts)),
    );
    let entries = all.iter().map(|(name, counts)| {
        json!({"name": name, "instructions": counts.instructions, "calls": counts.calls})
    });
    let entries: Vec<Value> = entries.collect();
    let text = format!("{:#}\n", json!({"schema": SCHEMA, "benchmarks": entries}));
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let new = path.with_extension(format!("{}.new", std::process::id()));
        fs::write(&new, text)?;
        fs::rename(&new, path)
    };
    write().map_err(|e: io::Error| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_files_of_the_program_and_paths_are_files() {
        let program = Path::new("/none/target/release/deps/own-0123456789abcdef");
        let inside = Path::new("target/trommel-benchmark/own/main.json");
        assert_eq!(file(program, "main"), inside);
        assert_eq!(file(program, "./main.json"), Path::new("./main.json"));
        assert_eq!(program_name(Path::new("my-bench")), "my-bench");
    }

    #[test]
    fn what_did_not_run_keeps_its_counts() {
        let name = format!("trommel-benchmark-{}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        let counts = |instructions| Counts {
            instructions,
            calls: 1,
        };
        assert_eq!(read(&path), Ok(None));
        save(&path, &[("a", counts(1)), ("b", counts(2))]).expect("written");
        save(&path, &[("b", counts(3))]).expect("written");
        let both = [("a".to_owned(), counts(1)), ("b".to_owned(), counts(3))];
        assert_eq!(read(&path), Ok(Some(both.into())));
        fs::write(&path, "{}").expect("written");
        assert!(read(&path).is_err_and(|e| e.contains("save it again")));
        fs::remove_file(&path).expect("removed");
    }
}
