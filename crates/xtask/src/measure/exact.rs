//! Profiles of programs whose addresses are the same in each run (`setarch -R`), and what they hold.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use trommel_conformance::exec::Scratch;

use crate::common::{report, trommel};

/// All entries of a report.
pub(crate) const ALL: &str = "0";
/// Loads of an exact profile, and values of each: of all of them there are gigabytes.
pub(crate) const HOTTEST: &str = "500";

/// Records a program of the corpus and reads `top` entries of each kind.
pub(crate) fn record(
    corpus: &Path,
    words: &[&str],
    options: &[&str],
    top: &str,
) -> Result<Value, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let mut command = Command::new("setarch");
    command
        .arg("-R")
        .arg(trommel())
        .args(["record", "--quiet", "-o"]);
    command.arg(&data).args(options).arg("--").args(words);
    command
        .env("PYTHONHASHSEED", "0")
        .env("PERL_HASH_SEED", "0");
    let status = command.current_dir(corpus).stdout(Stdio::null()).status();
    let status = status.map_err(|e| format!("setarch: {e}"))?;
    if !status.success() {
        return Err(format!("{} with {options:?}: {status}", words[0]));
    }
    report(&data, top)
}

/// A list of a report.
pub(crate) fn list<'a>(report: &'a Value, name: &str) -> &'a [Value] {
    report[name].as_array().map_or(&[], Vec::as_slice)
}

/// The file of a place and its address there.
pub(crate) fn place(report: &Value, at: &Value) -> (u64, u64) {
    let number = at["module"].as_u64().unwrap_or(0);
    let mut modules = list(report, "modules").iter();
    let module = modules.find(|m| m["id"].as_u64() == Some(number));
    let path = module.and_then(|m| m["path"].as_str()).unwrap_or("");
    // Numbers of modules are those of one profile.
    let file = path.bytes().fold(0, |sum: u64, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    (file, at["vaddr"].as_u64().unwrap_or(0))
}
