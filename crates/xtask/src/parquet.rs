//! The export of databases to Parquet, which is no part of the workspace: clippy and its tests, against the `trommel` that is built here.

use std::process::Command;

use trommel_conformance::exec::workspace;

pub(crate) fn run() -> Result<(), String> {
    let bin = super::trommel()?;
    for line in [
        "fmt --check",
        "clippy --locked --all-targets -- -D warnings",
        "test --locked",
    ] {
        eprintln!("$ cd extra/parquet && cargo {line}");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(line.split(' '))
            .current_dir(workspace().join("extra/parquet"))
            .env("TROMMEL_BIN", bin)
            .status()
            .map_err(|e| e.to_string())?;
        if !status.success() {
            return Err(format!("cargo {line} failed in extra/parquet"));
        }
    }
    Ok(())
}
