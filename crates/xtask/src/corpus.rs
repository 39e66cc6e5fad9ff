//! The corpus of workloads: where it is, what is in it, and its longer runs.

use std::path::PathBuf;
use std::process::Command;

use trommel_conformance::exec::workspace;

/// Programs of the corpus, in its directory, with arguments for a run of ten seconds or so.
pub(crate) const LONG_RUNS: [(&str, &[&str]); 9] = [
    ("perl", &["perl", "bench.pl", "sqlite3.c", "10"]),
    ("python", &["/usr/bin/python3", "bench.py", "60"]),
    ("lua", &["lua5.4", "bench.lua", "60"]),
    ("deltablue", &["bin/deltablue", "6000"]),
    ("icpred", &["bin/icpred", "4000000000"]),
    (
        "gzip",
        &[
            "gzip",
            "-9",
            "-c",
            "text24m.txt",
            "text24m.txt",
            "text24m.txt",
        ],
    ),
    ("bzip2", &["bzip2", "-c", "text24m.txt", "text24m.txt"]),
    ("node", &["node", "bench.js", "40"]),
    ("java", &["java", "-cp", ".", "Bench", "50"]),
];

/// The corpus's directory, `TROMMEL_CORPUS` or `~/.cache/trommel-corpus`, which must be there.
pub(crate) fn directory() -> Result<PathBuf, String> {
    let home = std::env::var_os("HOME").ok_or("no HOME")?;
    let corpus = std::env::var_os("TROMMEL_CORPUS").map_or_else(
        || PathBuf::from(home).join(".cache/trommel-corpus"),
        PathBuf::from,
    );
    match corpus.join("bin").is_dir() {
        true => Ok(corpus),
        false => Err(format!(
            "{}: no corpus is there; its prepare.sh makes it",
            corpus.display()
        )),
    }
}

/// The corpus's script: in `TROMMEL_CORPUS_SCRIPTS`, else in `../shared/corpus`.
pub(crate) fn script() -> Result<PathBuf, String> {
    let dir = std::env::var_os("TROMMEL_CORPUS_SCRIPTS")
        .map_or_else(|| workspace().join("../shared/corpus"), PathBuf::from);
    let file = dir.join("run.sh");
    if file.exists() {
        Ok(file)
    } else {
        Err(format!(
            "{} is missing: set TROMMEL_CORPUS_SCRIPTS",
            file.display()
        ))
    }
}

/// The workloads named, or all of the list that match `keep`.
pub(crate) fn names(given: &[String], keep: impl Fn(&str) -> bool) -> Result<Vec<String>, String> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let done = Command::new(script()?)
        .arg("list")
        .output()
        .map_err(|e| e.to_string())?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).trim().to_owned());
    }
    let list = String::from_utf8_lossy(&done.stdout);
    Ok(list
        .split_whitespace()
        .filter(|n| keep(n))
        .map(str::to_owned)
        .collect())
}
