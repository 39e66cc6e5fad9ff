//! The export of databases to Parquet, which is no part of the workspace: clippy and its tests, against the `trommel` that is built here.

use trommel_conformance::exec::workspace;

use crate::common::{cargo, trommel};

/// Lints and tests the export to Parquet (`extra/parquet`), with its lock file.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask check parquet")]
pub(crate) struct Args;

pub(super) fn run(_: &Args) -> Result<(), String> {
    let bin = trommel();
    for line in [
        "fmt --check",
        "clippy --locked --all-targets -- -D warnings",
        "test --locked",
    ] {
        let dir = workspace().join("extra/parquet");
        cargo(&dir, line, &[("TROMMEL_BIN", bin.as_os_str())])?;
    }
    Ok(())
}
