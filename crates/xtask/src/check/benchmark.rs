//! The crate of benchmarks, which is no part of the workspace: clippy, its tests, and the commands that its page shows, against the
//! `trommel` that is built here.

use std::fs;

use trommel_conformance::exec::workspace;

use crate::common::{cargo, trommel};

/// Lints and tests the crate of benchmarks (`extra/benchmark`), and runs the commands of docs/benchmarks.md.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask check benchmark")]
pub(crate) struct Args;

pub(super) fn run(_: &Args) -> Result<(), String> {
    let bin = trommel();
    let dir = workspace().join("extra/benchmark");
    let page = workspace().join("docs/benchmarks.md");
    let page = fs::read_to_string(&page).map_err(|e| format!("{}: {e}", page.display()))?;
    let shown = page
        .lines()
        .filter_map(|line| line.strip_prefix("$ cargo "));
    let shown: Vec<&str> = shown
        .map(|line| line.split(" # ").next().unwrap_or(line).trim())
        .collect();
    if shown.is_empty() {
        return Err("docs/benchmarks.md shows no commands".into());
    }
    let tests = [
        "fmt --check",
        "clippy --locked --all-targets -- -D warnings",
        "test --locked",
    ];
    for line in tests.into_iter().chain(shown) {
        let named = [
            ("TROMMEL_BIN", bin.as_os_str()),
            ("TROMMEL", bin.as_os_str()),
        ];
        cargo(&dir, line, &named)?;
    }
    Ok(())
}
