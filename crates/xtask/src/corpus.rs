//! Same behaviour at full size: every workload of the corpus, with its output kept and compared.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use trommel_conformance::exec::{Scratch, workspace};

/// The corpus's scripts: `TROMMEL_CORPUS_SCRIPTS`, else `../shared/corpus`.
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

pub(crate) fn run(given: &[String]) -> Result<(), String> {
    let bin = super::trommel()?;
    let script = script()?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let threads = |n: &str| matches!(n, "xz_T2" | "zstd_T2" | "node" | "java");
    let mut failed = Vec::new();
    for name in names(given, |n| !n.ends_with("_s") && !threads(n))? {
        let (a, b) = (scratch.path("native"), scratch.path("seen"));
        let go = |out: &PathBuf, prefix: &[&str]| {
            Command::new("timeout")
                .arg("1800")
                .arg(&script)
                .arg(&name)
                .args(prefix)
                .env("CORPUS_OUT", out)
                .status()
                .map_err(|e| e.to_string())
        };
        let native = go(&a, &[])?;
        let data = scratch.path("data");
        let prefix = [
            &bin.to_string_lossy(),
            "record",
            "-e",
            "none",
            "-o",
            &data.to_string_lossy(),
            "--",
        ];
        let seen = go(&b, &prefix)?;
        let same = native == seen && fs::read(&a).ok() == fs::read(&b).ok();
        println!("{name:<12} {}", if same { "same" } else { "DIFFERENT" });
        if !same {
            failed.push(format!("{name} (native {native}, here {seen})"));
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join(", "))
    }
}
